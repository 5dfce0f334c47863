"""The columns of X as numbers that can be averaged over bags.

Numbers stay what they are; their gaps are filled in by the median, and whether there was one is a
column of its own. Of text and categories, every value that is not rare is a column of zeros and
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unbag._arrays import Floats

# Values of text that fewer rows hold carry no information.
_RARE = 5

# Share of entries that are not zero, below which columns are kept sparse.
_SPARSE = 0.1


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers with their names."""

    values: Any  # (n_instances, n_columns)
    names: NDArray[Any]
    left_out: tuple[str, ...] = ()  # columns without a value that several rows share

    @property
    def n_numbers(self) -> int:
        """Number of values in all columns."""
        values: Any = self.values
        return int(values.size)

    def column(self, name: str) -> Floats:
        """Values of one column."""
        place = np.flatnonzero(self.names == name)
        if len(place) == 0:
            known = ", ".join(map(str, self.names[:5]))
            raise ValueError(f"There is no column {name!r}; there are {known} ...")
        return self.at(int(place[0]))

    def at(self, place: int) -> Floats:
        """Values of the column at a place."""
        found: Any = self.values[:, [place]]
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(dense[:, 0], dtype=float)


def read_columns(X: Any, feature_names: ArrayLike | None = None) -> Columns:
    """Read an array, a sparse matrix, a data frame or a single column as numbers."""
    frame: Any = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.rename(frame.name or "score").to_frame()
    if isinstance(frame, nw.DataFrame):
        return _gather({str(n): frame.get_column(n).to_numpy() for n in frame.columns}, len(frame))
    if sparse.issparse(X):
        given: Any = X
        return Columns(sparse.csc_array(given), column_names(given.shape[1], feature_names))
    values = np.asarray(X)
    if values.ndim == 1:
        values = values[:, None]
        feature_names = ["score"] if feature_names is None else feature_names
    if values.ndim != 2:
        return Columns(np.empty((len(values), 0)), np.array([], dtype=str))
    names = column_names(values.shape[1], feature_names)
    if values.dtype.kind in "biuf" and np.isfinite(values).all():
        return Columns(values, names)
    return _gather(dict(zip(names.tolist(), values.T, strict=True)), len(values))


def _gather(columns: dict[str, NDArray[Any]], n_rows: int) -> Columns:
    found: dict[str, Any] = {}
    left_out = []
    for name, values in columns.items():
        made = _as_numbers(name, values)
        left_out += [] if made else [name]
        found |= made
    names = np.array(list(found), dtype=str)
    if not found:
        return Columns(np.empty((n_rows, 0)), names, tuple(left_out))
    table: Any = sparse.csc_array(sparse.hstack(list(found.values())))
    if table.nnz > _SPARSE * n_rows * len(found):
        table = table.toarray()
    return Columns(table, names, tuple(left_out))


def _as_numbers(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Columns that a column becomes, by their names."""
    if values.dtype.kind == "M":
        times = values.astype("datetime64[s]")
        values = np.where(np.isnat(times), np.nan, times.astype(float))
    if values.dtype.kind not in "biuf":
        try:
            # numbers and None
            values = values.astype(float)
        except (TypeError, ValueError):
            return _by_value(name, values)
    numbers = values.astype(float)
    gaps = ~np.isfinite(numbers)
    if not gaps.any():
        return {name: sparse.csc_array(numbers[:, None])}
    if gaps.all():
        return {}
    filled = np.where(gaps, np.median(numbers[~gaps]), numbers)
    columns = {name: filled, f"{name} is missing": gaps.astype(float)}
    return {what: sparse.csc_array(one[:, None]) for what, one in columns.items()}


def _by_value(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """A column of ones for each value, where it is; None and NaN are a value, too."""
    texts = np.array(["" if one is None or one != one else str(one) for one in values.tolist()])
    known, code, count = np.unique(texts, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(count)
    found = {}
    for place in np.flatnonzero(count >= min(_RARE, len(values))):
        rows = order[ends[place] - count[place] : ends[place]]
        what = f"{name}_{known[place]}" if known[place] else f"{name} is missing"
        ones, none = np.ones(len(rows)), np.zeros(len(rows), dtype=np.intp)
        found[what] = sparse.csc_array((ones, (rows, none)), shape=(len(values), 1))
    return found


def column_names(
    n_columns: int, feature_names: ArrayLike | None, X: Any = None
) -> NDArray[np.object_]:
    """Names of columns: those given, those that a table has, or their numbers."""
    names: Any = getattr(X, "columns", None) if feature_names is None else feature_names
    if names is None:
        names = [f"column {j}" for j in range(n_columns)]
    found = np.array([str(name) for name in np.ravel(names)], dtype=object)
    if len(found) != n_columns:
        raise ValueError(f"X has {n_columns} columns, but there are {len(found)} feature_names.")
    return found
