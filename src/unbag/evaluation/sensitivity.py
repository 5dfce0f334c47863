"""Estimates under covariate shift, and how they change where within-bag log-odds are wrong.

Let f be the log-odds that a model gives to rows. If a bag shifts the log-odds of its rows evenly,
P(class c | row, bag b) ∝ exp(κ f_c + u_bc), the counts of a bag determine its effect u_b for every
κ: the probabilities over a bag must add up to its counts. Counts alone cannot determine κ, the
factor by which the log-odds hold among rows of one bag, and every measure is a function of it:

- κ = 0: scores carry no signal within bags, and only separate bags;
- κ = 1: the model is calibrated. If it was trained by the count likelihood this is right, up to
  estimation error, under label shift (then u_b = log γ_b/q) and under covariate shift (u_b = 0);
- κ → ∞: the positives of a bag are its highest scores, the best that the counts allow.

Under covariate shift, held-out bags determine κ (`fit_odds_curve`), and draws from the posterior of
f, where the model has one (`LLPClassifier.sample_decision_function`), determine measures: the
interval is the union of both. Where bag effects are correlated with scores (aggregation bias), no
count determines κ. Let λ(κ) be the slope of the mean log-odds of bags that the counts need with
κ within bags (`HeldOutLogOdds.between_slope`). The sensitivity range reaches from κ = λ(κ)/3
(`MAX_SLOPE_RATIO`), or 1/3 of the lower limit of the slope β (`unbag.evaluation.bag_effects`) if
that is less, to three times the larger of 1 and its upper limit; where even the sign of β is
unsure, or no signal within bags is found, κ may be negative. In natural bags (votes by state,
flights by day, stops by neighbourhood) the true κ was between 0.55 and 1.9.

**Robustness value.** Under covariate shift λ(1) = 1 for calibrated log-odds. A variable of bags that
is missing from the columns, shifts their log-odds and is correlated with the scores makes log-odds
within bags wrong by a factor κ. Moving a measure to some value takes a κ, and bag effects with a
standard deviation of |λ(κ) − κ| times that of the mean log-odds of bags, perfectly correlated with
them. That is compared with the columns: what one of them, by itself, explains of the mean log-odds
of bags (Cinelli & Hazlett 2020 compare a confounder with observed covariates in the same way).

**The odds curve.** softmax(a + κf) is fitted to the proportions of bags by least squares. With p̂_b
the mean of the curve over bag b and V_b the variance of its proportion around that,

    Σ_b |γ_b − p̂_b|²/V_b,      V_b = (mean of Σ_c p_c(1 − p_c)/q_c over b)/n_b + τ² (C − 1),

in the metric Σ_c (·)²/q_c, by Gauss-Newton steps in which V is updated and τ² is set to the excess
over sampling variance. The standard error of κ is the sandwich estimate clustered by bag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import softmax

from unbag._arrays import Floats
from unbag._outputs import by_output, probabilities_of_all, scores_of_all
from unbag._text import measure_words, shown
from unbag.bags.bags import Bags
from unbag.bags.priors import offset_for_shares, probabilities_of
from unbag.defaults import MAX_SLOPE_RATIO
from unbag.evaluation.bag_effects import NORMAL_95, BagEffect, estimate_bag_effect
from unbag.evaluation.label_shift import Columns
from unbag.evaluation.measures import Measure, Sample
from unbag.evaluation.uncertainty import Estimate, Uncertainty, widen, with_limits
from unbag.observations.count_likelihood import LabelPosteriors

SignalName = Literal["found", "unknown", "none"]
Measured = Mapping[str, tuple[Measure, Sample]]
Slopes = tuple[float, float, float]  # lower limit, value and upper limit of κ

# κ from which on rows are practically sorted by their scores.
SORTED = 64.0

_ROUNDS = 60
_SETTLED = 1e-6
# Longest step.
_LONGEST = 1.0
_LEAST_VARIANCE = 1e-9

# Roots κ are found to this precision.
_PRECISION = 1e-3
# For the robustness value, κ is looked for down to here: a relation within bags as strong as the
# fitted one, but reversed.
_LEAST_SLOPE = -1.0


class OddsCurve(NamedTuple):
    """A fitted curve of the class proportions over the log-odds."""

    slope: float  # κ
    error: float  # its standard error; infinite if bags do not determine it
    effect: float  # τ², left between bags


def fit_odds_curve(bags: Bags, log_odds: Floats, known: Floats | float = 0.0) -> OddsCurve:
    """Fit the curve to the bags that hold rows without labels."""
    used = ~bags.labelled
    shares, sizes = bags.proportions[used], bags.sizes[used]
    q = np.clip(bags.class_shares, 1e-6, None)
    n_classes = len(q)
    if len(sizes) <= n_classes:
        return OddsCurve(1.0, np.inf, 0.0)
    at, effect = np.zeros(n_classes), 0.0
    at[-1] = 1.0
    for _ in range(_ROUNDS):
        means, slopes, sampling = _moments(bags, log_odds, at, q, known)
        means, slopes, sampling = means[used], slopes[used], sampling[used] / sizes
        weights = 1 / (sampling + effect * (n_classes - 1) + _LEAST_VARIANCE)
        residual = shares - means
        pulls = np.einsum("bcp,bc,c->bp", slopes, residual, 1 / q)
        normal = np.einsum("b,bcp,bcr,c->pr", weights, slopes, slopes, 1 / q)
        inverse = np.linalg.pinv(normal, hermitian=True)
        step = inverse @ (weights @ pulls)
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), _LEAST_VARIANCE))
        at = np.clip(at + step, -SORTED, SORTED)
        excess = (residual**2 / q).sum(axis=1) - sampling
        effect = max(0.0, float(weights**2 @ excess / (weights @ weights)) / (n_classes - 1))
        if np.abs(step).max() < _SETTLED:
            break
    scatter = (weights[:, None] * pulls).T @ (weights[:, None] * pulls)
    spare = len(sizes) / (len(sizes) - n_classes)
    variance = spare * (inverse @ scatter @ inverse)[-1, -1]
    determined = np.abs(at[-1]) < SORTED and normal[-1, -1] > 0
    return OddsCurve(float(at[-1]), float(np.sqrt(variance)) if determined else np.inf, effect)


def _moments(
    bags: Bags, log_odds: Floats, at: Floats, q: Floats, known: Floats | float
) -> tuple[Floats, Floats, Floats]:
    """Bag means of the curve, of its derivatives, and its sampling variance for one row.

    Shapes (n_bags, n_classes), (n_bags, n_classes, n_classes) and (n_bags,); of the offsets all
    but the first are free, and κ is the last parameter.
    """
    C, offsets = len(q), np.concatenate([[0.0], at[:-1]])
    p = softmax(offsets[:, None] + at[-1] * log_odds + known, axis=0)
    centred = log_odds - (p * log_odds).sum(axis=0)
    by_class = [p * ((np.arange(C) == d)[:, None] - p[d]) for d in range(1, C)]
    sampling = ((p * (1 - p)) / q[:, None]).sum(axis=0)
    means = bags.means(np.vstack([p, *by_class, p * centred, sampling]))
    slopes = means[C:-1].reshape(C, C, -1).transpose(2, 1, 0)
    return means[:C].T, slopes, means[-1]


@dataclass(frozen=True, eq=False)
class HeldOutLogOdds:
    """Log-odds that a model gives to rows of bags that it did not see."""

    bags: Bags
    log_odds: Floats  # (n_instances,) or (n_instances, n_classes)
    scaled: bool = True  # whether they are log-odds, and not scores on an unknown scale
    draws: Floats | None = None  # (n_draws, n_instances) or (n_draws, n_instances, n_classes)

    @cached_property
    def at_overall_prior(self) -> Floats:
        """Log-odds shifted so that mean probabilities are the class prior: (outputs, rows)."""
        table = self.log_odds[None] if self.log_odds.ndim == 1 else self.log_odds.T
        return table + offset_for_shares(table, self.bags.class_shares)[:, None]

    @cached_property
    def effect(self) -> BagEffect:
        """Regression of observed on predicted bag proportions."""
        return estimate_bag_effect(self.bags, probabilities_of(self.at_overall_prior))

    @cached_property
    def curve(self) -> OddsCurve:
        """The odds curve, fitted to the bags."""
        return fit_odds_curve(self.bags, scores_of_all(self.at_overall_prior))

    def posteriors(self, kappa: float) -> Floats:
        """Class probabilities given the counts, for one κ: (n_classes, n_rows)."""
        return probabilities_of_all(self._posteriors(kappa * self.at_overall_prior[None])[0])

    def value_at(self, kappa: float, measure: Measure, sample: Sample) -> float:
        """Value of a measure of scores of the same rows for one κ."""
        return float(measure.value(replace(sample, posterior=self.posteriors(kappa))))

    def drawn_posteriors(self) -> Iterator[Floats]:
        """Class probabilities given the counts for each draw, one at a time to save memory."""
        for draw in () if self.draws is None else self.draws:
            table = by_output(draw)
            table = table + offset_for_shares(table, self.bags.class_shares)[:, None]
            yield probabilities_of_all(self._posteriors(table[None])[0])

    @cached_property
    def bag_means(self) -> Floats:
        """Mean log-odds of each bag: (n_outputs, n_bags)."""
        return self.bags.means(self.at_overall_prior)

    def between_slope(self, kappa: float) -> float:
        """λ, the slope of the mean log-odds of bags that their counts need with κ within them."""
        between = self.bag_means[:, self.bags.index]
        within = scores_of_all(kappa * (self.at_overall_prior - between))
        return fit_odds_curve(self.bags, scores_of_all(between), within).slope

    @cached_property
    def _posteriors(self) -> LabelPosteriors:
        return LabelPosteriors(self.bags)

    @property
    def covariate_shift_slopes(self) -> Slopes:
        """κ and its 95% interval by the odds curve."""
        curve = self.curve
        margin = NORMAL_95 * curve.error
        return _cut(curve.slope - margin, curve.slope, curve.slope + margin)

    def sensitivity_slopes(self, signal: SignalName = "found") -> Slopes:
        """κ from 1/3 to 3 times the fitted log-odds, and beyond as far as β is unsure.

        Where the signal within bags is "unknown", κ is −1 or less at the low end; any, for "none".
        """
        if signal == "none":
            most = SORTED / max(float(self.at_overall_prior.std()), 1e-6)
            return -most, 1.0, most
        slope, margin = self.effect.slope_unconstrained, NORMAL_95 * self.effect.slope_error
        low, high = slope - margin, slope + margin
        if not self.scaled or not np.isfinite(high):
            low, high = -np.inf, np.inf
        if low > 0:
            low = min(low, 1.0) / MAX_SLOPE_RATIO
            if self.effect.shift_type != "label_shift":
                low = min(low, self._confounded_slope())
        else:
            low = low * MAX_SLOPE_RATIO
        low = low if signal == "found" else min(low, -1.0)
        return _cut(low, 1.0, max(high, 1.0) * MAX_SLOPE_RATIO)

    def _confounded_slope(self) -> float:
        """The κ from 0 to 1/3 at which κ is λ(κ)/3, relative to the same ratio at κ = 1."""
        most = 1 / MAX_SLOPE_RATIO
        allowed = most / max(self.between_slope(1.0), most)

        def beyond(kappa: float) -> float:
            return kappa - allowed * self.between_slope(kappa)

        if beyond(most) <= 0:
            return most
        return float(brentq(beyond, 0.0, most, xtol=_PRECISION)) if beyond(0.0) < 0 else 0.0


def _cut(*kappas: float) -> Slopes:
    low, value, high = np.clip(kappas, -SORTED, SORTED).tolist()
    return low, value, high


def estimates_by_slope(
    held_out: HeldOutLogOdds,
    kappas: Slopes,
    measures: Measured,
    uncertainty: Uncertainty,
    more_spread: float = 1.0,
) -> dict[str, Estimate]:
    """Estimate measures of the same rows at the middle κ.

    Limits are those of bootstrap intervals at any of the three, widened by a factor.
    """
    found: dict[str, list[Estimate]] = {name: [] for name in measures}
    for kappa in kappas:
        posterior = held_out.posteriors(kappa)
        for name, (measure, own) in measures.items():
            found[name].append(uncertainty.of(measure, replace(own, posterior=posterior)))
    spanned = {}
    for name, each in found.items():
        low = float(np.fmin.reduce([one.low for one in each]))
        high = float(np.fmax.reduce([one.high for one in each]))
        wide = widen(replace(each[1], low=low, high=high), more_spread)
        spanned[name] = with_limits(wide, wide.low, wide.high)
    return spanned


def estimates_of_draws(
    held_out: HeldOutLogOdds, measures: Measured, by_slope: Mapping[str, Estimate]
) -> dict[str, Estimate]:
    """Estimate measures by the posterior of f, whose variance is that of draws and of the bootstrap.

    The interval is joined with that by the odds curve, which needs no right model within bags.
    """
    values = np.array(
        [
            [measure.value(replace(own, posterior=p)) for measure, own in measures.values()]
            for p in held_out.drawn_posteriors()
        ]
    )
    found = dict(by_slope)
    for (name, one), drawn in zip(by_slope.items(), values.T, strict=True):
        if np.isfinite([one.value, *drawn]).all():
            value, error = float(drawn.mean()), np.hypot(drawn.std(ddof=1), one.standard_error)
            reach = float(stats.norm.ppf((1 + one.confidence_level) / 2) * error)
            one = with_limits(one, min(one.low, value - reach), max(one.high, value + reach))
            found[name] = replace(one, value=value, standard_error=float(error))
    return found


# --- robustness -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RobustnessValue:
    """Least confounding that moves a measure below a value."""

    measure: str
    below: float  # the value
    value: float
    bag_effect: float  # the standard deviation, in log-odds
    factor: float  # κ, by which the log-odds within bags are then wrong
    column: str | None  # the strongest column
    column_effect: float
    low: float = np.nan  # lower limit of the interval under covariate shift

    def __str__(self) -> str:
        name = measure_words(self.measure)
        if self.bag_effect == 0:
            return f"Robustness: the estimated {name} is below {self.below:g} already."
        if not np.isfinite(self.bag_effect):
            return (
                f"Robustness: the {name} stays above {self.below:g} even if the relation within bags "
                "is as strong as fitted, but reversed."
            )
        text = (
            f"Robustness: the {name} falls below {self.below:g} if bag effects correlated with the "
            f"scores have a standard deviation of {self.bag_effect:.2f} in log-odds (within-bag "
            f"log-odds {self.factor:.2f} times the fitted ones)"
        )
        if self.column is not None:
            text += (
                f": {self.value:.2f} times the {self.column_effect:.2f} that "
                f"{shown(self.column, 40)}, the strongest column, explains between bags"
            )
        if self.low < self.below:
            text += f". Without any, its interval under covariate shift begins at {self.low:.2f}"
        return f"{text}."


def find_robustness(
    name: str,
    below: float,
    held_out: HeldOutLogOdds,
    measure: Measure,
    sample: Sample,
    columns: Columns | None,
) -> RobustnessValue:
    """Find the least bag effects, and compare them with the columns; see `RobustnessValue`."""

    def excess(kappa: float) -> float:
        return held_out.value_at(kappa, measure, sample) - below

    column, strongest = (None, np.nan) if columns is None else strongest_column(held_out, columns)
    if excess(1.0) < 0:
        value, effect, kappa = 0.0, 0.0, 1.0
    elif excess(_LEAST_SLOPE) >= 0:
        value, effect, kappa = np.inf, np.inf, np.nan
    else:
        kappa = float(brentq(excess, _LEAST_SLOPE, 1.0, xtol=_PRECISION))
        effect = spread_of_bags(held_out) * abs(held_out.between_slope(kappa) - kappa)
        value = float(effect / strongest) if strongest > 0 else np.nan
    return RobustnessValue(name, below, value, float(effect), kappa, column, strongest)


def spread_of_bags(held_out: HeldOutLogOdds) -> float:
    """Standard deviation of the mean log-odds of bags; of several classes, that of the largest."""
    means, weights = held_out.bag_means, held_out.bags.sizes
    centred = means - np.average(means, weights=weights, axis=1)[:, None]
    return float(np.sqrt(np.average(centred**2, weights=weights, axis=1).max()))


def strongest_column(held_out: HeldOutLogOdds, columns: Columns) -> tuple[str | None, float]:
    """Name the column that explains most of the mean log-odds of bags, and its part of their SD."""
    bags = held_out.bags
    means = np.column_stack([bags.means(columns.at(j)) for j in range(len(columns.names))])
    weights, scores = bags.sizes / bags.n_instances, held_out.bag_means
    scores = scores[np.argmax(scores.var(axis=1))]
    scores, means = scores - weights @ scores, means - weights @ means
    spread = np.sqrt(weights @ means**2)
    covariance = np.abs((weights * scores) @ means)
    explained = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    if not explained.any():
        return None, np.nan
    place = int(explained.argmax())
    return str(columns.names[place]), float(explained[place])
