"""Losses −log Pr(K = k) of all bags, weighed and summed, each by the method that suits its kind.

Pure bags need no sum, small ones are summed exactly (`unbag.observations.exact`), counts known as
sets use tails (`unbag.observations.tails`) and all others by a saddlepoint approximation
(`unbag.observations.saddlepoint`, `unbag.observations.several_classes`). Bags of one kind, and of
one size where the kind asks for that, make a part; parts fit the cache of a processor, and threads
share them out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtr

from unbag._arrays import Array, Floats, Ints, Segments
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.bags.count_sets import CountWeights
from unbag.observations.class_sets import set_posterior
from unbag.observations.exact import largest_exact_bag, turned_roots, weighed_counts
from unbag.observations.saddlepoint import LARGEST_SCORE, two_class_loss
from unbag.observations.several_classes import exact_class_loss, several_class_loss, softmax
from unbag.observations.tails import log_interval, upper_tail

# Scores that are worked on together: temporary arrays should stay in the cache of a processor.
_CACHE = 2**16

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000

# The probability of a whole bag does not underflow where the sizes of its scores add up to less.
_SAFE_SUM = 600.0

# Exponent of the density of a count that noise does not explain, ten standard deviations off.
_FARTHEST = 50.0

# Pieces of a set of counts in which the log of their weights is taken for linear.
_MOST_PIECES = 8


class BagTable(NamedTuple):
    """Some bags: their rows, one bag after the other, and what is known of them.

    ``covariance`` is S, of what the counts may be off by; ``weights`` are (n_problems, n_bags);
    ``limits``, where counts are sets, the lowest and highest count of the second class, and
    ``count_weights`` those of the counts between.
    """

    rows: Ints
    lengths: Ints
    multiplicity: NDArray[np.int64] | None
    sizes: NDArray[np.int64]
    counts: Floats
    covariance: Floats
    weights: Floats
    limits: Floats | None
    count_weights: CountWeights | None


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
        self.step = max(1, _CACHE // self.bulk // n)
        self.weights = table.weights
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
        self, scores: Array, weights: Floats, largest: float, gradient: bool
    ) -> tuple[Floats, Any]:
        """Weighed sums of the losses (columns,), and their gradient for these rows."""
        losses, slope = self.loss(self.gather(scores), largest, gradient)
        if gradient:
            slope *= self._segments.spread(weights)[:, None, :]
        return np.sum(weights * losses, axis=1), slope


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


class WeighedBags:
    """Weighed sum of the losses of bags, for several problems; in score space.

    Parameters
    ----------
    bags : Bags
        With labelled rows apart.
    weights : ndarray of shape (n_problems, n_bags)
        What each bag weighs.
    covariance : ndarray of shape (n_bags, n_classes, n_classes)
        S, of what the counts may be off by.
    exact_size : int
        Bags of two classes and at most so many rows are summed exactly.
    """

    def __init__(self, bags: Bags, weights: Floats, covariance: Floats, exact_size: int) -> None:
        tables = list(_make_tables(bags, weights, covariance, exact_size))
        self._parts = [kind(table) for kind, table, _ in tables]
        self._members = [members for _, _, members in tables]
        self._threads = allowed_threads() if bags.n_instances >= _MANY_ROWS else 1

    def evaluate(self, scores: Array, problem: Ints, gradient: bool) -> tuple[Floats, Any]:
        """Weighted sum per column (columns, outputs, rows), and its gradient if asked."""
        n_columns, largest = len(scores), _largest(scores)
        weights = [p.weights if len(p.weights) == 1 else p.weights[problem] for p in self._parts]
        totals = np.zeros((len(weights), n_columns))
        slopes = np.empty_like(scores) if gradient else None

        def work(unit: tuple[int, slice]) -> None:
            number, some = unit
            own = weights[number] if len(weights[number]) == 1 else weights[number][some]
            part = self._parts[number]
            total, slope = part.evaluate(scores[some], own, largest, gradient)
            totals[number, some] = total
            if slopes is not None:
                slopes[some, :, part.rows] = slope

        units = [
            (number, slice(start, start + part.step))
            for number, part in enumerate(self._parts)
            for start in range(0, n_columns, part.step)
        ]
        # each writes to places of its own, so that sums are the same whatever their order
        for_each(work, units, self._threads)
        return np.sum(totals, axis=0), slopes

    def losses(self, scores: Array) -> Floats:
        """Losses (columns, bags) of all bags, without weights."""
        largest = _largest(scores)
        found = np.empty((len(scores), sum(map(len, self._members))))
        for part, members in zip(self._parts, self._members, strict=True):
            found[:, members] = part.loss(part.gather(scores), largest, False)[0]
        return found


def _make_tables(
    bags: Bags, weights: Floats, covariance: Floats, exact_size: int
) -> Iterator[tuple[type[BagLosses], BagTable, Ints]]:
    """Sort bags by how and with which others they are treated."""
    counts, lengths = bags.counts, bags.lengths
    kinds, kind = _choose_kinds(bags, counts, covariance, exact_size)
    order, start = np.argsort(bags.index, kind="stable"), np.cumsum(lengths) - lengths
    for members in _groups(kinds, kind, bags, covariance):
        own_kind = kinds[kind[members[0]]]
        if own_kind is SmallBags:
            # those that need about as many states come together
            members = members[np.argsort(counts[members].min(axis=1), kind="stable")]
        limit = max(1, _CACHE // own_kind.bulk)
        full = np.diff((np.cumsum(lengths[members]) - 1) // limit) != 0
        for own in np.split(members, np.flatnonzero(full) + 1):
            rows = order[_ranges(start[own], lengths[own])]
            table = BagTable(
                rows,
                lengths[own],
                None if bags.multiplicity is None else bags.multiplicity[rows],
                bags.sizes[own],
                counts[own],
                covariance[own],
                weights[:, own],
                bags.limits[own] if bags.limits is not None and bags.is_set[own[0]] else None,
                bags.count_weights,
            )
            yield own_kind, table, own


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers from each start on, as many as its length says, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def _choose_kinds(
    bags: Bags, counts: Floats, covariance: Floats, exact_size: int
) -> tuple[list[type[BagLosses]], Ints]:
    """Kinds of losses, and which of them each bag has."""
    pure = bags.proportions.max(axis=1) == 1
    known = ~covariance.any(axis=(1, 2))
    if bags.n_classes > 2:
        small = bags.sizes <= min(largest_exact_bag(bags.n_classes), exact_size)
        small &= (np.round(counts).sum(axis=1) == bags.sizes) & known
        kind = np.where(pure & known, 0, np.where(small, 2, 1))
        kinds = [PureClasses, SeveralClasses, SmallClasses, SetClasses]
        return kinds, np.where(bags.is_set, 3, kind)
    small = bags.sizes <= exact_size
    pure = (pure | (small & (np.round(counts).min(axis=1) == 0))) & known & ~bags.is_set
    large = np.where(bags.is_set, 3, 2)
    return [PureBags, SmallBags, LargeBags, SetBags], np.where(pure, 0, np.where(small, 1, large))


def _groups(kinds: list[type[BagLosses]], kind: Ints, bags: Bags, covariance: Floats) -> list[Ints]:
    """Bags to be treated together: of one kind, with or without S, and of equal or any size."""
    size = np.where(np.array([k.same_size for k in kinds])[kind], bags.sizes, 0.0)
    if SeveralClasses in kinds:
        # lines are filled up by an eighth at most
        step = 2.0 ** np.maximum(0, np.floor(np.log2(np.maximum(bags.lengths - 1, 1))) - 3)
        filled = np.ceil(bags.lengths / step) * step
        size = np.where(kind == kinds.index(SeveralClasses), filled, size)
    keys = np.stack([kind, covariance.any(axis=(1, 2)), bags.is_set, size])
    _, group_of = np.unique(keys, axis=1, return_inverse=True)
    return [np.flatnonzero(group_of.reshape(-1) == g) for g in range(group_of.max() + 1)]


def _largest(scores: Array) -> float:
    return float(max(np.max(scores), -np.min(scores)))


def _softplus(f: Floats) -> Floats:
    size = np.abs(f)
    return 0.5 * (f + size) + np.log1p(np.exp(-size))
