"""What workers do for the likelihood of counts: whole bags at once, of others sums over pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats, Ints, Segments
from unbag.distributed.count_table import CountTable
from unbag.distributed.instances import Instances
from unbag.distributed.risk import Model, Request, RowScorer
from unbag.observations.count_likelihood import EXACT_SIZE
from unbag.observations.exact import factors_at, largest_exact_bag, posteriors_at, turned_roots
from unbag.observations.saddlepoint import (
    LARGEST_SCORE,
    Pull,
    Sums,
    tilted_chances,
    two_class_slopes,
)
from unbag.observations.several_classes import (
    bend,
    class_moments,
    classes_present,
    pull_back,
    tilted_classes,
)
from unbag.observations.weighed_bags import WeighedBags

# Rows that are worked on together; a larger bag makes a block of its own.
_BLOCK_ROWS = 4096

ROOTS = np.exp(2j * np.pi * np.arange(EXACT_SIZE // 2 + 1) / (EXACT_SIZE + 1))
# roots come in conjugate pairs, but for 1
TWICE = np.where(np.arange(len(ROOTS)) > 0, 2.0, 1.0)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows of some bags that are not whole here, one bag after the other.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
    entries, sizes : ndarrays of shape (n_pieces,)
        Whose pieces these are, and how many rows each has.
    """

    rows: Ints
    entries: Ints
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
    whole: list[tuple[Ints, WeighedBags]]
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


def find_spanning(group: list[CountedInstances]) -> Ints:
    """Entries of the bags that are not whole in some partitions."""
    found = [pieces.entries for part in group for pieces in part.pieces]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.intp)


def join_spanning(parts: list[Ints]) -> Ints:
    """All of these entries."""
    return np.unique(np.concatenate(parts))


def whole_losses(
    group: list[CountedInstances], model: Model, table: CountTable, request: Request
) -> list[Floats]:
    """Losses of the bags that are whole here, and their gradient."""
    scorer = RowScorer(model, table.offsets, request)
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

    entries: Ints
    tilt: Floats
    small: Ints


def _walk(
    group: list[CountedInstances], scorer: RowScorer, spanning: Spanning
) -> Iterator[tuple[Pieces, Ints, Floats, Floats]]:
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
    functions = np.zeros((shape[0], spanning.small.max(initial=-1) + 1, len(ROOTS)), complex)
    scorer = RowScorer(model, table.offsets, request)
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
            turned = np.log(1.0 + q[:, None, rows_of_small] * (ROOTS[:, None] - 1.0))
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
    scorer = RowScorer(model, table.offsets, request)
    weights = table.weights_of(request.problem)
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
                TWICE[:, None] * factors * ROOTS[:, None] / (1.0 + own * (ROOTS[:, None] - 1.0)),
                axis=1,
                keepdims=True,
            )
            slopes[:, rows_of_small] = p[:, rows_of_small] - posterior.real[:, 0]
        slopes *= rows.spread(weights[:, pieces.entries])
        scorer.add(slopes[:, None, :], values)
    return [scorer.gradient]


def _odds(scores: Floats) -> Floats:
    return np.exp(np.clip(scores[:, 0, :], -LARGEST_SCORE, LARGEST_SCORE))


def _small_rows(pieces: Pieces, place: Ints, spanning: Spanning) -> tuple[Ints, Ints, Segments]:
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
    scorer = RowScorer(model, table.offsets, request)
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
    scorer = RowScorer(model, table.offsets, request)
    weights = table.weights_of(request.problem)
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
    return turned_roots(np.zeros((1, n_classes)), exact_size(n_classes))[0]


def exact_size(n_classes: int) -> int:
    """Largest bag of so many classes whose pieces are summed exactly."""
    return min(EXACT_SIZE, largest_exact_bag(n_classes))


def _present(table: CountTable, entries: Ints) -> Floats:
    counts = table.sizes[entries, None] * table.proportions[entries]
    return classes_present(counts, table.covariance[entries])


def _ranges(sizes: NDArray[np.int64]) -> list[slice]:
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
