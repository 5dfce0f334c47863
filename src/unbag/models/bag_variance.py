"""The variance τ² of a random intercept per bag, estimated under both assumptions about bags.

Under covariate shift bags may differ by more than their rows say: log-odds of bag b are f + u_b with
u_b ~ N(0, τ²). Under label shift they never do, but sums over bags of predictions are off as well,
in a known way: E[Σp | K_b] is linear in K_b for any f. So with V_b = Σ_j v_j, the class prior q, N_b
the variance of the noise of the count and D_b = Σp − n_b q, gaps are modelled as

    K_b − Σp = a V_b + d D_b + r_b,    Var r_b = (1 + max(d, 0)) V_b + N_b + τ² V_b² + ω² D_b².

The slope d, which is free, takes up what label shift does; the variance ω² of a random slope, what
it does to some of the bags only. τ² and ω² are found by restricted maximum likelihood with the
leverage that the bags had in the fit of f. τ² is shrunk to τ⁶/(τ⁴ + e²) by the part e² of its squared
standard error that is due to noise, so that noisy counts say that there is no effect. It counts by
the posterior probability of covariate shift, by two slopes between mean predictions x_b and
proportions y_b of bags:

    covariate shift:  the slope of y on x is 1,
    label shift:      the slope of x on y is s = 1 − Σ_b V_b / (N q(1 − q)),

each compared with its standard error and a relative misfit of f of a fifth, so that very many bags
do not decide by what a linear model is a little wrong about. Where both hold (random bags) the
probability is a half, and τ² is zero anyway; where neither does, τ² counts for less.

Sets of counts have another likelihood under label shift (`unbag.bags.count_sets.CountWeights`). With
the wrong one of the two, slopes run away, so that its weights count by the probability of label
shift, times how surely the slope of covariate shift is not 1.

**Several classes.** The log-odds of one class against another vary by τ², so that those of a class
against all K − 1 others vary by about τ²K/2(K − 1). The estimates of all classes are averaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unbag._arrays import Floats
from unbag.defaults import LARGEST_BAG_EFFECT, MISFIT

# A bag determines at most this much of its own prediction.
_MOST_LEVERAGE = 0.9


_MOST_STEPS = 200


class BagPredictions(NamedTuple):
    """What is known and predicted of each bag; arrays of shape (n_bags,).

    Attributes
    ----------
    counts : ndarray
        K_b, as known.
    sizes : ndarray
        n_b.
    noise : ndarray
        N_b, variance of the noise of the count.
    predicted : ndarray
        Σ_j p_j.
    variances : ndarray
        V_b = Σ_j p_j(1 − p_j).
    leverages : ndarray
        g_bᵀPg_b with g_b = Σ_j v_j φ_j and P the posterior covariance of coefficients.
    sets : ndarray
        1 where the count is known as a set, and ``counts`` and ``noise`` are what it amounts to.
    """

    counts: Floats
    sizes: Floats
    noise: Floats
    predicted: Floats
    variances: Floats
    leverages: Floats
    sets: Floats


class BagVariation(NamedTuple):
    """How bags differ beyond their rows.

    Attributes
    ----------
    effect : float
        τ² of random intercepts, times the posterior probability of covariate shift.
    label_shift : float
        How much the weights of label shift count in sets; 0 where all counts are known.
    """

    effect: float = 0.0
    label_shift: float = 0.0


def estimate_bag_variance(tables: list[BagPredictions], before: float) -> BagVariation:
    """How bags differ, by what is known and predicted of each.

    Parameters
    ----------
    tables : list of BagPredictions
        Of the second of two classes, or of each class.
    before : float
        An earlier estimate, at which leverages are taken.
    """
    K = len(tables)
    if K == 1:
        return _of_one_class(tables[0], before)
    against_others = 0.5 * K / (K - 1)
    found = [_of_one_class(table, against_others * before).effect for table in tables]
    weights = [max(float(table.variances.sum()), 1e-12) for table in tables]
    return BagVariation(float(np.average(found, weights=weights)) / against_others)


def _of_one_class(table: BagPredictions, before: float) -> BagVariation:
    n_bags = len(table.sizes)
    if n_bags < 4:
        return BagVariation()
    q = float(np.clip(table.counts.sum() / table.sizes.sum(), 1e-6, 1 - 1e-6))
    variance = _restricted_maximum_likelihood(table, q, before)
    by_covariates, by_labels = _misfits(table, q, variance)
    odds = np.exp(np.clip(0.5 * (by_covariates - by_labels), -50.0, 50.0))
    # where neither fits, as with bags of both kinds, the dispersion takes the rest
    fits = np.exp(-0.5 * by_covariates)
    shift = (1.0 - fits) * odds / (1.0 + odds) if table.sets.any() else 0.0
    return BagVariation(float(variance * fits / (1.0 + odds)), float(shift))


def _restricted_maximum_likelihood(table: BagPredictions, q: float, before: float) -> float:
    """τ²; with the random slope's ω² as the second of two variances."""
    V, noise = table.variances, table.noise
    gap = table.counts - table.predicted
    A = np.column_stack([V, table.predicted - table.sizes * q])
    own = np.minimum(table.leverages / np.maximum(V + noise + before * V**2, 1e-12), _MOST_LEVERAGE)
    variances, slope = np.array([before, 0.0]), 0.0
    for _ in range(_MOST_STEPS):
        beyond = A**2 @ variances
        w = 1.0 / np.maximum((1.0 + max(slope, 0.0)) * V + noise + beyond, 1e-12)
        normal = (A * w[:, None]).T @ A
        inverse = np.linalg.inv(normal + 1e-10 * np.trace(normal) * np.eye(2))
        coef = inverse @ (A.T @ (w * gap))
        residual = gap - A @ coef
        leverage = np.minimum(np.einsum("bi,ij,bj->b", A, inverse, A) * w + own, _MOST_LEVERAGE)
        score = (A**2).T @ (w**2 * residual**2 - w * (1.0 - leverage))
        information = _information(A, w, leverage)
        found = np.clip(
            variances + _scoring_step(variances, score, information), 0.0, LARGEST_BAG_EFFECT
        )
        settled = np.all(np.abs(found - variances) < 1e-4 * found + 1e-9)
        settled &= abs(coef[1] - slope) < 1e-4
        variances, slope = found, float(coef[1])
        if settled:
            break
    # shrunk by what noise adds to its squared standard error
    variance = float(variances[0])
    w = 1.0 / np.maximum((1.0 + max(slope, 0.0)) * V + beyond, 1e-12)
    without_noise = _information(A, w, leverage)[0, 0]
    error = 2.0 / max(information[0, 0], 1e-12) - 2.0 / max(without_noise, 1e-12)
    return variance**3 / (variance**2 + max(error, 0.0) + 1e-300)


