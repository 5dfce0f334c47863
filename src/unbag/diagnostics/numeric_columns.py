"""The columns of X that can be averaged over bags: numbers without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unbag._arrays import Floats


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of numbers with their names.

    Attributes
    ----------
    values : ndarray of shape (n_instances, n_columns), or sparse
    names : ndarray of str, shape (n_columns,)
    left_out : tuple of str
        Columns that hold something else than numbers, or have missing values.
    """

    values: Any
    names: NDArray[Any]
    left_out: tuple[str, ...] = ()

    def column(self, name: str) -> Floats:
        """Values of one column."""
        place = np.flatnonzero(self.names == name)
        if len(place) == 0:
            known = ", ".join(map(str, self.names[:5]))
            raise ValueError(f"There is no column {name!r}; there are {known} ...")
        found: Any = self.values[:, [int(place[0])]]
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return np.asarray(dense[:, 0], dtype=float)


def read_columns(X: Any, feature_names: ArrayLike | None = None) -> Columns:
    """Find the columns of numbers in an array, a sparse matrix, a data frame or a single column."""
    frame: Any = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.rename(frame.name or "score").to_frame()
    if isinstance(frame, nw.DataFrame):
        return _from_frame(frame)
    if sparse.issparse(X):
        given: Any = X
        return Columns(sparse.csc_array(given), _names(given.shape[1], feature_names))
    values = np.asarray(X)
    if values.ndim == 1:
        values = values[:, None]
        feature_names = ["score"] if feature_names is None else feature_names
    if values.ndim != 2:
        return Columns(np.empty((len(values), 0)), np.array([], dtype=str))
    names = _names(values.shape[1], feature_names)
    if values.dtype.kind not in "biuf":
        return Columns(np.empty((len(values), 0)), names[:0], tuple(names))
    full = np.isfinite(values).all(axis=0)
    return Columns(values[:, full], names[full], tuple(names[~full]))


def _from_frame(frame: nw.DataFrame[Any]) -> Columns:
    kept, names, left_out = [], [], []
    for column in map(frame.get_column, frame.columns):
        numeric = column.dtype.is_numeric() or column.dtype == nw.Boolean
        values = np.asarray(column.to_numpy(), dtype=float) if numeric else np.array([np.nan])
        if np.isfinite(values).all():
            kept.append(values)
            names.append(str(column.name))
        else:
            left_out.append(str(column.name))
    values = np.column_stack(kept) if kept else np.empty((len(frame), 0))
    return Columns(values, np.array(names, dtype=str), tuple(left_out))


def _names(n_columns: int, feature_names: ArrayLike | None) -> NDArray[Any]:
    if feature_names is None:
        return np.array([f"column {j}" for j in range(n_columns)], dtype=str)
    names = np.array([str(name) for name in np.asarray(feature_names).ravel()], dtype=str)
    if len(names) != n_columns:
        raise ValueError(f"X has {n_columns} columns, but there are {len(names)} feature_names.")
    return names
