"""Losses −log Pr(K = k) of bags of more than two classes, each kind by the method that suits it.

As in `unbag.observations.bag_losses`: `PureClasses` need no sum, `SmallClasses` are summed exactly,
those of `SeveralClasses` go by the saddle point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, beside_in_double, index_beside, take
from unbag.observations.bag_losses import BagLosses, BagTable, RowCopies
from unbag.observations.exact import largest_exact_bag, turned_roots
from unbag.observations.several_classes import exact_class_loss, several_class_loss, softmax


class PureClasses(BagLosses):
    """Bags of several classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        held = np.eye(table.counts.shape[1])[table.counts.argmax(axis=1)]
        self._held = beside_in_double(np.repeat(held, table.lengths, axis=0).T, like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        lse, p = softmax(f)
        own = array_namespace(f).sum(f * self._held, axis=1)
        slopes = self._segments.times(p - self._held) if gradient else None
        return self._segments.sum(lse - own), slopes


class SeveralClasses(BagLosses):
    """Bags of more than two classes, by the saddle point.

    Bags make a table with one line for each, filled up where a bag has fewer rows than the largest.
    """

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        slot, lengths = np.arange(table.lengths.max()), table.lengths
        real = slot < lengths[:, None]
        start = np.cumsum(lengths) - lengths
        self._shape = real.shape
        self._slots = index_beside(np.where(real, start[:, None] + slot, 0).reshape(-1), like)
        self._back = index_beside(np.flatnonzero(real), like)
        self._k = beside_in_double(table.counts, like)
        self._S = beside_in_double(table.covariance, like)
        times = real.astype(float)
        if table.multiplicity is not None:
            times[real] = table.multiplicity
        self._real = beside_in_double(times[:, None, :], like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        xp = array_namespace(f)
        columns, outputs, _ = f.shape
        lines = xp.reshape(take(f, self._slots, axis=2), (columns, outputs, *self._shape))
        lines = xp.permute_dims(lines, (0, 2, 1, 3))
        losses, slopes = several_class_loss(lines, self._k, self._real, self._S, gradient)
        if not gradient:
            return losses, None
        slopes = xp.reshape(xp.permute_dims(slopes, (0, 2, 1, 3)), (columns, outputs, -1))
        return losses, take(slopes, self._back, axis=2)


class SmallClasses(BagLosses):
    """Bags of more than two classes, summed exactly."""

    same_size = True
    bulk = 32

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._shape = len(table.sizes), int(table.sizes[0])
        self._k = beside_in_double(np.round(table.counts), like)
        self._S = beside_in_double(table.covariance, like)
        roots, turn = turned_roots(table.counts, self._shape[1])
        xp = array_namespace(self._k)
        place = device(self._k)
        self._roots = xp.asarray(roots, device=place)
        self._turn = xp.asarray(turn, device=place)
        self._copies = RowCopies(table, like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        xp = array_namespace(f)
        columns, outputs, _ = f.shape
        lines = xp.reshape(self._copies.make(f), (columns, outputs, *self._shape))
        lines = xp.permute_dims(lines, (0, 2, 1, 3))
        losses, slopes = exact_class_loss(
            lines, self._k, self._S, self._roots, self._turn, gradient
        )
        if not gradient:
            return losses, None
        slopes = xp.reshape(xp.permute_dims(slopes, (0, 2, 1, 3)), (columns, outputs, -1))
        return losses, self._copies.join(slopes)


def classes_summable(
    sizes: NDArray[np.int64], counts: Floats, covariance: Floats, exact_size: int
) -> Bools:
    """Mark small bags of several classes, with counts that are known and whole."""
    small = sizes <= min(largest_exact_bag(counts.shape[1]), exact_size)
    whole = np.round(counts).sum(axis=1) == sizes
    found: Bools = small & whole & ~covariance.any(axis=(1, 2))
    return found
