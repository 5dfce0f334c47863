"""A uniform prior of the class shares, for counts with noise that may overwhelm them."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.models.newton import Derivatives, Likelihood, Products
from unbag.observations.count_likelihood import count_covariance


class UniformPrior:
    """A log-likelihood, and a uniform prior of the class shares at the constant.

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
        scores = theta[:, 0] if len(theta) > 1 else np.array([0.0, theta[0, 0]])
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
