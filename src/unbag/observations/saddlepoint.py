"""The probability that a sum of independent draws is a count, by a saddlepoint approximation.

Row j of a bag is of class c with probability p_jc = softmax(f_j)_c, independently of the others, and K
counts the classes of all its rows. Let θ be the *tilt* of the bag: what must be added to all its
scores until their probabilities add up to the counts k,

    Σ_j q_j + Sθ = k,    q_j = softmax(f_j + θ).

S is the covariance of what a count may be off by: noise of a known size, or an effect of the bag
that the rows do not explain; usually it is zero. Then

    −log Pr(K = k) ≈ Σ_j [lse f_j − lse(f_j + θ)] + θᵀk − ½ θᵀSθ + h,

where the first terms are exact except for h: −log of the probability that tilted rows, whose mean is
right, have their mean. It depends on the cumulants of the tilted rows: with the covariance
V = Σ_j (diag q_j − q_j q_jᵀ) + S,

    h ≈ ½ log det(2πV)    for large V,    h → 0    for V → 0.

The gradient of the first terms with respect to f_j is p_j − q_j: θ is where they are stationary.
In h the tilt moves along, dθ = −V⁻¹ Σ_j Cov_j df_j.

**Two classes.** With w = q(1 − q), V = Σw + S, κ₃ = Σw(1 − 2q), κ₄ = Σw(1 − 6w) and s = Σw², the
next order of the saddlepoint approximation and the limit of rows that are nearly certain (then the numbers of
ups and downs are Poisson variables of mean V/2) are joined to

    h = λ [½ log 2πV − κ₄/8V² + 5κ₃²/24V³] + (1 − λ) [½ log(1 + 2V + 3V²/2) + 3s/2],
    λ = (2V)⁴ / (1 + (2V)⁴).

Against the exact sum, h is off by 0.04 at most, for any size and spread of the scores (0.002 on
average in bags of 32, 0.0003 in bags of 128); the first order alone, ½ log(1 + 2πV), by 0.2.

**Sets of counts**, low ≤ K ≤ high, of two classes. With x = a − ½ and the tilt θ that makes x the mean, S the
variance of noise and V = Σ_j q_j(1 − q_j) + S, the tail probability is by Barndorff-Nielsen's form of
Lugannani and Rice's approximation (1980), with a correction for continuity,

    Pr(K ≥ a) ≈ Φ(−r),    r = w + log(u/w)/w,
    w²/2 = θx − ½Sθ² − Σ_j [lse(f_j + θ) − lse f_j],    u = 2 sinh(θ/2) √V,

or u = θ√V if there is noise, which makes sums continuous. Its gradient is that of the formula. Where
θ is near to 0, where r has a removable singularity, it is

    r ≈ w + [κ₃/6V + θ(κ₃²/18V² − κ₄/24V + 1/24)]/√V.

The tails Pr(K ≥ 1) and Pr(K ≥ n) are exact, as they are elementary.

Several classes are treated in `unbag.observations.several_classes`.
"""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from unbag._arrays import Floats, Segments

# The tilt is found when a Newton step is shorter: what is left of it is taken to second order, so
# that probabilities are exact to its cube.
_SHORT_STEP = 1e-3

# Rounding in the sum of n probabilities, for each of them.
_ROUNDING = 1e-13

# More than enough: halving an interval that often leaves nothing of it.
MOST_STEPS = 100
LONGEST_STEP = 40.0

# Beyond, odds come near to the end of the range of numbers.
LARGEST_SCORE = 300.0

TINY = 1e-30

# Below, u/w is taken from its series.
_NEAR = 1e-2


class TiltSearch:
    """The tilts of bags of two classes, on their way: Newton steps between bounds.

    For counts ``k``, neither 0 nor n where S is zero, sizes ``n`` and variances ``S`` of the counts.
    ``tilt`` (columns, bags) is θ, as near as it is known, and ``gap`` k − Σq − Sθ when last compared.
    """

    def __init__(self, k: Floats, n: Floats, S: Floats, n_columns: int) -> None:
        self._k, self._n, self._S = k, n, S
        # how near to nobody or everybody odds aim: noise may lead beyond
        self._edge = np.where(S > 0, 0.25, 0.0)
        self.tilt = np.zeros((n_columns, len(n)))
        self._low, self._high = self.tilt - 2 * LARGEST_SCORE, self.tilt + 2 * LARGEST_SCORE

    def found(self, mean: Floats, spread: Floats, short: float) -> bool:
        """Whether what is left at Σq and Σw there is a short step for all bags, or else take one."""
        S, n, tilt = self._S, self._n, self.tilt
        self.gap = gap = self._k - mean - S * tilt
        if (np.abs(gap) < np.maximum(short * (spread + S), _ROUNDING * n)).all():
            return True
        above = gap > 0
        self._low = np.where(above, tilt, self._low)
        self._high = np.where(above, self._high, tilt)
        # the log-odds of the mean are nearly linear in the tilt, unlike the mean; near n, where
        # n − Σq is lost in rounding, Σ(1 − q) is Σw
        aim = np.minimum(np.maximum(mean + gap, self._edge), n - self._edge)
        inner, outer = mean + TINY, np.maximum(n - mean, spread) + TINY
        distance = np.log(aim * outer / ((n - aim) * inner))
        close = np.abs(distance) < 1e-3
        divisor = inner * outer * np.where(close, 1.0 + distance, distance)
        step = gap / (spread * np.where(close, 1.0, (aim - mean) * n / divisor) + S + TINY)
        ahead = tilt + step
        outside = (ahead < self._low) | (ahead > self._high) | (np.abs(step) > LONGEST_STEP)
        self.tilt = np.where(outside, 0.5 * (self._low + self._high), ahead)
        return False


