"""The chance that a sum of independent draws hits a count, by the saddle point.

Row j of a bag is of class c with chance p_jc = softmax(f_j)_c, independently of the others, and K
counts the classes of all its rows. Let θ be the *tilt* of the bag: what must be added to all its
scores until their chances add up to the counts k,

    Σ_j q_j + Sθ = k,    q_j = softmax(f_j + θ).

S is the covariance of what a count may be off by: noise of a known size, or an effect of the bag
that the rows do not explain; usually it is zero. Then

    −log Pr(K = k) ≈ Σ_j [lse f_j − lse(f_j + θ)] + θᵀk − ½ θᵀSθ + h,

where the first terms are exact up to the chance h of the tilted rows, whose mean is right, to hit
their mean. That depends on the cumulants of the tilted rows: with the covariance
V = Σ_j (diag q_j − q_j q_jᵀ) + S,

    h ≈ ½ log det(2πV)    for large V,    h → 0    for V → 0.

The gradient of the first terms with respect to f_j is p_j − q_j: θ is where they are stationary.
In h the tilt moves along, dθ = −V⁻¹ Σ_j Cov_j df_j.

**Two classes.** With w = q(1 − q), V = Σw + S, κ₃ = Σw(1 − 2q), κ₄ = Σw(1 − 6w) and s = Σw², the
next order of the saddle point and the limit of rows that are nearly certain (then the numbers of
ups and downs are Poisson variables of mean V/2) are joined to

    h = λ [½ log 2πV − κ₄/8V² + 5κ₃²/24V³] + (1 − λ) [½ log(1 + 2V + 3V²/2) + 3s/2],
    λ = (2V)⁴ / (1 + (2V)⁴).

Against the exact sum, h is off by .04 at most, for any size and spread of the scores (.002 on
average in bags of 32, .0003 in bags of 128); the first order alone, ½ log(1 + 2πV), by .2.

Several classes are treated in `unbag.observations.several_classes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, NamedTuple, Self

from array_api_compat import array_namespace, device

from unbag._arrays import Array, Segments

# The tilt is found when a Newton step is shorter: what is left of it is taken to second order, so
# that chances are exact to its cube.
_SHORT_STEP = 1e-3

# Rounding in the sum of n chances, for each of them.
_ROUNDING = 1e-13

# More than enough: halving an interval that often leaves nothing of it.
MOST_STEPS = 100
LONGEST_STEP = 40.0

# Beyond, odds come near to the end of the range of numbers.
LARGEST_SCORE = 300.0

TINY = 1e-30


class TiltSearch:
    """The tilts of bags of two classes, on their way: Newton steps between bounds.

    Parameters
    ----------
    k, n, S : arrays of shape (bags,)
        Counts, which are neither 0 nor n where S is zero, sizes, and variances of the counts.
    n_columns : int
        Number of models.

    Attributes
    ----------
    tilt : array of shape (columns, bags)
        θ, as near as it is known.
    gap : array of shape (columns, bags)
        What the sum of chances lacked at the last look: k − Σq − Sθ.
    """

    def __init__(self, k: Array, n: Array, S: Array, n_columns: int) -> None:
        xp = array_namespace(k)
        self._k, self._n, self._S = k, n, S
        # how near to nobody or everybody odds aim: noise may lead beyond
        self._edge = xp.where(S > 0, 0.25 * xp.ones_like(n), 0.0 * n)
        self.tilt = xp.zeros((n_columns, n.shape[0]), dtype=n.dtype, device=device(n))
        self._low, self._high = self.tilt - 2 * LARGEST_SCORE, self.tilt + 2 * LARGEST_SCORE

    def found(self, mean: Array, spread: Array, short: float) -> bool:
        """Look at Σq and Σw there: whether what is left is a short step, for all bags.

        Otherwise the tilt moves on.
        """
        if bool(self.near(mean, spread, short)):
            return True
        self.move(mean, spread)
        return False

    def near(self, mean: Array, spread: Array, short: float) -> Array:
        """Tell the same as an array, without waiting for a device; the tilt stays."""
        xp = array_namespace(mean)
        S = self._S
        self.gap = self._k - mean - S * self.tilt
        return xp.all(xp.abs(self.gap) < xp.maximum(short * (spread + S), _ROUNDING * self._n))

    def move(self, mean: Array, spread: Array) -> None:
        """Take a step from where the last look was."""
        xp = array_namespace(mean)
        S, n, tilt, gap = self._S, self._n, self.tilt, self.gap
        above = gap > 0
        self._low = xp.where(above, tilt, self._low)
        self._high = xp.where(above, self._high, tilt)
        # the log-odds of the mean are nearly linear in the tilt, unlike the mean; near n, where
        # n − Σq is lost in rounding, Σ(1 − q) is Σw
        aim = xp.minimum(xp.maximum(mean + gap, self._edge), n - self._edge)
        inner, outer = mean + TINY, xp.maximum(n - mean, spread) + TINY
        distance = xp.log(aim * outer / ((n - aim) * inner))
        close = xp.abs(distance) < 1e-3
        divisor = inner * outer * xp.where(close, 1.0 + distance, distance)
        chord = xp.where(close, xp.ones_like(tilt), (aim - mean) * n / divisor)
        step = gap / (spread * chord + S + TINY)
        ahead = tilt + step
        outside = (ahead < self._low) | (ahead > self._high) | (xp.abs(step) > LONGEST_STEP)
        self.tilt = xp.where(outside, 0.5 * (self._low + self._high), ahead)


def two_class_loss(
    odds: Array, rows: Segments, k: Array, n: Array, S: Array, gradient: bool = True
) -> tuple[Array, Any]:
    """−log Pr(K = k) of bags of two classes, and its gradient with respect to their scores.

    Parameters
    ----------
    odds : array of shape (columns, rows)
        e^f, of scores below `LARGEST_SCORE` in size.
    rows : Segments
        The rows of each bag, which follow each other.
    k, n, S : arrays of shape (bags,)
        As in `TiltSearch`.

    Returns
    -------
    value, gradient : arrays of shape (columns, bags) and (columns, rows)
        The second is None unless it is asked for.
    """
    search = TiltSearch(k, n, S, odds.shape[0])
    for _ in range(MOST_STEPS):
        q, left = tilted_chances(odds, rows, search.tilt)
        w = q * left
        if search.found(rows.sum(q), rows.sum(w), _SHORT_STEP):
            break
    return _loss_at(search, odds, (q, left, w), rows, k, S, gradient)


def _loss_at(
    search: TiltSearch,
    odds: Array,
    chances: tuple[Array, Array, Array],
    rows: Segments,
    k: Array,
    S: Array,
    gradient: bool,
) -> tuple[Array, Any]:
    """Loss and gradient once the tilt is found; chances are q, 1 − q and w there, to be changed."""
    xp = array_namespace(odds)
    q, left, w = chances
    tilt, whole = search.tilt, 1.0 + odds
    left *= whole
    log_ratio = rows.sum(xp.log(left))
    slope = 1.0 - 2.0 * q
    skewness, spread = rows.sum(w * slope), rows.sum(w) + S + TINY
    # what is left of the way, to second order; along it, chances change by w, and w by w(1 − 2q)
    short = xp.abs(search.gap) < _SHORT_STEP * spread
    rest = xp.where(short, search.gap / spread, xp.zeros_like(spread))
    rest = rest - 0.5 * skewness / spread * rest**2
    value = log_ratio + tilt * (k - 0.5 * S * tilt) + 0.5 * spread * rest**2
    slope *= rows.spread(0.5 * rest**2)
    slope += rows.spread(rest)
    slope *= w
    q += slope
    w = q * (1.0 - q)
    sums = Sums.of(q, w, rows)
    h, pull = sums.miss(S)
    if not gradient:
        return value + h, None
    return value + h, two_class_slopes(odds / whole, q, w, pull, rows)


def tilted_chances(odds: Array, rows: Segments, tilt: Array) -> tuple[Array, Array]:
    """Chances q = σ(f + θ) of all rows, and 1 − q."""
    q = rows.spread(array_namespace(odds).exp(tilt))
    q *= odds
    left = 1.0 + q
    left = 1.0 / left
    q *= left
    return q, left


def two_class_slopes(p: Array, q: Array, w: Array, pull: Pull, rows: Segments) -> Array:
    """Gradient of the loss with respect to the scores of rows, of chances p and, tilted, q."""
    odd = w * rows.spread(2.0 * pull.by_square)
    odd += rows.spread(pull.by_total)
    odd *= 1.0 - 2.0 * q
    slope = w * rows.spread(-6.0 * pull.by_skewness)
    slope += rows.spread(pull.along)
    slope += odd
    slope *= w
    slope += p
    slope -= q
    return slope


class Pull(NamedTuple):
    """How h of a bag changes with Σw, κ₃ and Σw², and along with the tilt; (columns, bags)."""

    by_total: Array
    by_skewness: Array
    by_square: Array
    along: Array


@dataclass(frozen=True, eq=False)
class Sums:
    """Σw, κ₃ = Σw(1 − 2q), Σw² and Σw²(1 − 2q) of tilted bags; arrays of shape (columns, bags)."""

    total: Array
    skewness: Array
    square: Array
    bent: Array

    @classmethod
    def of(cls, q: Array, w: Array, rows: Segments) -> Self:
        """Sum over the rows of bags."""
        slope, square = 1.0 - 2.0 * q, w * w
        bent = square * slope
        slope *= w
        return cls(rows.sum(w), rows.sum(slope), rows.sum(square), rows.sum(bent))

    def miss(self, S: Array) -> tuple[Array, Pull]:
        """h, and its derivatives."""
        xp = array_namespace(self.total)
        V = self.total + S + 1e-9
        inverse = 1.0 / V
        fourth = self.total - 6.0 * self.square
        power = (2.0 * V) ** 4
        rest = 1.0 / (1.0 + power)
        share = power * rest
        ratio = self.skewness**2 * inverse**3
        large = 0.5 * xp.log(2 * pi * V) - 0.125 * fourth * inverse**2 + (5 / 24) * ratio
        # κ₄ = Σw − 6Σw² moves with Σw, as V does
        large_slope = inverse * (0.5 + inverse * (0.25 * fourth * inverse - 0.125) - 0.625 * ratio)
        inner = 1.0 + V * (2.0 + 1.5 * V)
        small = 0.5 * xp.log(inner) + 1.5 * self.square
        h = small + share * (large - small)
        by_total = share * large_slope + rest * (1.0 + 1.5 * V) / inner
        by_total = by_total + 4.0 * share * rest * inverse * (large - small)
        by_skewness = (5 / 12) * share * self.skewness * inverse**3
        by_square = 0.75 * share * inverse**2 + 1.5 * rest
        # the tilt moves by −w/V with the score of a row
        moving = by_total * self.skewness + by_skewness * fourth + 2.0 * by_square * self.bent
        return h, Pull(by_total, by_skewness, by_square, by_skewness - moving * inverse)
