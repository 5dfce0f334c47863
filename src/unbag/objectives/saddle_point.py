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

**Several classes.** The first order, h = ½ log det(I + aV), with a = 2π m^{−1/(m−1)} for the m
classes that the bag has, by which it is the same as above for two. Classes of count zero are left
out. In small bags whose counts are known, h is summed exactly at the tilt
(`unbag.objectives.count_sums`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, NamedTuple, Self

from array_api_compat import array_namespace, device

from unbag._arrays import Array, Segments
from unbag.objectives.count_sums import factors_at, posteriors_at

# The tilt is found when a Newton step is shorter: what is left of it is taken to second order, so
# that chances are exact to its cube.
_SHORT_STEP = 1e-3

# Rounding in the sum of n chances, for each of them.
_ROUNDING = 1e-13

# More than enough: halving an interval that often leaves nothing of it.
_MOST_STEPS = 100
_LONGEST_STEP = 40.0

# Beyond, odds come near to the end of the range of numbers.
LARGEST_SCORE = 300.0

_TINY = 1e-30


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
        inner, outer = mean + _TINY, xp.maximum(n - mean, spread) + _TINY
        distance = xp.log(aim * outer / ((n - aim) * inner))
        close = xp.abs(distance) < 1e-3
        divisor = inner * outer * xp.where(close, 1.0 + distance, distance)
        chord = xp.where(close, xp.ones_like(tilt), (aim - mean) * n / divisor)
        step = gap / (spread * chord + S + _TINY)
        ahead = tilt + step
        outside = (ahead < self._low) | (ahead > self._high) | (xp.abs(step) > _LONGEST_STEP)
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
    for _ in range(_MOST_STEPS):
        q, left = tilted_chances(odds, rows, search.tilt)
        w = q * left
        if search.found(rows.sum(q), rows.sum(w), _SHORT_STEP):
            break
    return _loss_at(search, odds, (q, left, w), rows, k, S, gradient)


def two_class_loss_in_looks(
    odds: Array, rows: Segments, k: Array, n: Array, S: Array, tilt: Array, looks: int
) -> tuple[Array, Array, Array, Array]:
    """The same after so many looks for the tilt, from a given one on, without asking between them.

    Returns
    -------
    value, gradient, found, tilt : arrays
        The last but one says whether it was found for all bags.
    """
    search = TiltSearch(k, n, S, odds.shape[0])
    search.tilt = tilt
    for look in range(looks):
        q, left = tilted_chances(odds, rows, search.tilt)
        w = q * left
        sums = rows.sum(q), rows.sum(w)
        found = search.near(*sums, _SHORT_STEP)
        if look + 1 < looks:
            search.move(*sums)
    value, gradient = _loss_at(search, odds, (q, left, w), rows, k, S, gradient=True)
    return value, gradient, found, search.tilt


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
    skewness, spread = rows.sum(w * slope), rows.sum(w) + S + _TINY
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


def several_class_loss(
    f: Array, k: Array, real: Array, S: Array, gradient: bool = True
) -> tuple[Array, Any]:
    """−log Pr(K = k) of bags of several classes, and its gradient with respect to their scores.

    Parameters
    ----------
    f : array of shape (columns, bags, classes, slots)
        Scores.
    k : array of shape (bags, classes)
        Counts, which sum to the number of rows.
    real : array of shape (bags, 1, slots)
        1 where there is a row, 0 where a slot only fills up.
    S : array of shape (bags, classes, classes)
        Covariance of the counts, whose rows sum to zero.

    Returns
    -------
    value, gradient : arrays of shape (columns, bags) and (columns, bags, classes, slots)
    """
    present = classes_present(k, S)
    lse, start = softmax(f)
    search = ClassTiltSearch(k, S, present, f.shape[0])
    while not search.done:
        own, q = tilted_classes(f, real, search.trial, present)
        search.look(own, *class_moments(q, real))
    value = search.level(array_namespace(f).sum(real[..., 0, :] * lse, axis=-1))
    h, H = class_miss(search.V, present)
    if not gradient:
        return value + h, None
    bent = real * bend(q, H)
    moving = search.settle(array_namespace(f).sum(bent, axis=-1))
    return value + h, real * (start - q - pull_back(q, moving[..., None])) + bent


def exact_class_loss(
    f: Array, k: Array, S: Array, roots: Array, turn: Array, gradient: bool = True
) -> tuple[Array, Any]:
    """The same exactly, for small bags of equal size whose counts are known.

    Parameters
    ----------
    f, k, S
        As in `several_class_loss`; S is zero.
    roots, turn : arrays of shape (roots, classes) and (bags, roots)
        From `unbag.objectives.count_sums.turned_roots`.
    """
    xp = array_namespace(f)
    present, real = classes_present(k, S), xp.ones_like(f[0, :, :1, :])
    lse, start = softmax(f)
    search = ClassTiltSearch(k, S, present, f.shape[0])
    while not search.done:
        own, q = tilted_classes(f, real, search.trial, present)
        search.look(own, *class_moments(q, real))
    factors = factors_at(q, roots)
    shares = turn * xp.prod(factors, axis=-1)
    chance = xp.sum(xp.real(shares), axis=-1)
    value = search.level(xp.sum(lse, axis=-1)) - xp.log(chance)
    if not gradient:
        return value, None
    return value, start - posteriors_at(q, factors, roots, shares / chance[..., None])


def classes_present(k: Array, S: Array) -> Array:
    """Mark classes that a bag has, or may have by noise, with 1: shape (bags, classes)."""
    xp = array_namespace(k)
    return xp.astype((k > 0) | xp.any(S != 0, axis=-1), k.dtype)


class ClassTiltSearch:
    """The tilts of bags of several classes, on their way: damped Newton steps downhill.

    The tilt makes Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk least, a convex function.

    Parameters
    ----------
    k, S, present : arrays of shape (bags, classes), (bags, classes, classes), (bags, classes)
    n_columns : int

    Attributes
    ----------
    trial : array of shape (columns, bags, classes)
        Where to look next.
    tilt, V : arrays
        The lowest place so far, and the covariance there.
    done : bool
    """

    def __init__(self, k: Array, S: Array, present: Array, n_columns: int) -> None:
        xp = array_namespace(k)
        self._k, self._S, self._present = k, S, present
        self.trial = xp.zeros((n_columns, *k.shape), dtype=k.dtype, device=device(k))
        self._length = xp.ones_like(self.trial[..., :1])
        self._height: Array = None
        self.tilt = self._step = self._promised = self.trial
        self._left = _MOST_STEPS
        self.done = False

    def look(self, own: Array, mean: Array, covariance: Array) -> None:
        """Take in Σ_j lse(f_j + θ), Σ_j q_j and its covariance at the trial, and move on."""
        xp, tilt = array_namespace(own), self.trial
        linear = 0.5 * _times(self._S, tilt) - self._k
        height = own + xp.sum(tilt * linear, axis=-1)
        self._left -= 1
        if self._height is not None:
            allowed = self._height - 1e-4 * self._length[..., 0] * self._promised
            good = height <= allowed + 1e-12 * (1.0 + xp.abs(self._height))
            if not bool(xp.all(good)) and self._left > 0:
                self._length = xp.where(good[..., None], self._length, 0.5 * self._length)
                self.trial = self.tilt + self._length * self._step
                return
        self.tilt, self._height = tilt, height
        self.V = covariance + self._S
        gap = (self._k - mean - _times(self._S, tilt)) * self._present
        n = xp.sum(self._k, axis=-1)
        found = xp.max(xp.abs(gap), axis=-1) <= 1e-9 * (n + 1.0)
        self.done = bool(xp.all(found)) or self._left <= 0
        step = _solve(_regular(self.V, self._present), gap)
        largest = xp.max(xp.abs(step), axis=-1, keepdims=True)
        # further and further, where scores are far apart
        limit = _LONGEST_STEP + xp.max(xp.abs(tilt), axis=-1, keepdims=True)
        self._step = step * xp.minimum(limit / (largest + _TINY), xp.ones_like(largest))
        self._promised = xp.sum(self._step * gap, axis=-1)
        self._length = xp.ones_like(self._length)
        self.trial = tilt if self.done else tilt + self._step

    def level(self, before: Array) -> Array:
        """Σ_j [lse f_j − lse(f_j + θ)] + θᵀk − ½ θᵀSθ, from the sum of lse f_j."""
        return before - self._height

    def settle(self, bent: Array) -> Array:
        """V⁻¹ times a sum over rows: how the tilt moves along."""
        return _solve(_regular(self.V, self._present), bent)


def tilted_classes(f: Array, real: Array, tilt: Array, present: Array) -> tuple[Array, Array]:
    """Σ_j lse(f_j + θ) over the rows of each bag, and the chances q of all rows."""
    lse, q = softmax(f + (tilt - 1e30 * (1.0 - present))[..., None])
    return array_namespace(f).sum(real[..., 0, :] * lse, axis=-1), q


def class_moments(q: Array, real: Array) -> tuple[Array, Array]:
    """Σ_j q_j and Σ_j (diag q_j − q_j q_jᵀ) of each bag."""
    xp = array_namespace(q)
    own = real * q
    mean = xp.sum(own, axis=-1)
    identity = xp.eye(q.shape[-2], dtype=q.dtype, device=device(q))
    return mean, mean[..., None] * identity - own @ xp.matrix_transpose(q)


def class_miss(V: Array, present: Array) -> tuple[Array, Array]:
    """h, and its derivative by V."""
    xp = array_namespace(V)
    m = xp.sum(present, axis=-1)
    a = (2 * pi * m ** (-1.0 / xp.maximum(m - 1.0, xp.ones_like(m))))[:, None, None]
    inflated = xp.eye(V.shape[-1], dtype=V.dtype, device=device(V)) + a * V
    return 0.5 * xp.linalg.slogdet(inflated)[1], 0.5 * a * xp.linalg.inv(inflated)


def bend(q: Array, H: Array) -> Array:
    """Derivatives of tr(H Cov_j) by the scores of each row."""
    xp = array_namespace(q)
    diagonal = xp.sum(H * xp.eye(H.shape[-1], dtype=H.dtype, device=device(H)), axis=-1)
    return pull_back(q, diagonal[..., None] - 2.0 * (H @ q))


def softmax(f: Array) -> tuple[Array, Array]:
    """Logarithm of the sum of powers over the classes, and the share of each."""
    xp = array_namespace(f)
    largest = xp.max(f, axis=-2, keepdims=True)
    powers = xp.exp(f - largest)
    total = xp.sum(powers, axis=-2, keepdims=True)
    return (largest + xp.log(total))[..., 0, :], powers / total


def _regular(V: Array, present: Array) -> Array:
    """V with something along the directions in which nothing varies."""
    xp = array_namespace(V)
    identity = xp.eye(V.shape[-1], dtype=V.dtype, device=device(V))
    trace = xp.sum(V * identity, axis=(-2, -1))[..., None, None]
    apart = (1.0 - present)[..., None] * identity
    along = present[..., :, None] * present[..., None, :]
    return V + along * (trace + 1e-9) + apart + 1e-12 * identity


def _times(S: Array, vector: Array) -> Array:
    return (S @ vector[..., None])[..., 0]


def _solve(matrix: Array, vector: Array) -> Array:
    solved: Array = array_namespace(matrix).linalg.solve(matrix, vector[..., None])[..., 0]
    return solved


def pull_back(q: Array, by_chance: Array) -> Array:
    """Derivatives by scores from those by chances: q ∘ (h − qᵀh)."""
    xp = array_namespace(q)
    return q * (by_chance - xp.sum(q * by_chance, axis=-2, keepdims=True))
