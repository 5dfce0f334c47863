"""Observed information of the count likelihood, and the posterior of labels that it follows from.

Let η_j be the log-odds of row j, p_j its class probabilities and O_b what is known of bag b. By
Louis' identity (1982), whatever is known,

    ∂ℓ_b/∂η_j     =  E[y_j | O_b] − p_j
    −∂²ℓ_b/∂η∂ηᵀ  =  diag(p(1 − p)) − Cov(y | O_b),

complete information less missing information. Both assumptions about bags lead to the same ℓ up to
a constant (`unbag.observations.count_likelihood`), so both lead to the same information.

**Posterior means** are p plus the gradient of ℓ, which is exact in small bags and a saddlepoint
approximation in large ones.

**Posterior covariance.** Labels of a bag are dependent only because their sum is known. To first
order of the saddlepoint approximation, with w_j the variances of the tilted labels, V = Σ_j w_j + S
and S the variance of the noise of the count,

    Cov(y | O_b) = diag(w) − w wᵀ/V.

Its diagonal is w_j − w_j²/V, while the posterior variance of a single label is m_j(1 − m_j) exactly,
with m_j the posterior mean. So w is chosen to make the diagonal right,

    w_j − w_j²/V = m_j(1 − m_j),    V = Σ_j w_j + S,

the fixed point by which Deville and Tillé (2005) approximate covariances of conditional Poisson
samples. Sums over a row are then right as well (zero for an exact count), so that the covariance is
exact in bags of at most three rows and in bags of equal rows of any size; elsewhere its relative
error is of the order 1/V².

**Random intercepts.** Where log-odds of bag b are η + u_b with u_b ~ N(0, τ²), Laplace's approximation
of the integral over u_b is

    ℓ_b = log Pr(O_b | η + û) − û²/2τ² − ½ log(1 + τ² V_û),    Σ_j σ(η_j + û) + û/τ² = K_b,

with V_û = Σ_j v_j at η + û. Posterior means are those given K_b, and p is taken at η + û, between
the log-odds without an intercept and those that add up to K_b; the information loses the part of
u_b, v vᵀ/(V_û + 1/τ²). Noise of variance S makes τ² smaller by the factor 1 + S/V.

**Several classes.** The same with matrices. With A_j = diag(m_j) − m_j m_jᵀ,

    Cov(y_i, y_j | O_b) = δ_ij D_j − D_i V⁺ D_j,    D_j − D_j V⁺ D_j = A_j,    V = Σ_j D_j + S.

Each class has a random intercept of variance τ²/2 then, so that the log-odds of one class against
another vary by τ². Counts must be exact.

**Sets of counts**, low ≤ K ≤ high. The posterior of labels is a mixture, over the counts in the set, of
posteriors given a count. Posterior means come from the gradient of the log-probability of the set, and
the variance of the count from the derivative of its posterior mean by a common shift of all scores:

    d E[K | set]/du = Var(K | set),    so that    −d²ℓ/du² = V − Var(K | set),    V = Σ_j p_j(1 − p_j).

Labels depend on each other by the count alone. So a set is treated, as to covariances, like a count
with normal noise that leaves it the same posterior variance.

References
----------
Louis, T. A. (1982). Finding the observed information matrix when using the EM algorithm. JRSS B 44.
Deville, J.-C. and Tillé, Y. (2005). Variance approximation under balanced sampling. JSPI 128.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from unbag._arrays import Floats, Segments
from unbag.bags.bags import Bags
from unbag.bags.count_sets import CountWeights
from unbag.defaults import EXACT_SIZE
from unbag.observations.count_likelihood import WeighedBags, count_covariance
from unbag.observations.saddlepoint import MOST_STEPS, TiltSearch
from unbag.observations.several_classes import noise_of_sets, set_posterior

# The fixed point settles within a few steps, in large bags within two. So small that it makes no
# difference which other bags a bag is computed with.
_MOST_STEPS = 50
_SETTLED = 1e-8

_TINY = 1e-12

# Variance of a count that is practically certain.
_SURE = 1e-9

# Newton steps for random intercepts of bags with noisy counts.
_NOISY_STEPS = 4

# Longest Newton step of the intercepts of several classes, and gap by the size of a bag that is none.
_LONGEST_STEP, _NO_GAP = 1.0, 1e-9

# Of sets: the shift by which derivatives are taken, the longest and the shortest step of intercepts, and how many.
_SHIFT = 1e-3
_LONGEST_OF_SETS, _SHORTEST_OF_SETS, _SET_STEPS = 3.0, 1e-7, 30


@dataclass(frozen=True, eq=False)
class Information:
    """Observed information of the scores of all rows: a diagonal, and a low rank per bag.

    The block of the rows i and j of a bag is δ_ij ``weights[..., j]`` + Σ_r u_ir u_jrᵀ with
    u_jr = ``factors[:, r, j]``, less the same with ``lost``, which random intercepts take away. Weights
    (n_outputs, n_outputs, n_rows) are p(1 − p) − w, factors (n_outputs, rank, n_rows) w/√V; of several
    classes, the difference of covariance matrices, and D_j V^{−1/2}.
    """

    weights: Floats
    factors: Floats
    lost: Floats | None = None


class CountObservation:
    """Log-probability of what is known of all bags, posterior means, and observed information.

    Rows are in the order of their bags, and rows of known label are bags of one row. Scores have
    ``n_outputs``: 1 for two classes, the log-odds of the second, else one for each class. Of each bag,
    ``counts`` are those of the last class and ``noise`` the variances of their noise; where a count is a
    set, what is to be expected and about how wide it is. ``bag_effects`` are τ².

    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.information import CountObservation
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> observation = CountObservation(bags)
    >>> value, residual = observation.value_and_residual(np.zeros((1, 4)))
    >>> round(value, 3), residual  # log ½ and log ¼; posterior means less ½
    (-2.079, array([[0. , 0. , 0.5, 0.5]]))
    """

    def __init__(self, bags: Bags) -> None:
        if (np.diff(bags.index) < 0).any():
            raise ValueError("Rows must be in the order of their bags.")
        covariance = count_covariance(bags)
        self.n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
        self.sizes, self.lengths, self.labelled = bags.sizes, bags.lengths, bags.labelled
        # sums over instances, and over what is summed over the instances of a row already
        self._segments = Segments(bags.lengths, bags.multiplicity)
        self._rows = Segments(bags.lengths)
        self.multiplicity = self._segments.times(np.ones(bags.n_instances))
        self.counts, self.noise = bags.counts[:, -1], covariance[:, -1, -1]
        self.class_counts = bags.counts.T
        self.bag_effects = np.zeros(bags.n_bags)
        self.n_bags_aggregated = int((~bags.labelled).sum())
        self._bags = WeighedBags(bags, covariance, EXACT_SIZE)
        # of sets, and of sets without the weights of label shift
        self._sets = self._plain_sets = None
        if bags.limits is not None and bags.is_set.any() and self.n_outputs == 1:
            self._sets = self._plain_sets = SetObservation(bags, covariance, EXACT_SIZE)
            low, high = bags.limits[self._sets.bags].T
            # about what a set leaves open, for the determinant of Laplace's approximation
            self.noise = self.noise.copy()
            self.noise[self._sets.bags] += ((high - low + 1.0) ** 2 - 1.0) / 12.0
        self._noise, self._known, self.is_set = covariance, bags, bags.is_set

    def with_bag_effects(self, variances: Floats) -> CountObservation:
        """The same with random intercepts of variances τ², of all bags but rows of known label.

        Of several classes, if counts are exact.
        """
        other = copy(self)
        other.bag_effects = np.zeros(len(self.sizes))
        if self.has_bag_effects:
            other.bag_effects[~self.labelled] = variances
        return other

    @property
    def has_bag_effects(self) -> bool:
        """Whether there can be random intercepts: of several classes, where all counts are exact."""
        return self.n_outputs == 1 or not (self._noise.any() or self.is_set.any())

    def with_label_shift(self, weight: float) -> CountObservation:
        """The same with weights of label shift for the counts in sets."""
        if self._sets is None:
            return self
        return self.with_count_weights(CountWeights(self._known, weight))

    def with_count_weights(self, weights: CountWeights) -> CountObservation:
        """The same with weights of the counts in sets, if there are any, by more bags than these."""
        if self._sets is None:
            return self
        other = CountObservation(replace(self._known, count_weights=weights))
        other.bag_effects, other._plain_sets = self.bag_effects, self._plain_sets
        return other

    def value(self, scores: Floats) -> float:
        """Log-probability ℓ of what is known, for scores of shape (n_outputs, n_rows)."""
        return self._evaluate(scores, gradient=False)[0]

    def value_and_residual(self, scores: Floats) -> tuple[float, Floats]:
        """ℓ and its gradient by the scores, the posterior means less p, times multiplicities."""
        value, residual = self._evaluate(scores, gradient=True)
        assert residual is not None
        return value, residual

    def _evaluate(self, scores: Floats, gradient: bool) -> tuple[float, Floats | None]:
        u = self._intercepts(scores)
        shifted = scores + self._segments.spread(u)
        value, slopes = self._bags.evaluate(shifted[None], gradient)
        penalty, bent = self._intercept_penalty(shifted, u, gradient)
        return -float(value[0]) - penalty, -slopes[0] - bent if gradient else None

    def information(self, scores: Floats, residual: Floats) -> Information:
        """−∂²ℓ/∂η∂ηᵀ, at scores and with the residual there."""
        rows, eye = self._segments, np.eye(self.n_outputs)[:, :, None]
        u = self._intercepts(scores)
        scores = scores + rows.spread(u)
        # of one instance of each row, as if it were a row
        residual = (residual + self._intercept_penalty(scores, u)[1]) / self.multiplicity
        given = self._of_two_classes if self.n_outputs == 1 else self._of_several_classes
        found = given(scores, residual)
        lost = None
        if self.bag_effects.any():
            # information of the scores times one: that of their common shift
            along = rows.spread(rows.sum(found.factors))
            shift = found.weights + np.einsum("arj,crj->acj", found.factors, along)
            root = rows.spread(_half_inverse(rows.sum(shift) + self._precision * eye))
            lost = rows.times(np.einsum("acj,crj->arj", shift, root))
        return Information(rows.times(found.weights), rows.times(found.factors), lost)

    def times(self, information: Information, values: Floats) -> Floats:
        """Product of the information of the scores and values (n_outputs, n_rows) of all rows."""
        found = np.einsum("acj,cj->aj", information.weights, values)
        rows = self._rows
        for factors, sign in ((information.factors, 1.0), (information.lost, -1.0)):
            if factors is not None:
                along = rows.spread(rows.sum(np.einsum("arj,aj->rj", factors, values)))
                found += sign * np.einsum("arj,rj->aj", factors, along)
        return found

    def sums(self, scores: Floats) -> tuple[Floats, Floats]:
        """Σ_j p_j and Σ_j p_j(1 − p_j) of each bag: of the second of two classes, or of each class."""
        p = expit(scores[0]) if self.n_outputs == 1 else softmax(scores, axis=0)
        return self._segments.sum(p), self._segments.sum(p * (1.0 - p))

    def as_noisy_counts(self, scores: Floats) -> tuple[Floats, Floats]:
        """Counts, and variances of normal noise by which they say as much as is known of bags.

        To second order around the scores, under covariate shift; counts that are known stay as they
        are.
        """
        counts, noise = self.counts.copy(), self._noise[:, -1, -1].copy()
        if self._plain_sets is not None:
            own = self._plain_sets.bags
            information, V = self._plain_sets.information(scores)
            noise[own] = V * (V - information) / information
            p, _ = self.sums(scores)
            counts[own] = p[own] + self._plain_sets.residual(scores) * V / information
        return counts, noise

    @property
    def _precision(self) -> Floats:
        """1/τ² of each bag, of several classes twice that; rows of known label have no effect."""
        own = self.bag_effects if self.n_outputs == 1 else 0.5 * self.bag_effects
        return 1.0 / np.maximum(own, _TINY)

    def _intercepts(self, scores: Floats) -> Floats:
        """û of each bag: (n_outputs, n_bags)."""
        rows, precision = self._segments, self._precision
        if not self.bag_effects.any():
            return np.zeros((1, len(self.sizes)))
        if self.n_outputs > 1:
            return self._intercepts_of_classes(scores)
        V = rows.sum(_variance(scores))
        # with noise, a count says less of the intercept
        less = 1.0 + self.noise / np.maximum(V[0], _TINY)
        search = TiltSearch(self.counts, self.sizes.astype(float), precision * less, 1)
        for _ in range(MOST_STEPS):
            p = expit(scores + rows.spread(search.tilt))
            if search.found(rows.sum(p), rows.sum(p * (1.0 - p)), 1e-8):
                break
        u = search.tilt
        if self._noise.any():
            for _ in range(_NOISY_STEPS):
                shifted = scores + rows.spread(u)
                slopes = self._bags.evaluate(shifted[None])[1][0]
                V = rows.sum(_variance(shifted))
                known = V**2 / np.maximum(V + self.noise, _TINY)
                u = u + (-self._rows.sum(slopes) - u * precision) / (known + precision)
        if self._sets is not None:
            u[0, self._sets.bags] = self._sets.intercepts(scores, u[0], precision)
        return u

    def _intercepts_of_classes(self, scores: Floats) -> Floats:
        """û of several classes, by Newton steps."""
        rows, precision = self._segments, self._precision
        counts, eye = self.class_counts, np.eye(self.n_outputs)[:, :, None]
        u = np.zeros(counts.shape)
        for _ in range(MOST_STEPS):
            p = softmax(scores + rows.spread(u), axis=0)
            gap = counts - rows.sum(p) - u * precision
            if (np.abs(gap) < _NO_GAP * (self.sizes + np.abs(u) * precision)).all():
                break
            V = np.moveaxis(rows.sum(_class_covariance(p)) + precision * eye, -1, 0)
            step = np.linalg.solve(V, gap.T[:, :, None])[:, :, 0].T
            u += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(np.abs(step).max(axis=0), _TINY))
        return u

    def _intercept_penalty(
        self, shifted: Floats, u: Floats, gradient: bool = True
    ) -> tuple[float, Floats]:
        """û²/2τ² + ½ log(1 + τ²V_û) of all bags, and the derivative of the latter by the scores."""
        if not self.bag_effects.any():
            return 0.0, np.zeros((1, 1))
        if self.n_outputs > 1:
            return self._penalty_of_classes(shifted, u, gradient)
        rows, precision, p = self._segments, self._precision, expit(shifted)
        v = p * (1.0 - p)
        V = np.maximum(rows.sum(v), _TINY)
        share = V / (V + self.noise)
        known, by_variance = V * share, share * (2.0 - share)
        penalty = 0.5 * float((u**2 * precision + np.log1p(known / precision)).sum())
        if not gradient:
            return penalty, np.zeros((1, 1))
        curvature, total = v * (1.0 - 2.0 * p), known + precision
        # how intercepts move with scores
        moved = v * rows.spread(share / total)
        if self._sets is not None:
            own, at = self._sets.rows, self._sets.bags
            shift, known = self._sets.shift(shifted)
            moved[0, own] = shift / self._sets.spread(known + precision[at])
        slope = curvature - rows.spread(rows.sum(curvature)) * moved
        return penalty, rows.times(0.5 * rows.spread(by_variance / total) * slope)

    def _penalty_of_classes(
        self, shifted: Floats, u: Floats, gradient: bool
    ) -> tuple[float, Floats]:
        rows, precision = self._segments, self._precision
        p, eye = softmax(shifted, axis=0), np.eye(self.n_outputs)
        V = np.moveaxis(rows.sum(_class_covariance(p)), -1, 0)
        by_bag = precision[:, None, None]
        penalty = 0.5 * float(
            (u**2 * precision).sum() + np.linalg.slogdet(eye + V / by_bag)[1].sum()
        )
        if not gradient:
            return penalty, np.zeros((1, 1))
        # with M = (V + 1/τ²)⁻¹, the derivatives of log det V by the scores of a row, and of û
        M = np.moveaxis(np.linalg.inv(V + by_bag * eye), 0, -1)
        own = rows.spread(np.einsum("aab->ab", M)) - 2.0 * np.einsum(
            "acj,cj->aj", rows.spread(M), p
        )
        slope = p * (own - (p * own).sum(axis=0))
        moved = rows.spread(np.einsum("acb,cb->ab", M, rows.sum(slope)))
        return penalty, rows.times(0.5 * (slope - p * (moved - (p * moved).sum(axis=0))))

    def _of_two_classes(self, scores: Floats, residual: Floats) -> Information:
        p = expit(scores)
        mean = np.clip(p + residual, 0.0, 1.0)
        variance, rows = mean * (1.0 - mean), self._segments
        noise, left = self._noise[:, 1, 1] + _TINY, np.zeros(0)
        if self._sets is not None:
            # variance of the count that is left by its set
            known, V = self._sets.information(scores)
            left = V - known

        def total(w: Floats) -> Floats:
            V: Floats = rows.sum(w)
            found = V + noise
            if self._sets is not None:
                own = V[..., self._sets.bags]
                spread = own**2 / np.maximum(own - left, _TINY)
                # nothing varies where probabilities are 0 or 1
                found[..., self._sets.bags] = np.where(own > _SURE, spread, 1.0)
            return found

        # exact where rows are equal
        w = variance / (1.0 - np.minimum(variance / rows.spread(total(variance)), 0.5))
        for _ in range(_MOST_STEPS):
            step = variance + w**2 / rows.spread(total(w)) - w
            w = w + step
            if np.abs(step).max() < _SETTLED:
                break
        root = np.sqrt(rows.spread(total(w)))
        return Information((p * (1.0 - p) - w)[None], (w / root)[None])

    def _noise_of_sets(self, scores: Floats, V: Floats) -> Any:
        """Covariance of noise for bags of several classes whose counts are sets, (C, C, n_bags)."""
        own = np.flatnonzero(self.is_set)
        if not len(own):
            return 0.0
        limits, lengths = self._known.limits, self.lengths
        assert limits is not None
        left, ends = [], np.cumsum(lengths)
        for b in own:
            rows = slice(ends[b] - lengths[b], ends[b])
            low, high = limits[b].T
            known = set_posterior(scores[:, rows], self.multiplicity[rows], low, high, True)
            left.append(known.covariance)
        found = np.zeros_like(V)
        noise = noise_of_sets(np.moveaxis(V[..., own], -1, 0), np.array(left))
        found[..., own] = np.moveaxis(noise, 0, -1)
        return found

    def _of_several_classes(self, scores: Floats, residual: Floats) -> Information:
        p = softmax(scores, axis=0)
        mean = np.clip(p + residual, 0.0, 1.0)
        mean = mean / mean.sum(axis=0)
        variance, rows = _class_covariance(mean), self._segments
        noise = np.moveaxis(self._noise, 0, -1) + self._noise_of_sets(scores, rows.sum(variance))
        D, moving = variance.copy(), np.ones(len(self.lengths), dtype=bool)
        for _ in range(_MOST_STEPS):
            # few bags are slow
            own = np.repeat(moving, self.lengths)
            some = Segments(self.lengths[moving], self.multiplicity[own].astype(np.int64))
            now = D[..., own]
            spread = some.spread(_half_inverse(some.sum(now) + noise[..., moving]))
            U = np.einsum("acj,crj->arj", now, spread, optimize=True)
            found = variance[..., own] + np.einsum("arj,crj->acj", U, U, optimize=True)
            D[..., own] = found
            left = np.abs(found - now).reshape(-1, now.shape[-1]).max(axis=0) >= _SETTLED
            moving[moving] = some.sum(left.astype(float)) > 0
            if not moving.any():
                break
        spread = _half_inverse(rows.sum(D) + noise)
        U = np.einsum("acj,crj->arj", D, rows.spread(spread), optimize=True)
        return Information(_class_covariance(p) - D, U)


class SetObservation:
    """Those of some bags of two classes, sorted by bag, whose counts are known as sets.

    ``covariance`` (bags, classes, classes) is that of the noise of counts; bags of at most ``exact_size``
    instances are summed exactly. ``bags`` and ``rows`` are positions of the bags that these are, and of their rows.
    """

    def __init__(self, bags: Bags, covariance: Floats, exact_size: int) -> None:
        self.bags = np.flatnonzero(bags.is_set)
        some, self.rows = bags.take(self.bags)
        self._losses = WeighedBags(some, covariance[self.bags], exact_size)
        self._sums = Segments(some.lengths)
        self._instances = Segments(some.lengths, some.multiplicity)
        self.spread = self._sums.spread
        self._last: Floats | None = None
        self._shift_at: Floats | None = None
        self._shift = np.empty(0), np.empty(0)
        self._number = self._instances.times(np.ones(len(self.rows)))

    def information(self, scores: Floats) -> tuple[Floats, Floats]:
        """−d²ℓ/du² of each set for a common shift u of its scores, and V; it lies between 0 and V."""
        own = scores[:, self.rows]
        found = self.shift(scores)[1]
        V = np.maximum(self._instances.sum(_variance(own[0])), _TINY)
        return np.clip(found, _SURE * V, V), V

    def shift(self, scores: Floats) -> tuple[Floats, Floats]:
        """Information of an instance of each row about a common shift, and its sums."""
        own = scores[:, self.rows]
        if self._shift_at is None or not np.array_equal(own, self._shift_at):
            found = (self._slopes(own + _SHIFT) - self._slopes(own - _SHIFT)) / (2.0 * _SHIFT)
            self._shift_at, self._shift = own, (found / self._number, self._sums.sum(found))
        return self._shift

    def intercepts(self, scores: Floats, start: Floats, precision: Floats) -> Floats:
        """û of each set, where ℓ(η + u) − u²/2τ² is largest."""
        own, precision = scores[:, self.rows], precision[self.bags]
        # those of the last scores are not far
        u = start[self.bags] if self._last is None else self._last
        known, longest, before = np.zeros_like(u), np.inf, np.inf
        for number in range(_SET_STEPS):
            here = own + self.spread(u)
            residual = -self._sums.sum(self._slopes(here))
            if number == 0 or longest > 0.1 * before:
                known = (residual + self._sums.sum(self._slopes(here + _SHIFT))) / _SHIFT
                known = np.maximum(known, 0.0)
            before = longest
            step = (residual - u * precision) / (known + precision)
            u = u + np.clip(step, -_LONGEST_OF_SETS, _LONGEST_OF_SETS)
            longest = float(np.abs(step).max())
            if longest < _SHORTEST_OF_SETS:
                break
        self._last = u
        return u

    def residual(self, scores: Floats) -> Floats:
        """E[K | set] − Σ_j p_j."""
        return -self._sums.sum(self._slopes(scores[:, self.rows]))

    def _slopes(self, own: Floats) -> Floats:
        """Derivatives of losses by the scores of these rows."""
        return self._losses.evaluate(own[None])[1][0, 0]


def _variance(scores: Floats) -> Floats:
    p = expit(scores)
    return p * (1.0 - p)


def _class_covariance(p: Floats) -> Floats:
    """Covariance diag(p_j) − p_j p_jᵀ of each row, for p (classes, rows): (classes, classes, rows)."""
    return p[:, None] * (np.eye(len(p))[:, :, None] - p[None])


def _half_inverse(V: Floats) -> Floats:
    """V^{−1/2} of each bag, zero along directions in which nothing varies."""
    values, vectors = np.linalg.eigh(np.moveaxis(V, -1, 0))
    sound = values > 1e-9 * np.maximum(values[:, -1:], _TINY)
    root = np.where(sound, 1.0 / np.sqrt(np.where(sound, values, 1.0)), 0.0)
    return np.moveaxis(vectors * root[:, None, :], 0, -1)
