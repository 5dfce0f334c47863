"""The share of each class at each score, from bags alone, if rows keep their odds.

The curve is softmax(a + κf) of given log-odds f: as many numbers as there are classes, fitted to
the shares of bags by least squares. With p̂_b the mean of the curve over bag b and V_b the
variance of its share around that, chance and an effect of the bag,

    Σ_b |γ_b − p̂_b|²/V_b,      V_b = (mean of Σ_c p_c(1 − p_c)/q_c over b)/n_b + τ² (C − 1),

in the metric Σ_c (·)²/q_c. Rounds of Gauss and Newton's, in which V is made anew and τ² is set to
what is left beyond chance, settle within a few dozen steps. The error of κ is the sandwich's, with
bags as its units.

What can be said whatever makes bags differ: chances of rows that agree with their bag's counts.

Let f be the log-odds that a model gives to rows. If what bags do to the odds of their rows is
left open, P(class c | row, bag b) ∝ exp(κ f_c + u_bc), the counts of a bag fix its effect u_b for
every κ: the chances over a bag must add up to its counts. So counts alone cannot tell κ, how much
of the log-odds holds among rows of one bag, and every measure is a function of it:

- κ = 0: inside a bag scores say nothing, and what they are good for is to tell bags apart;
- κ = 1: the model keeps what it promises. If it was trained by the likelihood of the counts this
  is right, up to errors of training, where classes keep their look (then u_b = log γ_b/q) and
  where rows keep their odds (u_b = 0);
- κ → ∞: the positives of a bag are its highest scores, the best that the counts allow.

If rows keep their odds, held-out bags tell κ (`unbag.evaluation.sensitivity`): shares of bags follow
mean chances, with a slope β (`unbag.evaluation.bag_effects`) of 1 if κ is 1. Where effects of bags
go along with their scores that is not so, and no count will tell. So the range that is given
reaches from a third (`MAX_SLOPE_RATIO`) of the smaller of 1 and the lower limit of β to three times the
larger of 1 and its upper limit; where even the sign of β is unsure, κ may be negative. Over real
bags (votes by state, flights by day, stops by neighbourhood) the true κ lay between .55 and 1.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from unbag._arrays import Floats
from unbag._outputs import chances_of_all, scores_of_all
from unbag.bags.bags import Bags
from unbag.bags.priors import offset_for_shares, probabilities_of
from unbag.evaluation.bag_effects import NORMAL_95, BagEffect, estimate_bag_effect
from unbag.evaluation.measures import RowMeasure
from unbag.evaluation.sample import Sample
from unbag.evaluation.uncertainty import Estimate, Uncertainty
from unbag.observations.count_likelihood import LabelPosteriors

_ROUNDS = 60
_SETTLED = 1e-6
# No step is longer, and no slope larger: rows are as good as sorted there.
_LONGEST, _STEEPEST = 1.0, 64.0
_LEAST_VARIANCE = 1e-9
# Rows that are looked at together, so that what is made of them takes little memory.
_BLOCK = 2**18


@dataclass(frozen=True)
class OddsCurve:
    """A fitted curve.

    Attributes
    ----------
    slope : float
        κ.
    error : float
        Its standard error; infinite if bags do not tell.
    effect : float
        τ², left between bags.
    """

    slope: float
    error: float
    effect: float


def fit_odds_curve(bags: Bags, log_odds: Floats) -> OddsCurve:
    """Fit the curve to the bags that hold rows without labels.

    Parameters
    ----------
    bags : Bags
    log_odds : ndarray of shape (n_classes, n_instances)
        At the shares of the classes in all bags together.
    """
    used = ~bags.labelled
    shares, sizes = bags.proportions[used], bags.sizes[used]
    q = np.clip(bags.class_shares, 1e-6, None)
    n_classes = len(q)
    if len(sizes) <= n_classes:
        return OddsCurve(1.0, np.inf, 0.0)
    at, effect = np.zeros(n_classes), 0.0
    at[-1] = 1.0
    for _ in range(_ROUNDS):
        means, slopes, chance = _moments(bags, log_odds, at, q)
        means, slopes, chance = means[used], slopes[used], chance[used] / sizes
        weights = 1 / (chance + effect * (n_classes - 1) + _LEAST_VARIANCE)
        residual = shares - means
        pulls = np.einsum("bcp,bc,c->bp", slopes, residual, 1 / q)
        normal = np.einsum("b,bcp,bcr,c->pr", weights, slopes, slopes, 1 / q)
        inverse = np.linalg.pinv(normal, hermitian=True)
        step = inverse @ (weights @ pulls)
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), _LEAST_VARIANCE))
        at = np.clip(at + step, -_STEEPEST, _STEEPEST)
        excess = (residual**2 / q).sum(axis=1) - chance
        effect = max(0.0, float(weights**2 @ excess / (weights @ weights)) / (n_classes - 1))
        if np.abs(step).max() < _SETTLED:
            break
    scatter = (weights[:, None] * pulls).T @ (weights[:, None] * pulls)
    spare = len(sizes) / (len(sizes) - n_classes)
    variance = spare * (inverse @ scatter @ inverse)[-1, -1]
    settled = np.abs(at[-1]) < _STEEPEST and normal[-1, -1] > 0
    return OddsCurve(float(at[-1]), float(np.sqrt(variance)) if settled else np.inf, effect)


def _moments(bags: Bags, log_odds: Floats, at: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Means over bags of the curve, of its derivatives, and its variance by chance for one row.

    Shapes (n_bags, n_classes), (n_bags, n_classes, n_classes) and (n_bags,); of the offsets all
    but the first are free, and κ is the last parameter.
    """
    n_classes = len(q)
    totals = np.zeros((n_classes + n_classes**2 + 1, bags.n_bags))
    for start in range(0, bags.n_instances, _BLOCK):
        here = slice(start, start + _BLOCK)
        for total, row in zip(totals, _statistics(log_odds[:, here], at, q), strict=True):
            total += np.bincount(bags.index[here], row, bags.n_bags)
    means = totals / bags.sizes
    slopes = means[n_classes:-1].reshape(n_classes, n_classes, -1)
    return means[:n_classes].T, slopes.transpose(2, 1, 0), means[-1]


