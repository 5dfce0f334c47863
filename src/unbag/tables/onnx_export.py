"""Fitted models as ONNX graphs, which run without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from unbag._files import write_whole
from unbag._optional import optional
from unbag.bags.priors import prior_offset
from unbag.models.boosting import LLPBoostingClassifier
from unbag.models.ensemble import LLPEnsembleClassifier
from unbag.models.mixed import LLPClassifier
from unbag.tables.features import (
    DIGITS,
    MISSING,
    PERIODS,
    CategoryText,
    DatetimeFeatures,
    NumericFeatures,
    TfidfText,
)
from unbag.tables.mixed_features import RARE, MixedFeatures
from unbag.tables.pipeline import gap_goes_left, refuse_text, split_pipeline, trees_of
from unbag.tables.schema import Schema
from unbag.terms.columns import CategoryTerm, NumberTerm
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
    rows = _together(graph, given.values())
    for _, step in [] if features is None else features.steps:
        rows = _transform(step, graph, given, rows)
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
    for family, make in _SCORES.items():
        if isinstance(model, family):
            return make(model, graph, rows)
    raise ValueError(
        f"{type(model).__name__} cannot be exported to ONNX; the mixed model, boosted trees, and "
        "ensembles of them can."
    )


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
            continue
        if isinstance(term, NumberTerm):
            matrix = _number_term(term, graph, rows.numbers)
        elif isinstance(term, KernelTerm):
            matrix = _kernel_term(term, graph, rows.numbers, codes)
        else:
            matrix = graph.node("Div", rows.numbers, graph.constant(float(term.scale)))
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
        places = _with_gaps({level: code for code, level in enumerate(levels)})
        values = graph.node("Gather", texts, graph.constant([column]), axis=1)
        found.append(graph.look_up(values, places, len(levels)))
    return found


def _number_term(term: NumberTerm, graph: Graph, X: str) -> str:
    values = graph.node("Gather", X, graph.constant(term.places), axis=1)
    fills = term.means[: len(term.places)]
    return _standardised(graph, values, fills, term.missing_columns, term.means, term.scales)


def _kernel_term(term: KernelTerm, graph: Graph, X: str, codes: list[str]) -> str:
    """K(x, landmarks) T − m, with the Gaussian kernel of numbers and of categories."""
    gamma, factors = term.gamma, []
    if term.numbers:
        points = graph.together([_number_term(one, graph, X) for one in term.numbers])
        Z = term.landmarks
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
    block = reduce(lambda left, right: graph.node("Mul", left, right), factors)
    features = graph.node("MatMul", block, graph.constant(term.transform))
    return graph.node("Sub", features, graph.constant(term.mean))


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
    of_nodes = "treeids nodeids featureids modes truenodeids falsenodeids missing_value_tracks_true"
    lists: dict[str, Any] = {"n_targets": n_outputs}
    for kind, names, rows in (
        ("nodes", f"{of_nodes} values", nodes),
        ("target", "treeids nodeids ids weights", leaves),
    ):
        *columns, doubles = zip(*rows, strict=True)
        *own, last = [f"{kind}_{name}" for name in names.split()]
        lists |= zip(own, columns, strict=True)
        tensor = helper.make_tensor(last, TensorProto.DOUBLE, [len(doubles)], doubles)
        lists[f"{last}_as_tensor"] = tensor
    return lists


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


# --- nodes and rows -----------------------------------------------------------------------------


class Graph:
    """Nodes and constants, whose names no input has."""

    def __init__(self, inputs: Sequence[str]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._prefix = "/"
        while any(name.startswith(self._prefix) for name in inputs):
            self._prefix += "/"

    def node(self, kind: str, *inputs: str, domain: str = "", **settings: Any) -> str:
        """Add a node of one output, and give its name."""
        from onnx import helper

        output = f"{self._prefix}{kind}{len(self.nodes)}"
        found = helper.make_node(kind, inputs, [output], name=output, domain=domain, **settings)
        self.nodes.append(found)
        return output

    def constant(self, values: Any) -> str:
        """Add numbers or texts, and give their name."""
        from onnx import numpy_helper

        array, name = np.asarray(values), f"{self._prefix}constant{len(self.constants)}"
        kind = {"U": object, "O": object, "f": np.float64}.get(array.dtype.kind, np.int64)
        self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def cast(self, name: str, kind: str) -> str:
        """Change the type of numbers."""
        from onnx import TensorProto

        return self.node("Cast", name, to=getattr(TensorProto, kind))

    def look_up(self, texts: str, known: Mapping[str, Any], other: Any) -> str:
        """Exchange known texts for numbers or other texts, and all others for one."""
        kind = "string" if isinstance(other, str) else "int64"
        settings = {f"values_{kind}s": list(known.values()), f"default_{kind}": other}
        return self.node(
            "LabelEncoder", texts, domain="ai.onnx.ml", keys_strings=list(known), **settings
        )

    def together(self, names: Sequence[str]) -> str:
        """Columns side by side."""
        return names[0] if len(names) == 1 else self.node("Concat", *names, axis=1)


class Rows(NamedTuple):
    """Names of a matrix of numbers, and of one of text; either may be None."""

    numbers: Any
    texts: Any = None


def _together(graph: Graph, parts: Any) -> Rows:
    """Rows side by side."""
    columns = [[name for name in names if name is not None] for names in zip(*parts, strict=True)]
    return Rows(*(graph.together(names) if names else None for names in columns))


# --- features -----------------------------------------------------------------------------------


def _transform(step: Any, graph: Graph, columns: dict[str, Rows], rows: Rows) -> Rows:
    """What a step makes of columns by name, or of all rows."""
    if isinstance(step, MixedFeatures):
        return _mixed_features(step, graph, columns)
    if isinstance(step, ColumnTransformer):
        parts = [(part, list(chosen)) for _, part, chosen in step.transformers_]
        refuse_text([name for part, own in parts if isinstance(part, TfidfText) for name in own])
        found = []
        for part, chosen in parts:
            if (isinstance(part, str) and part == "drop") or not chosen:
                continue
            own = {name: _column(columns, name) for name in chosen}
            found.append(_transform(part, graph, own, _together(graph, own.values())))
        return _together(graph, found)
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            rows = _transform(part, graph, columns, rows)
        return rows
    make = _FEATURES.get(type(step))
    if make is None:
        raise ValueError(
            f"A step before the model cannot be exported to ONNX: {type(step).__name__}. Those of "
            "unbag and a StandardScaler can."
        )
    return make(step, graph, rows)


def _column(columns: dict[str, Rows], name: Any) -> Rows:
    if name not in columns:
        raise ValueError(f"The model takes the column {name!r}; give the schema of its table.")
    return columns[name]


def _numeric_features(step: NumericFeatures, graph: Graph, rows: Rows) -> Rows:
    """Fill gaps and standardise."""
    own = step.medians_, step.missing_columns_, step.means_, step.scales_
    return _rounded(step, graph, _standardised(graph, rows.numbers, *own))


def _standardised(
    graph: Graph, values: str, fills: Any, gaps: Any, means: Any, scales: Any = None
) -> str:
    """Columns with filled gaps, others that say where those of some were, standardised."""
    bad = graph.node("Or", graph.node("IsNaN", values), graph.node("IsInf", values))
    values = graph.node("Where", bad, graph.constant(fills), values)
    if len(gaps):
        marks = graph.node("Gather", bad, graph.constant(gaps), axis=1)
        values = graph.together([values, graph.cast(marks, "DOUBLE")])
    centred = graph.node("Sub", values, graph.constant(means))
    return centred if scales is None else graph.node("Div", centred, graph.constant(scales))


def _rounded(step: Any, graph: Graph, values: str) -> Rows:
    """Numbers in the precision of training, where trees split by them."""
    if step.dtype != "float64":
        values = graph.cast(graph.cast(values, "FLOAT"), "DOUBLE")
    return Rows(values)


def _scaled(step: StandardScaler, graph: Graph, rows: Rows) -> Rows:
    """Subtract means and divide by standard deviations, as far as the step does."""
    values = rows.numbers
    if step.with_mean:
        values = graph.node("Sub", values, graph.constant(step.mean_))
    if step.with_std:
        values = graph.node("Div", values, graph.constant(step.scale_))
    return Rows(values)


def _datetimes(step: DatetimeFeatures, graph: Graph, rows: Rows) -> Rows:
    """Points on circles."""
    lengths = [[PERIODS[part][0] for part in periods] for periods in step.periods_]
    n = sum(map(len, lengths))
    if not n:
        return Rows(None)
    column = graph.constant([i for i, found in enumerate(lengths) for _ in found])
    length = graph.constant([one for found in lengths for one in found])
    turns = graph.node("Div", graph.node("Gather", rows.numbers, column, axis=1), length)
    angle = graph.node("Sub", turns, graph.node("Floor", turns))
    angle = graph.node("Mul", angle, graph.constant(2 * np.pi))
    # some runtimes have no cosine of doubles
    ahead = graph.node("Add", angle, graph.constant(np.pi / 2))
    both = graph.together([graph.node("Sin", one) for one in (angle, ahead)])
    # sine and cosine of each round side by side
    order = np.arange(2 * n).reshape(2, n).T.ravel()
    placed = graph.node("Gather", both, graph.constant(order), axis=1)
    scale = graph.constant(10.0**DIGITS)
    placed = graph.node("Div", graph.node("Round", graph.node("Mul", placed, scale)), scale)
    gap = graph.node("IsNaN", placed)
    return _rounded(step, graph, graph.node("Where", gap, graph.constant(0.0), placed))


def _mixed_features(step: MixedFeatures, graph: Graph, columns: dict[str, Rows]) -> Rows:
    """Numbers and places of times in periods; categories, of which what is rare or new has one name."""
    refuse_text(step.texts_)
    parts = [_column(columns, name) for name in step.numbers_]
    for name, periods in zip(step.times_, step.periods_, strict=True):
        parts.append(_datetimes(periods, graph, _column(columns, name)))
    for name, levels in zip(step.categories_, step.levels_, strict=True):
        text = _column(columns, name).texts
        if levels is not None:
            known = {level: level for level in levels}
            known.setdefault("", MISSING if MISSING in known else RARE)
            text = graph.look_up(text, known, RARE)
        parts.append(Rows(None, text))
    return _together(graph, parts)


def _one_hot(step: OneHotEncoder, graph: Graph, rows: Rows) -> Rows:
    """Encode text as scikit-learn's OneHotEncoder does, behind `CategoryText`."""
    parts = []
    for column, places in enumerate(_places(step)):
        values = graph.node("Gather", rows.texts, graph.constant(column), axis=1)
        depth = max(places.values()) + 1
        # what is beyond the last place is nowhere
        code = graph.look_up(values, places, depth)
        marks = graph.cast(graph.constant([0, 1]), "FLOAT")
        parts.append(graph.node("OneHot", code, graph.constant([depth]), marks, axis=-1))
    return Rows(graph.cast(graph.together(parts), "DOUBLE"))


def _places(encoder: Any) -> Iterator[dict[str, int]]:
    """Where the one stands for each category of every column."""
    rare = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    for categories, few in zip(encoder.categories_, rare, strict=True):
        together = set() if few is None else set(few)
        common = [value for value in categories if value not in together]
        places = {value: place for place, value in enumerate(common)}
        yield _with_gaps(places | dict.fromkeys(together, len(common)))


def _with_gaps(places: dict[str, int]) -> dict[str, int]:
    """Places of levels, with that of the empty text, since ONNX has no missing one."""
    return {"": places[MISSING], **places} if MISSING in places else places


_FEATURES: dict[type[Any], Callable[..., Rows]] = {
    NumericFeatures: _numeric_features,
    CategoryText: lambda step, graph, rows: rows,  # noqa: ARG005
    DatetimeFeatures: _datetimes,
    OneHotEncoder: _one_hot,
    StandardScaler: _scaled,
}
