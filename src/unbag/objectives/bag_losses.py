"""Losses −log Pr(K = k) of bags that are treated together, each kind by the method that suits it.

`PureBags` and `PureClasses` have one class and need no sum, `SmallBags` and `SmallClasses` are
summed exactly, `LargeBags` and those of `SeveralClasses` go by the saddle point. All of them answer
`evaluate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from unbag._arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    Latest,
    Segments,
    beside_in_double,
    index_beside,
    take,
    to_host,
)
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.objectives.count_sums import largest_exact_bag, turned_roots, weighed_counts
from unbag.objectives.recorded import RecordedLosses
from unbag.objectives.saddle_point import (
    LARGEST_SCORE,
    exact_class_loss,
    several_class_loss,
    softmax,
    two_class_loss,
)

# Scores that are worked on together: temporary arrays should stay in the cache of a processor, or
# fill a GPU.
_CACHE, _CARD = 2**16, 2**24

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000

# Bags of as many rows are worth leaving out for the problems that do not see them.
_WORTH_LEAVING_OUT = 512

# Chances of a whole bag do not underflow where the sizes of its scores add up to less.
_SAFE_SUM = 600.0

# Exponent of the density of a count that noise does not explain, ten standard deviations off.
_FARTHEST = 50.0


Columns = slice | Ints


@dataclass(frozen=True, eq=False)
class BagTable:
    """What is known of some bags.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Instances of the bags, one bag after the other.
    sizes : ndarray of shape (n_bags,)
    counts : ndarray of shape (n_bags, n_classes)
    covariance : ndarray of shape (n_bags, n_classes, n_classes)
        S, of what the counts may be off by.
    weights : ndarray of shape (n_problems, n_bags)
    """

    rows: Ints
    sizes: NDArray[np.int64]
    counts: Floats
    covariance: Floats
    weights: Floats


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
        self._segments = Segments(table.sizes, like)
        self._weights = beside_in_double(table.weights, like)
        self._weights_of = Latest(self._choose)
        self._blocks_of = Latest(self._cut)
        self._step = max(1, _scores_together(like, self.bulk) // n)
        seen = (table.weights != 0).any(axis=1)
        self._seen = seen if is_numpy_array(like) and not seen.all() else None

    @abstractmethod
    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:
        """−log Pr(K = k) of every column and bag, for scores (columns, outputs, rows).

        ``largest`` is a bound of the size of all scores. The second result is the gradient with
        respect to the scores, or None if it is not asked for.
        """

    def gather(self, scores: Array, some: Columns) -> Array:
        """Scores of these bags in some columns, in double precision, one bag after the other."""
        xp = array_namespace(scores)
        if self._rows is None:
            f = scores[:, :, self.span][some, ...]
        else:
            f = take(scores[some, ...], self._rows, axis=2)
        return xp.astype(f, xp.float64, copy=False)

    @property
    def seen_by_all(self) -> bool:
        """Whether every column has to be worked on."""
        return self._seen is None

    def blocks(self, problem: Ints) -> Sequence[Columns]:
        """Columns that are worked on together, without those in which these bags weigh nothing."""
        blocks: Sequence[Columns] = self._blocks_of(problem)
        return blocks

    def weights(self, problem: Ints) -> Array:
        """What bags weigh: (columns, bags), or of one column if all are the same."""
        return self._weights_of(problem)

    def evaluate(
        self, scores: Array, some: Columns, weights: Array, largest: float, gradient: bool
    ) -> tuple[Array, Any]:
        """Weighed sums of the losses of some columns, and their gradient, for these rows."""
        xp = array_namespace(scores)
        losses, slope = self.loss(self.gather(scores, some), largest, gradient)
        if gradient:
            slope *= self._segments.spread(weights)[:, None, :]
            slope = xp.astype(slope, scores.dtype, copy=False)
        return xp.sum(weights * losses, axis=1), slope

    def _choose(self, problem: Ints) -> Array:
        if self._weights.shape[0] == 1:
            return self._weights
        return take(self._weights, index_beside(problem, self._weights), axis=0)

    def _cut(self, problem: Ints) -> Sequence[Columns]:
        if self._seen is None:
            starts = range(0, len(problem), self._step)
            return [slice(start, min(start + self._step, len(problem))) for start in starts]
        columns = np.flatnonzero(self._seen[problem])
        starts = range(0, len(columns), self._step)
        return [columns[start : start + self._step] for start in starts]


class PureBags(BagLosses):
    """Bags of two classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        # counts may be a little off whole ones
        sign = np.where(table.counts[:, 1] > table.counts[:, 0], -1.0, 1.0)
        self._sign = beside_in_double(np.repeat(sign, table.sizes), like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        wrong = f * self._sign
        losses = self._segments.sum(_softplus(wrong))[:, 0, :]
        return losses, self._sign * _expit(wrong) if gradient else None


class TwoClassBags(BagLosses):
    """Bags of two classes: what small and large ones have in common."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._k = beside_in_double(table.counts[:, 1], like)
        self._n = beside_in_double(table.sizes.astype(float), like)
        self._S = beside_in_double(table.covariance[:, 1, 1], like)
        self._exact = not table.covariance.any()
        self._sizes = table.sizes
        # the rows between which the count divides a bag, once its scores are in falling order
        inside = np.clip(np.round(table.counts[:, 1]), 1, np.maximum(table.sizes - 1, 1))
        self._last_in = np.cumsum(table.sizes) - table.sizes + inside.astype(int) - 1

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
            slopes = slopes + _expit(f) - _expit(near)
        return losses, slopes

    def _dividing_score(self, f: Array) -> Array:
        """Score between those of the k largest and the others of each bag."""
        host = to_host(f)
        bags = np.repeat(np.arange(len(self._sizes)), self._sizes)
        order = np.lexsort((-host, np.broadcast_to(bags, host.shape)), axis=-1)
        ordered = np.take_along_axis(host, order, axis=-1)
        middle = 0.5 * (ordered[:, self._last_in] + ordered[:, self._last_in + 1])
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
        self._final = beside_in_double(count_weights(k, S, most).T[:, None, :], like)
        self._swap = beside_in_double(np.where(swapped, -1.0, 1.0), like)

    @property
    def _most(self) -> float:
        return _SAFE_SUM / self._shape[1]

    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        xp, columns = array_namespace(f), f.shape[0]
        # rows come first, so that sums run along whole lines of memory
        f = xp.permute_dims(xp.reshape(f, (columns, *self._shape)), (2, 0, 1)) * self._swap
        final = xp.broadcast_to(self._final, (self._final.shape[0], *f.shape[1:]))
        mean, gains = weighed_counts(f, final, gradient)
        if not gradient:
            return -xp.log(mean), None
        slopes = xp.permute_dims(-self._swap * gains, (1, 2, 0))
        return -xp.log(mean), xp.reshape(slopes, (columns, -1))


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


class LargeBags(TwoClassBags):
    """Bags of two classes, by the saddle point."""

    _most = LARGEST_SCORE

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        self._recorded = RecordedLosses(self._segments, self._k, self._n, self._S)

    def _sum(self, f: Array, gradient: bool) -> tuple[Array, Any]:
        if gradient and self._recorded.serve(f):
            return self._recorded(f)
        odds = array_namespace(f).exp(f)
        return two_class_loss(odds, self._segments, self._k, self._n, self._S, gradient)


class PureClasses(BagLosses):
    """Bags of several classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        held = np.eye(table.counts.shape[1])[table.counts.argmax(axis=1)]
        self._held = beside_in_double(np.repeat(held, table.sizes, axis=0).T, like)

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        lse, p = softmax(f)
        own = array_namespace(f).sum(f * self._held, axis=1)
        return self._segments.sum(lse - own), p - self._held if gradient else None


class SeveralClasses(BagLosses):
    """Bags of more than two classes, by the saddle point.

    Bags make a table with one line for each, filled up where a bag has fewer rows than the largest.
    """

    def __init__(self, table: BagTable, like: Array) -> None:
        super().__init__(table, like)
        slot = np.arange(table.sizes.max())
        real = slot < table.sizes[:, None]
        start = np.cumsum(table.sizes) - table.sizes
        self._shape = real.shape
        self._slots = index_beside(np.where(real, start[:, None] + slot, 0).reshape(-1), like)
        self._back = index_beside(np.flatnonzero(real), like)
        self._k = beside_in_double(table.counts, like)
        self._S = beside_in_double(table.covariance, like)
        self._real = beside_in_double(real[:, None, :].astype(float), like)

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

    def loss(self, f: Array, largest: float, gradient: bool) -> tuple[Array, Any]:  # noqa: ARG002, D102
        xp = array_namespace(f)
        columns, outputs, _ = f.shape
        lines = xp.reshape(f, (columns, outputs, *self._shape))
        lines = xp.permute_dims(lines, (0, 2, 1, 3))
        losses, slopes = exact_class_loss(
            lines, self._k, self._S, self._roots, self._turn, gradient
        )
        if not gradient:
            return losses, None
        return losses, xp.reshape(xp.permute_dims(slopes, (0, 2, 1, 3)), (columns, outputs, -1))


def classes_summable(
    sizes: NDArray[np.int64], counts: Floats, covariance: Floats, exact_size: int
) -> Bools:
    """Mark small bags of several classes, with counts that are known and whole."""
    small = sizes <= min(largest_exact_bag(counts.shape[1]), exact_size)
    whole = np.round(counts).sum(axis=1) == sizes
    found: Bools = small & whole & ~covariance.any(axis=(1, 2))
    return found


def _softplus(f: Array) -> Array:
    xp = array_namespace(f)
    size = xp.abs(f)
    return 0.5 * (f + size) + xp.log1p(xp.exp(-size))


def _expit(f: Array) -> Array:
    xp = array_namespace(f)
    small = xp.exp(-xp.abs(f))
    return xp.where(f > 0, xp.ones_like(f), small) / (1.0 + small)


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
    like : array
        Array whose namespace and device the scores will have.
    """

    def __init__(
        self,
        bags: Bags,
        weights: Floats,
        covariance: Floats,
        exact_size: int,
        like: Array,
    ) -> None:
        self._parts = []
        rows = []
        for kind, table in _make_tables(bags, weights, covariance, exact_size, like):
            self._parts.append(kind(table, like))
            rows.append(table.rows)
        lengths = [len(own) for own in rows]
        self._in_order = all(part.in_order for part in self._parts)
        self._place = None
        if not self._in_order:
            self._place = index_beside(np.argsort(np.concatenate(rows)), like)
        self._seen_by_all = all(part.seen_by_all for part in self._parts)
        many = is_numpy_array(like) and bags.n_instances >= _MANY_ROWS
        self._threads = allowed_threads() if many else 1
        self._spans = [
            part.span if self._in_order else slice(int(end) - length, int(end))
            for part, length, end in zip(self._parts, lengths, np.cumsum(lengths), strict=True)
        ]

    def evaluate(self, scores: Array, problem: Ints, gradient: bool) -> tuple[Array, Any]:
        """Weighed sum per column, where the scores are, and its gradient if that is asked for."""
        xp, n_columns = array_namespace(scores), scores.shape[0]
        largest = float(xp.max(xp.abs(scores)))
        weights = [part.weights(problem) for part in self._parts]
        totals = xp.zeros((len(weights), n_columns), dtype=xp.float64, device=device(scores))
        blank = xp.empty_like if self._seen_by_all else xp.zeros_like
        slopes = blank(scores) if gradient else None

        def work(unit: tuple[int, Columns]) -> None:
            number, some = unit
            own = weights[number] if weights[number].shape[0] == 1 else weights[number][some, :]
            part = self._parts[number]
            total, slope = part.evaluate(scores, some, own, largest, gradient)
            totals[number, some] = total
            if slopes is not None:
                slopes[some, :, self._spans[number]] = slope

        units = [(i, some) for i, part in enumerate(self._parts) for some in part.blocks(problem)]
        # each writes to places of its own, so that sums are the same whatever their order
        for_each(work, units, self._threads)
        if gradient and self._place is not None:
            slopes = take(slopes, self._place, axis=2)
        return xp.sum(totals, axis=0), slopes


def _make_tables(
    bags: Bags, weights: Floats, covariance: Floats, exact_size: int, like: Array
) -> Iterator[tuple[type[BagLosses], BagTable]]:
    """Sort bags by how and with which others they are treated."""
    sizes, counts = bags.sizes, bags.sizes[:, None] * bags.proportions
    kinds, kind = _choose_kinds(bags, counts, covariance, exact_size)
    order, start = np.argsort(bags.index, kind="stable"), np.cumsum(sizes) - sizes
    for members in _groups(kinds, kind, sizes, covariance):
        if kinds[kind[members[0]]] is SmallBags:
            # those that need about as many states come together
            members = members[np.argsort(counts[members].min(axis=1), kind="stable")]
        limit = _scores_together(like, kinds[kind[members[0]]].bulk)
        chunk = (np.cumsum(sizes[members]) - 1) // limit
        new = np.diff(chunk) != 0
        if is_numpy_array(like):
            seen = weights[:, members] != 0
            large = sizes[members] >= _WORTH_LEAVING_OUT
            new |= (np.diff(seen, axis=1).any(axis=0)) & (large[1:] & large[:-1])
        for own in np.split(members, np.flatnonzero(new) + 1):
            table = BagTable(
                rows=order[_ranges(start[own], sizes[own])],
                sizes=sizes[own],
                counts=counts[own],
                covariance=covariance[own],
                weights=weights[:, own],
            )
            yield kinds[kind[own[0]]], table


def _scores_together(like: Array, bulk: int) -> int:
    return max(1, (_CACHE if is_numpy_array(like) else _CARD) // bulk)


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
        small = classes_summable(bags.sizes, counts, covariance, exact_size)
        kind = np.where(pure & known, 0, np.where(small, 2, 1))
        return [PureClasses, SeveralClasses, SmallClasses], kind
    small = bags.sizes <= exact_size
    pure = (pure | (small & (np.round(counts).min(axis=1) == 0))) & known
    return [PureBags, SmallBags, LargeBags], np.where(pure, 0, np.where(small, 1, 2))


def _groups(
    kinds: list[type[BagLosses]], kind: Ints, sizes: NDArray[np.int64], covariance: Floats
) -> list[Ints]:
    """Bags to be treated together: of one kind, with or without S, and of equal or any size."""
    size = np.where(np.array([k.same_size for k in kinds])[kind], sizes, 0.0)
    if SeveralClasses in kinds:
        # lines are filled up by an eighth at most
        step = 2.0 ** np.maximum(0, np.floor(np.log2(np.maximum(sizes - 1, 1))) - 3)
        size = np.where(kind == kinds.index(SeveralClasses), np.ceil(sizes / step) * step, size)
    keys = np.stack([kind, covariance.any(axis=(1, 2)), size])
    _, group_of = np.unique(keys, axis=1, return_inverse=True)
    return [np.flatnonzero(group_of.reshape(-1) == g) for g in range(group_of.max() + 1)]
