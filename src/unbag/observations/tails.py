"""Probabilities of sets of counts, low ≤ K ≤ high, in bags of two classes.

With x = a − ½ and the tilt θ of `unbag.observations.saddlepoint` that makes x the mean, S the
variance of noise and V = Σ_j q_j(1 − q_j) + S, the tail probability is by Barndorff-Nielsen's form of
Lugannani and Rice's approximation (1980), with a correction for continuity,

    Pr(K ≥ a) ≈ Φ(−r),    r = w + log(u/w)/w,
    w²/2 = θx − ½Sθ² − Σ_j [lse(f_j + θ) − lse f_j],    u = 2 sinh(θ/2) √V,

or u = θ√V if there is noise, which makes sums continuous. Its gradient is that of the formula. Where
θ is near to 0, where r has a removable singularity, it is

    r ≈ w + [κ₃/6V + θ(κ₃²/18V² − κ₄/24V + 1/24)]/√V.

The tails Pr(K ≥ 1) and Pr(K ≥ n) are exact, as they are elementary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from unbag._arrays import Floats, Segments
from unbag.observations.saddlepoint import MOST_STEPS, TINY, TiltSearch, tilted_probabilities

# Below, u/w is taken from its series.
_NEAR = 1e-2


class Tail(NamedTuple):
    """log Pr(K ≥ a) and log Pr(K < a) (columns, bags), and the derivative of the former by scores.

    The derivative of Pr(K ≥ a) by the score of a row is exp(``log_scale``) times ``slope``.
    """

    upper: Floats
    lower: Floats
    log_scale: Floats
    slope: Floats


def log_interval(low: Tail, high: Tail, rows: Segments) -> tuple[Floats, Floats]:
    """Log-probability that a count lies between two limits, and its gradient by the scores.

    Of the tails at the lowest count of the set, and at the first above it.
    """
    # the smaller tails keep their digits
    above = low.upper < high.lower
    big = np.where(above, low.upper, high.lower)
    small = np.where(above, high.upper, low.lower)
    gap = np.minimum(small - big, -1e-15)
    found = big + np.log1p(-np.exp(gap))
    scales = [np.exp(np.minimum(tail.log_scale - found, 700.0)) for tail in (low, high)]
    gradient = rows.spread(scales[0]) * low.slope - rows.spread(scales[1]) * high.slope
    return found, gradient


def upper_tail(odds: Floats, rows: Segments, a: Floats, n: Floats, S: Floats) -> Tail:
    """The tail at a count a, of rows with odds e^f (columns, rows), and noise of variance S.

    Without noise, the tail of a ≤ 0 is 1, and that of a > n is 0; with noise, those of −inf and inf.
    """
    below, beyond = np.where(S > 0, [np.isneginf(a), np.isposinf(a)], [a <= 0, a > n])
    one, all_but = (a == 1) & (S == 0), (a == n) & (S == 0) & (n > 1)
    if (below | beyond | one | all_but).all():
        blank = np.zeros((len(odds), len(a)))
        tail = Tail(blank, blank, blank, np.zeros_like(odds))
    else:
        tail = _approximate(odds, rows, np.where(below | beyond, 0.5 * n, a - 0.5), n, S)
    if one.any() or all_but.any():
        tail = _exact_at_ends(tail, odds, rows, one, all_but)
    nothing, sure = np.full_like(tail.upper, -np.inf), np.zeros_like(tail.upper)
    return Tail(
        np.where(below, sure, np.where(beyond, nothing, tail.upper)),
        np.where(below, nothing, np.where(beyond, sure, tail.lower)),
        np.where(below | beyond, -np.inf, tail.log_scale),
        tail.slope,
    )


def _exact_at_ends(tail: Tail, odds: Floats, rows: Segments, one: Any, every: Any) -> Tail:
    p = odds / (1.0 + odds)
    none = -rows.sum(np.log1p(odds))
    full = -rows.sum(np.log1p(1.0 / np.maximum(odds, 1e-300)))
    upper = np.where(one, _log_of_rest(none), np.where(every, full, tail.upper))
    lower = np.where(one, none, np.where(every, _log_of_rest(full), tail.lower))
    scale = np.where(one, none, np.where(every, full, tail.log_scale))
    slope = np.where(rows.spread(one), p, np.where(rows.spread(every), 1.0 - p, tail.slope))
    return Tail(upper, lower, scale, slope)


def _log_of_rest(log_probability: Floats) -> Floats:
    return np.log(np.maximum(-np.expm1(log_probability), 1e-300))


def _approximate(odds: Floats, rows: Segments, x: Floats, n: Floats, S: Floats) -> Tail:
    search = TiltSearch(x, n, S, odds.shape[0])
    for _ in range(MOST_STEPS):
        q, left = tilted_probabilities(odds, rows, search.tilt)
        spread = q * left
        if search.found(rows.sum(q), rows.sum(spread), 1e-9):
            break
    # off zero, where ratios are not defined
    tilt = np.where(np.abs(search.tilt) < 1e-6, 1e-6, search.tilt)
    q, left = tilted_probabilities(odds, rows, tilt)
    p, v = odds / (1.0 + odds), q * left
    V = rows.sum(v) + S + TINY
    root = np.sqrt(V)
    each = rows.spread(tilt)
    # lse(f + θ) − lse f, without cancellation near zero
    small = np.log1p(p * np.expm1(np.clip(each, -1.0, 1.0)))
    gain = np.where(np.abs(each) < 1.0, small, -np.log(left) - np.log1p(odds))
    square = 2.0 * np.maximum(rows.sum(each * q - gain) + 0.5 * S * tilt**2, TINY)
    w = np.sign(tilt) * np.sqrt(square)
    noisy = S > 0
    half = np.clip(0.5 * tilt, -350.0, 350.0)
    log_u = np.where(noisy, np.log(np.abs(tilt)), np.log(2.0 * np.abs(np.sinh(half)))) + np.log(
        root
    )
    log_ratio = log_u - 0.5 * np.log(square)
    third = rows.sum(v * (1.0 - 2.0 * q))
    fourth = rows.sum(v * (1.0 - 6.0 * v))
    near = np.abs(tilt) * root < _NEAR
    curvature = third**2 / (18.0 * V**2) - fourth / (24.0 * V) + np.where(noisy, 0.0, 1.0 / 24.0)
    r = np.where(near, w + (third / (6.0 * V) + tilt * curvature) / root, w + log_ratio / w)
    # derivatives by scores: of w, of the tilt, of log V and of the third cumulant
    by_w = (p - q) / rows.spread(w)
    by_tilt = -v / rows.spread(V)
    by_log_V = (v * (1.0 - 2.0 * q) + rows.spread(third) * by_tilt) / rows.spread(V)
    by_third = v * (1.0 - 6.0 * v) + rows.spread(fourth) * by_tilt
    rate = np.where(noisy, 1.0 / tilt, 0.5 / np.tanh(half))
    slope = by_w * rows.spread(1.0 - (1.0 + log_ratio) / square)
    slope = slope + (rows.spread(rate) * by_tilt + 0.5 * by_log_V) / rows.spread(w)
    flat = by_w + by_third * rows.spread(1.0 / (6.0 * V * root))
    flat = (
        flat
        - by_log_V * rows.spread(0.25 * third / (V * root))
        + by_tilt * rows.spread(curvature / root)
    )
    slope = np.where(rows.spread(near), flat, slope)
    return Tail(log_ndtr(-r), log_ndtr(r), -0.5 * r**2 - 0.5 * np.log(2 * np.pi), -slope)