def _statistics(log_odds: Floats, at: Floats, q: Floats) -> Floats:
    """The same of single rows, one below the other: (n_classes + n_classes² + 1, n_rows)."""
    offsets = np.concatenate([[0.0], at[:-1]])
    table = offsets[:, None] + at[-1] * log_odds
    table -= table.max(axis=0)
    p = np.exp(table)
    p /= p.sum(axis=0)
    centred = log_odds - (p * log_odds).sum(axis=0)
    by_class = [p * ((np.arange(len(q)) == d)[:, None] - p[d]) for d in range(1, len(q))]
    chance = ((p * (1 - p)) / q[:, None]).sum(axis=0)
    return np.vstack([p, *by_class, p * centred, chance])


# By which factor log-odds may hold better or worse inside bags than between them.
MAX_SLOPE_RATIO = 3.0

# κ from which on rows are as good as sorted by their scores.
SORTED = 64.0

# Value, standard error and limits of a measure.
_AtKappa = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class HeldOutLogOdds:
    """Log-odds that a model gives to rows of bags that it did not see.

    Attributes
    ----------
    bags : Bags
    log_odds : ndarray of shape (n_instances,) or (n_instances, n_classes)
        One column for two classes. Up to a constant, which the shares of the classes fix.
    scaled : bool
        Whether they are log-odds in fact, and not scores of an unknown scale.
    """

    bags: Bags
    log_odds: Floats
    scaled: bool = True

    @cached_property
    def at_pooled_shares(self) -> Floats:
        """Log-odds moved so that mean chances are the shares of the classes: (outputs, rows)."""
        table = self.log_odds[None] if self.log_odds.ndim == 1 else self.log_odds.T
        return table + offset_for_shares(table, self.bags.class_shares)[:, None]

    @cached_property
    def effect(self) -> BagEffect:
        """How shares of bags follow what the log-odds promise, and what is left beyond that."""
        return estimate_bag_effect(self.bags, probabilities_of(self.at_pooled_shares))

    @cached_property
    def curve(self) -> OddsCurve:
        """The curve of the shares of the classes over the log-odds, fitted to bags."""
        return fit_odds_curve(self.bags, scores_of_all(self.at_pooled_shares))

    @property
    def slopes(self) -> tuple[float, float]:
        """Limits of β, from held-out bags."""
        slope, margin = self.effect.slope_unconstrained, NORMAL_95 * self.effect.slope_error
        if not self.scaled or not np.isfinite(slope + margin):
            return -np.inf, np.inf
        return slope - margin, slope + margin

    def chances(self, kappa: float) -> Floats:
        """Chances of the classes given the counts, for one κ: (n_classes, n_rows)."""
        return chances_of_all(self._posteriors(kappa * self.at_pooled_shares[None])[0])

    @cached_property
    def _posteriors(self) -> LabelPosteriors:
        return LabelPosteriors(self.bags)


@dataclass(frozen=True, eq=False)
class PosteriorSample(Sample):
    """Scored rows with chances of their classes in the place of the weights W.

    Attributes
    ----------
    chances : ndarray of shape (n_classes, n_instances)
    """

    chances: Floats = field(kw_only=True)

    def row_weights(self) -> Iterator[Floats]:
        """Share of every row in a class, one class after the other."""
        for row in self.chances:
            yield row / max(row.sum(), np.finfo(float).tiny)

    def class_means(self, values: Floats) -> Floats:
        """Means of the classes; the last axis runs over instances, then over classes."""
        return np.stack([values @ row for row in self.row_weights()], axis=-1)


