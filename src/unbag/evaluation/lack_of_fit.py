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

All this relies on θ. Bags that deviate can tilt the plane until the classes seem further apart than the
values within bags are: hardly any variance within classes is left, and what is left is known so
badly that nothing could be significant. Two bounds hold whatever θ is, and are tested with T:

* v_i ≤ E S_i. So T with S_i in place of s_i² has a mean of at most 0 (the *plain* lack of fit);
  it is weaker where classes are far apart, but no plane can spoil it.
* Σ_i w_i θᵀK_i θ ≤ Σ_i w_i E S_i for any weights w_i. Means that rise so *steeply* with the
  proportions that this is significantly violated cannot be means of a mixture.

What is averaged are mid-ranks (for two-valued columns, the values): a feature may have tails as
heavy as it likes, one outlier makes no bag suspicious, and no monotone transformation matters.

Columns are fitted many at a time: arrays have an axis of columns first, then one of bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special, stats
from scipy.optimize import nnls

from unbag._arrays import Floats, Ints
from unbag.bags.bags import SAME_PROPORTION, Bags

# A bag's variance within classes is not taken for less than this share of the average one.
_LEAST_VARIANCE = 0.2
# Nor for less than this share of the variance in mixed bags.
_LEAST_WITHIN = 0.01
# And a bag's spread for less than this share of a column's variance.
_LEAST_SPREAD = 1e-12
# Bags so many standard errors off the plane pull at it no more than that, in so many rounds.
_FAR = 2.5
_ROBUST_ROUNDS = 20
# Standard errors that residuals may still move by.
_SETTLED = 1e-3
# Times that plane and variances are fitted in turn; the third changes hardly anything.
_ROUNDS = 3
# Power at which a deviation "would have been detected".
_POWER = 0.8
# Points at which the distribution of an estimated variance is evaluated.
_NODES = 64


class LackMoments(NamedTuple):
    """Lacks of fit, and what is to be expected of them if the assumption holds."""

    excess: Floats  # T
    scale: Floats  # mean of Σ n_i r_i²/v_i
    variance: Floats  # of T, less what the estimated variances would add to normal data
    noise: Floats  # the latter
    third: Floats  # third cumulant of T

    @property
    def ratio(self) -> Floats:
        """Lack of fit by what is to be expected of it: the F-statistic."""
        return 1 + self.excess / self.scale

    def p_values(self) -> Floats:
        """P(T > excess), with three moments of Σ n_i r_i²/v_i, over an estimated variance."""
        a, shape = self._pearson()
        df = 2 * self.scale**2 / self.noise
        share = (np.arange(_NODES) + 0.5)[:, None] / _NODES
        denominator = special.chdtri(df, share) / df
        threshold = ((self.scale + self.excess) * denominator - self.scale) / a + shape
        return np.mean(special.chdtrc(shape, np.maximum(threshold, 0.0)), axis=0)

    def detectable(self, level: float) -> Floats:
        """Mean of T at which it is found significant in four of five cases."""
        a, shape = self._pearson()
        least = a * (special.chdtri(shape, level) - shape)
        return np.asarray(least + special.ndtri(_POWER) * np.sqrt(self.variance + self.noise))

    def _pearson(self) -> tuple[Floats, Floats]:
        """Give a and ν so that a(χ²_ν − ν) has this variance and third cumulant."""
        shape = 8 * self.variance**3 / self.third**2
        return np.sqrt(self.variance / (2 * shape)), shape


class InBags(NamedTuple):
    """LackMoments of a column in each bag."""

    mean: Floats
    second: Floats
    third: Floats
    two_valued: bool


@dataclass(frozen=True, eq=False)
class LackOfFit:
    """Tests of columns on one plane."""

    refined: LackMoments  # with the variance within classes
    plain: LackMoments  # with the variance within bags
    p_steep: Floats  # classes no further apart than the values within bags
    information: Floats  # mean of T for drifts of one standard deviation
    z: Floats  # of columns and bags
    p_bag: Floats

    def lack(self) -> tuple[Floats, Floats]:
        """Lack of fit by what is to be expected of it, the surer of the two, and its p-value."""
        p, p_plain = self.refined.p_values(), self.plain.p_values()
        plainly = (p_plain < p) | ((p_plain == p) & (self.plain.ratio < self.refined.ratio))
        return np.where(plainly, self.plain.ratio, self.refined.ratio), np.minimum(p, p_plain)


