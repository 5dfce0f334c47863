"""What kernels ask about instances before any matrix is made, wherever these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Rows(Protocol):
    """Instances of which only a summary is wanted: how many, how they vary, and some of them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of instances and of columns."""
        ...

    def variance(self) -> float:
        """Variance of all entries."""
        ...

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Some of the instances."""
        ...


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """The summary of an array."""

    X: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of instances and of columns."""
        n, d = self.X.shape
        return n, d

    def variance(self) -> float:
        """Variance of all entries."""
        return float(self.X.var())

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Some of the instances."""
        return self.X[rows]
