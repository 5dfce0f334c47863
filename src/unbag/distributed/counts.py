"""The likelihood of counts of bags whose rows are spread over partitions.

Most bags lie in one partition as a whole, and a worker does with them what is done in memory. Of
the others it knows pieces. Chances of rows add up over pieces, and so does all that the saddle
point needs: the driver keeps one line for each such bag, asks in a few rounds for the sums at a
tilt until the tilt is found, and then sends what turns a score into a gradient.

Small bags are summed exactly in memory. For one in pieces, let φ(z) = Π_j (1 − q_j + q_j z) be the
generating function of its tilted rows. Its logarithm adds up over pieces, and at M > n roots of
unity it gives the chance of every count s, (1/M) Σ_z z^{−s} φ(z): the same numbers, up to rounding,
without cancellation because the tilted rows have the right mean. Small bags of several classes are
summed over roots in memory, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Segments
from unbag.bags.bags import Bags
from unbag.distributed.instances import Instances
from unbag.distributed.partitions import share
from unbag.distributed.risk import DistributedData, Model, Request, Scorer, add_tables
from unbag.objectives.bag_losses import WeighedBags, classes_summable, count_weights
from unbag.objectives.count_likelihood import EXACT_SIZE, check_counts, what_counts_tell
from unbag.objectives.count_sums import factors_at, largest_exact_bag, posteriors_at, turned_roots
from unbag.objectives.saddle_point import (
    LARGEST_SCORE,
    ClassTiltSearch,
    Pull,
    Sums,
    TiltSearch,
    bend,
    class_miss,
    class_moments,
    classes_present,
    pull_back,
    tilted_chances,
    tilted_classes,
    two_class_slopes,
)

Floats = NDArray[np.float64]

# Rows that are worked on together; a larger bag makes a block of its own.
_BLOCK_ROWS = 4096

# The driver takes the tilt as it is, without what would be left of the way.
_SHORT_STEP = 1e-9

_ROOTS = np.exp(2j * np.pi * np.arange(EXACT_SIZE // 2 + 1) / (EXACT_SIZE + 1))
# roots come in conjugate pairs, but for 1
_TWICE = np.where(np.arange(len(_ROOTS)) > 0, 2.0, 1.0)


@dataclass(frozen=True, eq=False)
class CountTable:
    """What is known of every bag, by its entry in the table of bags.

    Attributes
    ----------
    sizes : ndarray of shape (n_entries,)
    proportions : ndarray of shape (n_entries, n_classes)
    covariance : ndarray of shape (n_entries, n_classes, n_classes)
        S, of what the counts may be off by.
    weights : ndarray of shape (n_problems, n_entries)
    offsets : ndarray of shape (n_problems, n_outputs)
        What is added to scores.
    """

    sizes: NDArray[np.int64]
    proportions: Floats
    covariance: Floats
    weights: Floats
    offsets: Floats

    def __sizeof__(self) -> int:
        return int(sum(array.nbytes for array in vars(self).values()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # what has travelled lies at odd addresses, where every access would copy all of it first
        vars(self).update({name: np.require(a, requirements="A") for name, a in state.items()})

    def of(self, included: NDArray[np.bool_]) -> CountTable:
        """The same, with weight for some entries only."""
        return replace(self, weights=self.weights * included)

    def join(self, tables: Sequence[CountTable]) -> CountTable:
        """Take the problems of several tables of the same bags."""
        weights = np.concatenate([table.weights for table in tables])
        offsets = np.concatenate([table.offsets for table in tables])
        return replace(self, weights=weights, offsets=offsets)

    def on(self, data: DistributedData) -> DistributedCounts:
        """Make the likelihood of instances in partitions."""
        return DistributedCounts(self, data)

    @property
    def divisible(self) -> NDArray[np.bool_]:
        """Pure bags, of which any part is as pure."""
        pure = self.proportions.max(axis=1) == 1
        return pure & ~self.covariance.any(axis=(1, 2))

    def as_bags(self, entries: NDArray[np.intp], sizes: NDArray[np.int64]) -> Bags:
        """Bags of some entries, whose rows follow each other."""
        return Bags(
            index=np.repeat(np.arange(len(entries)), sizes),
            ids=entries,
            sizes=sizes,
            proportions=self.proportions[entries],
            classes=np.arange(self.proportions.shape[1]),
            labelled=np.zeros(len(entries), dtype=bool),
        )


def make_count_table(
    bags: Bags,
    rows: NDArray[np.int64],
    included: NDArray[np.bool_],
    offsets: Floats,
    bag_effect: float,
    looks: float = 0.0,
) -> CountTable:
    """Read a table of bags, whose index runs over entries with so many rows each."""
    check_counts(bags)
    weights = included / (included @ bags.sizes)[:, None]
    told, covariance = what_counts_tell(bags, bag_effect, looks)
    covariance = covariance / bags.sizes[:, None, None].astype(float) ** 2
    return CountTable(
        sizes=rows,
        proportions=told.proportions[bags.index],
        covariance=covariance[bags.index] * rows[:, None, None].astype(float) ** 2,
        weights=weights[:, bags.index],
        offsets=offsets,
    )


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows of some bags that are not whole here, one bag after the other.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
    entries, sizes : ndarrays of shape (n_pieces,)
        Whose pieces these are, and how many rows each has.
    """

    rows: NDArray[np.intp]
    entries: NDArray[np.intp]
    sizes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountedInstances:
    """The instances of one partition, sorted by what is known of their bags.

    Attributes
    ----------
    X : ndarray of shape (n_instances, n_features)
    whole : list of (rows, WeighedBags)
    pieces : list of Pieces
    """

    X: NDArray[Any]
    whole: list[tuple[NDArray[np.intp], WeighedBags]]
    pieces: list[Pieces]

    def __sizeof__(self) -> int:
        return int(self.X.nbytes)


