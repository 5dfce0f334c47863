"""The log-likelihood of coefficients by the counts of several groupings of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag.bags.groupings import Groupings
from unbag.models.bag_variance import BagPredictions
from unbag.models.newton import Derivatives, Products
from unbag.observations.groupings import GroupingsObservation
from unbag.observations.information import Information
from unbag.terms.design import Design
from unbag.terms.encoding import Moments
from unbag.weights import check_contrast


class GroupingsLikelihood:
    """ℓ(θ) by the counts of several groupings; in memory.

    Bags of different groupings share rows, so there is no sum over independent bags: the
    dispersion is taken to be 1.

    Parameters
    ----------
    design : Design
        Of the rows in the order of the target, as one bag.
    observation : GroupingsObservation
    """

    n_bags = 0

    def __init__(self, design: Design, observation: GroupingsObservation) -> None:
        self._design, self._observation = design, observation

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        return self._observation.value(self._design.scores(theta))

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        return self._design.score_moments(theta, columns)

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """ℓ(θ), its gradient and, if it is wanted, H."""
        scores = self._design.scores(theta)
        value, residual = self._observation.value_and_residual(scores)
        gradient = self._design.gradient(residual)
        if not information:
            return Derivatives(value, gradient, None)
        weights = self._observation.missing_weights(scores)
        none = np.zeros((1, 0, len(weights)))
        H = self._design.information(Information(weights[None, None], none))
        sums = self._design.sums(self._observation.gathering(scores))
        H = H + self._observation.cell_information(sums, scores)
        return Derivatives(value, gradient, H)

    def bag_products(self, theta: Floats) -> Floats:
        """No bag is independent of the others."""
        return np.zeros((theta.size,) * 2)

    def products(self, theta: Floats) -> Products:
        """Products with H at θ."""
        H: Any = self.derivatives(theta).information
        return lambda x: (x.reshape(len(x), -1) @ H).reshape(x.shape)

    def bag_tables(self, theta: Floats, covariance: Floats | None) -> list[BagPredictions]:  # noqa: ARG002
        """There are no bags that are independent of each other."""
        return []

    def with_bag_effects(self, variances: Floats) -> GroupingsLikelihood:  # noqa: ARG002
        """Cells of several groupings have no effects."""
        return self

    def with_label_shift(self, weight: float) -> GroupingsLikelihood:  # noqa: ARG002
        """Nor sets of counts."""
        return self


def check_groupings_contrast(groupings: Groupings) -> None:
    """Refuse groupings in all of which every cell has the same proportions."""
    errors = []
    for bags in groupings.bags:
        try:
            check_contrast(bags)
        except ValueError as error:
            errors.append(error)
    if len(errors) == len(groupings.bags):
        raise errors[0]
