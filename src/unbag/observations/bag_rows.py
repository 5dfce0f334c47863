"""Rows of bags side by side: for objectives that look at whole bags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from unbag._arrays import (
    Array,
    Bools,
    Ints,
    Latest,
    Segments,
    beside_in_double,
    index_beside,
    take,
)
from unbag.bags.bags import Bags
from unbag.observations.losses import LogisticLoss, SoftmaxLoss


class BagRows:
    """Scores of bags one after the other, the small ones first, and what bags weigh in problems.

    Rows of known label are bags of one row.

    Parameters
    ----------
    included : ndarray of bool, shape (n_problems, n_bags)
        The bags that each problem learns from.
    bags : Bags
    like : array or None
        Array whose namespace and device the scores will have.

    Attributes
    ----------
    sizes : ndarray of shape (bags,)
        Rising.
    shares : ndarray of shape (outputs, bags)
        Shares of the second of two classes, or of all of them.
    segments : Segments
        The rows of each bag.
    """

    def __init__(self, included: Bools, bags: Bags, like: Array | None) -> None:
        like = np.empty(0) if like is None else like
        units, first = bags.with_labelled_rows_apart()
        by_size = np.argsort(units.sizes, kind="stable")
        self.sizes = units.sizes[by_size]
        shares = units.clipped_proportions[by_size].T
        self.shares = np.ascontiguousarray(shares[1:] if len(shares) == 2 else shares)
        self.segments = Segments(self.sizes, like)
        order = np.argsort(np.argsort(by_size)[units.index], kind="stable")
        self._in_order = bool((np.diff(order) == 1).all())
        self._order = index_beside(order, like)
        self._back = index_beside(np.argsort(order), like)
        table = np.atleast_2d(included)
        parts = (table / (table @ bags.sizes)[:, None])[:, bags.index[first]] * units.sizes
        self._parts = beside_in_double(parts[:, by_size], like)
        self._parts_of = Latest(self._choose)

    @property
    def n_outputs(self) -> int:
        """Number of scores of a row."""
        return len(self.shares)

    def parts(self, problem: Ints) -> Array:
        """Share of each bag in the rows of its problem: (columns, bags), or of one column."""
        return self._parts_of(problem)

    def gather(self, scores: Array) -> Array:
        """Scores in double precision, one bag after the other."""
        xp = array_namespace(scores)
        ordered = scores if self._in_order else take(scores, self._order, axis=2)
        return xp.astype(ordered, xp.float64, copy=False)

    def put_back(self, slopes: Array, scores: Array) -> Array:
        """Gradients in the order and type of the scores."""
        xp = array_namespace(scores)
        slopes = xp.astype(slopes, scores.dtype, copy=False)
        return slopes if self._in_order else take(slopes, self._back, axis=2)

    def _choose(self, problem: Ints) -> Array:
        if self._parts.shape[0] == 1:
            return self._parts
        return take(self._parts, index_beside(problem, self._parts), axis=0)


@dataclass(frozen=True)
class Block:
    """A run of bags of one size, and of their instances."""

    size: int
    bags: slice
    rows: slice


def equal_sizes(sizes: NDArray[np.int64]) -> Iterator[Block]:
    """Cut rising sizes into runs, inside which an array needs no padding."""
    values, starts, counts = np.unique(sizes, return_index=True, return_counts=True)
    row = 0
    for size, start, count in zip(values.tolist(), starts.tolist(), counts.tolist(), strict=True):
        end = row + size * count
        yield Block(size, slice(start, start + count), slice(row, end))
        row = end


def chances(scores: Array) -> Array:
    """Chances of the second of two classes, or of all: like the scores."""
    link = LogisticLoss() if scores.shape[1] == 1 else SoftmaxLoss()
    return link.probability(scores)


def to_scores(p: Array, by_chance: Array) -> Array:
    """Derivatives by scores from those by chances."""
    if p.shape[1] == 1:
        return by_chance * p * (1.0 - p)
    mean = array_namespace(p).sum(p * by_chance, axis=1, keepdims=True)
    return p * (by_chance - mean)