def count_instances(group: list[Instances], table: CountTable) -> list[CountedInstances]:
    """Sort the instances of some partitions by their bags."""
    return [_sort(instances, table) for instances in group]


def _sort(instances: Instances, table: CountTable) -> CountedInstances:
    order = np.argsort(instances.entry, kind="stable")
    entries, first, here = np.unique(instances.entry[order], return_index=True, return_counts=True)
    is_whole = (here == table.sizes[entries]) | table.divisible[entries]
    whole, pieces = [], []
    for kind in (True, False):
        own = np.flatnonzero(is_whole == kind)
        block = (np.cumsum(here[own]) - 1) // _BLOCK_ROWS
        for some in np.split(own, np.flatnonzero(np.diff(block)) + 1):
            if len(some) == 0:
                continue
            rows = np.concatenate([order[first[e] : first[e] + here[e]] for e in some])
            if not kind:
                pieces.append(Pieces(rows, entries[some], here[some]))
                continue
            bags = table.as_bags(entries[some], here[some])
            weighed = WeighedBags(
                bags,
                table.weights[:, entries[some]],
                table.covariance[entries[some]],
                EXACT_SIZE,
                np.empty(0),
            )
            whole.append((rows, weighed))
    return CountedInstances(instances.X, whole, pieces)


def find_spanning(group: list[CountedInstances]) -> NDArray[np.intp]:
    """Entries of the bags that are not whole in some partitions."""
    found = [pieces.entries for part in group for pieces in part.pieces]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.intp)


