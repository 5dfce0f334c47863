"""Losses −log Pr(K = k) of bags of two classes, and what losses of all kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtr

from unbag._arrays import Array, Floats, Ints, Segments
from unbag.bags.count_sets import CountWeights
from unbag.observations.exact import weighed_counts
from unbag.observations.saddlepoint import LARGEST_SCORE, two_class_loss
from unbag.observations.tails import log_interval, upper_tail

# Scores that are worked on together: temporary arrays should stay in the cache of a processor.
_CACHE = 2**16

# The probability of a whole bag does not underflow where the sizes of its scores add up to less.
_SAFE_SUM = 600.0

# Exponent of the density of a count that noise does not explain, ten standard deviations off.
_FARTHEST = 50.0

# Pieces of a set of counts in which the log of their weights is taken for linear.
_MOST_PIECES = 8


class BagTable(NamedTuple):
    """Some bags: their rows, one bag after the other, and what is known of them.

    ``covariance`` is S, of what the counts may be off by; ``limits``, where counts are sets, the lowest
    and highest count of the second class, and ``count_weights`` those of the counts between.
    """

    rows: Ints
    lengths: Ints
    multiplicity: NDArray[np.int64] | None
    sizes: NDArray[np.int64]
    counts: Floats
    covariance: Floats
    limits: Floats | None
    count_weights: CountWeights | None


def scores_together(bulk: int) -> int:
    """How many scores are worked on together, with so many numbers for each."""
    return max(1, _CACHE // bulk)


class BagLosses(ABC):
    """Losses of the bags of a table."""

    # whether bags must be of the same size to be treated together
    same_size: ClassVar[bool] = False
    # numbers that are worked on for each score
    bulk: ClassVar[int] = 1

    def __init__(self, table: BagTable) -> None:
        first, n = int(table.rows[0]), len(table.rows)
        # rows that lie in this very order are taken without a copy
        in_order = bool((np.diff(table.rows) == 1).all())
        self.rows: Any = slice(first, first + n) if in_order else table.rows
        self.step = max(1, scores_together(self.bulk) // n)
        self._segments = Segments(table.lengths, table.multiplicity)

    @abstractmethod
    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:
        """−log Pr(K = k) of every column and bag, for scores (columns, outputs, rows).

        ``largest`` is a bound of the size of all scores. The second result is the gradient with
        respect to the scores, or None if it is not asked for.
        """

    def gather(self, scores: Array) -> Floats:
        """Scores of these bags in double precision, one bag after the other."""
        if isinstance(self.rows, slice):
            return scores[:, :, self.rows].astype(float, copy=False)
        return np.take(scores, self.rows, axis=2).astype(float, copy=False)

    def evaluate(
        self, scores: Array, weights: Floats | None, largest: float, gradient: bool
    ) -> tuple[Floats, Any]:
        """Weighed sums of the losses (columns,), and their gradient for these rows."""
        losses, slope = self.loss(self.gather(scores), largest, gradient)
        if weights is not None:
            losses = weights * losses
            slope = slope * self._segments.spread(weights)[:, None, :] if gradient else None
        return np.sum(losses, axis=1), slope


class PureBags(BagLosses):
    """Bags of two classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        # counts may be a little off whole ones
        sign = np.where(table.counts[:, 1] > table.counts[:, 0], -1.0, 1.0)
        self._sign = np.repeat(sign, table.lengths)

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        wrong = f * self._sign
        losses = self._segments.sum(_softplus(wrong))[:, 0, :]
        return losses, self._segments.times(self._sign * expit(wrong)) if gradient else None


