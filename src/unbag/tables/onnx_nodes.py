"""What features and models compute, as nodes of an ONNX graph in double precision.

Every function takes the fitted object, a `Graph` to add nodes to and the name of its input, and
gives the name of its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.models.objective import log_prior
from unbag.tables.features import DIGITS, MISSING, PERIODS
from unbag.tables.mixed_features import RARE
from unbag.terms.base import Term
from unbag.terms.categories import CategoryTerm
from unbag.terms.kernel import KernelTerm
from unbag.terms.numbers import NumberTerm
from unbag.terms.sparse import SparseTerm

# Understood by runtimes of the last years; the last, for sentences alone, by onnxruntime.
VERSIONS = {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}

# Kinds of splits that LightGBM writes, and of values that are missing.
_BY_NUMBER, _AS_NAN, _AS_ZERO = "<=", "NaN", "None"


class Graph:
    """The graph that skl2onnx fills, with shorter words."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def node(self, kind: str, *inputs: str, domain: str = "", **settings: Any) -> str:
        """Add a node of one output, and give its name."""
        output: str = self._scope.get_unique_variable_name(kind.lower())
        self._container.add_node(
            kind,
            list(inputs),
            [output],
            op_domain=domain,
            op_version=VERSIONS[domain],
            name=self._scope.get_unique_operator_name(kind),
            **settings,
        )
        return output

    def constant(self, values: Any) -> str:
        """Add numbers or texts, and give their name."""
        from onnx import TensorProto, numpy_helper

        array = np.asarray(values)
        name: str = self._scope.get_unique_variable_name("constant")
        if array.dtype.kind in "UO":
            texts = [str(text).encode() for text in array.ravel()]
            self._container.add_initializer(name, TensorProto.STRING, list(array.shape), texts)
        else:
            kind = np.float64 if array.dtype.kind == "f" else np.int64
            tensor = numpy_helper.from_array(array.astype(kind), name)
            self._container.initializers.append(tensor)
        return name

    def cast(self, name: str, kind: str) -> str:
        """Change the type of numbers."""
        from onnx import TensorProto

        return self.node("Cast", name, to=getattr(TensorProto, kind))

    def codes(self, texts: str, known: dict[str, int], other: int) -> str:
        """Look up the numbers of known texts; all others get one number."""
        return self.node(
            "LabelEncoder",
            texts,
            domain="ai.onnx.ml",
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=other,
        )

    def rename(self, name: str, output: str) -> None:
        """Give a result the name that it is known by outside."""
        self._container.add_node(
            "Identity",
            [name],
            [output],
            op_version=VERSIONS[""],
            name=self._scope.get_unique_operator_name("Identity"),
        )

    def together(self, names: list[str]) -> str:
        """Columns side by side."""
        return names[0] if len(names) == 1 else self.node("Concat", *names, axis=1)


# --- features -----------------------------------------------------------------------------------


def numbers(step: Any, graph: Graph, table: str) -> str:
    """Fill gaps and standardise, as `unbag.tables.features.NumericFeatures` does."""
    bad = graph.node("Or", graph.node("IsNaN", table), graph.node("IsInf", table))
    filled = graph.node("Where", bad, graph.constant(step.medians_), table)
    if len(step.missing_columns_):
        gaps = graph.node("Gather", bad, graph.constant(step.missing_columns_), axis=1)
        filled = graph.together([filled, graph.cast(gaps, "DOUBLE")])
    centred = graph.node("Sub", filled, graph.constant(step.means_))
    return rounded(step, graph, graph.node("Div", centred, graph.constant(step.scales_)))


def rounded(step: Any, graph: Graph, values: str) -> str:
    """Numbers in the precision of training, where trees split by them."""
    if step.dtype == "float64":
        return values
    return graph.cast(graph.cast(values, "FLOAT"), "DOUBLE")


