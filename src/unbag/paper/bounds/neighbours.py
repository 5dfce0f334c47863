"""Neighbouring bags: how often their order is wrong, and how often their proportions are close.

The second is condition (LP): the theorem on merged bags asks for τ with P(|γ_1 − γ_2| < Δ) ≤ τ. If
bags are in no particular order, the share U(Δ) of all pairs of bags that differ by less than Δ
estimates it, and by Hoeffding's inequality for such averages over pairs of L bags,

    P(|γ_1 − γ_2| < Δ) ≤ U(Δ) + √(log(1/δ) / (2⌊L/2⌋))    with probability 1 − δ.

True proportions are seldom known. Given two of them, the observed difference of bags of n
independent labels strays from the true one by u or more with probability 2e^{−nu²} at most. So for all u

    P(|γ_1 − γ_2| < Δ) ≤ P(|γ̂_1 − γ̂_2| < Δ + u) / (1 − 2e^{−nu²}),

and the right-hand side has the same estimate. It takes large bags: for n = 8 it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside, check_share
from unbag.paper.bounds.checks import check_proportions, check_spread


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


# --- the condition (LP) ---------------------------------------------------------------------------


@dataclass(frozen=True)
class NeighbourCondition:
    """Δ and τ of condition (LP), found by `neighbour_condition`.

    Attributes
    ----------
    spread : float
        Δ.
    share : float
        Pairs of the given proportions that differ by less than Δ.
    tau : float
        A bound of τ(Δ) that holds with probability 1 − δ. At 1 it says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.paper.bounds import neighbour_condition
    >>> found = neighbour_condition(np.linspace(0, 1, 200), 0.1)
    >>> found.spread, bool(found.share < found.tau < 1)
    (0.1, True)
    """

    spread: float
    share: float
    tau: float


def neighbour_condition(
    proportions: ArrayLike, spread: float, *, bag_size: int | None = None, delta: float = 0.05
) -> NeighbourCondition:
    """Compute τ(Δ) of condition (LP) from bags, for true proportions that are independent.

    Parameters
    ----------
    proportions : array-like of shape (n_bags,)
        True proportions, or observed ones if ``bag_size`` is given.
    spread : float
        Δ.
    bag_size : int, optional
        n of bags whose observed proportions are given and whose labels are independent (CIIM).
    delta : float, default=0.05
        ``tau`` may be too small with this probability.

    Returns
    -------
    NeighbourCondition

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.paper.bounds import neighbour_condition
    >>> found = neighbour_condition(np.linspace(0, 1, 2000), 0.3)
    >>> round(found.share, 3), round(found.tau, 3)  # 1 − .7², and more to be sure
    (0.509, 0.548)
    """
    gamma = np.sort(check_proportions(proportions))
    check_inside(delta, "delta")
    if len(gamma) < 2:
        raise ValueError(f"Two bags are needed for a difference, and there is {len(gamma)}.")
    check_spread(spread)
    surplus = sqrt(log(1 / delta) / (2 * (len(gamma) // 2)))
    share = _share_below(gamma, spread)
    if bag_size is None:
        return NeighbourCondition(spread, share, min(share + surplus, 1.0))
    n = check_count(bag_size, "bag_size")
    # one u, chosen before the data are seen: there the chance to stray is one in √n and so small
    stray = sqrt(log(2 * sqrt(n)) / n)
    kept = 1 - 2 * exp(-n * stray**2)
    tau = (_share_below(gamma, spread + stray) + surplus) / kept if kept > 0 else 1.0
    return NeighbourCondition(spread, share, min(tau, 1.0))


def _share_below(ordered: Floats, distance: float) -> float:
    """Give the share of pairs of ordered numbers that differ by less than ``distance``."""
    n = len(ordered)
    ends = np.searchsorted(ordered, ordered + distance, side="left")
    return float(np.sum(ends - np.arange(n) - 1) / (n * (n - 1) / 2))