def _information(A: Floats, w: Floats, leverage: Floats) -> Floats:
    """Twice the expected information of the variances that the squares of A are multiplied by."""
    return (A**2 * (w**2 * (1.0 - leverage))[:, None]).T @ A**2


def _scoring_step(variances: Floats, score: Floats, information: Floats) -> Floats:
    """Fisher scoring, without the variances that are zero and would turn negative."""
    step, free = np.zeros(len(score)), (variances > 0) | (score > 0)
    if free.any():
        of_free = information[np.ix_(free, free)]
        ridge = 1e-10 * np.trace(of_free) + 1e-300
        step[free] = np.linalg.solve(of_free + ridge * np.eye(len(of_free)), score[free])
    return step


def _misfits(table: BagPredictions, q: float, variance: float) -> tuple[float, float]:
    """Squared differences of both slopes from what they should be, in standard errors."""
    sizes, V = table.sizes, table.variances
    separation = np.clip(1.0 - V.sum() / (sizes.sum() * q * (1.0 - q)), 1e-3, 0.999)
    noise = table.noise / sizes**2
    w = 1.0 / np.maximum(V / sizes**2 + noise + variance * (V / sizes) ** 2, 1e-12)
    w = w / w.sum()
    x, y = table.predicted / sizes, table.counts / sizes
    x, y = x - w @ x, y - w @ y
    xx, xy = max(w @ x**2, 1e-12), w @ (x * y)
    # noise leaves proportions at least as different as predictions of them
    yy = max(w @ (y**2 - noise), abs(xy), 1e-12)
    few = len(sizes) / (len(sizes) - 2.0)
    rising, falling = xy / xx, xy / yy
    error_rising = few * (w**2 * x**2) @ (y - rising * x) ** 2 / xx**2
    error_falling = few * (w**2 * y**2) @ (x - falling * y) ** 2 / yy**2
    by_covariates = (rising - 1.0) ** 2 / (error_rising + MISFIT**2)
    by_labels = (falling - separation) ** 2 / (error_falling + (MISFIT * separation) ** 2)
    return float(by_covariates), float(by_labels)