class TwoClassBags(BagLosses):
    """Bags of two classes: what small and large ones have in common."""

    # largest score that `_sum` can take
    largest: float = LARGEST_SCORE

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        self._k, self._n = table.counts[:, 1], table.sizes.astype(float)
        self._S = table.covariance[:, 1, 1]
        self._exact = table.limits is None and not self._S.any()
        self._lengths = table.lengths
        # the instances between which the count divides a bag, once its scores are in falling order
        self._inside = np.clip(np.round(self._k), 1, np.maximum(table.sizes - 1, 1))

    @abstractmethod
    def _sum(self, f: Floats, gradient: bool) -> tuple[Floats, Any]:
        """Loss and gradient for scores (columns, rows) that are not too large."""

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: D102
        too_large = largest > self.largest
        losses, slopes = (self._bounded if too_large else self._sum)(f[:, 0, :], gradient)
        return losses, slopes[:, None, :] if gradient else None

    def _bounded(self, f: Floats, gradient: bool) -> tuple[Floats, Any]:
        """Loss and gradient for scores of any size.

        To take c from all scores of a bag, and e from scores of rows that are positive for sure,
        changes log Pr by sums that are known. Rows far from where the count divides them are sure,
        and can be brought nearer. With S, the tilt is bounded, and rows beyond it are sure.
        """
        if not self._exact:
            return self._sum(np.clip(f, -self.largest, self.largest), gradient)
        middle = self._segments.spread(self._dividing_score(f))
        centred = f - middle
        # now the count is a likely one, and nothing underflows
        near = np.clip(centred, -LARGEST_SCORE, LARGEST_SCORE)
        above = np.maximum(centred - LARGEST_SCORE, 0.0)
        losses, slopes = self._sum(near, gradient)
        # rows of a bag weigh k in all
        share = self._segments.spread(self._k / self._n)
        moved = _softplus(f) - _softplus(near) - above - share * middle
        losses = losses + self._segments.sum(moved)
        if gradient:
            slopes = slopes + self._segments.times(expit(f) - expit(near))
        return losses, slopes

    def _dividing_score(self, f: Floats) -> Floats:
        """Score between those of the k largest and the others of each bag."""
        lengths = self._lengths
        bags, start = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
        order = np.lexsort((-f, np.broadcast_to(bags, f.shape)), axis=-1)
        ordered = np.take_along_axis(f, order, axis=-1)
        times = self._segments.times(np.ones(len(bags)))
        until = np.cumsum(times[order], axis=-1)
        before = (until - times[order])[:, start]
        middle = np.zeros_like(before)
        for rank in (self._inside, self._inside + 1):
            short = until - np.repeat(before + rank, lengths, axis=-1) < 0
            place = start + np.add.reduceat(short, start, axis=-1, dtype=np.intp)
            middle += 0.5 * np.take_along_axis(ordered, place, axis=-1)
        return middle


class SmallBags(TwoClassBags):
    """Bags of two classes, summed exactly."""

    same_size = True

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        size = int(table.sizes[0])
        self.largest = _SAFE_SUM / size
        self._shape = len(table.sizes), size
        n, k, S = table.sizes, self._k, self._S
        # the rarer class is counted, where the count is known
        swapped = (k > n - k) & self._exact
        k = np.where(swapped, n - k, k)
        most = int(np.round(k.max())) if self._exact else size
        if table.limits is None:
            weights = count_weights(k, S, most)
        else:
            weights = set_weights(*open_limits(table), S, most)
            if table.count_weights is not None and not S.any():
                counts = np.tile(np.arange(most + 1.0), (len(n), 1))
                weights = weights * np.exp(table.count_weights.logs(counts, n))
        self._final = weights.T[:, None, :]
        self._swap = np.where(swapped, -1.0, 1.0)
        self._copies = RowCopies(table)

    def _sum(self, f: Floats, gradient: bool) -> tuple[Floats, Any]:
        columns, f = len(f), self._copies.make(f)
        # rows come first, so that sums run along whole lines of memory
        f = np.transpose(f.reshape(columns, *self._shape), (2, 0, 1)) * self._swap
        final = np.broadcast_to(self._final, (len(self._final), *f.shape[1:]))
        mean, gains = weighed_counts(f, final, gradient)
        if not gradient:
            return -np.log(mean), None
        slopes = np.transpose(-self._swap * gains, (1, 2, 0))
        return -np.log(mean), self._copies.join(slopes.reshape(columns, -1))


class RowCopies:
    """Writes out rows that stand for several instances, for bags that are small."""

    def __init__(self, table: BagTable) -> None:
        self._source: Ints | None = None
        if table.multiplicity is not None:
            self._source = np.repeat(np.arange(len(table.rows)), table.multiplicity)
            self._joined = Segments(table.multiplicity)

    def make(self, f: Floats) -> Floats:
        """Values (..., instances) from those of rows."""
        return f if self._source is None else np.take(f, self._source, axis=-1)

    def join(self, slopes: Floats) -> Any:
        """Sums over the instances of each row."""
        return slopes if self._source is None else self._joined.sum(slopes)


