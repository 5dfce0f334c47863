"""How far the means of bags lie off the plane that proportions lead one to expect.

If an instance is distributed alike in every bag given its class, then for any function h the mean
over bag i, of proportions γ_i and n_i instances,

    m_i = Σ_c γ_i[c] θ_c + e_i,    θ_c = E[h(X) | class c],

lies on a plane in the proportions (a line for two classes). The classes of a bag are counted and
not drawn, so that e_i varies by v_i / n_i with v_i = Σ_c γ_i[c] σ_c² only: the variance within
classes, not the larger one S_i = Σ_j (x_ij − m_i)² / (n_i − 1) within the mixed bag. Its unbiased
estimate from bag i alone is

    s_i² = S_i − θᵀK_i θ,    K_i = n_i/(n_i − 1) · (D_i + V_i) − n_i V_i,

where D_i = diag(γ_i) − γ_i γ_iᵀ takes out the distance between classes and V_i is the covariance
of the noise in the proportions, if there is any. With residuals r_i of the plane fitted by least
squares of weights n_i/v_i, and A_ii one minus the leverage of bag i, the lack of fit is

    T = Σ_i (n_i r_i² − A_ii s_i²) / v_i.

T has the mean 0 whatever v_i is put in. What is left of bag i is a sum of products of *different*
instances, so that fourth moments cancel and heavy tails do no harm; its variance needs σ² and
θ only, its skewness third moments within classes as well. With normal data and one variance,
1 + T/(L − C) is the F-statistic of the analysis of variance, and so is its p-value here.

All this trusts θ. Bags that drift can tilt the plane until the classes seem further apart than the
values within bags are: hardly any variance within classes is left, and what is left is known so
badly that nothing could be significant. Two bounds hold whatever θ is, and are tested beside T:

* v_i ≤ E S_i. So T with S_i in the place of s_i² has a mean of at most 0 (the *plain* lack of fit);
  it is weaker where classes are far apart, but no plane can spoil it.
* Σ_i w_i θᵀK_i θ ≤ Σ_i w_i E S_i for any weights w_i. Means that rise so *steeply* with the
  proportions that this is significantly violated cannot be means of a mixture.

What is averaged are mid-ranks (for two-valued columns, the values): a feature may have tails as
heavy as it likes, one outlier makes no bag suspicious, and no monotone transformation matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.optimize import nnls

from unbag._arrays import Floats, Ints
from unbag.bags.bags import SAME_PROPORTION, Bags

Array = Floats

# A bag's variance within classes is not taken for less than this share of the average one.
_LEAST_VARIANCE = 0.2
# Nor for less than this share of the variance in mixed bags.
_LEAST_WITHIN = 0.01
# Bags so many standard errors off the plane pull at it no more than that, in so many rounds.
_FAR = 2.5
_ROBUST_ROUNDS = 20
# Standard errors that residuals may still move by.
_SETTLED = 1e-3
# Times that plane and variances are fitted in turn; the third changes hardly anything.
_ROUNDS = 3
# Power at which a drift counts as "would have been seen".
_POWER = 0.8
# With more rows than this, ranks are those of a column rounded to quantiles of so many rows.
_EXACT_RANKS = 50_000
_QUANTILES = 500
# Points at which the distribution of an estimated variance is evaluated.
_NODES = 64


@dataclass(frozen=True)
class Moments:
    """A lack of fit, and what is to be expected of it if the assumption holds."""

    excess: float  # T
    scale: float  # mean of Σ n_i r_i²/v_i
    variance: float  # of T, less what the estimated variances would add to normal data
    noise: float  # the latter
    third: float  # third cumulant of T

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.excess + other.excess,
            self.scale + other.scale,
            self.variance + other.variance,
            self.noise + other.noise,
            self.third + other.third,
        )

    @property
    def ratio(self) -> float:
        """Lack of fit by what is to be expected of it: the F-statistic."""
        return 1 + self.excess / self.scale

    def p_value(self) -> float:
        """P(T > excess), with three moments of Σ n_i r_i²/v_i, over an estimated variance."""
        a, shape = self._pearson()
        df = 2 * self.scale**2 / self.noise
        share = (np.arange(_NODES) + 0.5) / _NODES
        denominator = special.chdtri(df, share) / df
        threshold = ((self.scale + self.excess) * denominator - self.scale) / a + shape
        return float(special.chdtrc(shape, np.maximum(threshold, 0.0)).mean())

    def noticed(self, level: float) -> float:
        """Mean of T at which it is found significant in four of five cases."""
        a, shape = self._pearson()
        least = a * (special.chdtri(shape, level) - shape)
        return float(least + special.ndtri(_POWER) * np.sqrt(self.variance + self.noise))

    def _pearson(self) -> tuple[float, float]:
        """Give a and ν so that a(χ²_ν − ν) has this variance and third cumulant."""
        shape = 8 * self.variance**3 / self.third**2
        return np.sqrt(self.variance / (2 * shape)), shape


@dataclass(frozen=True, eq=False)
class LackOfFit:
    """What one column says on one plane."""

    refined: Moments  # with the variance within classes
    plain: Moments  # with the variance within bags
    p_steep: float  # classes no further apart than the values within bags
    information: float  # mean of T for drifts of one standard deviation
    z: Array
    p_bag: Array


@dataclass(frozen=True, eq=False)
class _Fit:
    """A plane and the variances around it, bag by bag or class by class."""

    theta: Array
    covariance: Array  # of θ
    projection: Array  # gives θ from bag means
    root: Array  # of the weights n_i/v_i
    q: Array  # orthonormal basis of the weighted proportions
    residual: Array  # weighted
    own: Array  # s_i²
    sigma2: Array  # of classes
    uncertain: Array  # what noise in the proportions adds to the variance of a bag mean
    actual: Array  # v_i as estimated
    v: Array  # v_i as put into the weights


class Plane:
    """The bags of one group, to which each column fits a plane of its own."""

    def __init__(self, bags: Bags, rows: Ints | slice, members: Ints | slice) -> None:
        self.bags, self.rows, self.members = bags, rows, members
        self.df = bags.n_bags - bags.n_classes
        n, G = bags.sizes[:, None, None], bags.proportions
        D = G[:, :, None] * np.eye(bags.n_classes) - G[:, :, None] * G[:, None, :]
        noise = getattr(bags, "noise", None)
        self.V = np.zeros_like(D) if noise is None else np.asarray(noise)
        self.plural = bags.sizes > 1
        self.within = np.maximum(bags.sizes - 1, 1)
        # a single row is of one class: a share between 0 and 1 can only be its chance
        self.nV = np.where((n == 1) & (self.V == 0).all(axis=(1, 2), keepdims=True), D, n * self.V)
        # noise V makes D too small by V, while residuals vary by nV more
        self.K = n * (D + self.V) / self.within[:, None, None] - self.nV

        # weights 1/v² would be best for normal data, but let bags without a rare value confirm
        # each other that there is no variance
        self.weight = np.where(self.plural, np.sqrt(self.within), 0.0)
        self.by_rows = np.linalg.qr(np.sqrt(bags.sizes)[:, None] * G)[0]
        self.by_freedom, self.triangle = np.linalg.qr(self.weight[:, None] * G)

    def places(self, rows: Ints) -> Ints:
        """Where rows of the table are among those of this group, as far as they are."""
        if isinstance(self.rows, slice):
            return rows
        place = np.searchsorted(self.rows, rows)
        place = np.minimum(place, len(self.rows) - 1)
        return place[self.rows[place] == rows]

    def test(self, column: Array) -> LackOfFit | None:
        """Fit the plane to a column; None if that is constant."""
        h, two_valued = _standardise(column[self.rows])
        if h is None:
            return None
        bags, n = self.bags, self.bags.sizes
        moments = [np.bincount(bags.index, h, len(n)) / n]
        power = h
        for _ in range(2):
            power = power * h
            moments.append(np.bincount(bags.index, power, len(n)) / n)
        return self._test(*moments, two_valued=two_valued)

    def test_two_valued(self, upper: Ints) -> LackOfFit | None:
        """Do the same for a column of two values from the rows that hold the upper one."""
        bags, n = self.bags, self.bags.sizes
        share = np.bincount(bags.index[upper], minlength=len(n)) / n
        pooled = len(upper) / bags.n_instances
        if pooled in (0, 1):
            return None
        # moments of 1 − pooled, in a share of the rows, and of −pooled in the others
        one, other = 1 - pooled, -pooled
        moments = (share * one**k + (1 - share) * other**k for k in (1, 2, 3))
        return self._test(*moments, two_valued=True)

    def _test(self, mean: Array, second: Array, third: Array, *, two_valued: bool) -> LackOfFit:
        """Fit the plane to a column of given moments in bags."""
        bags, n = self.bags, self.bags.sizes
        spread = n * np.maximum(second - mean**2, 0.0) / self.within
        cubes = third - 3 * mean * second + 2 * mean**3

        fit = self._fit(mean, spread)
        free = _free(fit.q)
        # the variance within bags is linear in the proportions but for the distance of classes,
        # which makes it concave: a plane through it lies above the variance within classes
        widest = self._on_plane(spread) + np.maximum(fit.uncertain, 0.0)
        # T of a two-valued column moves in steps: a pair of equal rare values in a bag is one
        step = np.average(2 / (self.within * fit.v), weights=n) / 2 if two_valued else 0.0
        skewed_within = self._third_moments(cubes - self._third_between(fit))
        skewed = self._third_moments(cubes)
        refined = self._refined(fit, free, skewed_within, step)
        plain = self._plain(fit, free, spread, widest, skewed, step)

        design = fit.root[:, None] * bags.proportions
        r = _robust_residuals(fit.root * mean, design, fit.residual, free) * np.sqrt(fit.v)
        z, p_bag = self._judge_bags(r, fit.actual, skewed_within, refined)
        z_plain, p_plain = self._judge_bags(r, widest, skewed, plain)
        plainly = p_plain < p_bag
        return LackOfFit(
            refined=refined,
            plain=plain,
            p_steep=self._p_steep(fit, spread, widest),
            information=float(np.sum(free * n)),
            z=np.where(plainly, z_plain, z),
            p_bag=np.where(plainly, p_plain, p_bag),
        )

    def _fit(self, mean: Array, spread: Array) -> _Fit:
        """Fit plane and variances in turn."""
        n, G = self.bags.sizes, self.bags.proportions
        pooled = np.average(spread, weights=n - 1)
        actual = np.full(len(n), pooled)
        for _ in range(_ROUNDS):
            v = np.maximum(actual, _LEAST_VARIANCE * np.average(actual, weights=n))
            root = np.sqrt(n / v)
            q, r = np.linalg.qr(root[:, None] * G)
            # noise in the proportions flattens the plane; less its part the slopes are right
            steeper = r.T @ r - np.einsum("i,icd->cd", n / v, self.V)
            if np.linalg.eigvalsh(steeper)[0] <= 0:
                raise ValueError(
                    "The noise in the proportions is as large as their differences, so that "
                    "nothing can be tested."
                )
            weighted = np.linalg.inv(steeper) @ r.T @ q.T
            theta = weighted @ (root * mean)
            half = weighted * np.sqrt(actual / v)
            covariance = half @ half.T
            residual = root * (mean - G @ theta)
            # θθᵀ less the error of the estimate, which is larger if bags drift
            drift = max(1.0, np.sum(residual**2) / np.sum(_free(q) * actual / v))
            square = np.outer(theta, theta) - drift * covariance
            own = spread - np.einsum("icd,cd->i", self.K, square)
            uncertain = np.einsum("icd,cd->i", self.nV, square)
            target = self.by_freedom.T @ (self.weight * (own - uncertain))
            sigma2 = nnls(self.triangle, target)[0]
            actual = G @ sigma2 + np.maximum(uncertain, 0.0)
            # classes may be far apart, but not so far that nothing is left within them
            actual = np.maximum(actual, _LEAST_WITHIN * pooled)
        return _Fit(
            theta=theta,
            covariance=covariance,
            projection=weighted * root,
            root=root,
            q=q,
            residual=residual,
            own=own,
            sigma2=sigma2,
            uncertain=uncertain,
            actual=actual,
            v=v,
        )

    def _refined(self, fit: _Fit, free: Array, skewed: Array, step: float) -> Moments:
        """T against the variance within classes."""
        n, G, v = self.bags.sizes, self.bags.proportions, fit.v
        u = fit.actual / v
        own = np.where(self.plural, fit.own / v, u)
        # T_i holds products of different instances, and −2 Σ_j δ_j ε_j / (n_i − 1) from the
        # distance δ of classes; the estimate of θ adds its own part through K
        distance = fit.theta - (G @ fit.theta)[:, None]
        apart = 4 * n / self.within**2 * np.sum(G * distance**2 * fit.sigma2, axis=1)
        M = np.einsum("i,icd->cd", self.plural * free / v, self.K)
        MC = M @ fit.covariance
        two, three = _traces(fit.q, u)
        noise = 2 * np.sum(self.plural * (free * u) ** 2 / self.within)
        noise += 4 * fit.theta @ MC @ M @ fit.theta + 2 * np.trace(MC @ MC)
        return Moments(
            excess=float(np.sum(fit.residual**2 - free * own) - step),
            scale=float(np.sum(free * u)),
            variance=float(2 * two + np.sum(self.plural * free**2 * apart / v**2)),
            noise=float(noise),
            third=8 * three + self._lumps(free, skewed, fit.v),
        )

    def _plain(
        self, fit: _Fit, free: Array, spread: Array, widest: Array, skewed: Array, step: float
    ) -> Moments:
        """T against the variance within bags, which does not depend on θ."""
        u = widest / fit.v
        own = np.where(self.plural, (spread + np.maximum(fit.uncertain, 0.0)) / fit.v, u)
        two, three = _traces(fit.q, u)
        return Moments(
            excess=float(np.sum(fit.residual**2 - free * own) - step),
            scale=float(np.sum(free * u)),
            variance=2 * two,
            noise=float(2 * np.sum(self.plural * (free * u) ** 2 / self.within)),
            third=8 * three + self._lumps(free, skewed, fit.v),
        )

    def _lumps(self, free: Array, skewed: Array, v: Array) -> float:
        """What third moments add to the third cumulant of T."""
        lumps = 4 * self.bags.sizes / self.within**2 * skewed**2
        return float(np.sum(self.plural * (free / v) ** 3 * lumps))

    def _judge_bags(
        self, residual: Array, variance: Array, skewed: Array, moments: Moments
    ) -> tuple[Array, Array]:
        """Standardised residuals of bags, and their p-values."""
        n = self.bags.sizes
        # the variance of single classes is known less well than the average: err on its side
        cautious = np.maximum(variance, np.average(variance, weights=n))
        z = residual / np.sqrt(cautious)
        df = 2 * moments.scale**2 / moments.noise
        return z, _bag_tails(z, skewed / np.sqrt(n * cautious**3), df)

    def _p_steep(self, fit: _Fit, spread: Array, widest: Array) -> float:
        """P-value of √(θᵀKθ) ≤ √S, for sums K and S over bags, weighted by n_i − 1."""
        degrees = self.plural * self.within
        K = np.einsum("i,icd->cd", degrees, self.K)
        # the error of θ with the variances that do not trust θ
        half = fit.projection * np.sqrt(widest / self.bags.sizes)
        covariance = half @ half.T
        S = float(degrees @ spread)
        apart = fit.theta @ K @ fit.theta - np.trace(K @ covariance)
        if apart <= S:
            return 1.0
        slope = K @ fit.theta / np.sqrt(apart)
        noise = 2 * np.sum(degrees * widest**2)
        error = np.sqrt(slope @ covariance @ slope + noise / (4 * S))
        return float(special.stdtr(2 * S**2 / noise, (np.sqrt(S) - np.sqrt(apart)) / error))

    def _on_plane(self, spread: Array) -> Array:
        """Variances within bags, on the plane fitted to them but no smaller than the average."""
        sigma2 = nnls(self.triangle, self.by_freedom.T @ (self.weight * spread))[0]
        pooled = np.average(spread, weights=self.bags.sizes - 1)
        return np.maximum(self.bags.proportions @ sigma2, pooled)

    def _third_between(self, fit: _Fit) -> Array:
        """Third moments due to the distance δ of classes: Σ_c γ_c (3σ_c²δ_c + δ_c³)."""
        G = self.bags.proportions
        distance = fit.theta - (G @ fit.theta)[:, None]
        return np.sum(G * (3 * fit.sigma2 + distance**2) * distance, axis=1)

    def _third_moments(self, cubes: Array) -> Array:
        """Third moments of bags, on the plane fitted to them but no smaller than the average."""
        root = np.sqrt(self.bags.sizes)
        fitted = self.by_rows @ (self.by_rows.T @ (root * cubes)) / root
        pooled = np.average(cubes, weights=self.bags.sizes)
        sign = 1.0 if pooled >= 0 else -1.0
        return np.asarray(sign * np.maximum(sign * fitted, abs(pooled)))


def _standardise(values: Array) -> tuple[Array | None, bool]:
    """Centred mid-ranks, or 0 and 1 for two values, and whether it is two; None for a constant."""
    low, high = values.min(), values.max()
    if low == high:
        return None, False
    upper = values == high
    if (upper | (values == low)).all():
        return upper - upper.mean(), True
    if len(values) <= _EXACT_RANKS:
        _, code = np.unique(values, return_inverse=True)
    else:
        sample = values[:: len(values) // _EXACT_RANKS + 1]
        knots = np.unique(np.quantile(sample, np.linspace(0, 1, _QUANTILES + 1)))
        code = np.searchsorted(knots, values, "right")
    count = np.bincount(code)
    middle = (np.cumsum(count) - count / 2) / len(values) - 0.5
    return middle[code], False


def _free(q: Array) -> Array:
    """One minus the leverage of each bag."""
    return np.maximum(1 - np.sum(q**2, axis=1), SAME_PROPORTION)


def _robust_residuals(mean: Array, design: Array, residual: Array, free: Array) -> Array:
    """Standardised residuals from a plane that bags far off it do not pull over (Huber's).

    With weights w and g = x(XᵀwX)⁻¹xᵀ the variance of a residual is about 1 + g(1 − 2w).
    """
    z = residual / np.sqrt(free)
    for _ in range(_ROBUST_ROUNDS):
        if np.abs(z).max() <= _FAR:
            break
        weight = _FAR / np.maximum(np.abs(z), _FAR)
        root = np.sqrt(weight)
        q, r = np.linalg.qr(root[:, None] * design)
        error = np.sqrt(np.maximum(1 + np.sum(q**2, axis=1) * (1 / weight - 2), SAME_PROPORTION))
        before, z = z, (mean - design @ np.linalg.solve(r, q.T @ (root * mean))) / error
        if np.abs(z - before).max() < _SETTLED:
            break
    return z


def _traces(q: Array, u: Array) -> tuple[float, float]:
    """Traces of (AU)² and (AU)³ for A = I − qqᵀ and U = diag(u)."""
    one, two, three = (q.T @ (u[:, None] ** k * q) for k in (1, 2, 3))
    second = np.sum(u**2) - 2 * np.trace(two) + np.trace(one @ one)
    third = np.sum(u**3) - 3 * np.trace(three) + 3 * np.trace(two @ one)
    return float(second), float(third - np.trace(one @ one @ one))


def _bag_tails(z: Array, skewness: Array, df: float) -> Array:
    """Two-sided p-values of standardised bag means: the larger of Student's and a skewed tail."""
    size = np.abs(z)
    towards = np.maximum(skewness * np.sign(z), 1e-3)
    shape = 4 / towards**2
    skewed = special.gammaincc(shape, shape + size * np.sqrt(shape))
    return np.minimum(2 * np.maximum(special.stdtr(df, -size), skewed), 1.0)
