"""Rows of bags side by side: for objectives that look at whole bags."""

from __future__ import annotations

import numpy as np

from unbag._arrays import Array, Bools, Ints, Segments
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

    Attributes
    ----------
    sizes : ndarray of shape (bags,)
        Rising.
    shares : ndarray of shape (outputs, bags)
        Shares of the second of two classes, or of all of them.
    segments : Segments
        The rows of each bag.
    """

    def __init__(self, included: Bools, bags: Bags) -> None:
        units, first = bags.with_labelled_rows_apart()
        by_size = np.argsort(units.sizes, kind="stable")
        self.sizes = units.sizes[by_size]
        shares = units.clipped_proportions[by_size].T
        self.shares = np.ascontiguousarray(shares[1:] if len(shares) == 2 else shares)
        self.segments = Segments(self.sizes)
        order = np.argsort(np.argsort(by_size)[units.index], kind="stable")
        self._in_order = bool((np.diff(order) == 1).all())
        self._order = order
        self._back = np.argsort(order)
        table = np.atleast_2d(included)
        parts = (table / (table @ bags.sizes)[:, None])[:, bags.index[first]] * units.sizes
        self._parts = parts[:, by_size]

    @property
    def n_outputs(self) -> int:
        """Number of scores of a row."""
        return len(self.shares)

    def parts(self, problem: Ints) -> Array:
        """Share of each bag in the rows of its problem: (columns, bags), or of one column."""
        return self._parts if len(self._parts) == 1 else self._parts[problem]

    def gather(self, scores: Array) -> Array:
        """Scores in double precision, one bag after the other."""
        ordered = scores if self._in_order else np.take(scores, self._order, axis=2)
        return ordered.astype(float, copy=False)

    def put_back(self, slopes: Array, scores: Array) -> Array:
        """Gradients in the order and type of the scores."""
        slopes = slopes.astype(scores.dtype, copy=False)
        return slopes if self._in_order else np.take(slopes, self._back, axis=2)


def probabilities(scores: Array) -> Array:
    """Probabilities of the second of two classes, or of all: like the scores."""
    link = LogisticLoss() if scores.shape[1] == 1 else SoftmaxLoss()
    return link.probability(scores)


def to_scores(p: Array, by_probability: Array) -> Array:
    """Derivatives by scores from those by probabilities."""
    if p.shape[1] == 1:
        return by_probability * p * (1.0 - p)
    mean = np.sum(p * by_probability, axis=1, keepdims=True)
    return p * (by_probability - mean)
