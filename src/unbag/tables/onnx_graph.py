"""Parts of an ONNX graph: nodes, rows of numbers and text, and features of tables.

Every function below `Graph` adds what one part computes, and gives the names of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unbag.tables.exporting import refuse_text
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


def together(graph: Graph, parts: Any) -> Rows:
    """Rows side by side."""
    columns = [[name for name in names if name is not None] for names in zip(*parts, strict=True)]
    return Rows(*(graph.together(names) if names else None for names in columns))


# --- features -----------------------------------------------------------------------------------


def transform(step: Any, graph: Graph, columns: dict[str, Rows], rows: Rows) -> Rows:
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
            found.append(transform(part, graph, own, together(graph, own.values())))
        return together(graph, found)
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            rows = transform(part, graph, columns, rows)
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
    return _rounded(step, graph, standardised(graph, rows.numbers, *own))


def standardised(
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
    return together(graph, parts)


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
        yield with_gaps(places | dict.fromkeys(together, len(common)))


def with_gaps(places: dict[str, int]) -> dict[str, int]:
    """Places of levels, with that of the empty text, since ONNX has no missing one."""
    return {"": places[MISSING], **places} if MISSING in places else places


_FEATURES: dict[type[Any], Callable[..., Rows]] = {
    NumericFeatures: _numeric_features,
    CategoryText: lambda step, graph, rows: rows,  # noqa: ARG005
    DatetimeFeatures: _datetimes,
    OneHotEncoder: _one_hot,
    StandardScaler: _scaled,
}
