"""Losses −log Pr(K = k) of bags of two classes, and what losses of all kinds have in common.

**Exact sums, for small bags.** Row j of a bag is positive with probability p_j, independently of the
others. The probabilities F_j[s] that s of the first j rows are positive, and the weight G_j[s] that the
rest still adds to s, follow from each other row by row,

    F_{j+1}[s] = (1 − p_j) F_j[s] + p_j F_j[s − 1],
    G_j[s] = (1 − p_j) G_{j+1}[s] + p_j G_{j+1}[s + 1],

from F_0 = (1, 0, ...) and G_n, the weight of each count: one for the count that is known, zero for
the others, or its density where that is known up to some noise. Then Σ_m G_n[m] Pr(K = m) = G_0[0],
and row j is positive with the posterior probability p_j Σ_s F_j[s] G_{j+1}[s + 1] / G_0[0]. Nothing is
subtracted, so that all of it is exact to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtr

from unbag._arrays import Array, Floats, Ints, Segments
from unbag.bags.count_sets import CountWeights
from unbag.observations.saddlepoint import LARGEST_SCORE, log_interval, two_class_loss, upper_tail

# Scores that are worked on together: temporary arrays should stay in the cache of a processor.
_CACHE = 2**16

# The probability of a whole bag does not underflow where the sizes of its scores add up to less.
_SAFE_SUM = 600.0

# Exponent of the density of a count that noise does not explain, ten standard deviations off.
_FARTHEST = 50.0

# Pieces of a set of counts in which the log of their weights is taken for linear.
_MOST_PIECES = 8


class BagTable(NamedTuple):
    """Some bags: their rows, one bag after the other, and what is known of them."""

    rows: Ints
    lengths: Ints
    multiplicity: NDArray[np.int64] | None
    sizes: NDArray[np.int64]
    counts: Floats
    covariance: Floats  # S, of what the counts may be off by
    limits: Floats | None  # where counts are sets, as in `Bags`
    count_weights: CountWeights | None  # of the counts in sets


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
        lengths, times = self._lengths, self._segments.times
        bags, start = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
        order = np.lexsort((-f, np.broadcast_to(bags, f.shape)), axis=-1)
        ordered = np.take_along_axis(f, order, axis=-1)
        number = times(np.ones(len(bags)))[order]
        until = np.cumsum(number, axis=-1)
        before = (until - number)[:, start]
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
        weights = count_weights(k, S, most)
        if table.limits is not None:
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


def weighed_counts(f: Array, final: Array, gradient: bool = True) -> tuple[Array, Any]:
    """Mean weight of the count of each bag, and what its logarithm gains with each log-odds.

    ``f`` (slots, ...) are log-odds of the rows of bags, side by side, −1e30 in slots without a row; ``final``
    (states, ...) weighs the counts 0, 1, ... The gains are posterior probabilities less p_j.
    """
    small = np.exp(-np.abs(f))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    positive = f > 0
    p, rest = np.where(positive, larger, smaller), np.where(positive, smaller, larger)
    weight, n = final, f.shape[0]
    after = []
    for j in range(n - 1, -1, -1):
        after.append(weight)
        lower = rest[j, ...] * weight
        lower[:-1, ...] += p[j, ...] * weight[1:, ...]
        weight = lower
    mean = weight[0, ...]
    if not gradient:
        return mean, None
    before = np.zeros_like(final)
    before[0, ...] = 1.0
    ahead_of = []
    for j in range(n):
        ahead_of.append(np.sum(before[:-1, ...] * after[n - 1 - j][1:, ...], axis=0))
        if j + 1 < n:
            upper = rest[j, ...] * before
            upper[1:, ...] += p[j, ...] * before[:-1, ...]
            before = upper
    return mean, p * (np.stack(ahead_of) / mean - 1.0)


class RowCopies:
    """Writes out rows that stand for several instances, for bags that are small."""

    def __init__(self, table: BagTable) -> None:
        times = table.multiplicity
        self._instances = None if times is None else Segments(times)

    def make(self, f: Floats) -> Any:
        """Values (..., instances) from those of rows."""
        return f if self._instances is None else self._instances.spread(f)

    def join(self, slopes: Floats) -> Any:
        """Sums over the instances of each row."""
        return slopes if self._instances is None else self._instances.sum(slopes)


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
