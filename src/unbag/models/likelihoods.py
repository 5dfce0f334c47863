"""Log-likelihoods of coefficients beside that of bags: with a prior of class shares, of several groupings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from unbag._arrays import Floats
from unbag._outputs import scores_of_all
from unbag.bags.bags import Bags
from unbag.bags.groupings import Groupings
from unbag.models.bag_variance import BagPredictions
from unbag.models.newton import Derivatives, Likelihood, Products
from unbag.observations.count_likelihood import count_covariance
from unbag.observations.groupings import GroupingsObservation
from unbag.observations.information import Information
from unbag.terms.design import Design
from unbag.terms.encoding import Moments
from unbag.weights import check_contrast


class UniformPrior:
    """A log-likelihood, and a uniform prior of the class shares, for noise that may overwhelm counts.

    With π = softmax(θ₀) it adds ν Σ_c log π_c, which keeps the constant finite where noise leaves it
    open. The weight ν is the part of the variance of the total counts that is noise: none if counts are
    exact.
    """

    def __init__(self, likelihood: Likelihood, weight: float) -> None:
        self._likelihood, self._weight = likelihood, weight
        self.n_bags = likelihood.n_bags
        self.bag_products = likelihood.bag_products
        self.bag_tables = likelihood.bag_tables
        self.score_moments = likelihood.score_moments

    def _log_shares(self, theta: Floats) -> Floats:
        scores = scores_of_all(theta[:, 0])
        return scores - logsumexp(scores)

    def value(self, theta: Floats) -> float:
        """ℓ(θ) and the log prior."""
        return self._likelihood.value(theta) + self._weight * float(self._log_shares(theta).sum())

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """The same, its gradient and, if it is wanted, −∂²."""
        at, logs = self._likelihood.derivatives(theta, information), self._log_shares(theta)
        gradient = at.gradient.copy()
        gradient[:, 0] += self._weight * (1.0 - len(logs) * np.exp(logs))[-len(theta) :]
        H = at.information
        if H is not None:
            H = H.copy()
            H[np.ix_(*[np.arange(len(theta)) * theta.shape[1]] * 2)] += self._curvature(theta)
        return Derivatives(at.value + self._weight * float(logs.sum()), gradient, H)

    def _curvature(self, theta: Floats) -> Floats:
        share = np.exp(self._log_shares(theta))
        found = self._weight * len(share) * (np.diag(share) - np.outer(share, share))
        return found[-len(theta) :, -len(theta) :]

    def products(self, theta: Floats) -> Products:
        """Products with −∂² at θ."""
        times, curvature = self._likelihood.products(theta), self._curvature(theta)

        def whole(directions: Floats) -> Floats:
            found = times(directions)
            found[:, :, 0] += directions[:, :, 0] @ curvature
            return found

        return whole

    def with_bag_effects(self, variances: Floats) -> UniformPrior:
        """The same with random intercepts of variances, one for each bag."""
        return UniformPrior(self._likelihood.with_bag_effects(variances), self._weight)

    def with_label_shift(self, weight: float) -> UniformPrior:
        """The same with weights of label shift for counts that are known as sets."""
        return UniformPrior(self._likelihood.with_label_shift(weight), self._weight)


def with_class_prior(likelihood: Likelihood, bags: Bags) -> Likelihood:
    """The log-likelihood of bags, with the prior of their class shares where counts are noisy."""
    covariance = count_covariance(bags)
    if not covariance.any():
        return likelihood
    n, q = float(bags.sizes.sum()), bags.class_shares
    noise, sampling = float(np.trace(covariance.sum(axis=0))), float((q * (1.0 - q)).sum())
    return UniformPrior(likelihood, noise / (noise + n * sampling))


class GroupingsLikelihood:
    """ℓ(θ) by the counts of several groupings; the design is of the rows of the target, as one bag.

    Bags of different groupings share rows, so there is no sum over independent bags: the dispersion is
    taken to be 1, and bags have no effects.
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
        weights, gathering, V = self._observation.information(scores)
        none = np.zeros((1, 0, len(weights)))
        H = self._design.information(Information(weights[None, None], none))
        if V is not None:
            sums = self._design.sums(gathering)
            H = H + sums.T @ V.solve(sums)
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
            return
        except ValueError as error:
            errors.append(error)
    raise errors[0]
