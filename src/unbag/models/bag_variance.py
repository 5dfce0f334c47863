"""The variance τ² of a random intercept per bag, where bags may follow either assumption.

Under covariate shift bags may differ by more than their rows say: log-odds of bag b are f + u_b with
u_b ~ N(0, τ²). Under label shift they never do, but sums over bags of predictions are off as well,
in a known way. Let V_b = Σ_j p_j(1 − p_j), D_b = Σ_j p_j − n_b q with q the mean of all p_j, N_b the
variance of the noise of the count, s = 1 − Σ_b V_b / (N q(1 − q)) the separation of the classes by f,
and C_b the variance of K_b − n_b q over bags. Then gaps are a mixture of two regressions,

    K_b − Σ_j p_j = a V_b + (r_b − 1) D_b + δ r_b D_b + e_b,
    Var e_b = r_b V_b + N_b + τ² V_b² + ω² r_b² D_b²,

    covariate shift:  r_b = 1,
    label shift:      r_b = C_b / (s C_b + V_b),

the latter from a normal K_b and Σ_j p_j with mean n_b q + s(K_b − n_b q) and variance s V_b. In random
bags C_b = n_b q(1 − q), and both are the same. The proportion of bags that follow covariate shift is
that of maximum likelihood, from none to all. Since f is never quite right, slopes may be off by δ in
common, with a standard deviation of a fifth, and by random slopes of variance ω² between bags.

All is found by expectation–maximisation, τ² and ω² by restricted maximum likelihood with the leverage
that the bags had in the fit of f. τ has a half-normal prior, which keeps a dozen bags, or counts that
are mostly noise, from large effects. Each bag has τ² times its probability of covariate shift.

Sets of counts have another likelihood under label shift (`unbag.bags.count_sets.CountWeights`). With the
wrong one of the two slopes run away, so its weights count by 2P − 1, with P the probability that all bags
follow label shift rather than covariate shift, if that is the more likely. It is found by the counts that
are known: which counts are known depends on the counts, and this makes label shift less likely if anything.

**Several classes.** The log-odds of one class against another vary by τ², so that those of a class
against all K − 1 others vary by about τ²K/2(K − 1). The estimates of all classes are averaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from unbag._arrays import Floats
from unbag.defaults import BAG_EFFECT_SD, MISFIT

# A bag determines at most this much of its own prediction.
_MOST_LEVERAGE = 0.9

_MOST_STEPS = 200

# A variance τ² that hardly matters.
_SMALL = 0.05

_TINY = 1e-12

# Log odds of one bag beyond which more do not matter.
_MOST_EVIDENCE = 30.0


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
    effects : ndarray of shape (n_bags,)
        τ² of the random intercept of each bag, times its probability of covariate shift.
    label_shift : float
        How surely all bags follow label shift; 0 where all counts are known.
    """

    effects: Floats
    label_shift: float = 0.0


def estimate_bag_variance(tables: list[BagPredictions], before: Floats, tol: float) -> BagVariation:
    """How bags differ, by what is known and predicted of each.

    Parameters
    ----------
    tables : list of BagPredictions
        Of the second of two classes, or of each class.
    before : ndarray of shape (n_bags,)
        Earlier estimates, at which leverages are taken.
    tol : float
        Relative change of the estimates at which they have settled.
    """
    K = len(tables)
    if K == 1:
        return _of_one_class(tables[0], before, tol)
    against_others = 0.5 * K / (K - 1)
    found = [_of_one_class(table, against_others * before, tol).effects for table in tables]
    weights = [max(float(table.variances.sum()), _TINY) for table in tables]
    return BagVariation(np.average(found, axis=0, weights=weights) / against_others)


