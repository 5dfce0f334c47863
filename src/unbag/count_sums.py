"""The chance that a sum of independent draws hits a count, exactly: for small bags.

Row j of a bag is positive with chance p_j, independently of the others. The chances F_j[s] that s
of the first j rows are positive, and the weight G_j[s] that the rest still adds to s, follow from
each other row by row,

    F_{j+1}[s] = (1 − p_j) F_j[s] + p_j F_j[s − 1],
    G_j[s] = (1 − p_j) G_{j+1}[s] + p_j G_{j+1}[s + 1],

from F_0 = (1, 0, ...) and G_n, the weight of each count: one for the count that is known, zero for
the others, or its density where that is known up to some noise. Then Σ_m G_n[m] Pr(K = m) = G_0[0],
and row j is positive with the posterior chance p_j Σ_s F_j[s] G_{j+1}[s + 1] / G_0[0]. Nothing is
subtracted, so that all of it is exact to rounding.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from unbag.arrays import Array


def weighed_counts(f: Array, final: Array, gradient: bool = True) -> tuple[Array, Any]:
    """Mean weight of the count of each bag, and what its logarithm gains with each log-odds.

    Parameters
    ----------
    f : array of shape (slots, ...)
        Log-odds of the rows of bags, side by side; −1e30 in slots without a row.
    final : array of shape (states, ...)
        Weight of the counts 0, 1, ...; of larger ones it is zero.
    gradient : bool
        Whether the gains are asked for.

    Returns
    -------
    mean : array of shape (...)
    gains : array of shape (slots, ...), or None
        Posterior chance of each row to be positive, less p_j.
    """
    xp = array_namespace(f)
    small = xp.exp(-xp.abs(f))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    positive = f > 0
    p, rest = xp.where(positive, larger, smaller), xp.where(positive, smaller, larger)
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
    before = xp.zeros_like(final)
    before[0, ...] = 1.0
    chances = []
    for j in range(n):
        ahead = after[n - 1 - j]
        chances.append(xp.sum(before[:-1, ...] * ahead[1:, ...], axis=0))
        if j + 1 < n:
            upper = rest[j, ...] * before
            upper[1:, ...] += p[j, ...] * before[:-1, ...]
            before = upper
    return mean, p * (xp.stack(chances) / mean - 1.0)
