"""What workers need to know of bags for the likelihood of their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.distributed.partitions import Travelling
from unbag.observations.count_likelihood import check_possible_counts, what_counts_tell


@dataclass(frozen=True, eq=False)
class CountTable(Travelling):
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

    def of(self, included: Bools) -> CountTable:
        """The same, with weight for some entries only."""
        return replace(self, weights=self.weights * included)

    def join(self, tables: Sequence[CountTable]) -> CountTable:
        """Take the problems of several tables of the same bags."""
        weights = np.concatenate([table.weights for table in tables])
        offsets = np.concatenate([table.offsets for table in tables])
        return replace(self, weights=weights, offsets=offsets)

    def weights_of(self, problem: Ints) -> Floats:
        """Weights by column, which solves a problem each; one line if they are the same for all."""
        return self.weights if len(self.weights) == 1 else self.weights[problem]

    @property
    def divisible(self) -> Bools:
        """Pure bags, of which any part is as pure."""
        pure = self.proportions.max(axis=1) == 1
        return pure & ~self.covariance.any(axis=(1, 2))

    def as_bags(self, entries: Ints, sizes: NDArray[np.int64]) -> Bags:
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
    included: Bools,
    offsets: Floats,
    bag_effect: float,
    looks: float = 0.0,
) -> CountTable:
    """Read a table of bags, whose index runs over entries with so many rows each."""
    check_possible_counts(bags)
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