def datetimes(step: Any, graph: Graph, table: str) -> str:
    """Points on circles, as `unbag.tables.features.DatetimeFeatures` has them."""
    lengths = [[PERIODS[part][0] for part in periods] for periods in step.periods_]
    column = graph.constant([i for i, found in enumerate(lengths) for _ in found])
    length = graph.constant(_double([one for found in lengths for one in found]))
    turns = graph.node("Div", graph.node("Gather", table, column, axis=1), length)
    angle = graph.node("Sub", turns, graph.node("Floor", turns))
    angle = graph.node("Mul", angle, graph.constant(2 * np.pi))
    # some runtimes have no cosine of doubles
    ahead = graph.node("Add", angle, graph.constant(np.pi / 2))
    sides = [graph.node("Sin", one) for one in (angle, ahead)]
    both = graph.together(sides)
    n = sum(map(len, lengths))
    # sine and cosine of each round side by side
    order = np.arange(2 * n).reshape(2, n).T.ravel()
    placed = graph.node("Gather", both, graph.constant(order), axis=1)
    scale = graph.constant(10.0**DIGITS)
    placed = graph.node("Div", graph.node("Round", graph.node("Mul", placed, scale)), scale)
    gap = graph.node("IsNaN", placed)
    return rounded(step, graph, graph.node("Where", gap, graph.constant(0.0), placed))


def text(step: Any, graph: Graph, table: str) -> str:  # noqa: ARG001
    """Leave text as it is."""
    return graph.node("Identity", table)


def mixed_numbers(step: Any, graph: Graph, columns: dict[str, str]) -> str:
    """Numbers of `unbag.tables.mixed_features.MixedFeatures`, and the places of times in periods."""
    own = vars(step)
    parts = [columns[name] for name in own["_numbers"]]
    for name, periods in zip(own["_times"], own["_periods"], strict=True):
        if len(periods.get_feature_names_out()):
            parts.append(datetimes(periods, graph, columns[name]))
    return graph.together(parts)


def mixed_texts(step: Any, graph: Graph, columns: dict[str, str]) -> str:
    """Categories of `unbag.tables.mixed_features.MixedFeatures`: what is rare or new has one name."""
    parts = []
    for name, levels in zip(vars(step)["_categories"], step.levels_, strict=True):
        text = columns[name]
        if levels is not None:
            known = {level: level for level in levels}
            known.setdefault("", MISSING if MISSING in known else RARE)
            text = graph.node(
                "LabelEncoder",
                text,
                domain="ai.onnx.ml",
                keys_strings=list(known),
                values_strings=list(known.values()),
                default_string=RARE,
            )
        parts.append(text)
    return graph.together(parts)


def one_hot(step: Any, graph: Graph, table: str) -> str:
    """Encode text as scikit-learn's OneHotEncoder does, behind `unbag.tables.features.CategoryText`."""
    parts = []
    for column, places in enumerate(_places(step)):
        values = graph.node("Gather", table, graph.constant(column), axis=1)
        depth = max(places.values()) + 1
        # what is beyond the last place is nowhere
        code = graph.codes(values, places, depth)
        marks = graph.cast(graph.constant([0, 1]), "FLOAT")
        parts.append(graph.node("OneHot", code, graph.constant([depth]), marks, axis=-1))
    return graph.cast(graph.together(parts), "DOUBLE")


def _places(encoder: Any) -> Iterator[dict[str, int]]:
    """Where the one stands for each category of every column."""
    rare = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    for categories, few in zip(encoder.categories_, rare, strict=True):
        together = set() if few is None else set(few)
        common = [value for value in categories if value not in together]
        places = {value: place for place, value in enumerate(common)}
        places |= dict.fromkeys(together, len(common))
        if MISSING in places:
            # ONNX has no missing text
            places.setdefault("", places[MISSING])
        yield places


# --- scores (rows, outputs) of models -------------------------------------------------------------


class Rows(NamedTuple):
    """Names of what a model is given: a matrix of numbers, and one of text; either may be None."""

    numbers: str | None
    texts: str | None = None