class _Fit(NamedTuple):
    """Planes and the variances around them, bag by bag or class by class."""

    theta: Floats
    covariance: Floats  # of θ
    projection: Floats  # gives θ from bag means
    root: Floats  # of the weights n_i/v_i
    q: Floats  # orthonormal basis of the weighted proportions
    residual: Floats  # weighted
    own: Floats  # s_i²
    sigma2: Floats  # of classes
    uncertain: Floats  # what noise in the proportions adds to the variance of a bag mean
    actual: Floats  # v_i as estimated
    v: Floats  # v_i as put into the weights


class Plane:
    """The bags, through whose means each column has a plane of its own."""

    def __init__(self, bags: Bags) -> None:
        self.bags = bags
        n, G = bags.sizes[:, None, None], bags.proportions
        D = G[:, :, None] * np.eye(bags.n_classes) - G[:, :, None] * G[:, None, :]
        self.V = np.zeros_like(D) if bags.noise is None else bags.noise
        self.plural = bags.sizes > 1
        self.within = np.maximum(bags.sizes - 1, 1)
        # a single row is of one class: a share between 0 and 1 can only be its probability
        self.nV = np.where((n == 1) & (self.V == 0).all(axis=(1, 2), keepdims=True), D, n * self.V)
        # noise V makes D too small by V, while residuals vary by nV more
        self.K = n * (D + self.V) / self.within[:, None, None] - self.nV

        # weights 1/v² would be best for normal data, but let bags without a rare value confirm
        # each other that there is no variance
        self.weight = np.where(self.plural, np.sqrt(self.within), 0.0)
        self.by_rows = np.linalg.qr(np.sqrt(bags.sizes)[:, None] * G)[0]
        self.by_freedom, self.triangle = np.linalg.qr(self.weight[:, None] * G)

    def in_bags(self, column: Floats) -> InBags | None:
        """Moments of a column in each bag; None if it is constant."""
        low, high = column.min(), column.max()
        if low == high:
            return None
        upper = column == high
        two_valued = bool((upper | (column == low)).all())
        # centred mid-ranks, or 0 and 1 for two values
        ranks = upper.astype(float) if two_valued else stats.rankdata(column) / len(column)
        h, bags = ranks - ranks.mean(), self.bags
        mean, second, third = (bags.means(power) for power in (h, h * h, h * h * h))
        return InBags(mean, second, third, two_valued)

    def test(self, columns: list[InBags]) -> LackOfFit:
        """Fit a plane to each of some columns."""
        n, G = self.bags.sizes, self.bags.proportions
        mean, second, third, two_valued = (np.array(one) for one in zip(*columns, strict=True))
        # a column may be constant in every bag, which no variance in bags allows for
        least = _LEAST_SPREAD * self._average(second, n)[:, None]
        spread = np.maximum(n * (second - mean**2) / self.within, least)
        cubes = third - 3 * mean * second + 2 * mean**3

        fit = self._fit(mean, spread)
        free, noisy = _free(fit.q), np.maximum(fit.uncertain, 0.0)
        # the variance within bags is linear in the proportions except for the distance of classes,
        # which makes it concave: a plane through it lies above the variance within classes
        pooled = self._average(spread, n - 1)[:, None]
        widest = np.maximum(self._of_classes(spread) @ G.T, pooled) + noisy
        # T of a two-valued column moves in steps: a pair of equal rare values in a bag is one
        step = two_valued * self._average(1 / (self.within * fit.v), n)
        # third moments due to the distance δ of classes: Σ_c γ_c (3σ_c²δ_c + δ_c³)
        distance = fit.theta[:, None] - (fit.theta @ G.T)[..., None]
        between = np.sum(G * (3 * fit.sigma2[:, None] + distance**2) * distance, axis=2)
        skewed_within, skewed = self._third_moments(cubes - between), self._third_moments(cubes)
        refined = self._refined(fit, free, distance, skewed_within, step)
        # this does not depend on θ
        plain = self._moments(fit, free, spread + noisy, widest, skewed, step)

        design = fit.root[..., None] * G
        r = _robust_residuals(fit.root * mean, design, fit.residual, free) * np.sqrt(fit.v)
        z, p_bag = self._judge_bags(r, fit.actual, skewed_within, refined)
        z_plain, p_plain = self._judge_bags(r, widest, skewed, plain)
        plainly = p_plain < p_bag
        return LackOfFit(
            refined=refined,
            plain=plain,
            p_steep=self._p_steep(fit, spread, widest),
            information=free @ n,
            z=np.where(plainly, z_plain, z),
            p_bag=np.where(plainly, p_plain, p_bag),
        )

    def _fit(self, mean: Floats, spread: Floats) -> _Fit:
        """Fit planes and variances in turn."""
        n, G = self.bags.sizes, self.bags.proportions
        pooled = self._average(spread, n - 1)[:, None]
        actual = np.broadcast_to(pooled, spread.shape)
        for _ in range(_ROUNDS):
            v = np.maximum(actual, _LEAST_VARIANCE * self._average(actual, n)[:, None])
            root = np.sqrt(n / v)
            q, r = np.linalg.qr(root[..., None] * G)
            # noise in the proportions flattens the plane; less its part the slopes are right
            steeper = r.mT @ r - np.tensordot(n / v, self.V, 1)
            if np.linalg.eigvalsh(steeper)[:, 0].min() <= 0:
                raise ValueError(
                    "The noise in the proportions is as large as their differences, so that "
                    "nothing can be tested."
                )
            weighted = np.linalg.inv(steeper) @ r.mT @ q.mT
            theta = np.einsum("mci,mi->mc", weighted, root * mean)
            covariance = _square(weighted, actual / v)
            residual = root * (mean - theta @ G.T)
            # θθᵀ less the error of the estimate, which is larger if bags deviate
            drift = np.maximum(1.0, np.sum(residual**2, 1) / np.sum(_free(q) * actual / v, 1))
            square = theta[:, :, None] * theta[:, None] - drift[:, None, None] * covariance
            own = spread - np.tensordot(square, self.K, ((1, 2), (1, 2)))
            uncertain = np.tensordot(square, self.nV, ((1, 2), (1, 2)))
            sigma2 = self._of_classes(own - uncertain)
            actual = sigma2 @ G.T + np.maximum(uncertain, 0.0)
            # classes may be far apart, but not so far that nothing is left within them
            actual = np.maximum(actual, _LEAST_WITHIN * pooled)
        projection = weighted * root[:, None]
        found = theta, covariance, projection, root, q, residual, own, sigma2, uncertain, actual, v
        return _Fit(*found)

    def _refined(
        self, fit: _Fit, free: Floats, distance: Floats, skewed: Floats, step: Floats
    ) -> LackMoments:
        """T against the variance within classes."""
        # T_i holds products of different instances, and −2 Σ_j δ_j ε_j / (n_i − 1) from the
        # distance δ of classes; the estimate of θ adds its own part through K
        apart = np.einsum("ic,mic,mc->mi", self.bags.proportions, distance**2, fit.sigma2)
        apart *= 4 * self.bags.sizes / self.within**2
        M = np.tensordot(self.plural * free / fit.v, self.K, 1)
        MC = M @ fit.covariance
        found = self._moments(fit, free, fit.own, fit.actual, skewed, step)
        return found._replace(
            variance=found.variance + np.sum(self.plural * free**2 * apart / fit.v**2, axis=1),
            noise=found.noise + 4 * _form(MC @ M, fit.theta) + 2 * _trace(MC @ MC),
        )

    def _moments(
        self,
        fit: _Fit,
        free: Floats,
        spread: Floats,
        variance: Floats,
        skewed: Floats,
        step: Floats,
    ) -> LackMoments:
        """T against the spread of each bag, which is expected to be this variance."""
        u = variance / fit.v
        own = np.where(self.plural, spread / fit.v, u)
        # traces of (AU)² and (AU)³ for A = I − qqᵀ and U = diag(u)
        one, two, three = (fit.q.mT @ (u[..., None] ** k * fit.q) for k in (1, 2, 3))
        second = np.sum(u**2, axis=1) - 2 * _trace(two) + _trace(one @ one)
        third = np.sum(u**3, axis=1) - 3 * _trace(three) + 3 * _trace(two @ one)
        third -= _trace(one @ one @ one)
        # what third moments add to the third cumulant of T
        lumps = 4 * self.bags.sizes / self.within**2 * skewed**2
        return LackMoments(
            excess=np.sum(fit.residual**2 - free * own, axis=1) - step,
            scale=np.sum(free * u, axis=1),
            variance=2 * second,
            noise=2 * np.sum(self.plural * (free * u) ** 2 / self.within, axis=1),
            third=8 * third + np.sum(self.plural * (free / fit.v) ** 3 * lumps, axis=1),
        )

    def _judge_bags(
        self, residual: Floats, variance: Floats, skewed: Floats, moments: LackMoments
    ) -> tuple[Floats, Floats]:
        """Standardised residuals of bags, and the larger of Student's p-value and a skewed one."""
        n = self.bags.sizes
        # the variance of single classes is known less well than the average: err on its side
        cautious = np.maximum(variance, self._average(variance, n)[:, None])
        z, df = residual / np.sqrt(cautious), 2 * moments.scale**2 / moments.noise
        size, skewness = np.abs(z), skewed / np.sqrt(n * cautious**3)
        shape = 4 / np.maximum(skewness * np.sign(z), 1e-3) ** 2
        tail = special.gammaincc(shape, shape + size * np.sqrt(shape))
        return z, np.minimum(2 * np.maximum(special.stdtr(df[:, None], -size), tail), 1.0)

    def _p_steep(self, fit: _Fit, spread: Floats, widest: Floats) -> Floats:
        """P-value of √(θᵀKθ) ≤ √S, for sums K and S over bags, weighted by n_i − 1."""
        degrees = self.plural * self.within
        K = np.tensordot(degrees, self.K, 1)
        # the error of θ with the variances that do not trust θ
        covariance = _square(fit.projection, widest / self.bags.sizes)
        S = spread @ degrees
        apart = _form(K, fit.theta) - _trace(K @ covariance)
        # only what is further apart than S can be too steep
        further = np.maximum(apart, S)
        slope = fit.theta @ K / np.sqrt(further)[:, None]
        noise = 2 * widest**2 @ degrees
        error = np.sqrt(_form(covariance, slope) + noise / (4 * S))
        p = special.stdtr(2 * S**2 / noise, (np.sqrt(S) - np.sqrt(further)) / error)
        return np.where(apart <= S, 1.0, p)

    def _average(self, values: Floats, weights: Ints) -> Floats:
        """Averages over bags."""
        return np.asarray(values @ weights / weights.sum())

    def _of_classes(self, variances: Floats) -> Floats:
        """Variances of classes from those of bags, none of them negative."""
        targets = (self.weight * variances) @ self.by_freedom
        return np.array([nnls(self.triangle, target)[0] for target in targets])

    def _third_moments(self, cubes: Floats) -> Floats:
        """Third moments of bags, on the plane fitted to them but no smaller than the average."""
        root = np.sqrt(self.bags.sizes)
        fitted = (root * cubes) @ self.by_rows @ self.by_rows.T / root
        pooled = self._average(cubes, self.bags.sizes)[:, None]
        sign = np.where(pooled >= 0, 1.0, -1.0)
        return np.asarray(sign * np.maximum(sign * fitted, abs(pooled)))


