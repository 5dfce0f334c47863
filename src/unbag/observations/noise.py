"""Proportions shrunken towards their mean, for losses that take noisy proportions as exact.

Let k be a noisy count, N the variance of its noise, and true counts vary over bags with mean nμ and
covariance n(1 + (n − 1)ρ)(diag μ − μμᵀ), as those of a Dirichlet-multinomial distribution of
overdispersion ρ do. The shrunken count is the mean of the true one given k if both were normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbag._arrays import Floats
from unbag.bags.bags import Bags

# S is at most so many times the noise.
_LARGEST_GAIN = 10.0

# Least number of rows that a class is taken to have in a noisy bag.
_EDGE = 0.5

# Overdispersion of shuffled bags, and of bags of almost one class each.
_LEAST_SPREAD, _MOST_SPREAD = 1e-6, 0.95

# The estimate of the overdispersion settles within a few rounds.
_ROUNDS = 20

_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Shares:
    """How shares vary over bags: their mean μ, and their overdispersion ρ.

    The counts of a bag have the covariance n (1 + (n − 1)ρ) (diag μ − μμᵀ).
    """

    mean: Floats
    spread: float

    @classmethod
    def of(cls, bags: Bags) -> Shares:
        """Estimate them by moments, from all bags but rows of known label.

        d_b = Σ_c (γ_bc − μ_c)²/μ_c/(C − 1) has the mean 1/n_b + ρ(1 − 1/n_b), and what noise adds.
        """
        used = ~bags.labelled
        shares, sizes = bags.proportions[used], bags.sizes[used].astype(float)
        mean = np.clip(sizes @ shares / sizes.sum(), _LEAST_SHARE, None)
        mean = mean / mean.sum()
        scale = mean * (len(mean) - 1)
        chance = 1 / sizes
        if bags.noise is not None:
            chance = chance + (np.einsum("bcc->bc", bags.noise[used]) / scale).sum(axis=1)
        excess = ((shares - mean) ** 2 / scale).sum(axis=1) - chance
        room = np.maximum(1 - 1 / sizes, _LEAST_SPREAD)
        spread = _LEAST_SPREAD
        for _ in range(_ROUNDS):
            weights = room / (chance + room * spread) ** 2
            found = float(weights @ excess / (weights @ room))
            spread = min(max(found, _LEAST_SPREAD), _MOST_SPREAD)
        # less than its error cannot be told from nothing, and would be taken for certain
        error = float(np.sqrt(weights**2 @ (excess - spread * room) ** 2) / (weights @ room))
        return cls(mean, min(max(spread, error), _MOST_SPREAD))

    def shrink(self, counts: Floats, sizes: Floats, noise: Floats) -> Floats:
        """Means of true counts, given noisy ones (bags, classes) and their covariance."""
        n, mu = sizes[:, None], self.mean
        factor = (n * (1 + (n - 1) * self.spread))[:, :, None]
        own = factor * (np.diag(mu) - np.outer(mu, mu))
        away = np.linalg.pinv(own + noise, hermitian=True) @ (counts - n * mu)[:, :, None]
        found = np.clip(n * mu + (own @ away)[:, :, 0], _EDGE, None)
        return found * (n / found.sum(axis=1, keepdims=True))


def shrunken_shares(bags: Bags) -> Floats:
    """Shares of the classes in every bag, of noisy ones what is to be expected given the others."""
    if bags.noise is None:
        return bags.proportions
    sizes = bags.sizes.astype(float)
    counts, noise = sizes[:, None] * bags.proportions, bags.noise * sizes[:, None, None] ** 2
    shares: Floats = Shares.of(bags).shrink(counts, sizes, noise) / sizes[:, None]
    exact = (bags.noise == 0).reshape(bags.n_bags, -1).all(axis=1)
    shares[exact] = bags.proportions[exact]
    return shares
