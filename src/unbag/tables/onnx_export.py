"""Fitted models as ONNX graphs, which run without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unbag._files import write_whole
from unbag._optional import optional
from unbag.bags.priors import prior_offset
from unbag.models.boosting import LLPBoostingClassifier
from unbag.models.ensemble import LLPEnsembleClassifier
from unbag.models.mixed import LLPClassifier
from unbag.tables.exporting import gap_goes_left, trees_of
from unbag.tables.onnx_graph import (
    Graph,
    Rows,
    standardised,
    together,
    transform,
    with_gaps,
)
from unbag.tables.pipeline import split_pipeline
from unbag.tables.schema import Schema
from unbag.terms.columns import CategoryTerm, NumberTerm, SparseTerm, Term
from unbag.terms.kernel import KernelTerm

__all__ = ["export_onnx"]

# Understood by runtimes of the last years.
_VERSIONS = {"": 17, "ai.onnx.ml": 3}


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
        The mixed model, boosted trees, or an ensemble of these; alone or behind the features of
        `unbag.tables.make_classifier`, `unbag.tables.features.make_features` or a ``StandardScaler``.
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
    column for each) and ``probability``, a column for each class, for the shares of classes that the
    model was trained for (``class_prior_``).

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
    made = to_onnx(model, schema, class_names, score_threshold)
    return write_whole(path, made.SerializeToString())


def to_onnx(
    model: Any,
    schema: Schema | None = None,
    class_names: Sequence[Any] | None = None,
    score_threshold: float = 0.0,
) -> Any:
    """The ONNX graph of a fitted model, as for `export_onnx`."""
    onnx = optional("onnx", "an ONNX file", "export")
    features, final = split_pipeline(model)
    check_is_fitted(final)
    classes = np.asarray(final.classes_ if class_names is None else list(class_names))
    if classes.dtype.kind not in "biu":
        classes = classes.astype(str)
    double, text, whole = (getattr(onnx.TensorProto, k) for k in ("DOUBLE", "STRING", "INT64"))
    columns = {} if schema is None else schema.kinds
    shapes = {name: (text if kind == "category" else double, 1) for name, kind in columns.items()}
    shapes = shapes or {"X": (double, model.n_features_in_)}
    graph = Graph(list(shapes))
    given = {
        name: Rows(*((None, name) if columns.get(name) == "category" else (name, None)))
        for name in shapes
    }
    rows = together(graph, given.values())
    for _, step in [] if features is None else features.steps:
        rows = transform(step, graph, given, rows)
        given = {}
    scores = _score(final, graph, rows)
    n_classes = len(classes)
    if n_classes == 2:
        probability = graph.node("Sigmoid", scores)
        other = graph.node("Sub", graph.constant(1.0), probability)
        probabilities = graph.together([other, probability])
        scores = graph.node("Squeeze", scores, graph.constant([1]))
        above = graph.node("Greater", scores, graph.constant(score_threshold))
        place = graph.cast(above, "INT64")
    else:
        place = graph.node("ArgMax", scores, axis=1, keepdims=0)
        probabilities = graph.node("Softmax", scores, axis=1)
    outputs = [
        ("class", graph.node("Gather", graph.constant(classes), place), []),
        ("score", scores, [n_classes] if n_classes > 2 else []),
        ("probability", probabilities, [n_classes]),
    ]
    kinds = [text if classes.dtype.kind == "U" else whole, double, double]
    prior = ", ".join(f"{share:.6g}" for share in final.class_prior_)
    words = f"{type(final).__name__} of the classes {', '.join(map(str, classes))}"
    shown, made = [], onnx.helper.make_tensor_value_info
    for (name, found, width), kind in zip(outputs, kinds, strict=True):
        while name in shapes:
            name += "_"
        graph.nodes.append(onnx.helper.make_node("Identity", [found], [name]))
        shown.append(made(name, kind, ["rows", *width]))
    whole_graph = onnx.helper.make_graph(
        graph.nodes,
        "unbag",
        [made(name, kind, ["rows", width]) for name, (kind, width) in shapes.items()],
        shown,
        graph.constants,
        f"{words}; probabilities where these have the shares {prior}",
    )
    return onnx.helper.make_model(
        whole_graph,
        producer_name="unbag",
        producer_version=version("unbag"),
        opset_imports=[onnx.helper.make_opsetid(*pair) for pair in _VERSIONS.items()],
        ir_version=8,
    )


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


# --- scores (rows, outputs) of models -------------------------------------------------------------


def _score(model: Any, graph: Graph, rows: Rows) -> str:
    """Scores of a model, by its family, or a refusal."""
    make = next((_SCORES[base] for base in type(model).__mro__ if base in _SCORES), None)
    if make is None:
        raise ValueError(
            f"{type(model).__name__} cannot be exported to ONNX; the mixed model, boosted "
            "trees, and ensembles of them can."
        )
    return make(model, graph, rows)


def _mixed(model: Any, graph: Graph, rows: Rows) -> str:
    """Intercept and the sum over the terms of an `LLPClassifier`."""
    f = model.function_
    theta, codes = f.theta, _codes(f.encoder, graph, rows.texts)
    parts = []
    for term, place in zip(f.terms, f.columns, strict=True):
        weights = theta[:, place].T
        if isinstance(term, CategoryTerm):
            # levels that training did not have come last, and add nothing
            table = graph.constant(np.vstack([weights, np.zeros((1, len(theta)))]))
            code = graph.node("Squeeze", codes[term.place], graph.constant([1]))
            parts.append(graph.node("Gather", table, code, axis=0))
        else:
            matrix = _TERMS[type(term)](term, graph, rows.numbers, codes)
            parts.append(graph.node("MatMul", matrix, graph.constant(weights)))
    return graph.node("Sum", *parts, graph.constant(theta[:, 0] + f.offset))


def _codes(encoder: Any, graph: Graph, texts: str | None) -> list[str]:
    """Codes (rows, 1) of each category; the number of levels where training did not have one."""
    found = []
    for column, levels in enumerate(encoder.levels):
        if texts is None:
            raise ValueError(
                f"The model takes the categories {encoder.category_names}; give the schema of its table."
            )
        places = with_gaps({level: code for code, level in enumerate(levels)})
        values = graph.node("Gather", texts, graph.constant([column]), axis=1)
        found.append(graph.look_up(values, places, len(levels)))
    return found


def _number_term(term: NumberTerm, graph: Graph, X: str, codes: list[str]) -> str:  # noqa: ARG001
    values = graph.node("Gather", X, graph.constant(term.places), axis=1)
    fills = term.means[: len(term.places)]
    return standardised(graph, values, fills, term.missing_columns, term.means, term.scales)


def _sparse_term(term: SparseTerm, graph: Graph, X: str, codes: list[str]) -> str:  # noqa: ARG001
    return graph.node("Div", X, graph.constant(float(term.scale)))


def _kernel_term(term: KernelTerm, graph: Graph, X: str, codes: list[str]) -> str:
    """K(x, landmarks) T − m, with the Gaussian kernel of numbers and of categories."""
    gamma, factors = term.gamma, []
    if term.numbers:
        found = [_number_term(one, graph, X, codes) for one in term.numbers]
        points, Z = graph.together(found), term.landmarks
        product = graph.node("MatMul", points, graph.constant(2 * gamma * Z.T))
        ones = graph.constant(np.full((Z.shape[1], 1), gamma))
        own = graph.node("MatMul", graph.node("Mul", points, points), ones)
        others = graph.constant(gamma * (Z**2).sum(axis=1))
        exponent = graph.node("Sub", graph.node("Sub", product, own), others)
        factors.append(graph.node("Exp", graph.node("Min", exponent, graph.constant(0.0))))
    for code, landmarks in zip(codes, term.codes.T, strict=True):
        same = graph.node("Equal", code, graph.constant(landmarks[None]))
        one, other = graph.constant(1.0), graph.constant(float(np.exp(-2.0 * gamma)))
        factors.append(graph.node("Where", same, one, other))
    block = factors[0]
    for factor in factors[1:]:
        block = graph.node("Mul", block, factor)
    features = graph.node("MatMul", block, graph.constant(term.transform))
    return graph.node("Sub", features, graph.constant(term.mean))


_TERMS: dict[type[Term], Callable[..., str]] = {
    NumberTerm: _number_term,
    SparseTerm: _sparse_term,
    KernelTerm: _kernel_term,
}


def _trees(model: Any, graph: Graph, rows: Rows) -> str:
    """The linear function that trees are added to, the trees, and the class prior."""
    X, trees = rows.numbers, trees_of(model)
    moved = prior_offset(model.empirical_prior_, model.class_prior_)
    filled = graph.node("Where", graph.node("IsNaN", X), graph.constant(model.start_fill_), X)
    product = graph.node("MatMul", filled, graph.constant(model.start_coef_.T))
    start = graph.node("Add", product, graph.constant(model.start_intercept_ + moved))
    if not trees:
        return start
    settings = _tree_lists(trees, len(moved))
    sums = graph.node("TreeEnsembleRegressor", X, domain="ai.onnx.ml", **settings)
    return graph.node("Add", graph.cast(sums, "DOUBLE"), start)


def _tree_lists(trees: Sequence[Any], n_outputs: int) -> dict[str, Any]:
    """Trees of LightGBM as the lists that ONNX wants, node by node; they count for outputs in turn."""
    from onnx import TensorProto, helper

    nodes, leaves = [], []
    for number, tree in enumerate(trees):
        order = [tree]
        for node in order:
            if "split_feature" in node:
                order += [node["left_child"], node["right_child"]]
        place = {id(node): i for i, node in enumerate(order)}
        for i, node in enumerate(order):
            if "split_feature" in node:
                left, right = place[id(node["left_child"])], place[id(node["right_child"])]
                split = node["split_feature"], "BRANCH_LEQ", left, right, int(gap_goes_left(node))
                nodes.append((number, i, *split, float(node["threshold"])))
            else:
                nodes.append((number, i, 0, "LEAF", 0, 0, 0, 0.0))
                leaves.append((number, i, number % n_outputs, float(node["leaf_value"])))
    names = "treeids nodeids featureids modes truenodeids falsenodeids missing_value_tracks_true"
    *columns, thresholds = zip(*nodes, strict=True)
    lists: dict[str, Any] = {
        f"nodes_{name}": column for name, column in zip(names.split(), columns, strict=True)
    }
    *columns, weights = zip(*leaves, strict=True)
    lists |= zip(("target_treeids", "target_nodeids", "target_ids"), columns, strict=True)
    for name, values in (("nodes_values", thresholds), ("target_weights", weights)):
        tensor = helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)
        lists[f"{name}_as_tensor"] = tensor
    return lists | {"n_targets": n_outputs}


def _ensemble(model: Any, graph: Graph, rows: Rows) -> str:
    """Weighted average of the log-odds of an `LLPEnsembleClassifier` at its class prior."""
    parts = []
    for one, weight in zip(model.estimators_, model.weights_, strict=True):
        moved = graph.constant(prior_offset(one.class_prior_, model.class_prior_))
        scores = graph.node("Add", _score(one, graph, rows), moved)
        parts.append(graph.node("Mul", scores, graph.constant(float(weight))))
    return parts[0] if len(parts) == 1 else graph.node("Sum", *parts)


# What computes the scores of a model, by its family.
_SCORES: dict[type[Any], Callable[..., str]] = {
    LLPClassifier: _mixed,
    LLPBoostingClassifier: _trees,
    LLPEnsembleClassifier: _ensemble,
}
