"""How many bags it takes to estimate a measure without labels, before there are any data.

A measure of a classifier is, to first order, Σ_i Σ_c W[i, c] · (mean of φ_c over bag i) with φ its
influence (see `unbag.evaluation.uncertainty`). For L bags of n independent instances, W by least
squares and S_a the covariance of φ = (φ₋, φ₊) inside class a, its variance is

    V = (1/(L n)) Σ_a trace(S_a M⁻¹ T_a M⁻¹),    M = E[γγᵀ],    T_a = E[γ[a] γγᵀ],

with γ = (1 − g, g) and g the observed proportion of a bag. So V falls as 1/L, and three moments of
g say how many bags it takes. Bags that are drawn may turn out to be much alike: for normal g with
variance s², the mean of 1/Σ(g − ḡ)² is 1/((L − 3)s²), so that L such bags count as L − 3.

* Balanced accuracy b with equal error rates: φ₊ = ½·1[f > t] and φ₋ = ½ − φ₊ both vary by
  b(1 − b)/4 in either class.
* AUC: φ₊(x) = P(f(X₋) < f(x)) and φ₋(x) = P(f(X₊) > f(x)), for scores that are normal with the
  same variance in both classes.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count, check_inside, check_positive
from unbag.bags.shares import check_range

PlannedMeasure = Literal["balanced_accuracy", "roc_auc"]

# Bags that random variation takes if proportions are random; with fewer in all, nothing is left over
# to estimate how much bags vary.
_LOST_BAGS = _FEWEST_BAGS = 3


def required_bags(
    bag_size: int,
    proportions: Any,
    standard_error: float,
    *,
    measure: PlannedMeasure = "balanced_accuracy",
    expected: float = 0.5,
) -> int:
    """Number of bags of a size and spread that a measure's standard error needs.

    Parameters
    ----------
    bag_size : int
        Instances in every bag.
    proportions : (low, high) or array-like
        How the bags differ. Two numbers say between which true proportions are uniform, as in
        `unbag.datasets.make_bags`: labels are drawn, so that observed proportions vary more. Three
        or more numbers are observed proportions of bags like those you plan.
    standard_error : float
        That of the measure; the half width of a 95% interval is some two of these.
    measure : {"balanced_accuracy", "roc_auc"}, default="balanced_accuracy"
        What `unbag.evaluation` is to estimate from the bags, for scores of a model that has not
        seen them.
    expected : float, default=0.5
        About the value that it will have. Better classifiers take fewer bags, so that one half
        is the cautious choice.

    Returns
    -------
    n_bags : int
        At least 3.

    Examples
    --------
    >>> from unbag.paper.bounds import required_bags
    >>> required_bags(50, (0.1, 0.6), 0.02, expected=0.8)
    84
    """
    check_count(bag_size, "bag_size")
    check_positive(standard_error, "standard_error")
    first, second, third = _observed_moments(proportions, bag_size)
    M = np.array([[1 - 2 * first + second, first - second], [first - second, second]])
    positive = np.array([[first - 2 * second + third, second - third], [second - third, third]])
    inverse = np.linalg.inv(M)
    by_class = inverse @ np.stack([M - positive, positive]) @ inverse
    variance = float(np.sum(_influence_covariance(measure, expected) * by_class)) / bag_size
    # a whole number must not be missed by rounding
    needed = ceil(variance / standard_error**2 * (1 - 1e-12))
    return max(needed + (_LOST_BAGS if np.shape(proportions) == (2,) else 0), _FEWEST_BAGS)


def _influence_covariance(measure: str, expected: float) -> Floats:
    """S_a for the negative and the positive class: shape (2, 2, 2)."""
    check_choice(measure, get_args(PlannedMeasure), "measure")
    check_inside(expected, "expected")
    if measure == "balanced_accuracy":
        return np.full((2, 1, 1), expected * (1 - expected) / 4) * [[1, -1], [-1, 1]]
    distance = sqrt(2) * float(ndtri(expected))
    nodes, weight = np.polynomial.hermite_e.hermegauss(80)
    x = np.stack([nodes, nodes + distance])
    influence = np.stack([ndtr(distance - x), ndtr(x)])
    weight = weight / weight.sum()
    centred = influence - (influence @ weight)[..., None]
    return np.einsum("cak,dak,k->acd", centred, centred, weight)


def _observed_moments(proportions: Any, n: int) -> Floats:
    """E[g], E[g²] and E[g³] of the observed proportions of bags of n instances."""
    if np.shape(proportions) == (2,):
        low, high = map(float, proportions)
        check_range(low, high)
        p1, p2 = (low + high) / 2, (low**2 + low * high + high**2) / 3
        p3 = (low + high) * (low**2 + high**2) / 4
        # of the count: E[K²] = E[K(K−1)] + E[K], E[K³] = E[K(K−1)(K−2)] + 3E[K(K−1)] + E[K]
        pairs, triples = n * (n - 1) * p2, n * (n - 1) * (n - 2) * p3
        moments = np.array([p1, (pairs + n * p1) / n**2, (triples + 3 * pairs + n * p1) / n**3])
    else:
        g = np.asarray(proportions, dtype=float)
        if g.ndim != 1 or len(g) < 3 or not ((g >= 0) & (g <= 1)).all():
            raise ValueError(
                "proportions must be (low, high), or three or more observed proportions between 0 "
                "and 1."
            )
        moments = np.mean([g, g**2, g**3], axis=1)
    if moments[1] - moments[0] ** 2 < 1e-18:
        raise ValueError(
            "All bags would have the same proportion, and no number of those separates the classes."
        )
    return moments