def mixed(model: Any, graph: Graph, rows: Rows) -> str:
    """Intercept and the sum over the terms of an `LLPClassifier`."""
    f = model.function_
    theta, codes = f.theta, _codes(f.encoder, graph, rows.texts)
    parts = []
    for term, place in zip(f.terms, f.columns, strict=True):
        weights = _double(theta[:, place].T)
        if isinstance(term, CategoryTerm):
            # levels that training did not have come last, and add nothing
            table = graph.constant(np.vstack([weights, np.zeros((1, len(theta)))]))
            code = graph.node("Squeeze", codes[vars(term)["_place"]], graph.constant([1]))
            parts.append(graph.node("Gather", table, code, axis=0))
        else:
            matrix = _TERMS[type(term)](vars(term), graph, rows.numbers, codes)
            parts.append(graph.node("MatMul", matrix, graph.constant(weights)))
    return graph.node("Sum", *parts, graph.constant(_double(theta[:, 0] + f.offset)))


def _codes(encoder: Any, graph: Graph, texts: str | None) -> list[str]:
    """Codes (rows, 1) of each category; the number of levels where training did not have one."""
    found = []
    for column, levels in enumerate(encoder.levels):
        if texts is None:
            raise ValueError(
                f"The model takes the categories {encoder.category_names}; give the schema of its table."
            )
        places = {level: code for code, level in enumerate(levels)}
        if MISSING in places:
            # ONNX has no missing text
            places.setdefault("", places[MISSING])
        values = graph.node("Gather", texts, graph.constant([column]), axis=1)
        found.append(graph.codes(values, places, len(levels)))
    return found


def _number_term(term: dict[str, Any], graph: Graph, X: str, codes: list[str]) -> str:  # noqa: ARG001
    places, gaps = term["places"], term["_gappy"]
    values = graph.node("Gather", X, graph.constant(places), axis=1)
    missing = graph.node("Or", graph.node("IsNaN", values), graph.node("IsInf", values))
    means = graph.constant(_double(term["_means"][: len(places)]))
    values = graph.node("Where", missing, means, values)
    if len(gaps):
        marks = graph.node("Gather", missing, graph.constant(gaps), axis=1)
        values = graph.together([values, graph.cast(marks, "DOUBLE")])
    centred = graph.node("Sub", values, graph.constant(_double(term["_means"])))
    if not term["_scaled"]:
        return centred
    return graph.node("Div", centred, graph.constant(_double(term["_scales"])))


def _sparse_term(term: dict[str, Any], graph: Graph, X: str, codes: list[str]) -> str:  # noqa: ARG001
    return graph.node("Div", X, graph.constant(float(term["_scale"])))


def _kernel_term(term: dict[str, Any], graph: Graph, X: str, codes: list[str]) -> str:
    """K(x, landmarks) T − m, with the Gaussian kernel of standardised numbers and of categories."""
    gamma, factors = term["_gamma"], []
    if term["_numbers"]:
        numbers = [vars(one) | {"_scaled": True} for one in term["_numbers"]]
        found = [_number_term(one, graph, X, codes) for one in numbers]
        points, Z = graph.together(found), _double(term["_landmarks"])
        product = graph.node("MatMul", points, graph.constant(2 * gamma * Z.T))
        ones = graph.constant(np.full((Z.shape[1], 1), gamma))
        own = graph.node("MatMul", graph.node("Mul", points, points), ones)
        others = graph.constant(gamma * (Z**2).sum(axis=1))
        exponent = graph.node("Sub", graph.node("Sub", product, own), others)
        factors.append(graph.node("Exp", graph.node("Min", exponent, graph.constant(0.0))))
    for code, landmarks in zip(codes, term["_codes"].T, strict=True):
        same = graph.node("Equal", code, graph.constant(landmarks[None]))
        one, other = graph.constant(1.0), graph.constant(float(np.exp(-2.0 * gamma)))
        factors.append(graph.node("Where", same, one, other))
    block = factors[0]
    for factor in factors[1:]:
        block = graph.node("Mul", block, factor)
    features = graph.node("MatMul", block, graph.constant(_double(term["_transform"])))
    return graph.node("Sub", features, graph.constant(_double(term["_mean"])))


_TERMS: dict[type[Term], Callable[..., str]] = {
    NumberTerm: _number_term,
    SparseTerm: _sparse_term,
    KernelTerm: _kernel_term,
}


