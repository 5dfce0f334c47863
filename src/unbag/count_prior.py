"""The distribution of the number of positives in a bag, before its instances are seen.

A bag's proportion p is drawn from a beta distribution of parameters a and b, and then each of its
n labels is positive with probability p: the count k is beta-binomial,

    π_k = (n choose k) b_k,    b_k = E[p^k (1 − p)^{n−k}] = B(k + a, n − k + b) / B(a, b).

With a + b → ∞ all bags have the same p and labels are independent: the count is binomial. Means
over p of polynomials, which the count likelihood needs, are exact sums by Gauss–Jacobi quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize
from scipy.special import betaln, expit, logit, logsumexp, psi, xlog1py, xlogy

# Concentrations beyond the larger bound are the binomial; below the smaller one, nothing changes.
_CONCENTRATIONS = (1e-2, 1e6)

# Largest relative error of the sum over m, whatever the scores.
_QUADRATURE_ERROR = 1e-10

# How much log-likelihood a beta-binomial must gain over the binomial.
_WORTH_A_PARAMETER = 1e-3


@dataclass(frozen=True)
class CountPrior:
    """Beta-binomial distribution of the number of positives in a bag.

    Attributes
    ----------
    mean : float
        Chance that an instance is positive, strictly between 0 and 1.
    concentration : float
        a + b of the beta distribution of a bag's proportion; infinite if the labels of a bag are
        independent, when the counts are binomial.
    """

    mean: float
    concentration: float

    def log_weight(self, counts: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of b_k = π_k / (n choose k), the chance of one way to have the count k."""
        k, n = np.asarray(counts, dtype=float), np.asarray(sizes, dtype=float)
        if np.isinf(self.concentration):
            return xlogy(k, self.mean) + xlog1py(n - k, -self.mean)
        a, b = self.mean * self.concentration, (1 - self.mean) * self.concentration
        return betaln(k + a, n - k + b) - betaln(a, b)

    def nodes(self, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Nodes p and log-weights for E[Π_j (1 − p + p r_j)] over bags up to a size.

        ⌈(n + 1)/2⌉ nodes are exact, and far fewer are nearly so for large n, some 4 √n. The
        product is a mixture of p^m (1 − p)^{n−m} with weights e_m(r) ≥ 0, so that no scores can
        have a larger relative error than the worst of these has; and their means are known.
        """
        if np.isinf(self.concentration):
            return np.array([self.mean]), np.zeros(1)
        exact = size // 2 + 1
        m = np.unique(np.linspace(0, size, min(size, 2000) + 1).round())
        expected = self.log_weight(m, size)
        n_nodes = min(exact, int(np.ceil(2 * np.sqrt(size))))
        while True:
            p, log_weights = _gauss_jacobi(self.mean, self.concentration, n_nodes)
            if n_nodes == exact:
                return p, log_weights
            terms = np.multiply.outer(m, np.log(p)) + np.multiply.outer(size - m, np.log1p(-p))
            if np.abs(logsumexp(terms + log_weights, axis=1) - expected).max() < _QUADRATURE_ERROR:
                return p, log_weights
            n_nodes = min(exact, n_nodes + 1 + n_nodes // 8)


def _gauss_jacobi(
    mean: float, concentration: float, n_nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and log-weights of Gauss quadrature for a beta distribution on [0, 1].

    Nodes are the eigenvalues of the three-term recurrence; the weight at a node is the inverse
    of the sum of squares of the orthonormal polynomials there, which is accurate however small.
    """
    s, a, b = concentration, mean * concentration, (1 - mean) * concentration
    i = np.arange(1, n_nodes)
    diagonal = np.full(n_nodes, mean)
    diagonal[1:] = 0.5 + 0.5 * (a - b) * (s - 2) / ((2 * i + s - 2) * (2 * i + s))
    off = np.empty(n_nodes - 1)
    off[:1] = a * b / (s**2 * (s + 1))
    i = i[1:]
    off[1:] = i * (i + a - 1) * (i + b - 1) * (i + s - 2)
    off[1:] /= (2 * i + s - 2) ** 2 * (2 * i + s - 1) * (2 * i + s - 3)
    off = np.sqrt(off)
    eigenvalues = eigh_tridiagonal(diagonal, off, eigvals_only=True)
    p = np.clip(np.asarray(eigenvalues, dtype=np.float64), 1e-16, 1 - 1e-16)
    before, now = np.zeros(n_nodes), np.ones(n_nodes)
    log_total = np.zeros(n_nodes)
    for j in range(n_nodes - 1):
        after = ((p - diagonal[j]) * now - (off[j - 1] if j else 0.0) * before) / off[j]
        # keep the sum of squares at one, and its logarithm
        total = np.sqrt(1 + after**2)
        before, now = now / total, after / total
        log_total += 2 * np.log(total)
    return p, -log_total


def fit_count_prior(counts: ArrayLike, sizes: ArrayLike) -> CountPrior:
    """Fit a beta-binomial distribution to the counts of bags, by maximum likelihood.

    Parameters
    ----------
    counts : array-like of shape (n_bags,)
        Number of positives in each bag.
    sizes : array-like of shape (n_bags,)
        Number of instances in each bag.

    Returns
    -------
    prior : CountPrior
        Of infinite concentration if the counts vary no more than independent labels would.
        If all labels are equal, the mean is kept half an instance away from 0 and 1.

    Examples
    --------
    >>> from unbag.count_prior import fit_count_prior
    >>> prior = fit_count_prior([0, 1, 2, 6, 8, 7], [8, 8, 8, 8, 8, 8])
    >>> round(prior.mean, 2), round(prior.concentration, 1)
    (0.5, 1.0)
    >>> fit_count_prior([4, 4, 4, 4], [8, 8, 8, 8])
    CountPrior(mean=0.5, concentration=inf)
    """
    k, n = np.asarray(counts, dtype=float), np.asarray(sizes, dtype=float)
    if k.ndim != 1 or k.shape != n.shape or len(k) == 0:
        raise ValueError(f"Give one count and one size per bag, not shapes {k.shape}, {n.shape}.")
    if not ((k >= 0) & (k <= n) & (n >= 1)).all():
        raise ValueError("Every bag needs a size of 1 or more and a count between 0 and its size.")
    pairs, times = np.unique(np.stack([k, n]), axis=1, return_counts=True)
    k, n = pairs
    total = float(times @ n)
    edges = 0.5 / (total + 1), 1 - 0.5 / (total + 1)
    mean = float(np.clip(times @ k / total, *edges))
    binomial = CountPrior(mean, np.inf)
    if mean in edges:
        return binomial

    def minus_log_likelihood(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        share, c = expit(parameters[0]), np.exp(parameters[1])
        a, b = share * c, (1 - share) * c
        value = -times @ (betaln(k + a, n - k + b) - betaln(a, b))
        shared = psi(n + c) - psi(c)
        by_a = times @ (psi(k + a) - psi(a) - shared)
        by_b = times @ (psi(n - k + b) - psi(b) - shared)
        slope = np.array([share * (1 - share) * c * (by_a - by_b), a * by_a + b * by_b])
        return value / total, -slope / total

    fits = [
        minimize(
            minus_log_likelihood,
            [logit(mean), np.log(start)],
            jac=True,
            method="L-BFGS-B",
            bounds=[tuple(logit(edges)), tuple(np.log(_CONCENTRATIONS))],
            options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9},
        )
        for start in (0.5, 5.0, 50.0)
    ]
    best = min(fits, key=lambda fit: fit.fun)
    fitted = CountPrior(float(expit(best.x[0])), float(np.exp(best.x[1])))
    gain = times @ (fitted.log_weight(k, n) - binomial.log_weight(k, n))
    return fitted if gain > _WORTH_A_PARAMETER else binomial