def join_spanning(parts: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """All of these entries."""
    return np.unique(np.concatenate(parts))


def whole_losses(
    group: list[CountedInstances], model: Model, table: CountTable, request: Request
) -> list[Floats]:
    """Losses of the bags that are whole here, and their gradient."""
    scorer = Scorer(model, table.offsets, request)
    value = np.zeros(len(request.problem))
    for part in group:
        for rows, weighed in part.whole:
            scores, values = scorer.scores(part.X[rows])
            total, slopes = weighed.evaluate(scores, request.problem, request.gradient)
            value += total
            if request.gradient:
                scorer.add(slopes, values)
    return [value, scorer.gradient]


@dataclass(frozen=True, eq=False)
class Spanning:
    """Bags in pieces, at some tilt.

    Attributes
    ----------
    entries : ndarray of shape (n_bags,)
        In rising order.
    tilt : ndarray of shape (columns, n_bags) or (columns, n_bags, n_classes)
    small : ndarray of int, shape (n_bags,)
        Which of the small bags each is, or -1.
    """

    entries: NDArray[np.intp]
    tilt: Floats
    small: NDArray[np.intp]


def _walk(
    group: list[CountedInstances], scorer: Scorer, spanning: Spanning
) -> Iterator[tuple[Pieces, NDArray[np.intp], Floats, Floats]]:
    """All pieces of some partitions, the places of their bags, their scores and values."""
    for part in group:
        for pieces in part.pieces:
            scores, values = scorer.scores(part.X[pieces.rows])
            yield pieces, np.searchsorted(spanning.entries, pieces.entries), scores, values


def two_class_sums(
    group: list[CountedInstances],
    model: Model,
    table: CountTable,
    request: Request,
    spanning: Spanning,
) -> list[Any]:
    """Sums over pieces at a tilt: Σq, log-ratios, those of `Sums`; log φ of small bags."""
    shape = len(request.problem), len(spanning.entries)
    found = np.zeros((6, *shape))
    functions = np.zeros((shape[0], spanning.small.max(initial=-1) + 1, len(_ROOTS)), complex)
    scorer = Scorer(model, table.offsets, request)
    for pieces, place, scores, _ in _walk(group, scorer, spanning):
        rows = Segments(pieces.sizes, scores)
        odds = _odds(scores)
        q, left = tilted_chances(odds, rows, spanning.tilt[:, place])
        sums = Sums.of(q, q * left, rows)
        log_ratio = rows.sum(np.log(left * (1.0 + odds)))
        own = rows.sum(q), log_ratio, sums.total, sums.skewness, sums.square, sums.bent
        found[:, :, place] += np.stack(own)
        small, rows_of_small, segments = _small_rows(pieces, place, spanning)
        if len(small):
            turned = np.log(1.0 + q[:, None, rows_of_small] * (_ROOTS[:, None] - 1.0))
            functions[:, small] += np.swapaxes(segments.sum(turned), 1, 2)
    return [found, functions]


def two_class_gradient(
    group: list[CountedInstances],
    model: Model,
    table: CountTable,
    request: Request,
    spanning: Spanning,
    pull: Pull,
    turned: NDArray[np.complex128],
) -> list[Floats]:
    """Gradient of the losses of bags in pieces."""
    scorer = Scorer(model, table.offsets, request)
    weights = table.weights if len(table.weights) == 1 else table.weights[request.problem]
    for pieces, place, scores, values in _walk(group, scorer, spanning):
        rows = Segments(pieces.sizes, scores)
        odds = _odds(scores)
        q, left = tilted_chances(odds, rows, spanning.tilt[:, place])
        p = odds / (1.0 + odds)
        here = Pull(*(part[:, place] for part in pull))
        slopes = two_class_slopes(p, q, q * left, here, rows)
        small, rows_of_small, segments = _small_rows(pieces, place, spanning)
        if len(small):
            own = q[:, None, rows_of_small]
            factors = segments.spread(np.swapaxes(turned[:, small], 1, 2))
            posterior = own * np.sum(
                _TWICE[:, None] * factors * _ROOTS[:, None] / (1.0 + own * (_ROOTS[:, None] - 1.0)),
                axis=1,
                keepdims=True,
            )
            slopes[:, rows_of_small] = p[:, rows_of_small] - posterior.real[:, 0]
        slopes *= rows.spread(weights[:, pieces.entries])
        scorer.add(slopes[:, None, :], values)
    return [scorer.gradient]


def _odds(scores: Floats) -> Floats:
    return np.exp(np.clip(scores[:, 0, :], -LARGEST_SCORE, LARGEST_SCORE))


def _small_rows(
    pieces: Pieces, place: NDArray[np.intp], spanning: Spanning
) -> tuple[NDArray[np.intp], NDArray[np.intp], Segments]:
    """Small bags among pieces, the rows of theirs, and which belong together."""
    small = spanning.small[place]
    here = small >= 0
    rows = np.flatnonzero(np.repeat(here, pieces.sizes))
    sizes = pieces.sizes[here] if here.any() else np.ones(1, dtype=np.int64)
    return small[here], rows, Segments(sizes, np.empty(0))


def several_class_sums(
    group: list[CountedInstances],
    model: Model,
    table: CountTable,
    request: Request,
    spanning: Spanning,
    H: Floats | None,
) -> list[Floats]:
    """Sums over pieces at a tilt: lse before and after, mean, covariance; with H, of what bends."""
    columns, n_bags, C = spanning.tilt.shape
    roots = _class_roots(C)
    functions = np.zeros((columns, spanning.small.max(initial=-1) + 1, len(roots)), complex)
    before, own = np.zeros((columns, n_bags)), np.zeros((columns, n_bags))
    mean, covariance = np.zeros((columns, n_bags, C)), np.zeros((columns, n_bags, C, C))
    bent = np.zeros((columns, n_bags, C))
    scorer = Scorer(model, table.offsets, request)
    for pieces, place, scores, _ in _walk(group, scorer, spanning):
        present = _present(table, pieces.entries)
        for b, (spot, rows) in enumerate(zip(place, _ranges(pieces.sizes), strict=True)):
            f = scores[:, None, :, rows]
            real = np.ones((1, 1, f.shape[-1]))
            here = slice(spot, spot + 1)
            some = present[b : b + 1]
            before[:, here] += tilted_classes(f, real, np.zeros((columns, 1, C)), some * 0 + 1)[0]
            total, q = tilted_classes(f, real, spanning.tilt[:, here], some)
            own[:, here] += total
            moments = class_moments(q, real)
            mean[:, here] += moments[0]
            covariance[:, here] += moments[1]
            if H is not None:
                bent[:, here] += bend(q, H[:, here]).sum(axis=-1)
            if (small := spanning.small[spot]) >= 0:
                functions[:, small] += np.log(factors_at(q, roots)).sum(axis=-1)[:, 0]
    return [before, own, mean, covariance, bent, functions]


def several_class_gradient(
    group: list[CountedInstances],
    model: Model,
    table: CountTable,
    request: Request,
    spanning: Spanning,
    H: Floats,
    moving: Floats,
    turned: NDArray[np.complex128],
) -> list[Floats]:
    """Gradient of the losses of bags in pieces."""
    scorer = Scorer(model, table.offsets, request)
    weights = table.weights if len(table.weights) == 1 else table.weights[request.problem]
    columns, _, C = spanning.tilt.shape
    for pieces, place, scores, values in _walk(group, scorer, spanning):
        present = _present(table, pieces.entries)
        slopes = np.empty_like(scores)
        for b, (spot, rows) in enumerate(zip(place, _ranges(pieces.sizes), strict=True)):
            f, here = scores[:, None, :, rows], slice(spot, spot + 1)
            real = np.ones((1, 1, f.shape[-1]))
            _, p = tilted_classes(f, real, np.zeros((columns, 1, C)), np.ones((1, C)))
            _, q = tilted_classes(f, real, spanning.tilt[:, here], present[b : b + 1])
            if (small := spanning.small[spot]) >= 0:
                roots, share = _class_roots(C), turned[:, small, None]
                own = p - posteriors_at(q, factors_at(q, roots), roots, share)
            else:
                own = p - q - pull_back(q, moving[:, here, :, None]) + bend(q, H[:, here])
            slopes[:, :, rows] = own[:, 0] * weights[:, pieces.entries[b], None, None]
        scorer.add(slopes, values)
    return [scorer.gradient]


def _class_roots(n_classes: int) -> NDArray[np.complex128]:
    """Roots for small bags; none if no bag of so many classes is summed exactly."""
    if not largest_exact_bag(n_classes):
        return np.zeros((0, n_classes), dtype=complex)
    return turned_roots(np.zeros((1, n_classes)), _exact_size(n_classes))[0]


def _exact_size(n_classes: int) -> int:
    return min(EXACT_SIZE, largest_exact_bag(n_classes))


def _present(table: CountTable, entries: NDArray[np.intp]) -> Floats:
    counts = table.sizes[entries, None] * table.proportions[entries]
    return classes_present(counts, table.covariance[entries])


def _ranges(sizes: NDArray[np.int64]) -> list[slice]:
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


class DistributedCounts:
    """The likelihood of counts as a function of coefficients θ (columns, 1, coefficients).

    Parameters
    ----------
    table : CountTable
    data : DistributedData
    """

    n_outputs = 1

    def __init__(self, table: CountTable, data: DistributedData) -> None:
        self._data = data
        self._shared = share(table)
        sorted_ = data.instances.map(count_instances, self._shared)
        self._instances = sorted_.keep() if data.kept else sorted_
        self._entries = self._instances.reduce(find_spanning, join_spanning)
        self._weights = table.weights[:, self._entries]
        sizes = table.sizes[self._entries]
        self._n = sizes.astype(float)
        self._k = sizes[:, None] * table.proportions[self._entries]
        self._S = table.covariance[self._entries]
        small = sizes <= EXACT_SIZE
        if data.n_outputs > 1:
            small = classes_summable(sizes, self._k, self._S, EXACT_SIZE)
            self._k[small] = np.round(self._k[small])
        self._small = np.where(small, np.cumsum(small) - 1, -1)
        self._final = count_weights(self._k[small, 1], self._S[small, 1, 1], EXACT_SIZE)
        self._start: tuple[bytes, Floats] | None = None

    def value(self, theta: Floats, problem: NDArray[np.intp]) -> Floats:
        """Mean negative log-likelihood per column."""
        return self._evaluate(theta, problem, gradient=False)[0]

    def value_and_gradient(self, theta: Floats, problem: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Mean negative log-likelihood per column and its gradient by the coefficients."""
        return self._evaluate(theta, problem, gradient=True)

    def _evaluate(
        self, theta: Floats, problem: NDArray[np.intp], gradient: bool
    ) -> tuple[Floats, Floats]:
        request = self._data.request(theta[:, 0], problem, gradient)
        value, slope = self._pass(whole_losses, request)
        if len(self._entries):
            tilted = self._two_classes if self._data.n_outputs == 1 else self._several_classes
            losses, more = tilted(request)
            weights = self._weights if len(self._weights) == 1 else self._weights[problem]
            value = value + np.sum(weights * losses, axis=1)
            slope = slope + more
        return value, self._data.by_coefficients(slope)[:, None, :]

    def _pass(self, function: Any, request: Request, *more: Any) -> Any:
        """One pass over the data."""
        return self._instances.reduce(
            function, add_tables, self._data.model, self._shared, request, *more
        )

    def _two_classes(self, request: Request) -> tuple[Floats, Any]:
        k, S = self._k[:, 1], self._S[:, 1, 1]
        search = TiltSearch(k, self._n, S, len(request.problem))
        # the solver often comes back with the same columns, a little further on
        key = request.problem.tobytes()
        if self._start is not None and self._start[0] == key:
            search.tilt = self._start[1]
        while True:
            spanning = Spanning(self._entries, search.tilt, self._small)
            found, functions = self._pass(two_class_sums, request, spanning)
            if search.found(found[0], found[2], _SHORT_STEP):
                break
        self._start = key, search.tilt
        sums = Sums(*found[2:])
        h, pull = sums.miss(S)
        losses = found[1] + search.tilt * (k - 0.5 * S * search.tilt) + h
        small = self._small >= 0
        tilt = search.tilt[:, small]
        counts = np.arange(EXACT_SIZE + 1)
        # Σ_s (weight of s) Pr(K = s), from φ at the roots
        apart = counts - k[small, None]
        weights = self._final * np.exp(-tilt[:, :, None] * apart)
        powers = _ROOTS[:, None] ** -counts / (EXACT_SIZE + 1)
        turned = (weights @ powers.T) * np.exp(functions)
        total = np.sum(_TWICE * turned, axis=-1).real
        losses[:, small] = found[1][:, small] + tilt * k[small] - np.log(total)
        if not request.gradient:
            return losses, 0.0
        (slope,) = self._pass(
            two_class_gradient, request, spanning, pull, turned / total[:, :, None]
        )
        return losses, slope

    def _several_classes(self, request: Request) -> tuple[Floats, Any]:
        present = classes_present(self._k, self._S)
        search = ClassTiltSearch(self._k, self._S, present, len(request.problem))
        while not search.done:
            spanning = Spanning(self._entries, search.trial, self._small)
            before, own, mean, covariance, _, functions = self._pass(
                several_class_sums, request, spanning, None
            )
            search.look(own, mean, covariance)
        spanning = Spanning(self._entries, search.tilt, self._small)
        h, H = class_miss(search.V, present)
        small = self._small >= 0
        turned = np.exp(functions)
        if small.any():
            turned *= turned_roots(self._k[small], _exact_size(self._k.shape[1]))[1]
        total = np.sum(turned.real, axis=-1)
        h[:, small] = -np.log(total)
        losses = search.level(before) + h
        if not request.gradient:
            return losses, 0.0
        *_, bent, _ = self._pass(several_class_sums, request, spanning, H)
        moving, turned = search.settle(bent), turned / total[:, :, None]
        (slope,) = self._pass(several_class_gradient, request, spanning, H, moving, turned)
        return losses, slope
