"""The variance τ² of a random intercept per bag, estimated under both assumptions about bags.

Under covariate shift bags may differ by more than their rows say: log-odds of bag b are f + u_b with
u_b ~ N(0, τ²). Under label shift they never do, but sums over bags of predictions are off as well,
in a known way. Let V_b = Σ_j p_j(1 − p_j), D_b = Σ_j p_j − n_b q with q the mean of all p_j, N_b the
variance of the noise of the count, s = 1 − Σ_b V_b / (N q(1 − q)) the separation of the classes by f,
and C_b the variance of K_b − n_b q over bags. Then gaps are a mixture of two regressions,

    K_b − Σ_j p_j = a V_b + (d_b + δ(1 + d_b)) D_b + r_b,
    Var r_b = (1 + d_b) V_b + N_b + τ² V_b² + ω² (1 + d_b)² D_b²,

    covariate shift:  d_b = 0,
    label shift:      d_b = C_b / (s C_b + V_b) − 1,

the latter from a normal K_b and Σ_j p_j with mean n_b q + s(K_b − n_b q) and variance s V_b. In random
bags C_b = n_b q(1 − q), and both are the same. Each bag follows one of them: the proportion of bags that
follow covariate shift is that of maximum likelihood, from none to all. Since f is never quite right,
slopes may be off by δ in common, with a standard deviation of a fifth, and by random slopes of variance ω²
between bags.

All is found by expectation–maximisation, τ² and ω² by restricted maximum likelihood with the leverage that
the bags had in the fit of f. τ² is shrunk to τ⁶/(τ⁴ + e²) by the part e² of its squared standard error that
is due to noise, so that noisy counts say that there is no effect, and counts by the proportion of bags
that follow covariate shift. Counts that are known as sets are intervals of a normal variable.

Sets of counts have another likelihood under label shift (`unbag.bags.count_sets.CountWeights`). With the
wrong one of the two slopes run away, so its weights count by 2P − 1, with P the probability that all bags
follow label shift, rather than covariate shift, if that is the more likely. It is found by the counts that
are known: which counts are known depends on the counts, and this makes label shift less likely if anything.

**Several classes.** The log-odds of one class against another vary by τ², so that those of a class
against all K − 1 others vary by about τ²K/2(K − 1). The estimates of all classes are averaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from unbag._arrays import Bools, Floats
from unbag.defaults import LARGEST_BAG_EFFECT, MISFIT

# A bag determines at most this much of its own prediction.
_MOST_LEVERAGE = 0.9

# τ² that the search starts from, and when it has settled.
_FIRST_VARIANCE = 0.05
_MOST_STEPS = 200
_SETTLED = 1e-4

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
    low, high : ndarray
        Limits of the count; where they differ, ``counts`` and ``noise`` are what the set amounts to.
    """

    counts: Floats
    sizes: Floats
    noise: Floats
    predicted: Floats
    variances: Floats
    leverages: Floats
    low: Floats
    high: Floats

    @property
    def is_set(self) -> Bools:
        """Which counts are known as sets."""
        return self.low < self.high


