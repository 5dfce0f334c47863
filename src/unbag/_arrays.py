"""Types of arrays, and sums over rows that follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of any kind: of NumPy or sparse.
Array = Any

# By what they hold.
Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

# Numbers in a table below which one thread is enough.
FEW_NUMBERS = 1_000_000


class Segments:
    """Neighbours on the last axis that belong together, such as rows of a bag; each counts once or often."""

    def __init__(
        self, sizes: NDArray[np.int64], multiplicity: NDArray[np.int64] | None = None
    ) -> None:
        self.multiplicity = None if multiplicity is None else multiplicity.astype(float)
        self._sizes, self._starts = sizes, np.cumsum(sizes) - sizes

    def sum(self, values: Array) -> Any:
        """Sum over each segment."""
        return np.add.reduceat(self.times(values), self._starts, axis=-1)

    def times(self, values: Array) -> Any:
        """Multiply each value by how often it counts."""
        return values if self.multiplicity is None else values * self.multiplicity

    def spread(self, values: Array) -> Any:
        """Repeat one value of each segment for all who belong to it."""
        return np.repeat(values, self._sizes, axis=-1)
