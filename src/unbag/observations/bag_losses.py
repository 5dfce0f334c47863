"""Losses −log Pr(K = k) of bags that are treated together, each kind by the method that suits it.

Of two classes here, of more in `unbag.observations.class_losses`. `PureBags` have one class and need
no sum, `SmallBags` are summed exactly, `LargeBags` go by the saddle point. All answer `evaluate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray
from scipy.special import ndtr

from unbag._arrays import (
    Array,
    Floats,
    Ints,
    Latest,
    Segments,
    beside_in_double,
    index_beside,
    take,
    to_host,
)
from unbag.observations.exact import weighed_counts
from unbag.observations.saddlepoint import LARGEST_SCORE, two_class_loss
from unbag.observations.tails import log_interval, upper_tail

# Scores that are worked on together: temporary arrays should stay in the cache of a processor, or
# fill a GPU.
_CACHE, _CARD = 2**16, 2**24

# Chances of a whole bag do not underflow where the sizes of its scores add up to less.
_SAFE_SUM = 600.0

# Exponent of the density of a count that noise does not explain, ten standard deviations off.
_FARTHEST = 50.0


ColumnIndex = slice | Ints


@dataclass(frozen=True, eq=False)
class BagTable:
    """What is known of some bags.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Rows of the bags, one bag after the other.
    lengths : ndarray of shape (n_bags,)
        Numbers of rows.
    multiplicity : ndarray of shape (n_rows,), optional
        How many instances each row stands for, if not for one.
    sizes : ndarray of shape (n_bags,)
        Numbers of instances.
    counts : ndarray of shape (n_bags, n_classes)
    covariance : ndarray of shape (n_bags, n_classes, n_classes)
        S, of what the counts may be off by.
    weights : ndarray of shape (n_problems, n_bags)
    limits : ndarray of shape (n_bags, 2), optional
        Lowest and highest count of the second of two classes, where counts are known as sets.
    """

    rows: Ints
    lengths: Ints
    multiplicity: NDArray[np.int64] | None
    sizes: NDArray[np.int64]
    counts: Floats
    covariance: Floats
    weights: Floats
    limits: Floats | None = None


class BagLosses(ABC):
    """Losses of the bags of a table, for scores that live beside a given array."""

    # whether bags must be of the same size to be treated together
    same_size: ClassVar[bool] = False
    # numbers that are worked on for each score
    bulk: ClassVar[int] = 1

    def __init__(self, table: BagTable, like: Array) -> None:
        first, n = int(table.rows[0]), len(table.rows)
        # rows that lie in this very order are taken without a copy, nor an index to remember
        self.in_order = bool((np.diff(table.rows) == 1).all())
        self.span = slice(first, first + n)
        self._rows = None if self.in_order else index_beside(table.rows, like)
        self._segments = Segments(table.lengths, like, table.multiplicity)
        self._weights = beside_in_double(table.weights, like)
        self._weights_of = Latest(self._choose)
        self._blocks_of = Latest(self._cut)
        self._step = max(1, scores_together(like, self.bulk) // n)
        seen = (table.weights != 0).any(axis=1)
        self._seen = seen if is_numpy_array(like) and not seen.all() else None

    @abstractmethod
    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:
        """−log Pr(K = k) of every column and bag, for scores (columns, outputs, rows).

        ``largest`` is a bound of the size of all scores. The second result is the gradient with
        respect to the scores, or None if it is not asked for.
        """

    def gather(self, scores: Array, some: ColumnIndex) -> Array:
        """Scores of these bags in some columns, in double precision, one bag after the other."""
        xp = array_namespace(scores)
        if self._rows is None:
            f = scores[:, :, self.span][some, ...]
        else:
            f = take(scores[some, ...], self._rows, axis=2)
        return xp.astype(f, xp.float64, copy=False)

    def put(self, slopes: Array, some: ColumnIndex, slope: Array) -> None:
        """Write what belongs to these bags and columns to where it belongs."""
        if self._rows is None:
            slopes[some, :, self.span] = slope
        elif isinstance(some, slice):
            slopes[some, :, self._rows] = slope
        else:
            slopes[np.ix_(some, np.arange(slopes.shape[1]), self._rows)] = slope

    @property
    def seen_by_all(self) -> bool:
        """Whether every column has to be worked on."""
        return self._seen is None

    def blocks(self, problem: Ints) -> Sequence[ColumnIndex]:
        """Columns that are worked on together, without those in which these bags weigh nothing."""
        blocks: Sequence[ColumnIndex] = self._blocks_of(problem)
        return blocks

    def weights(self, problem: Ints) -> Array:
        """What bags weigh: (columns, bags), or of one column if all are the same."""
        return self._weights_of(problem)

    def evaluate(
        self, scores: Array, some: ColumnIndex, weights: Array, largest: float, gradient: bool
    ) -> tuple[Array, Any]:
        """Weighed sums of the losses of some columns, and their gradient, for these rows."""
        losses, slope = self.loss(self.gather(scores, some), largest, gradient)
        total = array_namespace(scores).sum(weights * losses, axis=1)
        return total, self._weighed(slope, weights, scores) if gradient else None

    def _weighed(self, slope: Array, weights: Array, scores: Array) -> Array:
        slope *= self._segments.spread(weights)[:, None, :]
        return array_namespace(scores).astype(slope, scores.dtype, copy=False)

    def _choose(self, problem: Ints) -> Array:
        if self._weights.shape[0] == 1:
            return self._weights
        return take(self._weights, index_beside(problem, self._weights), axis=0)

    def _cut(self, problem: Ints) -> Sequence[ColumnIndex]:
        if self._seen is None:
            starts = range(0, len(problem), self._step)
            return [slice(start, min(start + self._step, len(problem))) for start in starts]
        columns = np.flatnonzero(self._seen[problem])
        starts = range(0, len(columns), self._step)
        return [columns[start : start + self._step] for start in starts]


def scores_together(like: Array, bulk: int) -> int:
    """How many scores fit the cache or the card, at ``bulk`` numbers for each."""
    return max(1, (_CACHE if is_numpy_array(like) else _CARD) // bulk)


class PureBags(BagLosses):
    """Bags of two classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        # counts may be a little off whole ones
        sign = np.where(table.counts[:, 1] > table.counts[:, 0], -1.0, 1.0)
        self._sign = beside_in_double(np.repeat(sign, table.lengths), like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        wrong = f * self._sign
        losses = self._segments.sum(_softplus(wrong))[:, 0, :]
        return losses, self._segments.times(self._sign * _expit(wrong)) if gradient else None


class TwoClassBags(BagLosses):
    """Bags of two classes: what small and large ones have in common."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._k = beside_in_double(table.counts[:, 1], like)
        self._n = beside_in_double(table.sizes.astype(float), like)
        self._S = beside_in_double(table.covariance[:, 1, 1], like)
        self._exact = table.limits is None and not table.covariance.any()
        self._lengths = table.lengths
        # the instances between which the count divides a bag, once its scores are in falling order
        self._inside = np.clip(np.round(table.counts[:, 1]), 1, np.maximum(table.sizes - 1, 1))

    @property
    @abstractmethod
    def _most(self) -> float:
        """Largest score that the sum can take."""

    @abstractmethod
    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        """Loss and gradient for scores (columns, rows) that are not too large."""

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: D102
        too_large = largest > self._most
        losses, slopes = (self._bounded if too_large else self._sum)(f[:, 0, :], gradient)
        return losses, slopes[:, None, :] if gradient else None

    def _bounded(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        """Loss and gradient for scores of any size.

        To take c from all scores of a bag, and e from scores of rows that are positive for sure,
        changes log Pr by sums that are known. Rows far from where the count divides them are sure,
        and can be brought nearer. With S, the tilt is bounded, and rows beyond it are sure.
        """
        xp = array_namespace(f)
        if not self._exact:
            return self._sum(xp.clip(f, min=-self._most, max=self._most), gradient)
        middle = self._segments.spread(self._dividing_score(f))
        centred = f - middle
        # now the count is a likely one, and nothing underflows
        near = xp.clip(centred, min=-LARGEST_SCORE, max=LARGEST_SCORE)
        above = xp.clip(centred - LARGEST_SCORE, min=0.0)
        losses, slopes = self._sum(near, gradient)
        # rows of a bag weigh k in all
        share = self._segments.spread(self._k / self._n)
        moved = _softplus(f) - _softplus(near) - above - share * middle
        losses = losses + self._segments.sum(moved)
        if gradient:
            slopes = slopes + self._segments.times(_expit(f) - _expit(near))
        return losses, slopes

    def _dividing_score(self, f: Array) -> Array:
        """Score between those of the k largest and the others of each bag."""
        host = to_host(f)
        lengths = self._lengths
        bags, start = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
        order = np.lexsort((-host, np.broadcast_to(bags, host.shape)), axis=-1)
        ordered = np.take_along_axis(host, order, axis=-1)
        number = self._segments.multiplicity
        times = np.ones(len(bags)) if number is None else to_host(number)
        until = np.cumsum(times[order], axis=-1)
        before = (until - times[order])[:, start]
        middle = np.zeros_like(before)
        for rank in (self._inside, self._inside + 1):
            short = until - np.repeat(before + rank, lengths, axis=-1) < 0
            place = start + np.add.reduceat(short, start, axis=-1, dtype=np.intp)
            middle += 0.5 * np.take_along_axis(ordered, place, axis=-1)
        return beside_in_double(middle, f)


class SmallBags(TwoClassBags):
    """Bags of two classes, summed exactly."""

    same_size = True

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._shape = len(table.sizes), int(table.sizes[0])
        n, k, S = table.sizes, table.counts[:, 1], table.covariance[:, 1, 1]
        # the rarer class is counted, where the count is known
        swapped = (k > n - k) & self._exact
        k = np.where(swapped, n - k, k)
        most = int(np.round(k.max())) if self._exact else self._shape[1]
        if table.limits is None:
            weights = count_weights(k, S, most)
        else:
            weights = set_weights(*open_limits(table), S, most)
        self._final = beside_in_double(weights.T[:, None, :], like)
        self._swap = beside_in_double(np.where(swapped, -1.0, 1.0), like)
        self._copies = RowCopies(table, like)

    @property
    def _most(self) -> float:
        return _SAFE_SUM / self._shape[1]

    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        xp, columns, f = array_namespace(f), f.shape[0], self._copies.make(f)
        # rows come first, so that sums run along whole lines of memory
        f = xp.permute_dims(xp.reshape(f, (columns, *self._shape)), (2, 0, 1)) * self._swap
        final = xp.broadcast_to(self._final, (self._final.shape[0], *f.shape[1:]))
        mean, gains = weighed_counts(f, final, gradient)
        if not gradient:
            return -xp.log(mean), None
        slopes = xp.permute_dims(-self._swap * gains, (1, 2, 0))
        return -xp.log(mean), self._copies.join(xp.reshape(slopes, (columns, -1)))


class RowCopies:
    """Writes out rows that stand for several instances, for bags that are small."""

    def __init__(self, table: BagTable, like: Array) -> None:
        self._source: Array = None
        if table.multiplicity is not None:
            source = np.repeat(np.arange(len(table.rows)), table.multiplicity)
            self._source = index_beside(source, like)
            self._joined = Segments(table.multiplicity, like)

    def make(self, f: Array) -> Array:
        """Values (..., instances) from those of rows."""
        return f if self._source is None else take(f, self._source, axis=f.ndim - 1)

    def join(self, slopes: Array) -> Array:
        """Sums over the instances of each row."""
        return slopes if self._source is None else self._joined.sum(slopes)


def count_weights(k: Floats, S: Floats, most: int) -> Floats:
    """Weight of the counts 0, ..., most for each bag: one for its own, or a normal density.

    The density, of variance S around k, has the factor by which it turns into the former.
    """
    counts = np.arange(most + 1)
    off = counts - np.where(S > 0, k, np.round(k))[:, None]
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
    """Bags of two classes whose counts are known as sets, by approximations of tails."""

    _most = LARGEST_SCORE

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._low, self._beyond = open_limits(table)

    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        odds, rows, n, S = np.exp(to_host(f)), self._segments, self._n, self._S
        low, high = (upper_tail(odds, rows, a, n, S) for a in (self._low, self._beyond))
        found, slopes = log_interval(low, high, rows)
        return -found, rows.times(-slopes) if gradient else None


class LargeBags(TwoClassBags):
    """Bags of two classes, by the saddle point."""

    _most = LARGEST_SCORE

    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        odds = array_namespace(f).exp(f)
        losses, slopes = two_class_loss(odds, self._segments, self._k, self._n, self._S, gradient)
        return losses, self._segments.times(slopes) if gradient else None


def _softplus(f: Array) -> Array:
    xp = array_namespace(f)
    size = xp.abs(f)
    return 0.5 * (f + size) + xp.log1p(xp.exp(-size))


def _expit(f: Array) -> Array:
    xp = array_namespace(f)
    small = xp.exp(-xp.abs(f))
    return xp.where(f > 0, xp.ones_like(f), small) / (1.0 + small)
