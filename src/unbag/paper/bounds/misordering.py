"""How often chance turns the order of two bags around."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from unbag._checks import check_count, check_share


def misordering_probability(
    low: float, high: float, size_low: int, size_high: int | None = None, *, ties: float = 0.0
) -> float:
    """Chance that of two bags the one with the larger true proportion shows the smaller share.

    Σ_k P(K₁ = k) P(K₂/n₂ < k/n₁) for independent binomial counts K₁, K₂ of positives.

    Parameters
    ----------
    low : float
        Smaller true proportion.
    high : float
        Larger true proportion.
    size_low : int
        Size of the bag with the smaller one.
    size_high : int, optional
        Size of the other; by default the same.
    ties : float in [0, 1], default=0
        Which part of the chance of equal shares to add; ½ if ties are broken at random.

    Returns
    -------
    probability : float
        The chance.

    Examples
    --------
    The paper's example, where it is .26:

    >>> from unbag.paper.bounds import misordering_probability
    >>> round(misordering_probability(0.45, 0.55, 8), 4)
    0.2559
    """
    if not 0 <= low <= high <= 1:
        raise ValueError(f"0 <= low <= high <= 1 fails: low is {low:g} and high is {high:g}.")
    n_low, n_high = size_low, size_low if size_high is None else size_high
    for n in (n_low, n_high):
        check_count(n, "size_low and size_high")
    check_share(ties, "ties")
    k = np.arange(n_low + 1)
    chance = binom.pmf(k, n_low, low)
    # in whole numbers, K₂ n₁ < k n₂ and K₂ n₁ = k n₂
    below = binom.cdf((k * n_high - 1) // n_low, n_high, high)
    equal = np.where(k * n_high % n_low == 0, binom.pmf(k * n_high // n_low, n_high, high), 0)
    return float(chance @ (below + ties * equal))