@dataclass(frozen=True, eq=False)
class SlopeRange:
    """A range of κ: its lower end, what is likely, and its upper end.

    Attributes
    ----------
    promise : HeldOutLogOdds
    values : ndarray of shape (3,)
    """

    promise: HeldOutLogOdds
    values: Floats

    @classmethod
    def under_covariate_shift(cls, promise: HeldOutLogOdds) -> Self:
        """κ as held-out bags tell it, if rows keep their odds."""
        curve = promise.curve
        margin = NORMAL_95 * curve.error
        return cls._of(promise, curve.slope - margin, curve.slope, curve.slope + margin)

    @classmethod
    def sensitivity(cls, promise: HeldOutLogOdds) -> Self:
        """κ with room for effects of bags that go along with their scores."""
        low, high = promise.slopes
        low = min(low, 1.0) / MAX_SLOPE_RATIO if low > 0 else low * MAX_SLOPE_RATIO
        return cls._of(promise, low, 1.0, max(high, 1.0) * MAX_SLOPE_RATIO)

    @classmethod
    def _of(cls, promise: HeldOutLogOdds, *kappas: float) -> Self:
        return cls(promise, np.clip(kappas, -SORTED, SORTED))

    @property
    def low(self) -> float:
        """The lower end."""
        return float(self.values[0])

    @property
    def high(self) -> float:
        """The upper end."""
        return float(self.values[-1])

    def chances(self) -> Iterator[Floats]:
        """Chances of the classes for each κ, one after the other: they take much memory."""
        return map(self.promise.chances, self.values.tolist())

    def estimate(
        self, measure: RowMeasure, sample: Sample, uncertainty: Uncertainty, *, bounded: bool = True
    ) -> Estimate:
        """Estimate a measure of the rows whose promise it was; see `estimates`."""
        return self.estimates({"it": (measure, sample)}, uncertainty, bounded=bounded)["it"]

    def estimates(
        self,
        measures: Mapping[str, tuple[RowMeasure, Sample]],
        uncertainty: Uncertainty,
        *,
        bounded: bool = True,
        more_spread: float = 1.0,
    ) -> dict[str, Estimate]:
        """Estimate measures, each of scores of the rows whose promise it was.

        The value is that at the centre; the limits are those of intervals, with bags drawn with
        replacement, at any of the three, made wider by a factor.
        """

        def at(kappa: float) -> list[_AtKappa]:
            chances = self.promise.chances(kappa)
            return [
                _of_soft(
                    measure, PosteriorSample(own.bags, own.scores, chances=chances), uncertainty
                )
                for measure, own in measures.values()
            ]

        # one κ after the other, and nothing kept of its chances: they take much memory
        found = np.array([at(kappa) for kappa in self.values.tolist()])
        return {
            name: _join(found[:, i], uncertainty.confidence_level, bounded, more_spread)
            for i, name in enumerate(measures)
        }


def _join(found: Floats, confidence_level: float, bounded: bool, more_spread: float) -> Estimate:
    """One estimate from value, standard error and limits at each κ."""
    values, errors, lows, highs = found.T
    low, high = float(np.fmin.reduce(lows)), float(np.fmax.reduce(highs))
    centre, error = float(values[1]), float(errors[1])
    wide = Estimate(centre, error, low, high, confidence_level, bounded).widened(more_spread)
    return replace(wide, low=max(wide.low, 0.0), high=min(wide.high, 1.0)) if bounded else wide


def _of_soft(measure: RowMeasure, soft: PosteriorSample, uncertainty: Uncertainty) -> _AtKappa:
    """Value, standard error and limits for given chances, with bags drawn with replacement."""
    value = measure.value(soft)
    if np.isnan(value):
        # no row is predicted positive, and there is no precision
        return value, np.nan, np.nan, np.nan
    tally = measure.tally(soft)
    # (n_bags, n_classes, n_statistics), and how much of each class a bag holds
    sums = np.stack([tally.sums(row) for row in soft.chances], axis=1)
    mass = soft.bags.means(soft.chances).T * soft.bags.sizes[:, None]
    draws = uncertainty.draw_totals(np.concatenate([sums, mass[:, :, None]], axis=2), soft)
    # of few bags, some draws leave nothing of a class, and tell nothing of it
    left = np.where(draws[..., -1:] > 0, draws[..., -1:], np.nan)
    means = draws[..., :-1] / left
    spread = tally.value(means)
    spread = spread + (value - np.nanmean(spread))
    low, high = uncertainty.limits(spread, soft)
    return value, float(np.nanstd(spread, ddof=1)), float(low), float(high)
