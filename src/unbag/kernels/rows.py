"""What kernels and families of functions ask about instances, wherever these are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._arrays import Floats, Ints

# Rows whose squares are there at the same time.
_ROWS_AT_A_TIME = 2**16


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Of the columns of some rows: how many rows, means, sums of squares around these.

    Attributes
    ----------
    n_rows : int
    means, squares : ndarrays of shape (n_columns,)
    """

    n_rows: int
    means: Floats
    squares: Floats

    @classmethod
    def of(cls, X: Any) -> ColumnMoments:
        """Take the moments of an array."""
        means = X.mean(axis=0, dtype=np.float64)
        return cls(len(X), means, X.var(axis=0, dtype=np.float64) * len(X))

    @classmethod
    def join(cls, parts: Sequence[ColumnMoments]) -> ColumnMoments:
        """Squares around common means: those around each, and those of each around these."""
        n = np.array([part.n_rows for part in parts])
        means = np.stack([part.means for part in parts])
        mean = n @ means / max(int(n.sum()), 1)
        within = np.sum([part.squares for part in parts], axis=0)
        return cls(int(n.sum()), mean, within + n @ (means - mean) ** 2)

    def of_entries(self) -> float:
        """Variance of all entries, as if they were one column."""
        within = self.squares.mean() / self.n_rows
        return float(within + self.means.var())

    def of_columns(self) -> Floats:
        """Variance of every column."""
        return self.squares / self.n_rows


class RowSummary(Protocol):
    """Instances of which only a summary is wanted: how many, how they vary, and some of them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of instances and of columns."""
        ...

    def variance(self) -> float:
        """Variance of all entries."""
        ...

    def column_variances(self) -> Floats:
        """Variance of every column."""
        ...

    def take(self, rows: Ints) -> Any:
        """Some of the instances."""
        ...


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """The summary of an array."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of instances and of columns."""
        n, d = self.X.shape
        return n, d

    def variance(self) -> float:
        """Variance of all entries."""
        return float(self.X.var())

    def column_variances(self) -> Floats:
        """Variance of every column."""
        starts = range(0, len(self.X), _ROWS_AT_A_TIME)
        parts = [ColumnMoments.of(self.X[start : start + _ROWS_AT_A_TIME]) for start in starts]
        return ColumnMoments.join(parts).of_columns()

    def take(self, rows: Ints) -> Any:
        """Some of the instances."""
        return self.X[rows]


class SparseRows(RowsInMemory):
    """The summary of a sparse matrix in compressed rows."""

    def variance(self) -> float:
        """Variance of all entries, those that are zero among them."""
        return float(self.X.multiply(self.X).mean() - self.X.mean() ** 2)

    def column_variances(self) -> Floats:
        """Variance of every column, zeros being among its entries."""
        n, d = self.X.shape
        data = self.X.data.astype(np.float64)
        means, squares = (np.bincount(self.X.indices, of, d) / n for of in (data, data**2))
        return np.maximum(squares - means**2, 0.0)


def as_dense(X: Any) -> NDArray[Any]:
    """Write the zeros of a few sparse rows out."""
    sparse = bool(issparse(X))
    return X.toarray() if sparse else X
