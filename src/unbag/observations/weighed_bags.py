"""Losses −log Pr(K = k) of all bags, weighed and summed, each by the method that suits its kind.

Pure bags need no sum, small ones are summed exactly (`unbag.observations.exact`), counts known as
sets go by tails (`unbag.observations.tails`) or Fourier sums (`unbag.observations.class_sets`) and all
others by a saddlepoint approximation (`unbag.observations.saddlepoint`,
`unbag.observations.several_classes`). Bags of one kind, and of one size where the kind asks for that,
make a part; parts fit the cache of a processor, and threads share them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Floats, Ints
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.observations.bag_losses import (
    BagLosses,
    BagTable,
    LargeBags,
    PureBags,
    SetBags,
    SmallBags,
    scores_together,
)
from unbag.observations.class_losses import PureClasses, SetClasses, SeveralClasses, SmallClasses
from unbag.observations.exact import largest_exact_bag

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000


class WeighedBags:
    """Weighed sum of the losses of bags, in score space.

    ``bags`` have labelled rows apart, and ``covariance`` (n_bags, n_classes, n_classes) is S; bags of at
    most ``exact_size`` rows of two classes are summed exactly.
    """

    def __init__(self, bags: Bags, covariance: Floats, exact_size: int) -> None:
        tables = list(_make_tables(bags, covariance, exact_size))
        self._parts = [kind(table) for kind, table, _ in tables]
        self._members = [members for _, _, members in tables]
        self._threads = allowed_threads() if bags.n_instances >= _MANY_ROWS else 1

    def evaluate(
        self, scores: Array, gradient: bool = True, weights: Floats | None = None
    ) -> tuple[Floats, Any]:
        """Sum per column (columns, outputs, rows), and its gradient if asked.

        ``weights`` (columns, bags), or one line for all columns, are 1 by default.
        """
        n_columns, largest = len(scores), _largest(scores)
        totals = np.zeros((len(self._parts), n_columns))
        slopes = np.empty_like(scores) if gradient else None

        def work(unit: tuple[int, slice]) -> None:
            number, some = unit
            part, own = self._parts[number], weights
            if own is not None:
                own = (own if len(own) == 1 else own[some])[:, self._members[number]]
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
    bags: Bags, covariance: Floats, exact_size: int
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
        limit = scores_together(own_kind.bulk)
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
