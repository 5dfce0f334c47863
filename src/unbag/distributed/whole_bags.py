"""Whole bags in every partition: one pass finds those that are cut, one exchange mends them.

A partition that holds whole bags has all that a likelihood needs of them, so that what a model
minimises is a sum over partitions of what it is in memory. Bags that lie in one partition stay
there. If others do not, each goes to one partition, in an order in which rows move little: rows that
are sorted by bag move at the borders of partitions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.utils import check_random_state

from unbag._arrays import Ints
from unbag.bags.bags import Bags, bags_of_each, gather_labelled_rows
from unbag.bags.labels import fields_of
from unbag.bags.shares import bag_name, one_row_each
from unbag.distributed.partitions import Partitions, memory_limits, share
from unbag.model_selection.splitters import some_bags

# Pieces that are exchanged at most: each is a task, which takes the scheduler some 0.3 ms.
_PIECES = 200_000

# A bag takes its memory this many times when it comes together: its pieces, and the whole.
_TIMES = 2


@dataclass(frozen=True, eq=False)
class BagSummary:
    """What some rows say of their bags."""

    target: NDArray[np.void]
    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    n_rows: tuple[int, ...]
    n_bytes: int


class Part(NamedTuple):
    """Rows of whole bags, in the order of the ids of these."""

    X: Any
    y: NDArray[np.void]


def bring_together(data: Partitions) -> tuple[Partitions, BagSummary]:
    """Move rows of X and y where bags are cut, and keep what was moved on the workers."""
    summary = data.reduce(_summarise, _merge)
    if len(summary.target) == 0:
        raise ValueError("The target has no rows.")
    ends = np.cumsum(summary.n_rows)
    spans = [np.searchsorted(ends, at, side="right") for at in (summary.first, summary.last)]
    if (spans[0] == spans[1]).all():
        return data.map(_sorted_by_bag), summary
    _refuse_large_bags(summary)
    if len(ends) ** 2 > _PIECES:
        # as many rows in each of fewer partitions
        wanted = max(len(memory_limits()), _PIECES // len(ends))
        ends = np.linspace(0, ends[-1], wanted + 1)[1:]
    places = _deal(summary, ends)
    sources = _sources(spans[0], spans[1], places, len(ends), len(data))
    table = share((summary.target["bag"], places))
    return data.exchange(_split, _join_pieces, sources, table).keep(), summary


def bags_of(summary: BagSummary) -> Bags:
    """Read the summary of all rows, by the rules of `unbag.check_bag_target`."""
    n = summary.rows
    bags, single = bags_of_each(summary.target, np.arange(len(n)), n)
    if not single.any():
        return bags
    bags = gather_labelled_rows(bags, single)
    return replace(bags, sizes=np.bincount(bags.index, n).astype(np.int64))


def bring_some_bags(
    data: Partitions, most_rows: int, random_state: Any
) -> tuple[Any, NDArray[np.void]]:
    """Bring X and y of whole bags here, drawn at random, of at most ``most_rows`` rows."""
    summary = data.reduce(_summarise, _merge)
    chosen = some_bags(summary.rows, most_rows, 2, check_random_state(random_state))
    parts = data.gather(_rows_of, share(summary.target["bag"][chosen]))
    X, y = zip(*(part for part in parts if len(part.y)), strict=True)
    return _stack(X), np.concatenate(y)


def _rows_of(X: Any, y: Any, ids: NDArray[Any]) -> Part:
    own = np.flatnonzero(np.isin(y["bag"], ids))
    return Part(take_rows(X, own), np.asarray(y)[own])


def _summarise(X: Any, y: Any) -> BagSummary:
    """Describe one partition."""
    missing = [name for name in ("bag", "proportion", "size") if name not in fields_of(y)]
    if missing:
        raise ValueError(
            f"The target has no field {missing[0]!r}; make y with unbag.bag_target or "
            "unbag.distributed.bags_from_frame."
        )
    if y.ndim != 1:
        raise ValueError(f"The target must have one dimension, not shape {y.shape}.")
    if X.shape[0] != len(y):
        raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}: inconsistent lengths.")
    y = np.asarray(y)
    # rows of a bag often follow each other, and then only one of them has to be sorted
    begins = np.ones(len(y), dtype=bool)
    begins[1:] = y[1:] != y[:-1]
    first = np.flatnonzero(begins)
    rows = np.diff(first, append=len(y))
    return _group(y[first], rows, first, first + rows - 1, (len(y),), n_bytes_of(X))


def _merge(parts: list[BagSummary]) -> BagSummary:
    """Join summaries of rows that follow each other; a bag may be in several of them."""
    before = np.cumsum([0] + [sum(part.n_rows) for part in parts[:-1]])
    return _group(
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.first + n for part, n in zip(parts, before, strict=True)]),
        np.concatenate([part.last + n for part, n in zip(parts, before, strict=True)]),
        tuple(n for part in parts for n in part.n_rows),
        sum(part.n_bytes for part in parts),
    )


def _group(
    y: NDArray[np.void], rows: Any, first: Any, last: Any, n_rows: tuple[int, ...], n_bytes: int
) -> BagSummary:
    each, entry, codes = one_row_each(y)
    ends = np.zeros(len(each), dtype=np.int64)
    np.maximum.at(ends, codes, last)
    n = np.bincount(codes, rows, len(each)).astype(np.int64)
    return BagSummary(each, n, first[entry], ends, n_rows, n_bytes)


def n_bytes_of(X: Any) -> int:
    """What an array, a sparse matrix or a data frame takes in memory, about."""
    if hasattr(X, "memory_usage"):
        return int(X.memory_usage(index=False, deep=False).sum())
    # most of a sparse matrix are its entries, and where these are
    return int(getattr(X, "nbytes", 0) or 2 * X.data.nbytes)


def _refuse_large_bags(summary: BagSummary) -> None:
    """Rows of a bag come together on one worker."""
    largest = int(summary.rows.argmax())
    n_bytes = summary.n_bytes / sum(summary.n_rows) * summary.rows[largest]
    memory = min(memory_limits())
    if _TIMES * n_bytes > memory:
        raise ValueError(
            f"Bag {bag_name(summary.target['bag'][largest])} takes {n_bytes / 1e9:.3g} GB in "
            f"{summary.rows[largest]} rows of several partitions, which come together on one worker "
            f"and take {_TIMES} times as much there, but a worker has {memory / 1e9:.3g} GB of memory."
        )


def _deal(summary: BagSummary, ends: NDArray[Any]) -> Ints:
    """Partition that each bag goes to: that in which its middle falls if bags follow each other.

    They do so in the order of the middles of where they are now, so that a bag of one partition
    stays there if all do.
    """
    order = np.argsort(summary.first + summary.last, kind="stable")
    rows = summary.rows[order]
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.searchsorted(ends, np.cumsum(rows) - rows / 2, side="right")
    return np.minimum(places, len(ends) - 1)


def _sources(first: Ints, last: Ints, places: Ints, n_new: int, n_old: int) -> list[list[int]]:
    """Partitions that may have rows for each new one."""
    begins = np.zeros((n_new, n_old + 1), dtype=np.int64)
    np.add.at(begins, (places, first), 1)
    np.add.at(begins, (places, last + 1), -1)
    return [np.flatnonzero(row).tolist() for row in np.cumsum(begins, axis=1)[:, :-1]]


def _sorted_by_bag(X: Any, y: Any) -> Part | None:
    """The rows of a partition in the order of their bags."""
    y = np.asarray(y)
    if len(y) == 0:
        return None
    if (y["bag"][1:] >= y["bag"][:-1]).all():
        return Part(X, y)
    order = np.argsort(y["bag"], kind="stable")
    return Part(take_rows(X, order), y[order])


def _split(X: Any, y: Any, table: tuple[NDArray[Any], Ints]) -> dict[int, Part]:
    """Rows of a partition by the partition that they go to."""
    ids, places = table
    y = np.asarray(y)
    where = places[np.searchsorted(ids, y["bag"])]
    pieces = {}
    for place in np.unique(where).tolist():
        own = np.flatnonzero(where == place)
        pieces[place] = Part(take_rows(X, own), y[own])
    return pieces


def _join_pieces(pieces: list[Part]) -> Part | None:
    """Rows of whole bags; those of a bag stay in the order of the partitions that they were in."""
    return _sorted_by_bag(
        _stack([piece.X for piece in pieces]), np.concatenate([piece.y for piece in pieces])
    )


def take_rows(X: Any, rows: Ints) -> Any:
    """Some rows of an array, a sparse matrix or a data frame of pandas."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _stack(parts: Sequence[Any]) -> Any:
    if issparse(parts[0]):
        return vstack(parts, format="csr")
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)
