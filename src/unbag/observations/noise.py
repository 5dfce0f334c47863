"""What a noisy count tells of a bag where classes keep their look.

Let k be the count that is told, m the true one, and the noise between them normal with covariance
N. Given the rows, the likelihood of a bag is

    Σ_m e^{w(m)} Pr(K = m),    w(m) = −½ (k − m)ᵀN⁻¹(k − m) + λ r(m).

If rows keep their odds, λ = 0. If classes keep their look, λ = 1: the rows of a bag of true counts
m have a likelihood in proportion to Pr(K = m)/Mult(m; n, q), with the multinomial distribution at
the shares q of all bags together (`unbag.observations.count_likelihood`), and bags have the counts m
with the frequency π(m), so that r = log π − log Mult. In shuffled bags π is multinomial and r
constant.

π is taken to be a Dirichlet–multinomial distribution, of the mean μ and the overdispersion ρ that
the shares of the bags have beyond their noise. With a = μ(1/ρ − 1), up to constants,

    r(m) = Σ_c [log Γ(m_c + a_c) − m_c log q_c],    r' = ψ(m + a) − log q,    r'' = diag ψ'(m + a).

w is taken to second order around the shrunken count m̂, the mean of m given k if both were normal:

    w(m) = constant + (m − m̂)ᵀw'(m̂) − ½ (m − m̂)ᵀS⁻¹(m − m̂),    S⁻¹ = N⁻¹ − λ r''(m̂),

which is a normal density of covariance S around m̂ + S w'(m̂). So a noisy bag is one of another count
and another noise, and nothing else needs to know. For λ = 0 these are k and N themselves. Where the
noise is larger than the spread of draws, S⁻¹ would be negative; then S is large, the tilt of the
bag is r'(m̂), about log(m̂/nq), and its likelihood the forward one (`unbag.observations.forward`) at
m̂/n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import polygamma, psi

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


def allow_for_looks(bags: Bags, looks: float) -> Bags:
    """Give noisy bags the count and the noise by which the likelihood is right.

    Parameters
    ----------
    bags : Bags
    looks : float
        λ: 0 where rows keep their odds, 1 where classes keep their look.

    Returns
    -------
    bags : Bags
        Shares of noisy bags may lie anywhere; others stay as they are.

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.noise import allow_for_looks
    >>> y = bag_target([1] * 10 + [2] * 10, counts=[2.0] * 10 + [8.0] * 10, noise=1.0)
    >>> told = allow_for_looks(check_bag_target(y), looks=1)
    >>> told.proportions[:, 1].round(2), told.noise[:, 1, 1].round(3)
    (array([0.02, 0.98]), array([0.017, 0.017]))
    """
    if bags.noise is None or looks == 0 or bags.labelled.all():
        return bags
    noisy = bags.noise.any(axis=(1, 2))
    n = bags.sizes[noisy, None].astype(float)
    counts, noise = n * bags.proportions[noisy], bags.noise[noisy] * n[:, :, None] ** 2
    shares = Shares.of(bags)
    near = shares.shrink(counts, n[:, 0], noise)
    more = shares.mean * (1 / shares.spread - 1)
    pooled = np.log(np.clip(bags.class_shares, _LEAST_SHARE, None))
    slope = looks * (psi(near + more) - pooled)
    slope += (np.linalg.pinv(noise, hermitian=True) @ (counts - near)[:, :, None])[:, :, 0]
    S = _gained(noise, looks * polygamma(1, near + more))
    proportions, covariance = bags.proportions.copy(), bags.noise.copy()
    proportions[noisy] = (near + (S @ slope[:, :, None])[:, :, 0]) / n
    covariance[noisy] = S / n[:, :, None] ** 2
    return replace(bags, proportions=proportions, noise=covariance)


def _gained(noise: Floats, curvature: Floats) -> Floats:
    """S = (N⁻¹ − diag r'')⁻¹, for N that may be singular: N^½ (I − N^½ r'' N^½)⁻¹ N^½."""
    values, vectors = np.linalg.eigh(noise)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ np.swapaxes(vectors, 1, 2)
    bent, axes = np.linalg.eigh(root @ (curvature[:, :, None] * root))
    gain = 1 / np.maximum(1 - bent, 1 / _LARGEST_GAIN)
    turned = root @ axes
    found: Floats = (turned * gain[:, None, :]) @ np.swapaxes(turned, 1, 2)
    return found