def trees(model: Any, graph: Graph, rows: Rows) -> str:
    """The linear function that trees are added to, the trees, and the class prior."""
    from onnx import TensorProto, helper

    X = str(rows.numbers)
    if model.categories_:
        raise ValueError(
            "Boosted trees that split by categories of a data frame cannot be exported; encode "
            "them before, say by make_pipeline(unbag.tables.features.make_features(), model)."
        )
    moved = log_prior(model.class_prior_) - log_prior(model.empirical_prior_)
    start = graph.node("Add", _start(model, graph, X), graph.constant(moved))
    if model.booster_ is None:
        return start
    table = _TreeTable()
    for number, tree in enumerate(model.booster_.dump_model()["tree_info"]):
        table.add(tree["tree_structure"], number % len(moved))

    def tensor(name: str, values: list[float]) -> Any:
        return helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)

    sums = graph.node(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        n_targets=len(moved),
        nodes_values_as_tensor=tensor("nodes_values", table.thresholds),
        target_weights_as_tensor=tensor("target_weights", table.weights),
        **table.nodes,
        **table.targets,
    )
    return graph.node("Add", graph.cast(sums, "DOUBLE"), start)


def _start(model: Any, graph: Graph, X: str) -> str:
    """The linear function that trees are added to."""
    filled = graph.node("Where", graph.node("IsNaN", X), graph.constant(model.start_fill_), X)
    product = graph.node("MatMul", filled, graph.constant(model.start_coef_.T))
    return graph.node("Add", product, graph.constant(model.start_intercept_))


def ensemble(model: Any, graph: Graph, rows: Rows, score: Callable[..., str]) -> str:
    """Weighted average of the log-odds of an `LLPEnsembleClassifier` at its class prior."""
    wanted = log_prior(model.class_prior_)
    parts = [
        graph.node(
            "Mul",
            graph.node(
                "Add", score(one, graph, rows), graph.constant(wanted - log_prior(one.class_prior_))
            ),
            graph.constant(float(weight)),
        )
        for one, weight in zip(model.estimators_, model.weights_, strict=True)
    ]
    return parts[0] if len(parts) == 1 else graph.node("Sum", *parts)


class _TreeTable:
    """Trees as the lists that ONNX wants, node by node."""

    def __init__(self) -> None:
        names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
        self.nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
        self.nodes["nodes_missing_value_tracks_true"] = []
        self.targets: dict[str, list[int]] = {
            f"target_{name}": [] for name in ("treeids", "nodeids", "ids")
        }
        self.thresholds: list[float] = []
        self.weights: list[float] = []
        self._n_trees = 0

    def add(self, tree: Any, output: int) -> None:
        """Add a tree of LightGBM that counts for one output."""
        order = [tree]
        for node in order:
            if "split_feature" in node:
                order += [node["left_child"], node["right_child"]]
        place = {id(node): number for number, node in enumerate(order)}
        for number, node in enumerate(order):
            if "split_feature" in node:
                _check_split(node)
                children = place[id(node["left_child"])], place[id(node["right_child"])]
                self._append(
                    number, "BRANCH_LEQ", node["split_feature"], children, _goes_left(node)
                )
                self.thresholds.append(float(node["threshold"]))
            else:
                self._append(number, "LEAF", 0, (0, 0), 0)
                self.thresholds.append(0.0)
                for name, value in zip(self.targets, (self._n_trees, number, output), strict=True):
                    self.targets[name].append(value)
                self.weights.append(float(node["leaf_value"]))
        self._n_trees += 1

    def _append(
        self, number: int, mode: str, feature: int, children: tuple[int, int], missing: int
    ) -> None:
        row = (self._n_trees, number, feature, mode, *children, missing)
        for name, value in zip(self.nodes, row, strict=True):
            self.nodes[name].append(value)


def _check_split(node: Any) -> None:
    if node["decision_type"] != _BY_NUMBER or node["missing_type"] not in (_AS_NAN, _AS_ZERO):
        raise ValueError(
            f"Trees with splits of the kind {node['decision_type']!r} and missing values as "
            f"{node['missing_type']!r} cannot be exported."
        )


def _goes_left(node: Any) -> int:
    """Where a missing value goes; where training had none, LightGBM takes it for zero."""
    if node["missing_type"] == _AS_NAN:
        return int(node["default_left"])
    return int(node["threshold"] >= 0)


def _double(values: Any) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)
