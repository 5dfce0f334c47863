"""Damped Newton steps for the coefficients of a mixed model, and for its variances between them.

What the solver needs of the data is `Likelihood`: sums over bags at given coefficients. Parts of
the data that hold whole bags have such sums of their own, which are added up: value, gradient, H
and, for the dispersion, products of the scores of bags are all that travels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from unbag._arrays import Floats
from unbag.models.bag_variance import BagPredictions, estimate_bag_variance
from unbag.models.variances import Posterior, VarianceComponents
from unbag.observations.information import CountObservation, Information
from unbag.terms.design import Design
from unbag.terms.encoding import Moments

# A step must reach this fraction of what its slope predicts.
_ARMIJO = 1e-4

_MOST_HALVINGS = 30

# Gain of a step below which bag effects are fitted, and a variance of theirs that hardly matters.
_SMALL_GAIN = 10.0
SMALL_EFFECT = 0.01

# Least and largest part of a change of τ², φ or the weight of label shift that is made at once.
_LEAST_AT_ONCE, _MOST_AT_ONCE = 0.25, 2.0

# Squared distance, in posterior standard deviations, within which information is used again.
_STALE = 0.05


class Derivatives(NamedTuple):
    """Sums over bags at some coefficients θ (n_outputs, n_columns); they add up over bags.

    Attributes
    ----------
    value : float
        ℓ, the log-likelihood.
    gradient : ndarray of shape (n_outputs, n_columns)
        Σ_b s_b.
    information : ndarray of shape (n_outputs · n_columns,) * 2, optional
        H, the observed information.
    """

    value: float
    gradient: Floats
    information: Floats | None


# Hx for directions x, (n_directions, n_outputs, n_columns), with H the observed information.
Products = Callable[[Floats], Floats]


class Likelihood(Protocol):
    """The log-likelihood of coefficients, summed over bags."""

    @property
    def n_bags(self) -> int:
        """Number of bags, rows of known label not counted."""
        ...

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        ...

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """ℓ(θ), its gradient and, if it is wanted, H."""
        ...

    def products(self, theta: Floats) -> Products:
        """Products with H at θ, without a matrix."""
        ...

    def bag_products(self, theta: Floats) -> Floats:
        """J = Σ_b s_b s_bᵀ of the scores s_b of bags."""
        ...

    def bag_tables(self, theta: Floats, covariance: Floats | None) -> list[BagPredictions]:
        """What is known and predicted of bags: of the second of two classes, or of each class.

        Nothing where bag effects are not estimated. Without a covariance, leverages are zero.
        """
        ...

    def with_label_shift(self, weight: float) -> Likelihood:
        """The same with weights of label shift for counts that are known as sets."""
        ...

    def with_bag_effects(self, variances: Floats) -> Likelihood:
        """The same with random intercepts of variances, one for each bag."""
        ...

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        ...


def add_derivatives(parts: Iterable[Derivatives]) -> Derivatives:
    """Those of all bags of some parts, one after the other."""
    return reduce(_add, parts)


def _add(one: Derivatives, other: Derivatives) -> Derivatives:
    H = None
    if one.information is not None and other.information is not None:
        H = one.information + other.information
    return Derivatives(one.value + other.value, one.gradient + other.gradient, H)


def join_tables(parts: Iterable[list[BagPredictions]]) -> list[BagPredictions]:
    """Those of all bags of some parts, of which rows of known label alone have none."""
    of_classes = zip(*(tables for tables in parts if tables), strict=True)
    return [BagPredictions(*map(np.concatenate, zip(*own, strict=True))) for own in of_classes]


class DesignLikelihood:
    """The log-likelihood of bags whose design matrix is given.

    Parameters
    ----------
    design : Design
    observation : CountObservation
        Of the same rows.
    offset : ndarray of shape (n_outputs, n_rows), optional
        Added to the scores.
    """

    def __init__(
        self, design: Design, observation: CountObservation, offset: Floats | float = 0.0
    ) -> None:
        self._design, self._observation, self._offset = design, observation, offset
        self.n_bags = observation.n_bags_aggregated

    def _scores(self, theta: Floats) -> Floats:
        return self._design.scores(theta) + self._offset

    def value(self, theta: Floats) -> float:
        """ℓ(θ)."""
        return self._observation.value(self._scores(theta))

    def derivatives(self, theta: Floats, information: bool = True) -> Derivatives:
        """ℓ(θ), its gradient and, if it is wanted, H."""
        scores = self._scores(theta)
        value, residual = self._observation.value_and_residual(scores)
        H = None
        if information:
            H = self._design.information(self._observation.information(scores, residual))
        return Derivatives(value, self._design.gradient(residual), H)

    def products(self, theta: Floats) -> Products:
        """Products with H at θ, without a matrix."""
        return partial(self.times, self.row_information(theta))

    def row_information(self, theta: Floats) -> Information:
        """Information of the scores of all rows at θ."""
        scores = self._scores(theta)
        _, residual = self._observation.value_and_residual(scores)
        return self._observation.information(scores, residual)

    def times(self, information: Information, directions: Floats) -> Floats:
        """Hx, by the information of the scores."""
        n, K, columns = directions.shape
        moved = self._design.scores(directions.reshape(n * K, columns)).reshape(n, K, -1)
        back = [self._observation.times(information, one) for one in moved]
        return self._design.gradient(np.concatenate(back)).reshape(n, K, columns)

    def bag_tables(self, theta: Floats, covariance: Floats | None) -> list[BagPredictions]:
        """What is known and predicted of bags: of the second of two classes, or of each class."""
        known = self._observation
        if self.n_bags == 0 or not known.has_bag_effects:
            return []
        scores = self._scores(theta)
        sums = [np.atleast_2d(each) for each in known.sums(scores)]
        if known.n_outputs == 1:
            p = expit(scores)
            slopes, counts, noise = [p * (1.0 - p)], *known.as_noisy_counts(scores)
            counts = counts[None]
        else:
            p = softmax(scores, axis=0)
            slopes = [p[c] * (np.eye(len(p))[c][:, None] - p) for c in range(len(p))]
            counts, noise = known.class_counts, np.zeros(len(known.sizes))
        tables = []
        for count, predicted, variances, slope in zip(counts, *sums, slopes, strict=True):
            leverages = np.zeros(len(predicted))
            if covariance is not None:
                leverages = self._design.bag_forms(slope * known.multiplicity, covariance)
            columns = (count, known.sizes, noise, predicted, variances, leverages, known.is_set)
            found = (column[~known.labelled].astype(float) for column in columns)
            tables.append(BagPredictions(*found))
        return tables

    def with_bag_effects(self, variances: Floats) -> DesignLikelihood:
        """The same with random intercepts of variances, one for each bag."""
        other = self._observation.with_bag_effects(variances)
        return DesignLikelihood(self._design, other, self._offset)

    def with_label_shift(self, weight: float) -> DesignLikelihood:
        """The same with weights of label shift for counts that are known as sets."""
        other = self._observation.with_label_shift(weight)
        return DesignLikelihood(self._design, other, self._offset)

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        return self._design.score_moments(theta, columns)

    def bag_products(self, theta: Floats) -> Floats:
        """J."""
        known = self._observation
        _, residual = known.value_and_residual(self._scores(theta))
        # instances of known label are bags of their own, though a row may stand for many
        apart = np.repeat(known.labelled, known.lengths)
        return self._design.bag_products(residual / np.where(apart, known.multiplicity, 1.0) ** 0.5)


@dataclass(frozen=True, eq=False)
class MixedFit:
    """A fitted mixed model.

    Attributes
    ----------
    theta : ndarray of shape (n_outputs, n_columns)
        Coefficients of the design, the constant first.
    posterior : Posterior
        Of the coefficients, by H/φ.
    covariance : ndarray, optional
        Of the posterior, with the uncertainty of the variances; not of very many columns.
    dispersion, label_shift : float
        φ, and the weight of label shift in sets of counts.
    bag_effects : ndarray of shape (n_bags,)
        τ² of each bag.
    n_informative_bags : float
        Number of equally weighted bags that carry as much information.
    """

    theta: Floats
    posterior: Posterior
    covariance: Floats | None
    components: VarianceComponents
    dispersion: float
    bag_effects: Floats
    label_shift: float
    n_informative_bags: float
    log_marginal_likelihood: float
    n_iter: int
    converged: bool

    @property
    def bag_effect(self) -> float:
        """The mean of τ² over bags."""
        return _mean(self.bag_effects)


def maximise(
    likelihood: Likelihood,
    theta: Floats,
    components: VarianceComponents,
    *,
    bag_effect: float | None = None,
    label_shift: float = 0.0,
    start: tuple[float, float, float] | None = None,
    tol: float = 1e-2,
    max_iter: int = 100,
) -> MixedFit:
    """Maximise the penalised log-likelihood in θ and the marginal likelihood in the variances.

    Parameters
    ----------
    likelihood : Likelihood
    theta : ndarray of shape (n_outputs, n_columns)
        Where to start.
    components : VarianceComponents
        Variances to start from, or to keep.
    bag_effect : float, optional
        τ², variance of random intercepts of bags, with no dispersion beyond; by default both are
        estimated.
    label_shift : float
        Weight of label shift in sets of counts; estimated where ``bag_effect`` is.
    start : tuple of float, optional
        φ, τ² and the weight of label shift of an earlier fit.
    tol : float
        Converged when a Newton step would raise the penalised log-likelihood by less than tol²,
        and derivatives of the marginal likelihood by log σ² are smaller than tol.
    max_iter : int
    """
    phi, effect, label_shift = start or (1.0, bag_effect or 0.0, label_shift)
    effects, shape = np.full(likelihood.n_bags, effect), theta.shape
    secants = _Secant(), _Secant(), _Secant()
    likelihood = likelihood.with_bag_effects(effects)
    if label_shift:
        likelihood = likelihood.with_label_shift(label_shift)
    at = likelihood.derivatives(theta)
    H, seen = _regular(at.information, shape), theta
    converged, fresh, n_iter = False, True, 0
    while True:
        S = np.tile(components.precision, len(theta))
        posterior = components.posterior(H / phi)
        slope = at.gradient.ravel() / phi - S * theta.ravel()
        step = posterior.covariance @ slope
        gain = float(slope @ step)
        shift = np.abs(components.gradient(theta, posterior)).max(initial=0.0)
        settled = gain < 2 * tol**2 and shift < tol
        found, found_effects, found_shift = phi, effects, label_shift
        if bag_effect is None and gain < _SMALL_GAIN and (fresh or settled):
            found = estimate_dispersion(likelihood, theta, H, S)
            tables = likelihood.bag_tables(theta, posterior.covariance / phi)
            if tables:
                found_effects, found_shift = estimate_bag_variance(tables, effects, 0.01 * tol)
        off = found_effects - effects, np.log(found / phi), found_shift - label_shift
        change, stretch, turn = (one.towards(own) for one, own in zip(secants, off, strict=True))
        rise = np.abs(change).max(initial=0.0) / (_mean(effects) + SMALL_EFFECT)
        turn = 0.0 if abs(turn) < tol else turn
        moved = max(abs(stretch), rise, abs(turn))
        if settled and moved < tol:
            converged = True
            break
        if n_iter == max_iter:
            break
        n_iter += 1
        # as far as the surface is that of the last information, this is used again
        gone = (theta - seen).ravel() + step
        stale = float(gone @ H @ gone) > _STALE * phi or turn != 0.0
        stale = stale or rise > _STALE
        if rise >= 0.1 * tol:
            effects = np.maximum(effects + change, 0.0)
            likelihood = likelihood.with_bag_effects(effects)
            at = at._replace(value=likelihood.value(theta))
        if turn:
            label_shift = float(np.clip(label_shift + turn, 0.0, 1.0))
            likelihood = likelihood.with_label_shift(label_shift)
            at = likelihood.derivatives(theta, False)
            step = posterior.covariance @ (at.gradient.ravel() / phi - S * theta.ravel())
            gain = float((at.gradient.ravel() / phi - S * theta.ravel()) @ step)
        theta, at = line_search(likelihood, theta, at, step.reshape(shape), gain, S, phi, stale)
        fresh = at.information is not None
        if fresh:
            H, seen = _regular(at.information, shape), theta
        components = components.updated(theta, posterior)
        phi = max(phi * np.exp(stretch), 1.0)
    if not converged:
        warn_of_convergence(max_iter)
    penalty = 0.5 * float(S @ theta.ravel() ** 2)
    return MixedFit(
        theta=theta,
        posterior=posterior,
        covariance=components.corrected_covariance(theta, posterior),
        components=components,
        dispersion=phi,
        bag_effects=effects,
        label_shift=label_shift,
        n_informative_bags=count_informative_bags(likelihood, theta, H, posterior, effects),
        log_marginal_likelihood=_dispersed(likelihood, theta, at.value, phi)
        - penalty
        - 0.5 * posterior.log_determinant,
        n_iter=n_iter,
        converged=converged,
    )


def _dispersed(likelihood: Likelihood, theta: Floats, value: float, phi: float) -> float:
    """ℓ of counts whose variances are φ times as large, to compare models that differ in φ.

    With ℓ₀ its value where all counts are as expected, ℓ₀ + (ℓ − ℓ₀)/φ − ½ L log φ. Of two classes.
    """
    tables = likelihood.bag_tables(theta, None)
    if len(tables) != 1:
        return value / phi
    table = tables[0]
    variances = np.maximum(table.variances + table.noise, 1.0 / (2.0 * np.pi))
    best = -0.5 * float(np.log(2.0 * np.pi * variances).sum())
    return best + (value - best) / phi - 0.5 * len(variances) * float(np.log(phi))


def warn_of_convergence(max_iter: int) -> None:
    """Warn where the estimator that is fitted calls its solver."""
    warnings.warn(
        f"The fit has not converged in {max_iter} iterations; raise max_iter or tol.",
        ConvergenceWarning,
        stacklevel=4,
    )


def _mean(effects: Floats) -> float:
    return float(effects.sum()) / max(len(effects), 1)


class _Secant:
    """Steps of estimates to where they change no more, by their last change and step."""

    def __init__(self) -> None:
        self._change, self._step, self._most = np.zeros(1), np.zeros(1), _MOST_AT_ONCE

    def towards(self, change: Any) -> Any:
        """How far to go at once: less where changes go to and fro, more where they are alike."""
        if not np.any(change):
            return change
        bent, share = self._change - change, 1.0
        along = float(np.sum(bent * self._step))
        if along > 0:
            share = max(along / float(np.sum(bent**2)), _LEAST_AT_ONCE)
        if np.sum(change * self._change) < 0:
            # where nothing is a fixed point, as at a jump, steps have to end
            self._most *= 0.7
        self._change, self._step = change, min(share, self._most) * change
        return self._step


def line_search(
    likelihood: Likelihood,
    theta: Floats,
    at: Derivatives,
    step: Floats,
    gain: float,
    S: Floats,
    phi: float,
    information: bool | None,
) -> tuple[Floats, Derivatives]:
    """Go as far along a step as the penalised log-likelihood rises.

    Information is found if it is wanted, and where a step has to be shortened unless it is None.
    """

    def penalised(value: float, where: Floats) -> float:
        return value / phi - 0.5 * float(S @ where.ravel() ** 2)

    before = penalised(at.value, theta)
    rounding = 1e-12 * (1.0 + abs(before))
    trial = likelihood.derivatives(theta + step, bool(information))
    if penalised(trial.value, theta + step) >= before + _ARMIJO * gain - rounding:
        return theta + step, trial
    length = 1.0
    for _ in range(_MOST_HALVINGS):
        length /= 2
        where = theta + length * step
        value = likelihood.value(where)
        if penalised(value, where) >= before + _ARMIJO * length * gain - rounding:
            return where, likelihood.derivatives(where, information is not None)
    return theta, likelihood.derivatives(theta, information is not None)


def estimate_dispersion(likelihood: Likelihood, theta: Floats, H: Floats, S: Floats) -> float:
    """φ, by how much scores of bags vary more than the model says; shrunk towards 1 in few bags.

    Where the model is right, sums over bags of squared scores s_bᵀPs_b, with P the posterior
    covariance, have the expectation tr(PH), whichever assumption about bags holds, except for the
    constant: under label shift the mean of s_b moves with the count of the bag, along the column of
    the constant in H. So the constant is profiled out, by W with WᵀW = P and WHWᵀ = diag(m) for what
    is left, and with e the standard error of φ̂ in so many bags

        φ̂ = L/(L − 1) Σ_b |W s_b|² / Σ_i m_i,    φ = 1 + x³ / (x² + e²),    x = max(φ̂ − 1, 0).
    """
    constants = np.arange(len(theta)) * theta.shape[1]
    others = np.setdiff1d(np.arange(len(H)), constants)
    n_bags = likelihood.n_bags
    if n_bags < 2 or not len(others):
        return 1.0
    profile = np.zeros((len(others), len(H)))
    profile[:, others] = np.eye(len(others))
    profile[:, constants] = -np.linalg.solve(
        H[np.ix_(constants, constants)], H[np.ix_(constants, others)]
    ).T
    profile /= np.sqrt(S[others])[:, None]
    values, vectors = np.linalg.eigh(profile @ H @ profile.T)
    values = np.maximum(values, 0.0)
    W = (vectors / np.sqrt(1.0 + values)).T @ profile
    expected = float((values / (1.0 + values)).sum())
    found = float(np.einsum("ij,ij->", W, W @ likelihood.bag_products(theta)))
    if expected <= 0:
        return 1.0
    phi = found / expected * n_bags / (n_bags - 1.0)
    excess, error = max(phi - 1.0, 0.0), phi * np.sqrt(2.0 / n_bags)
    return 1.0 + excess**3 / (excess**2 + error**2)


def count_informative_bags(
    likelihood: Likelihood, theta: Floats, H: Floats, posterior: Posterior, effects: Floats
) -> float:
    """(Σ I_b)²/Σ I_b², with I_b = g_bᵀPg_b/T_b what bag b says of coefficients, T_b = V_b + N_b + τ²V_b².

    Less Σ I_b r_b, as many degrees of freedom as coefficients take from the share r_b = τ²V_b²/T_b of the
    variance that is estimated. The constants are profiled out of g_b; of several classes I_b is a sum
    over them. Infinite where the posterior is not that of bags.
    """
    constants = np.arange(len(theta)) * theta.shape[1]
    profile = np.eye(len(H))
    profile[:, constants] -= np.linalg.solve(H[np.ix_(constants, constants)], H[constants]).T
    tables = likelihood.bag_tables(theta, profile.T @ posterior.covariance @ profile)
    if not tables:
        return np.inf
    says, taken = np.zeros(len(tables[0].sizes)), 0.0
    for table in tables:
        by_effects = effects * table.variances**2
        total = np.maximum(table.variances + table.noise + by_effects, 1e-12)
        own = np.maximum(table.leverages, 0.0) / total
        says += own
        taken += float((own * by_effects / total).sum())
    return max(float(says.sum() ** 2 / max((says**2).sum(), 1e-300)) - taken, 1.0)


def _regular(H: Floats | None, shape: tuple[int, int]) -> Floats:
    """H with the direction fixed that softmax leaves free: a constant added to all scores."""
    assert H is not None
    if shape[0] == 1:
        return H
    constants = np.arange(shape[0]) * shape[1]
    H = H.copy()
    H[np.ix_(constants, constants)] += 1.0 / shape[0]
    return H