def count_weights(k: Floats, S: Floats, most: int) -> Floats:
    """Weight of the counts 0, ..., most for each bag: one for its own, or a normal density.

    The density, of variance S around k, has the factor by which it turns into the former.
    """
    off = np.arange(most + 1) - np.where(S > 0, k, np.round(k))[:, None]
    exponent = off**2 / (2 * np.maximum(S, 1e-12))[:, None]
    # the nearest count keeps some weight, however far it is
    exponent -= np.maximum(exponent.min(axis=1, keepdims=True) - _FARTHEST, 0.0)
    return np.exp(-exponent) / np.sqrt(1 + 2 * np.pi * S)[:, None]


def open_limits(table: BagTable) -> tuple[Floats, Floats]:
    """Lowest count of each set and the first above it; with noise, ends of the range are open."""
    assert table.limits is not None
    (low, high), noisy = table.limits.T, table.covariance[:, 1, 1] > 0
    low = np.where(noisy & (low <= 0), -np.inf, low)
    return low, np.where(noisy & (high >= table.sizes), np.inf, high + 1.0)


def set_weights(low: Floats, beyond: Floats, S: Floats, most: int) -> Floats:
    """Probability that the counts 0, ..., most, with noise of variance S, lie in the set of each bag."""
    counts, scale = np.arange(most + 1.0), np.sqrt(np.maximum(S, 1e-12))[:, None]
    below, above = low[:, None] - 0.5 - counts, beyond[:, None] - 0.5 - counts
    # from the side where tails are small
    turned = below > 0
    near = np.where(turned, -below, above) / scale
    far = np.where(turned, -above, below) / scale
    return np.maximum(ndtr(near) - ndtr(far), np.exp(-_FARTHEST) * (S > 0)[:, None])


class SetBags(TwoClassBags):
    """Bags of two classes whose counts are known as sets, by approximations of tails.

    Weights of counts are exp(a + bm) in each of some pieces of a set, so that the sum over a piece is
    a probability at scores with the offset b.
    """

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        low, beyond = open_limits(table)
        self._pieces = [(low, beyond, np.zeros(len(low)), np.zeros(len(low)))]
        if table.count_weights is not None and not self._S.any():
            number = min(_MOST_PIECES, int(np.ceil((beyond - low).max() / 2)))
            cuts = np.round(low + (beyond - low) * np.arange(number + 1)[:, None] / number)
            self._pieces = []
            for start, end in pairwise(cuts):
                ends = np.stack([start, np.maximum(end - 1.0, start)], axis=1)
                first, last = table.count_weights.logs(ends, table.sizes).T
                slope = (last - first) / np.maximum(ends[:, 1] - start, 1.0)
                self._pieces.append((start, end, first - slope * start, slope))

    def _sum(self, f: Floats, gradient: bool) -> tuple[Floats, Any]:
        rows, n, S, logs, slopes = self._segments, self._n, self._S, [], []
        for low, beyond, start, tilt in self._pieces:
            moved = f + rows.spread(tilt)
            odds = np.exp(moved)
            first, last = (upper_tail(odds, rows, a, n, S) for a in (low, beyond))
            found, slope = log_interval(first, last, rows)
            if start.any() or tilt.any():
                found = found + start + rows.sum(_softplus(moved) - _softplus(f))
                slope = slope + expit(moved) - expit(f)
            logs.append(np.where(low < beyond, found, -np.inf))
            slopes.append(slope)
        total = logsumexp(logs, axis=0)
        if not gradient:
            return -total, None
        shares = [rows.spread(np.exp(found - total)) for found in logs]
        mean = sum(s * np.where(s > 0, slope, 0.0) for s, slope in zip(shares, slopes, strict=True))
        return -total, rows.times(-mean)


class LargeBags(TwoClassBags):
    """Bags of two classes, by a saddlepoint approximation."""

    def _sum(self, f: Floats, gradient: bool) -> tuple[Floats, Any]:
        rows = self._segments
        losses, slopes = two_class_loss(np.exp(f), rows, self._k, self._n, self._S, gradient)
        return losses, rows.times(slopes) if gradient else None


def _softplus(f: Floats) -> Floats:
    size = np.abs(f)
    return 0.5 * (f + size) + np.log1p(np.exp(-size))
