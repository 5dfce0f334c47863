"""Fitted models as ONNX graphs, which run without Python, scikit-learn or this package.

skl2onnx walks over the pipeline and knows the steps of scikit-learn; `unbag.tables.onnx_nodes`
says what the features and models of this package compute.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from unbag._files import write_whole
from unbag._optional import optional
from unbag._text import listing
from unbag.model_selection.fitted import last_step
from unbag.models.boosting import LLPBoostingClassifier
from unbag.models.ensemble import LLPEnsembleClassifier
from unbag.models.mixed import LLPClassifier
from unbag.tables import onnx_nodes as nodes
from unbag.tables.features import CategoryText, DatetimeFeatures, NumericFeatures, TfidfText
from unbag.tables.mixed_features import MixedFeatures
from unbag.tables.schema import Schema

__all__ = ["export_onnx"]

# What computes the scores of a model, by its family.
_SCORES: dict[type[Any], Callable[..., str]] = {
    LLPClassifier: nodes.mixed,
    LLPBoostingClassifier: nodes.trees,
    LLPEnsembleClassifier: lambda model, graph, rows: nodes.ensemble(model, graph, rows, _score),
    FrozenEstimator: lambda model, graph, rows: _score(model.estimator, graph, rows),
}


def _family(model: Any) -> type[Any]:
    """The class by which it is known how to score, or a refusal."""
    family = next((base for base in type(model).__mro__ if base in _SCORES), None)
    if family is None:
        raise ValueError(
            f"{type(model).__name__} cannot be exported to ONNX; the mixed model, boosted "
            "trees, and ensembles of them can."
        )
    return family


def _score(model: Any, graph: nodes.Graph, rows: nodes.Rows) -> str:
    return _SCORES[_family(model)](model, graph, rows)


# As many of them as a model has.
OUTPUTS = ("class", "score", "probability")

_FEATURES: dict[type[Any], Callable[..., str]] = {
    NumericFeatures: nodes.numbers,
    CategoryText: nodes.text,
    DatetimeFeatures: nodes.datetimes,
    OneHotEncoder: nodes.one_hot,
}


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    schema: Schema | None = None,
    class_names: Sequence[Any] | None = None,
    score_threshold: float = 0.0,
) -> Path:
    """Write a fitted model as an ONNX file, whole or not at all.

    Parameters
    ----------
    model : estimator or Pipeline
        The mixed model, boosted trees, or an ensemble of these; alone or behind steps of
        `unbag.tables.make_classifier`, `unbag.tables.features.make_features` or scikit-learn.
    path : path
        By custom ending in ``.onnx``.
    schema : Schema, optional
        Of the table that the model takes: every column is an input of its own, of shape
        (rows, 1). Numbers are doubles, NaN where they are missing, truth values 0 and 1, times
        seconds since 1970 (UTC); the rest is text, empty where it is missing. Without a schema
        there is one input ``X`` of shape (rows, columns).
    class_names : sequence, optional
        What to call the classes; by default as in ``classes_``.
    score_threshold : float, default=0.0
        Log-odds above which a row is of the second of two classes.

    Returns
    -------
    pathlib.Path
        The path.

    Notes
    -----
    The outputs are ``class``, ``score`` (that of the second class; of more than two classes, a
    column for each) and, if the model has them, ``probability``, a column for each class, for the
    shares of classes that the model was trained for (``class_prior_``).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.onnx_export import export_onnx, read_signature
    >>> data = make_gaussian_bags(random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> with TemporaryDirectory() as folder:
    ...     path = export_onnx(model, f"{folder}/model.onnx")
    ...     signature = read_signature(path)
    >>> [output["name"] for output in signature["outputs"]]
    ['class', 'score', 'probability']
    """
    shared: dict[str, Any] = {"class_names": class_names, "score_threshold": score_threshold}
    return write_whole(path, to_onnx(model, schema=schema, **shared).SerializeToString())


def to_onnx(
    model: Any,
    *,
    schema: Schema | None = None,
    class_names: Sequence[Any] | None = None,
    score_threshold: float = 0.0,
) -> Any:
    """Turn a fitted model into an ONNX graph."""
    skl2onnx = optional("skl2onnx", "an ONNX file", "export")
    final = last_step(model)
    ending = _Ending(final, class_names, score_threshold)
    features: set[type[Any]] = {MixedFeatures}
    if _has_own_features(model):
        features |= set(_FEATURES)
    inputs = _inputs(model, schema)
    try:
        found = skl2onnx.convert_sklearn(
            model,
            name="unbag",
            initial_types=inputs,
            target_opset=nodes.VERSIONS,
            custom_parsers={**dict.fromkeys(features, _parse), type(final): ending.parse},
            custom_shape_calculators=dict.fromkeys([*features, type(final)], _keep_shapes),
            custom_conversion_functions={
                **dict.fromkeys(features, _convert),
                type(final): ending.convert,
            },
        )
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"A step before the model cannot be exported to ONNX: {reason}") from None
    _rename(found.graph, [name for name, _ in inputs])
    found.producer_name, found.producer_version = "unbag", version("unbag")
    found.graph.doc_string = ending.words
    return found


def read_signature(path: str | os.PathLike[str]) -> dict[str, list[dict[str, str]]]:
    """Names and types of the inputs and outputs of an ONNX file."""
    onnx = optional("onnx", "an ONNX file", "export")
    graph = onnx.load(path).graph
    words = {onnx.TensorProto.DOUBLE: "double", onnx.TensorProto.INT64: "int64"}

    def listed(variables: Any) -> list[dict[str, str]]:
        return [
            {"name": v.name, "type": words.get(v.type.tensor_type.elem_type, "text")}
            for v in variables
        ]

    return {"inputs": listed(graph.input), "outputs": listed(graph.output)}


class _Ending:
    """The model at the end: its scores, and what follows from them."""

    def __init__(
        self, model: Any, class_names: Sequence[Any] | None, score_threshold: float
    ) -> None:
        check_is_fitted(model)
        self._threshold = score_threshold
        self._has_probabilities = hasattr(model, "predict_proba")
        _family(model)
        self._classes = np.asarray(model.classes_ if class_names is None else list(class_names))
        if self._classes.dtype.kind not in "biu":
            self._classes = self._classes.astype(str)
        self.words = f"{type(model).__name__} of the classes {', '.join(map(str, self._classes))}"
        if self._has_probabilities:
            prior = ", ".join(f"{share:.6g}" for share in model.class_prior_)
            self.words += f"; probabilities where these have the shares {prior}"

    def parse(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG002
        """Declare the outputs."""
        types = optional("skl2onnx.common.data_types", "an ONNX file", "export")
        text = self._classes.dtype.kind == "U"
        n_classes = len(self._classes)
        operator = scope.declare_local_operator("UnbagModel", model)
        operator.inputs = inputs
        kinds = [
            types.StringTensorType([None]) if text else types.Int64TensorType([None]),
            types.DoubleTensorType([None] if n_classes == 2 else [None, n_classes]),
        ]
        if self._has_probabilities:
            kinds.append(types.DoubleTensorType([None, n_classes]))
        for name, kind in zip(OUTPUTS, kinds, strict=False):
            operator.outputs.append(scope.declare_local_variable(name, kind))
        return operator.outputs

    def convert(self, scope: Any, operator: Any, container: Any) -> None:
        """Add the nodes."""
        graph = nodes.Graph(scope, container)
        texts = [i.full_name for i in operator.inputs if _is_text(i)]
        numbers = [i.full_name for i in operator.inputs if not _is_text(i)]
        rows = nodes.Rows(
            graph.cast(graph.together(numbers), "DOUBLE") if numbers else None,
            graph.together(texts) if texts else None,
        )
        scores = _score(operator.raw_operator, graph, rows)
        if len(self._classes) == 2:
            scores, number, probabilities = self._two_classes(graph, scores)
        else:
            number = graph.node("ArgMax", scores, axis=1, keepdims=0)
            probabilities = graph.node("Softmax", scores, axis=1)
        found = [graph.node("Gather", graph.constant(self._classes), number), scores, probabilities]
        for name, output in zip(found, operator.outputs, strict=False):
            graph.rename(name, output.full_name)

    def _two_classes(self, graph: nodes.Graph, scores: str) -> tuple[str, str, str]:
        probability = graph.node("Sigmoid", scores)
        other = graph.node("Sub", graph.constant(1.0), probability)
        flat = graph.node("Squeeze", scores, graph.constant([1]))
        above = graph.node("Greater", flat, graph.constant(self._threshold))
        return flat, graph.cast(above, "INT64"), graph.together([other, probability])


def _parse(scope: Any, step: Any, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    """Declare the output of a step of features."""
    types = optional("skl2onnx.common.data_types", "an ONNX file", "export")
    operator = scope.declare_local_operator(f"Unbag{type(step).__name__}", step)
    operator.inputs = inputs
    if isinstance(step, MixedFeatures):
        _check_no_text(vars(step)["_texts"])
        n_texts = len(step.levels_)
        widths = [(types.DoubleTensorType, len(step.get_feature_names_out()) - n_texts)]
        widths += [(types.StringTensorType, n_texts)]
        for made, width in widths:
            if width:
                operator.outputs.append(
                    scope.declare_local_variable("features", made([None, width]))
                )
        return operator.outputs
    kind = types.StringTensorType if type(step) is CategoryText else types.DoubleTensorType
    width = len(step.get_feature_names_out())
    if not width:
        names = listing(map(repr, step.feature_names_in_))
        raise ValueError(f"{names} gives no feature, and ONNX has no empty ones: train without it.")
    operator.outputs.append(scope.declare_local_variable("features", kind([None, width])))
    return operator.outputs


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a step of features."""
    graph, step = nodes.Graph(scope, container), operator.raw_operator
    if isinstance(step, MixedFeatures):
        names = {variable.raw_name: variable.full_name for variable in operator.inputs}
        for output in operator.outputs:
            make = nodes.mixed_texts if _is_text(output) else nodes.mixed_numbers
            graph.rename(make(step, graph, names), output.full_name)
        return
    table = graph.together([variable.full_name for variable in operator.inputs])
    graph.rename(_FEATURES[type(step)](step, graph, table), operator.outputs[0].full_name)


def _keep_shapes(operator: Any) -> None:
    """Shapes are as they were declared."""


def _has_own_features(model: Any) -> bool:
    """Whether features are those of `make_features`; free text is not supported."""
    parts = [
        part
        for _, step in getattr(model, "steps", [])
        for _, part, *_ in getattr(step, "transformers_", [])
    ]
    for part in parts:
        if isinstance(part, TfidfText) and hasattr(part, "feature_names_in_"):
            _check_no_text(part.feature_names_in_)
    firsts = [part.steps[0][1] for part in parts if hasattr(part, "steps")]
    return not {NumericFeatures, CategoryText}.isdisjoint(map(type, [*parts, *firsts]))


def _check_no_text(names: Sequence[Any]) -> None:
    if len(names):
        found = listing(map(repr, names))
        raise ValueError(f"Free text, here {found}, cannot be exported to ONNX: train without.")


def _is_text(variable: Any) -> bool:
    """Whether a variable of skl2onnx holds text."""
    return type(variable.type).__name__ == "StringTensorType"


def _inputs(model: Any, schema: Schema | None) -> list[tuple[str, Any]]:
    """Name and type of every input."""
    types = optional("skl2onnx.common.data_types", "an ONNX file", "export")
    if schema is None:
        return [("X", types.DoubleTensorType([None, model.n_features_in_]))]
    kinds = {"category": types.StringTensorType}
    return [
        (column.name, kinds.get(column.kind, types.DoubleTensorType)([None, 1]))
        for column in schema.columns
    ]


def _rename(graph: Any, inputs: list[str]) -> None:
    """Call inputs as their columns are called, of which skl2onnx makes names without spaces.

    An output that has the name of a column gets a line behind it.
    """
    prefix = "/"
    while any(name.startswith(prefix) for name in inputs):
        prefix += "/"
    new = {variable.name: name for variable, name in zip(graph.input, inputs, strict=True)}
    for variable, name in zip(graph.output, OUTPUTS, strict=False):
        while name in inputs:
            name += "_"
        new[variable.name] = name
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new.get(name, prefix + name) if name else name for name in names]
    for variable in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        variable.name = new.get(variable.name, prefix + variable.name)
