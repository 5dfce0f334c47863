"""Columns that the assumption is tested on: of frames, arrays and sparse matrices, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unbag._arrays import Floats, Ints
from unbag.evaluation.lack_of_fit import InBags, Plane


@dataclass(frozen=True, eq=False)
class _Ones:
    """A sparse column of two values: the rows that do not hold zero."""

    rows: Ints


# The position of a column, and its moments on each plane.
TestedColumn = tuple[int, list[InBags | None]]


def check_columns(
    X: Any, n_instances: int, feature_names: ArrayLike | None
) -> tuple[NDArray[Any], Iterator[Any]]:
    """Names of the columns, and the columns one by one."""
    columns: Iterator[Any]
    found: list[Any]
    shape: tuple[int, ...]
    given: Any = X
    frame: Any = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        shape, found, columns = frame.shape, [frame.name or "score"], iter([frame.to_numpy()])
    elif isinstance(frame, nw.DataFrame):
        shape, found = frame.shape, list(frame.columns)
        columns = (frame[name].to_numpy() for name in frame.columns)
    elif sparse.issparse(X):
        by_column = sparse.csc_array(given)
        shape = by_column.shape
        found, columns = list(range(shape[1])), _sparse_columns(by_column)
    else:
        values = np.asarray(X)
        shape = values.shape
        if values.ndim == 1:
            found, columns = ["score"], iter([values])
        else:
            found, columns = list(range(shape[-1] if shape else 0)), iter(values.T)
    if len(shape) not in (1, 2) or shape[0] != n_instances or not found:
        raise ValueError(f"There are {n_instances} instances, but X has the shape {shape}.")
    names = found if feature_names is None else list(np.asarray(feature_names).ravel())
    if len(names) != len(found):
        raise ValueError(f"X has {len(found)} columns, but there are {len(names)} feature_names.")
    return np.array([str(name) for name in names], dtype=object), columns


def _sparse_columns(table: Any) -> Iterator[Any]:
    for j, (low, high) in enumerate(pairwise(table.indptr.tolist())):
        data = table.data[low:high]
        held = data[data != 0]
        if len(held) and held.min() == held.max() > 0:
            yield _Ones(table.indices[low:high][data != 0])
        else:
            yield table[:, [j]].toarray()[:, 0]


def varying_columns(
    columns: Iterator[Any], names: NDArray[Any], planes: list[Plane]
) -> Iterator[TestedColumn]:
    """Moments of columns that are not constant everywhere, with their positions."""
    for position, column in enumerate(columns):
        if isinstance(column, _Ones):
            found = [plane.two_valued_in_bags(plane.places(column.rows)) for plane in planes]
        else:
            values = _as_numbers(column, names[position])
            found = [plane.in_bags(values) for plane in planes]
        if any(one is not None for one in found):
            yield position, found


def _as_numbers(column: Any, name: str) -> Floats:
    try:
        values = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"Column {name!r} does not hold numbers; encode it first.") from None
    if not np.isfinite(values).all():
        raise ValueError(
            f"Column {name!r} has missing or infinite values; fill them or leave it out."
        )
    return values