class BagVariation(NamedTuple):
    """How bags differ beyond their rows.

    Attributes
    ----------
    effect : float
        τ² of random intercepts, times the proportion of bags that follow covariate shift.
    label_shift : float
        How surely all bags follow label shift; 0 where all counts are known.
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
    if len(table.sizes) < 4:
        return BagVariation()
    n, V, noise = table.sizes, table.variances, np.where(table.is_set, 0.0, table.noise)
    q = float(np.clip(table.predicted.sum() / n.sum(), 1e-6, 1 - 1e-6))
    separation = float(np.clip(1.0 - V.sum() / (n.sum() * q * (1.0 - q)), 1e-3, 0.999))
    D, by_chance = table.predicted - n * q, n * q * (1.0 - q)
    in_fit = table.leverages / np.maximum(V + table.noise + before * V**2, _TINY)
    share, level, misfits = 0.5, 0.0, np.zeros(2)
    variances = np.array([_FIRST_VARIANCE, MISFIT**2])
    counted, unknown, of_labels = table.counts, noise, np.ones(len(n))
    for _ in range(_MOST_STEPS):
        # of counts beyond what labels drawn at random would have, under label shift
        between = (of_labels * ((counted - n * q) ** 2 - unknown - by_chance)).sum()
        between = max(float(between / max((of_labels * n * (n - 1.0)).sum(), _TINY)), 0.0)
        spread = by_chance + between * n * (n - 1.0)
        # of covariate shift and of label shift
        rise = np.stack([np.ones_like(V), spread / (separation * spread + V)])
        expected, slopes = (rise - 1.0) * D, rise * D
        squares = np.stack([np.broadcast_to(V**2, slopes.shape), slopes**2])
        total = np.maximum(rise * V + noise + np.tensordot(variances, squares, 1), _TINY)
        explained = expected + level * V + misfits[:, None] * slopes
        residual, scatter, log_density = _given(table, table.predicted + explained, total)
        last_share, last = share, variances
        share, member = _shares(log_density[0] - log_density[1])
        counted, unknown = table.predicted + (residual + explained)[1], noise - scatter[1]
        w, gap, of_labels = member / total, residual + explained - expected, member[1]
        level, misfits, covariance = _regression(w, V, slopes, gap)
        residual = gap - level * V - misfits[:, None] * slopes
        leverage = np.minimum(_leverages(covariance, V, slopes) * w + in_fit, _MOST_LEVERAGE)
        excess = (residual**2 + scatter) / total - 1.0 + leverage
        score = (squares * w * excess).sum(axis=(1, 2))
        step = _scoring_step(variances, score, _information(squares, w * (1.0 - leverage) / total))
        variances = np.clip(variances + step, 0.0, LARGEST_BAG_EFFECT)
        moved = max(float(np.abs(variances - last).max()), abs(share - last_share))
        if moved < _SETTLED * (variances[0] + _FIRST_VARIANCE):
            break
    # shrunk by what noise, and not knowing the count, add to its squared standard error
    known = member * (1.0 - leverage)
    information = _information(squares, known / (total + table.noise - noise) ** 2)[0, 0]
    without_noise = _information(squares, known / np.maximum(total - noise, _TINY) ** 2)[0, 0]
    error = 2.0 / max(information, _TINY) - 2.0 / max(without_noise, _TINY)
    variance = float(variances[0])
    variance = variance**3 / (variance**2 + max(float(error), 0.0) + _TINY**2)
    # 2P − 1, with P the probability of label shift, if it is more likely
    evidence = (log_density[1] - log_density[0])[~table.is_set].sum()
    by_labels = max(0.0, float(np.tanh(0.5 * evidence)))
    return BagVariation(variance * share, by_labels if table.is_set.any() else 0.0)


def _information(squares: Floats, w: Floats) -> Floats:
    """Twice the expected information of the variances that squares (2, 2, n_bags) are multiplied by."""
    return np.einsum("icb,jcb,cb->ij", squares, squares, w)


def _scoring_step(variances: Floats, score: Floats, information: Floats) -> Floats:
    """Fisher scoring, without the variances that are zero and would turn negative."""
    step, free = np.zeros(len(score)), (variances > 0) | (score > 0)
    if free.any():
        of_free = information[np.ix_(free, free)]
        ridge = 1e-10 * np.trace(of_free) + 1e-300
        step[free] = np.linalg.solve(of_free + ridge * np.eye(len(of_free)), score[free])
    return step


def _given(table: BagPredictions, mean: Floats, total: Floats) -> tuple[Floats, Floats, Floats]:
    """Expected difference of counts from their mean, its variance, and log-densities, (2, n_bags).

    Sets are intervals of a normal variable.
    """
    residual, scatter = table.counts - mean, np.zeros_like(mean)
    log_density = -0.5 * (np.log(2.0 * np.pi * total) + residual**2 / total)
    own = table.is_set
    if own.any():
        sd, mean = np.sqrt(total[:, own]), mean[:, own]
        low = np.where(table.low[own] > 0, (table.low[own] - 0.5 - mean) / sd, -np.inf)
        below = table.high[own] < table.sizes[own]
        high = np.where(below, (table.high[own] + 0.5 - mean) / sd, np.inf)
        expected, variance, log_density[:, own] = _truncated_normal(low, high)
        residual[:, own], scatter[:, own] = sd * expected, sd**2 * variance
    return residual, scatter, log_density


def _truncated_normal(low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of a standard normal variable between limits, and the log-probability."""
    # in the lower tail, where differences of probabilities are exact
    flipped = low > -high
    bottom, top = np.where(flipped, -high, low), np.where(flipped, -low, high)
    log_top = log_ndtr(top)
    log_p = log_top + np.log1p(-np.exp(np.minimum(log_ndtr(bottom) - log_top, -_TINY)))
    at = np.stack([bottom, top])
    density = np.exp(-0.5 * at**2 - 0.5 * np.log(2.0 * np.pi) - log_p)
    mean = density[0] - density[1]
    moment = np.where(density > 0, at, 0.0) * density
    variance = np.clip(1.0 + moment[0] - moment[1] - mean**2, 0.0, 1.0)
    return np.where(flipped, -mean, mean), variance, log_p


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
        share = 1.0 if slope(1.0) >= 0 else float(brentq(slope, 0.0, 1.0, xtol=1e-7))
    of_covariates = share * odds / (share * odds + 1.0 - share)
    return share, np.stack([of_covariates, 1.0 - of_covariates])


def _regression(w: Floats, V: Floats, slopes: Floats, gap: Floats) -> tuple[float, Floats, Floats]:
    """Level and relative misfits of both regressions, with the prior of the latter, and their covariance."""
    squares = (w * slopes**2).sum(axis=1) + MISFIT**-2.0
    normal = np.diag(np.array([(w * V**2).sum() * (1.0 + 1e-9) + _TINY, *squares]))
    normal[0, 1:] = normal[1:, 0] = (w * V * slopes).sum(axis=1)
    covariance = np.linalg.inv(normal)
    level, *misfits = covariance @ [(w * V * gap).sum(), *(w * slopes * gap).sum(axis=1)]
    return float(level), np.array(misfits), covariance


def _leverages(covariance: Floats, V: Floats, slopes: Floats) -> Floats:
    """Variance of the fitted gap of each bag by either regression, (2, n_bags)."""
    by_slope = np.diagonal(covariance)[1:, None] * slopes**2
    return covariance[0, 0] * V**2 + 2.0 * covariance[0, 1:, None] * V * slopes + by_slope