def tilted_probabilities(odds: Floats, rows: Segments, tilt: Floats) -> tuple[Floats, Floats]:
    """Probabilities q = σ(f + θ) of all rows, and 1 − q."""
    q = rows.spread(np.exp(tilt))
    q *= odds
    left = 1.0 + q
    left = 1.0 / left
    q *= left
    return q, left


def two_class_loss(
    odds: Floats, rows: Segments, k: Floats, n: Floats, S: Floats, gradient: bool = True
) -> tuple[Floats, Any]:
    """−log Pr(K = k) of bags of two classes, and its gradient with respect to their scores.

    ``odds`` (columns, rows) are e^f, of scores below `LARGEST_SCORE` in size; k, n and S as in `TiltSearch`.
    """
    search = TiltSearch(k, n, S, len(odds))
    for _ in range(MOST_STEPS):
        q, left = tilted_probabilities(odds, rows, search.tilt)
        w = q * left
        if search.found(rows.sum(q), rows.sum(w), _SHORT_STEP):
            break
    tilt, whole = search.tilt, 1.0 + odds
    left *= whole
    log_ratio = rows.sum(np.log(left))
    slope = 1.0 - 2.0 * q
    skewness, spread = rows.sum(w * slope), rows.sum(w) + S + TINY
    # what is left of the way, to second order; along it, q changes by w, and w by w(1 − 2q)
    rest = np.where(np.abs(search.gap) < _SHORT_STEP * spread, search.gap / spread, 0.0)
    rest = rest - 0.5 * skewness / spread * rest**2
    value = log_ratio + tilt * (k - 0.5 * S * tilt) + 0.5 * spread * rest**2
    slope *= rows.spread(0.5 * rest**2)
    slope += rows.spread(rest)
    slope *= w
    q += slope
    h, slopes = miss(q, rows, S, gradient)
    if gradient:
        slopes += odds / whole
        slopes -= q
    return value + h, slopes


def miss(q: Floats, rows: Segments, S: Floats, gradient: bool = True) -> tuple[Floats, Any]:
    """H of tilted probabilities (columns, rows), and its derivatives by scores with moving tilts."""
    w = q * (1.0 - q)
    skew, square = w * (1.0 - 2.0 * q), w * w
    total, skewness, squares = rows.sum(w), rows.sum(skew), rows.sum(square)
    V = total + S + 1e-9
    inverse = 1.0 / V
    fourth = total - 6.0 * squares
    power = (2.0 * V) ** 4
    rest = 1.0 / (1.0 + power)
    share = power * rest
    ratio = skewness**2 * inverse**3
    large = 0.5 * np.log(2 * pi * V) - 0.125 * fourth * inverse**2 + (5 / 24) * ratio
    inner = 1.0 + V * (2.0 + 1.5 * V)
    small = 0.5 * np.log(inner) + 1.5 * squares
    h = small + share * (large - small)
    if not gradient:
        return h, None
    # κ₄ = Σw − 6Σw² moves with Σw, as V does
    large_slope = inverse * (0.5 + inverse * (0.25 * fourth * inverse - 0.125) - 0.625 * ratio)
    by_total = share * large_slope + rest * (1.0 + 1.5 * V) / inner
    by_total = by_total + 4.0 * share * rest * inverse * (large - small)
    by_skewness = (5 / 12) * share * skewness * inverse**3
    by_square = 0.75 * share * inverse**2 + 1.5 * rest
    # the tilt moves by −w/V with the score of a row
    bent = rows.sum(square * (1.0 - 2.0 * q))
    moving = by_total * skewness + by_skewness * fourth + 2.0 * by_square * bent
    slopes = w * rows.spread(2.0 * by_square)
    slopes += rows.spread(by_total)
    slopes *= 1.0 - 2.0 * q
    slopes += rows.spread(by_skewness - moving * inverse)
    slopes += w * rows.spread(-6.0 * by_skewness)
    slopes *= w
    return h, slopes


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
