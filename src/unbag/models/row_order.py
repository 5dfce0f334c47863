"""Rows bag after bag: what is added up then lies together in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._arrays import Ints
from unbag.bags.bags import Bags

# Below, the scores of all rows stay in the cache of a processor, in whatever order; above, a copy
# of the rows would take too much memory.
_ROWS_IN_CACHE, _LARGEST_COPY = 20_000, 2**28


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Another order of rows, or the given one.

    Attributes
    ----------
    places : ndarray of int, shape (n_instances,), optional
        Where each row was; None where all stay in their places.
    """

    places: Ints | None = None

    def arrange(self, rows: Any) -> Any:
        """Bring rows, along the first axis, into this order."""
        return rows if self.places is None else rows[self.places]

    def restore(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Bring rows back into the order they were given in."""
        if self.places is None:
            return rows
        found = np.empty_like(rows)
        found[self.places] = rows
        return found


def order_by_bag(X: Any, bags: Bags) -> RowOrder:
    """Bag after bag, pure ones last, where rows are mixed and order is worth a copy of X."""
    sparse = bool(issparse(X))
    size = X.data.nbytes if sparse else X.nbytes
    if bags.n_instances < _ROWS_IN_CACHE or size > _LARGEST_COPY:
        return RowOrder()
    bags_lie_together = np.count_nonzero(np.diff(bags.index)) < bags.n_bags
    if bags_lie_together:
        return RowOrder()
    # these are summed apart
    pure = bags.proportions.max(axis=1) == 1
    return RowOrder(np.lexsort((bags.index, pure[bags.index])))
