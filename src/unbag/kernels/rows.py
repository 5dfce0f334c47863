"""What kernels ask about instances before any matrix is made, wherever these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._arrays import Ints


class RowSummary(Protocol):
    """Instances of which only a summary is wanted: how many, how they vary, and some of them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of instances and of columns."""
        ...

    def variance(self) -> float:
        """Variance of all entries."""
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

    def take(self, rows: Ints) -> Any:
        """Some of the instances."""
        return self.X[rows]


class SparseRows(RowsInMemory):
    """The summary of a sparse matrix in compressed rows."""

    def variance(self) -> float:
        """Variance of all entries, those that are zero among them."""
        return float(self.X.multiply(self.X).mean() - self.X.mean() ** 2)


def as_dense(X: Any) -> NDArray[Any]:
    """Write the zeros of a few sparse rows out."""
    sparse = bool(issparse(X))
    return X.toarray() if sparse else X
