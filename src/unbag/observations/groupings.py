"""Counts of several groupings of the same rows: log-probability, posterior means, information.

With K_1, K_2, ... the counts by each grouping, the finest first,

    ℓ(η) = log Pr(K_1 = k_1) + log Pr(K_2 = k_2, ... | K_1 = k_1).

The first term is the likelihood of ordinary bags (`unbag.observations.count_likelihood`, exact for
small ones). The second is the joint saddlepoint approximation of all groupings
(`unbag.observations.margins`) less that of the first alone: a double saddlepoint. So one grouping
gives what it gives elsewhere, and no label is counted twice, though each is in several counts.

By Louis' identity the observed information is diag(p(1 − p)) − Cov(y | all counts). To first order
of the saddlepoint, with w the variances of the labels tilted so that all counts are met at once, A
the matrix of which row is in which cell, and V = A diag(w) Aᵀ + S with S the variance of the noise,

    Cov(y | counts) = diag(w) − diag(w) Aᵀ V⁻¹ A diag(w),

so for f = Φβ it is H = Φᵀ diag(p(1 − p) − w) Φ + GᵀV⁻¹G with G = A diag(w) Φ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.bags.groupings import Groupings
from unbag.observations.count_likelihood import CountLikelihood, count_covariance
from unbag.observations.margins import Cells, Margins

_ONE = np.zeros(1, dtype=np.intp)


class GroupingsObservation:
    """What the counts of several groupings say of the labels of the same rows; two classes.

    Parameters
    ----------
    groupings : Groupings
        Names, cells and counts of each grouping.

    Attributes
    ----------
    n_cells : int
        Number of cells of all groupings.

    Examples
    --------
    Four rows in a square with one positive in each line and column: two of sixteen labellings.

    >>> import numpy as np
    >>> from unbag import bag_target, multi_grouping_target
    >>> from unbag.bags.groupings import check_groupings_target
    >>> from unbag.observations.groupings import GroupingsObservation
    >>> by = {"line": [0, 0, 1, 1], "column": [0, 1, 0, 1]}
    >>> y = multi_grouping_target({n: bag_target(cell, counts=[1] * 4) for n, cell in by.items()})
    >>> observation = GroupingsObservation(check_groupings_target(y))
    >>> observation.value_and_residual(np.zeros((1, 4)))[1].round(6) + 0.0
    array([[0., 0., 0., 0.]])
    """

    n_outputs = 1

    def __init__(self, groupings: Groupings) -> None:
        self.n_cells = groupings.n_cells
        finest = _finest(groupings)
        bags = groupings.bags[finest]
        self._n_finest = bags.n_instances
        self._alone = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
        cells = [_cells_of(bags) for bags in groupings.bags]
        self._joint = Margins(cells)
        self._finest = Margins([cells[finest]]) if len(cells) > 1 else self._joint

    def value(self, scores: Floats) -> float:
        """Log-probability of all counts, for scores of shape (1, n_rows)."""
        alone = -float(self._alone.value(scores[None], _ONE)[0]) * self._n_finest
        if self._finest is self._joint:
            return alone
        return alone - self._joint.value(scores[0]) + self._finest.value(scores[0])

    def value_and_residual(self, scores: Floats) -> tuple[float, Floats]:
        """Log-probability and its gradient by the scores: posterior means less p."""
        value, slope = self._alone.value_and_gradient(scores[None], _ONE)
        total, residual = -float(value[0]) * self._n_finest, -slope[0] * self._n_finest
        if self._finest is not self._joint:
            joint, joint_slope = self._joint.value_and_gradient(scores[0])
            finest, finest_slope = self._finest.value_and_gradient(scores[0])
            total, residual = total - joint + finest, residual - joint_slope + finest_slope
        return total, residual

    def tilted_variances(self, scores: Floats) -> Floats:
        """Variances w of the labels given all counts, to first order: (n_rows,)."""
        return self._joint.tilted_variances(scores[0])

    def missing_weights(self, scores: Floats) -> Floats:
        """Diagonal part p(1 − p) − w of the observed information: (n_rows,)."""
        p = expit(scores[0])
        return p * (1.0 - p) - self.tilted_variances(scores)

    def cell_information(self, sums: Floats, scores: Floats) -> Floats:
        """GᵀV⁻¹G for the sums G = A diag(w) Φ over all cells, in the order of `cell_rows`."""
        return self._joint.information_of(sums, scores[0])

    @property
    def cell_rows(self) -> list[tuple[NDArray[np.intp], int]]:
        """For each grouping the cell of every row (past the last one: none), and their number."""
        return self._joint.cell_rows


def _cells_of(bags: Bags) -> Cells:
    """Counts of the cells of a grouping, and the variance of their noise."""
    n = bags.sizes.astype(float)
    variance = count_covariance(bags)[:, 1, 1]
    counts = n * bags.proportions[:, 1]
    whole = np.round(counts)
    near = (np.abs(counts - whole) < 1e-6) & (variance == 0)
    return Cells(bags.index, np.where(near, whole, counts), variance)


def _finest(groupings: Groupings) -> int:
    """The grouping with most cells that are not pure."""
    mixed = [int((bags.proportions.max(axis=1) < 1).sum()) for bags in groupings.bags]
    return int(np.argmax(mixed))
