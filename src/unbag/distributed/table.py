"""The per-bag table: all that the driver ever sees of the target.

Every partition says what its rows know of their bags, one entry per bag; such summaries are merged
pairwise, since a bag may span partitions, and the last one becomes a `Bags` with one entry, not
one instance, for every bag. All that the library makes from `Bags` (weights, folds, priors) is
then made from this table: an instance counts in them through the size of its bag only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Ints
from unbag.bags.bags import Bags, gather_labelled_rows
from unbag.bags.labels import fields_of
from unbag.bags.shares import one_row_each, read_stated
from unbag.model_selection.splitters import BagKFold, cut_by_folds, deal_folds


@dataclass(frozen=True, eq=False)
class BagSummary:
    """What some rows of a target know of their bags.

    Attributes
    ----------
    target : structured ndarray of shape (n_bags,)
        One row of the target for every bag, in the order of their ids.
    rows : ndarray of shape (n_bags,)
        Number of rows of each bag.
    first : ndarray of shape (n_bags,)
        Where the first of them stands.
    """

    target: NDArray[np.void]
    rows: NDArray[np.int64]
    first: NDArray[np.int64]


def summarise_target(y: Any) -> BagSummary:
    """Summarise the rows of one partition."""
    missing = [name for name in ("bag", "proportion", "size") if name not in fields_of(y)]
    if missing:
        raise ValueError(
            f"The target has no field {missing[0]!r}; make y with unbag.bag_target or "
            "unbag.distributed.bags_from_frame."
        )
    if y.ndim != 1:
        raise ValueError(f"The target must have one dimension, not shape {y.shape}.")
    y = np.asarray(y)
    first, rows = _runs(y)
    return _group(y[first], rows, first)


def merge_summaries(parts: list[BagSummary]) -> BagSummary:
    """Join summaries of rows that follow each other; a bag may be in several of them."""
    before = np.cumsum([0] + [part.rows.sum() for part in parts[:-1]])
    return _group(
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.first + n for part, n in zip(parts, before, strict=True)]),
    )


def _runs(values: NDArray[Any]) -> tuple[Ints, NDArray[np.int64]]:
    """Where runs of equal values begin, and their lengths.

    Rows of a bag often follow each other, and then only one of them has to be looked up or sorted.
    """
    begins = np.ones(len(values), dtype=bool)
    begins[1:] = values[1:] != values[:-1]
    first = np.flatnonzero(begins)
    return first, np.diff(first, append=len(values))


def _group(y: NDArray[np.void], rows: NDArray[np.int64], first: NDArray[np.int64]) -> BagSummary:
    each, entry, codes = one_row_each(y)
    return BagSummary(each, np.bincount(codes, rows, len(each)).astype(np.int64), first[entry])


@dataclass(frozen=True, eq=False)
class BagsById:
    """Bags with one entry for every bag id, in place of one for every instance.

    Attributes
    ----------
    bags : Bags
        Its ``index`` runs over entries: a bag is one entry, the rows of known label of a class are
        many. Its ``sizes`` count instances.
    rows : ndarray of shape (n_entries,)
        Number of instances of each entry.
    ids : ndarray of shape (n_entries,)
        Bag ids in rising order.
    position : ndarray of shape (n_entries,)
        Entry of each of these ids.
    """

    bags: Bags
    rows: NDArray[np.int64]
    ids: NDArray[Any]
    position: Ints

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags together."""
        return int(self.rows.sum())

    def find(self, bag: NDArray[Any]) -> Ints:
        """Entry of each bag id."""
        first, rows = _runs(bag)
        return np.repeat(self.position[np.searchsorted(self.ids, bag[first])], rows)

    def with_bags(self, bags: Bags) -> BagsById:
        """Take other bags of the same entries, and count their instances."""
        sizes = np.bincount(bags.index, self.rows, bags.n_bags).astype(np.int64)
        return replace(self, bags=replace(bags, sizes=sizes))

    def with_labelled_rows_apart(self) -> BagsById:
        """Make every entry a bag of its own."""
        return self.with_bags(self.bags.with_labelled_rows_apart()[0])

    def fold(self, cv: Any) -> tuple[BagsById, Bools]:
        """Deal the bags out to folds: the table, and which bags each fold holds out."""
        if isinstance(cv, int | np.integer):
            cv = BagKFold(int(cv))
        if not isinstance(cv, BagKFold):
            raise ValueError(
                f"On Dask collections cv must be a whole number or an unbag.BagKFold, not {cv!r}."
            )
        apart = self.with_labelled_rows_apart().bags
        fold = deal_folds(apart, cv.n_splits, cv.shuffle, cv.random_state)
        bags, held = cut_by_folds(self.bags, fold == np.arange(cv.n_splits)[:, None])
        return self.with_bags(bags), held


def make_table(summary: BagSummary) -> BagsById:
    """Read the summary of all rows by the rules of `unbag.check_bag_target`."""
    y, rows = summary.target, summary.rows
    if len(y) == 0:
        raise ValueError("The target has no rows.")
    ids = y["bag"]
    proportions, noise, single = read_stated(y, rows)
    # bags by their ids, then rows of known label as they come
    order = np.argsort(np.where(single, len(ids) + summary.first, np.arange(len(ids))))
    bags = Bags(
        index=np.arange(len(ids)),
        ids=ids[order],
        sizes=rows[order],
        proportions=proportions[order],
        classes=np.arange(proportions.shape[1]),
        labelled=np.zeros(len(ids), dtype=bool),
        noise=None if noise is None else noise[order],
    )
    table = BagsById(bags, rows[order], ids, np.argsort(order))
    if not single.any():
        return table
    return table.with_bags(gather_labelled_rows(bags, single[order]))