def _of_one_class(table: BagPredictions, before: Floats, tol: float) -> BagVariation:
    if len(table.sizes) < 4:
        return BagVariation(np.zeros(len(table.sizes)))
    n, V, noise = table.sizes, table.variances, table.noise
    q = float(np.clip(table.predicted.sum() / n.sum(), 1e-6, 1 - 1e-6))
    separation = float(np.clip(1.0 - V.sum() / (n.sum() * q * (1.0 - q)), 1e-3, 0.999))
    D, gap, by_chance = table.predicted - n * q, table.counts - table.predicted, n * q * (1.0 - q)
    in_fit = table.leverages / np.maximum(V + noise + before * V**2, _TINY)
    # of counts, beyond what labels drawn at random would have
    beyond, pairs = ((table.counts - n * q) ** 2 - noise - by_chance).sum(), n * (n - 1.0)
    C = by_chance + max(float(beyond) / max(float(pairs.sum()), _TINY), 0.0) * pairs
    # of covariate shift and of label shift
    rise = np.stack([np.ones_like(V), C / (separation * C + V)])
    slopes, rest = rise * D, gap - (rise - 1.0) * D
    squares = np.stack([np.broadcast_to(V**2, rise.shape), slopes**2])
    share, level, misfit, variances = 0.5, 0.0, 0.0, np.array([_SMALL, MISFIT**2])
    for _ in range(_MOST_STEPS):
        total = np.maximum(rise * V + noise + np.tensordot(variances, squares, 1), _TINY)
        residual = rest - level * V - misfit * slopes
        log_density = -0.5 * (np.log(total) + residual**2 / total)
        evidence = log_density[0] - log_density[1]
        last = np.array([share, *variances])
        share, member = _shares(evidence)
        w = member / total
        level, misfit, covariance = _regression(w, V, slopes, rest)
        residual = rest - level * V - misfit * slopes
        leverage = np.minimum(_leverages(covariance, V, slopes) * w + in_fit, _MOST_LEVERAGE)
        excess = residual**2 / total - 1.0 + leverage
        score = (squares * w * excess).sum(axis=(1, 2))
        score[0] -= BAG_EFFECT_SD**-2.0
        known = w * (1.0 - leverage) / total
        information = np.einsum("icb,jcb,cb->ij", squares, squares, known)
        variances = np.maximum(variances + _scoring_step(variances, score, information), 0.0)
        moved = np.abs(np.array([share, *variances]) - last).max()
        if moved < tol * (variances[0] + _SMALL):
            break
    by_labels = 0.0
    if table.sets.any():
        by_labels = max(0.0, float(np.tanh(-0.5 * evidence[table.sets == 0].sum())))
    return BagVariation(variances[0] * member[0], by_labels)


def _scoring_step(variances: Floats, score: Floats, information: Floats) -> Floats:
    """Fisher scoring, without the variances that are zero and would turn negative."""
    step, free = np.zeros(len(score)), (variances > 0) | (score > 0)
    if free.any():
        of_free = information[np.ix_(free, free)]
        ridge = 1e-10 * np.trace(of_free) + 1e-300
        step[free] = np.linalg.solve(of_free + ridge * np.eye(len(of_free)), score[free])
    return step


def _shares(evidence: Floats) -> tuple[float, Floats]:
    """Proportion π of bags that follow covariate shift, and the probabilities of each bag.

    π maximises Σ log(π e^evidence + 1 − π), from 0 to 1.
    """
    odds = np.exp(np.clip(evidence, -_MOST_EVIDENCE, _MOST_EVIDENCE))

    def slope(share: float) -> float:
        return float(((odds - 1.0) / (1.0 + share * (odds - 1.0))).sum())

    if slope(0.0) <= 0:
        share = 0.0
    else:
        share = 1.0 if slope(1.0) >= 0 else float(brentq(slope, 0.0, 1.0, xtol=1e-12))
    of_covariates = share * odds / (share * odds + 1.0 - share)
    return share, np.stack([of_covariates, 1.0 - of_covariates])


def _regression(w: Floats, V: Floats, slopes: Floats, rest: Floats) -> tuple[float, float, Floats]:
    """Level and relative misfit, with the prior of the latter, and their covariance."""
    across = float((w * V * slopes).sum())
    squares = (w * V**2).sum() * (1.0 + 1e-9) + _TINY, (w * slopes**2).sum() + MISFIT**-2.0
    covariance = np.linalg.inv(np.array([[squares[0], across], [across, squares[1]]]))
    level, misfit = covariance @ [(w * V * rest).sum(), (w * slopes * rest).sum()]
    return float(level), float(misfit), covariance


def _leverages(covariance: Floats, V: Floats, slopes: Floats) -> Floats:
    """Variance of the fitted gap of each bag by either regression, (2, n_bags)."""
    across = 2.0 * covariance[0, 1] * V * slopes
    return covariance[0, 0] * V**2 + across + covariance[1, 1] * slopes**2
