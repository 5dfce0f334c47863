"""The probability that a sum of independent draws is a count, exactly: for small bags.

Row j of a bag is positive with probability p_j, independently of the others. The probabilities F_j[s] that s
of the first j rows are positive, and the weight G_j[s] that the rest still adds to s, follow from
each other row by row,

    F_{j+1}[s] = (1 − p_j) F_j[s] + p_j F_j[s − 1],
    G_j[s] = (1 − p_j) G_{j+1}[s] + p_j G_{j+1}[s + 1],

from F_0 = (1, 0, ...) and G_n, the weight of each count: one for the count that is known, zero for
the others, or its density where that is known up to some noise. Then Σ_m G_n[m] Pr(K = m) = G_0[0],
and row j is positive with the posterior probability p_j Σ_s F_j[s] G_{j+1}[s + 1] / G_0[0]. Nothing is
subtracted, so that all of it is exact to rounding.

**Several classes.** States would be many. But once the scores of a bag are tilted (see
`unbag.observations.saddlepoint`), so that its count is the mean of the draws with probabilities q_j, that
count is a likely one, and its probability a sum without cancellation over roots of unity,

    Pr(K = k) = R⁻¹ Σ_z φ(z) Π_c z_c^{−k_c},    φ(z) = Π_j Σ_c q_jc z_c,

where z_c runs over the M-th roots of unity, M > n, for all classes but the last, whose z is 1. Of
conjugate terms one is enough. M is prime, so that no factor of φ vanishes where probabilities are shares
of whole counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Floats

# Bags of several classes are summed exactly if that takes at most this many roots.
_MOST_ROOTS = 200

_PRIMES = (5, 7, 11, 13, 17, 19)

_TINY = 1e-30


def weighed_counts(f: Array, final: Array, gradient: bool = True) -> tuple[Array, Any]:
    """Mean weight of the count of each bag, and what its logarithm gains with each log-odds.

    ``f`` (slots, ...) are log-odds of the rows of bags, side by side, −1e30 in slots without a row; ``final``
    (states, ...) weighs the counts 0, 1, ... The gains are posterior probabilities less p_j.
    """
    small = np.exp(-np.abs(f))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    positive = f > 0
    p, rest = np.where(positive, larger, smaller), np.where(positive, smaller, larger)
    weight, n = final, f.shape[0]
    after = []
    for j in range(n - 1, -1, -1):
        after.append(weight)
        lower = rest[j, ...] * weight
        lower[:-1, ...] += p[j, ...] * weight[1:, ...]
        weight = lower
    mean = weight[0, ...]
    if not gradient:
        return mean, None
    before = np.zeros_like(final)
    before[0, ...] = 1.0
    ahead_of = []
    for j in range(n):
        ahead_of.append(np.sum(before[:-1, ...] * after[n - 1 - j][1:, ...], axis=0))
        if j + 1 < n:
            upper = rest[j, ...] * before
            upper[1:, ...] += p[j, ...] * before[:-1, ...]
            before = upper
    return mean, p * (np.stack(ahead_of) / mean - 1.0)


def largest_exact_bag(n_classes: int) -> int:
    """Rows that a bag of several classes may have to be summed exactly."""
    fitting = [M for M in _PRIMES if (M + 1) // 2 * M ** (n_classes - 2) <= _MOST_ROOTS]
    return max(fitting) - 1 if fitting else 0


def turned_roots(k: Floats, size: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Roots z (roots, classes), and Π_c z_c^{−k_c} over their number (bags, roots).

    A root whose conjugate is left out counts twice.
    """
    n_classes, M = k.shape[1], next(prime for prime in _PRIMES if prime > size)
    sides = [np.arange((M + 1) // 2), *[np.arange(M)] * (n_classes - 2), np.zeros(1, dtype=int)]
    exponents = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, n_classes)
    turn = np.exp(-2j * np.pi / M * (np.round(k) @ exponents.T))
    twice = np.where(exponents[:, 0] > 0, 2.0, 1.0) / M ** (n_classes - 1)
    return np.exp(2j * np.pi / M * exponents), turn * twice


def factors_at(q: Array, roots: Array) -> Array:
    """Σ_c q_jc z_c for probabilities q (..., classes, rows) and all roots: (..., roots, rows)."""
    return roots @ q.astype(roots.dtype) + _TINY


def posteriors_at(q: Array, factors: Array, roots: Array, weights: Array) -> Array:
    """Class probabilities given the count, by the parts of roots in its probability (..., roots)."""
    return q * np.real(roots.T @ (weights[..., None] / factors))
