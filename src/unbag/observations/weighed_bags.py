"""Losses of all bags, weighed and summed: each bag among those that are treated together with it.

Bags of one kind (`unbag.observations.bag_losses`, `class_losses`), and of one size where the kind
asks for that, make a part; parts fit the cache of a processor, and threads share them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints, index_beside, take, to_host
from unbag._threads import allowed_threads, for_each
from unbag.bags.bags import Bags
from unbag.observations.bag_losses import (
    BagLosses,
    BagTable,
    ColumnIndex,
    LargeBags,
    PureBags,
    SetBags,
    SmallBags,
    scores_together,
)
from unbag.observations.class_losses import (
    PureClasses,
    SeveralClasses,
    SmallClasses,
    classes_summable,
)

# Fewer rows are done before threads would have started.
_MANY_ROWS = 50_000

# Bags of as many rows are worth leaving out for the problems that do not see them.
_WORTH_LEAVING_OUT = 512


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
        self._parts, self._members, rows = [], [], []
        for kind, table, members in _make_tables(bags, weights, covariance, exact_size, like):
            self._parts.append(kind(table, like))
            self._members.append(members)
            rows.append(table.rows)
        lengths = [len(own) for own in rows]
        self._in_order = all(part.in_order for part in self._parts)
        # NumPy writes rows to where they belong; elsewhere they are brought there once, at the end
        self._place = None
        if not self._in_order and not is_numpy_array(like):
            self._place = index_beside(np.argsort(np.concatenate(rows)), like)
        self._seen_by_all = all(part.seen_by_all for part in self._parts)
        many = is_numpy_array(like) and bags.n_instances >= _MANY_ROWS
        self._threads = allowed_threads() if many else 1
        self._spans = [
            part.span if self._in_order else slice(int(end) - length, int(end))
            for part, length, end in zip(self._parts, lengths, np.cumsum(lengths), strict=True)
        ]

    def evaluate(self, scores: Array, problem: Ints, gradient: bool) -> tuple[Array, Any]:
        """Weighted sum per column, where the scores are, and its gradient if asked."""
        xp, n_columns = array_namespace(scores), scores.shape[0]
        largest = float(xp.maximum(xp.max(scores), -xp.min(scores)))
        weights = [part.weights(problem) for part in self._parts]
        totals = xp.zeros((len(weights), n_columns), dtype=xp.float64, device=device(scores))
        blank = xp.empty_like if self._seen_by_all else xp.zeros_like
        slopes = blank(scores) if gradient else None

        def work(unit: tuple[int, ColumnIndex]) -> None:
            number, some = unit
            own = weights[number] if weights[number].shape[0] == 1 else weights[number][some, :]
            part = self._parts[number]
            total, slope = part.evaluate(scores, some, own, largest, gradient)
            totals[number, some] = total
            if slopes is not None:
                self._write(slopes, number, some, slope)

        units = [(i, some) for i, part in enumerate(self._parts) for some in part.blocks(problem)]
        # each writes to places of its own, so that sums are the same whatever their order
        for_each(work, units, self._threads)
        if gradient and self._place is not None:
            slopes = take(slopes, self._place, axis=2)
        return xp.sum(totals, axis=0), slopes

    def losses(self, scores: Array) -> Floats:
        """Losses (columns, bags) of all bags, without weights and on the host."""
        xp = array_namespace(scores)
        largest = float(xp.maximum(xp.max(scores), -xp.min(scores)))
        found = np.empty((scores.shape[0], sum(map(len, self._members))))
        for part, members in zip(self._parts, self._members, strict=True):
            own, _ = part.loss(part.gather(scores, slice(None)), largest, False)
            found[:, members] = to_host(own)
        return found

    def _write(self, slopes: Array, number: int, some: ColumnIndex, slope: Array) -> None:
        if self._place is None:
            self._parts[number].put(slopes, some, slope)
        else:
            slopes[some, :, self._spans[number]] = slope


def _make_tables(
    bags: Bags, weights: Floats, covariance: Floats, exact_size: int, like: Array
) -> Iterator[tuple[type[BagLosses], BagTable, Ints]]:
    """Sort bags by how and with which others they are treated."""
    sizes, counts, lengths = bags.sizes, bags.counts, bags.lengths
    kinds, kind = _choose_kinds(bags, counts, covariance, exact_size)
    order, start = np.argsort(bags.index, kind="stable"), np.cumsum(lengths) - lengths
    is_set = bags.is_set
    for members in _groups(kinds, kind, sizes, lengths, covariance, is_set):
        if kinds[kind[members[0]]] is SmallBags:
            # those that need about as many states come together
            members = members[np.argsort(counts[members].min(axis=1), kind="stable")]
        seen = (weights != 0) & (lengths >= _WORTH_LEAVING_OUT) & is_numpy_array(like)
        members = _by_problems(members, seen)
        limit = scores_together(like, kinds[kind[members[0]]].bulk)
        full = np.diff((np.cumsum(lengths[members]) - 1) // limit) != 0
        new = np.flatnonzero(full | _differs(seen[:, members]))
        for own in np.split(members, new + 1):
            rows = order[_ranges(start[own], lengths[own])]
            table = BagTable(
                rows=rows,
                lengths=lengths[own],
                multiplicity=None if bags.multiplicity is None else bags.multiplicity[rows],
                sizes=sizes[own],
                counts=counts[own],
                covariance=covariance[own],
                weights=weights[:, own],
                limits=bags.limits[own] if bags.limits is not None and is_set[own[0]] else None,
            )
            yield kinds[kind[own[0]]], table, own


def _by_problems(members: Ints, seen: Bools) -> Ints:
    """Bags that the same problems see one after the other, if that makes fewer groups of them."""
    sorted_members = members[np.lexsort(seen[:, members])]
    fewer = _differs(seen[:, sorted_members]).sum() < _differs(seen[:, members]).sum()
    return sorted_members if fewer else members


def _differs(seen: Bools) -> Bools:
    """Whether others see a bag than the one before it."""
    return np.any(seen[:, 1:] != seen[:, :-1], axis=0)


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
    pure = (pure | (small & (np.round(counts).min(axis=1) == 0))) & known & ~bags.is_set
    large = np.where(bags.is_set, 3, 2)
    return [PureBags, SmallBags, LargeBags, SetBags], np.where(pure, 0, np.where(small, 1, large))


def _groups(
    kinds: list[type[BagLosses]],
    kind: Ints,
    sizes: NDArray[np.int64],
    lengths: Ints,
    covariance: Floats,
    is_set: Bools,
) -> list[Ints]:
    """Bags to be treated together: of one kind, with or without S, and of equal or any size."""
    size = np.where(np.array([k.same_size for k in kinds])[kind], sizes, 0.0)
    if SeveralClasses in kinds:
        # lines are filled up by an eighth at most
        step = 2.0 ** np.maximum(0, np.floor(np.log2(np.maximum(lengths - 1, 1))) - 3)
        size = np.where(kind == kinds.index(SeveralClasses), np.ceil(lengths / step) * step, size)
    keys = np.stack([kind, covariance.any(axis=(1, 2)), is_set, size])
    _, group_of = np.unique(keys, axis=1, return_inverse=True)
    return [np.flatnonzero(group_of.reshape(-1) == g) for g in range(group_of.max() + 1)]