def _free(q: Floats) -> Floats:
    """One minus the leverage of each bag."""
    return np.maximum(1 - np.sum(q**2, axis=-1), SAME_PROPORTION)


def _square(matrix: Floats, weight: Floats) -> Floats:
    """ABAᵀ of matrices A and diagonal ones B."""
    half = matrix * np.sqrt(weight)[:, None]
    return half @ half.mT


def _form(matrix: Floats, x: Floats) -> Floats:
    """The quadratic form xᵀAx."""
    return np.asarray(np.einsum("...c,...cd,...d->...", x, matrix, x))


def _trace(matrix: Floats) -> Floats:
    return np.trace(matrix, axis1=-2, axis2=-1)


def _robust_residuals(mean: Floats, design: Floats, residual: Floats, free: Floats) -> Floats:
    """Standardised residuals from planes that bags far off them do not pull over (Huber's).

    With weights w and g = x(XᵀwX)⁻¹xᵀ the variance of a residual is about 1 + g(1 − 2w).
    """
    z = residual / np.sqrt(free)
    moving = np.arange(len(z))
    for _ in range(_ROBUST_ROUNDS):
        moving = moving[np.abs(z[moving]).max(axis=1) > _FAR]
        if len(moving) == 0:
            break
        before, of, x = z[moving], mean[moving], design[moving]
        weight = _FAR / np.maximum(np.abs(before), _FAR)
        root = np.sqrt(weight)
        q, r = np.linalg.qr(root[..., None] * x)
        error = np.sqrt(np.maximum(1 + np.sum(q**2, axis=2) * (1 / weight - 2), SAME_PROPORTION))
        slopes = np.linalg.solve(r, q.mT @ (root * of)[..., None])
        z[moving] = (of - (x @ slopes)[..., 0]) / error
        moving = moving[np.abs(z[moving] - before).max(axis=1) >= _SETTLED]
    return z
