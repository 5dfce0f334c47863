"""Losses of bags of more than two classes: pure ones, small ones, large ones, counts known as sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag.observations.bag_losses import BagLosses, BagTable, RowCopies
from unbag.observations.class_sets import set_posterior
from unbag.observations.exact import turned_roots
from unbag.observations.several_classes import exact_class_loss, several_class_loss, softmax


class PureClasses(BagLosses):
    """Bags of several classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        held = np.eye(table.counts.shape[1])[table.counts.argmax(axis=1)]
        self._held = np.repeat(held, table.lengths, axis=0).T

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lse, p = softmax(f)
        own = np.sum(f * self._held, axis=1)
        slopes = self._segments.times(p - self._held) if gradient else None
        return self._segments.sum(lse - own), slopes


class SeveralClasses(BagLosses):
    """Bags of more than two classes, by a saddlepoint approximation.

    Bags make a table with one line for each, filled up where a bag has fewer rows than the largest.
    """

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        slot, lengths = np.arange(table.lengths.max()), table.lengths
        real = slot < lengths[:, None]
        start = np.cumsum(lengths) - lengths
        self._shape = real.shape
        self._slots = np.where(real, start[:, None] + slot, 0).ravel()
        self._back = np.flatnonzero(real)
        self._k, self._S = table.counts, table.covariance
        times = real.astype(float)
        if table.multiplicity is not None:
            times[real] = table.multiplicity
        self._real = times[:, None, :]

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lines = _bag_lines(np.take(f, self._slots, axis=2), self._shape)
        losses, slopes = several_class_loss(lines, self._k, self._real, self._S, gradient)
        if not gradient:
            return losses, None
        return losses, np.take(_row_lines(slopes), self._back, axis=2)


class SmallClasses(BagLosses):
    """Bags of more than two classes, summed exactly."""

    same_size = True
    bulk = 32

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        self._shape = len(table.sizes), int(table.sizes[0])
        self._k = np.round(table.counts)
        self._roots, self._turn = turned_roots(table.counts, self._shape[1])
        self._copies = RowCopies(table)

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lines = _bag_lines(self._copies.make(f), self._shape)
        losses, slopes = exact_class_loss(lines, self._k, self._roots, self._turn, gradient)
        return losses, self._copies.join(_row_lines(slopes)) if gradient else None


class SetClasses(BagLosses):
    """Bags of more than two classes whose counts are known as sets, one after the other."""

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        assert table.limits is not None
        ends = np.cumsum(table.lengths)
        self._bags = list(zip(table.limits, map(slice, ends - table.lengths, ends), strict=True))
        self._times = self._segments.times(np.ones(len(table.rows)))

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        losses, means = np.empty((len(f), len(self._bags))), np.empty_like(f)
        for column, scores in enumerate(f):
            for b, (limits, rows) in enumerate(self._bags):
                found = set_posterior(scores[:, rows], self._times[rows], *limits.T)
                losses[column, b], means[column, :, rows] = -found.log_probability, found.posteriors
        return losses, self._segments.times(softmax(f)[1] - means) if gradient else None


def _bag_lines(f: Floats, shape: tuple[int, ...]) -> Floats:
    """Scores (columns, bags, classes, slots) from those of rows (columns, classes, rows)."""
    return np.transpose(f.reshape(*f.shape[:2], *shape), (0, 2, 1, 3))


def _row_lines(slopes: Floats) -> Floats:
    """The way back."""
    lines = np.transpose(slopes, (0, 2, 1, 3))
    return lines.reshape(*lines.shape[:2], -1)
