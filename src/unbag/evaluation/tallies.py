"""Statistics of instances gathered by bag: what a measure of resampled bags is computed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.bags.bags import Bags

# Cells of scores in which resampled ROC curves are counted.
_MAX_CELLS = 200


class Tally(Protocol):
    """Statistics of the instances, gathered by bag, and the function of their class means."""

    @property
    def bag_means(self) -> Floats:
        """Mean of each statistic over each bag: shape (n_bags, n_statistics)."""
        ...

    def second_moments(self, weights: Floats) -> Floats:
        """Σ_i weights_i · (mean of s sᵀ over bag i), for s the vector of statistics."""
        ...

    def value(self, means: Floats) -> Floats:
        """Measure for class means of shape (..., n_classes, n_statistics)."""
        ...


class RowTally(Tally, Protocol):
    """The same with the rows at hand."""

    def sums(self, weights: Floats) -> Floats:
        """Σ_j weights_j · s_j over the rows j of each bag: shape (n_bags, n_statistics)."""
        ...


@dataclass(frozen=True, eq=False)
class ValueTally:
    """Statistics that are numbers: their values, shape (n_statistics, n_instances)."""

    bags: Bags
    statistics: Floats
    function: Callable[[Floats], Floats]

    @property
    def bag_means(self) -> Floats:
        """Mean of each statistic over each bag."""
        return self.bags.means(self.statistics).T

    def second_moments(self, weights: Floats) -> Floats:
        """Σ_i weights_i · (mean of s sᵀ over bag i)."""
        by_row = (weights / self.bags.sizes)[self.bags.index]
        return (self.statistics * by_row) @ self.statistics.T

    def sums(self, weights: Floats) -> Floats:
        """Σ_j weights_j · s_j over the rows j of each bag."""
        return (self.bags.means(self.statistics * weights) * self.bags.sizes).T

    def value(self, means: Floats) -> Floats:
        """Measure for given class means."""
        return self.function(means)


@dataclass(frozen=True, eq=False)
class CellTally:
    """Statistics that say in which cell an instance lies; counted, so that many cells are cheap.

    ``offset`` is what sharing a cell takes from the value, and is put back; ``place`` is the cell
    of every bag that each row lies in, counted through, where rows are at hand.
    """

    shares: Floats
    function: Callable[[Floats], Floats]
    offset: float = 0.0
    place: Ints | None = None

    @property
    def bag_means(self) -> Floats:
        """Share of each bag in each cell."""
        return self.shares

    def second_moments(self, weights: Floats) -> Floats:
        """An instance lies in one cell only, so that products of two cells vanish."""
        return np.diag(weights @ self.shares)

    def sums(self, weights: Floats) -> Floats:
        """Sum of the weights of the rows of each bag in each cell."""
        if self.place is None:
            raise ValueError("Rows are not at hand.")
        counts: Floats = np.bincount(self.place, weights, self.shares.size).astype(float)
        return counts.reshape(self.shares.shape)

    def value(self, means: Floats) -> Floats:
        """Measure for given class means."""
        return self.function(means) + self.offset


def score_cells(scores: Floats) -> Ints:
    """Number the instances by score, in a limited number of cells of about equal content."""
    ordered = np.sort(scores)
    ends = np.unique(ordered[(np.arange(1, _MAX_CELLS + 1) * len(ordered)) // _MAX_CELLS - 1])
    return np.searchsorted(ends, scores)


def cell_shares(bags: Bags, cell: Ints) -> Floats:
    """Share of each bag's instances in each cell: shape (n_bags, n_cells)."""
    return bags.tally(cell, int(cell.max()) + 1) / bags.sizes[:, None]
