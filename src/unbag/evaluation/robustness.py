"""How strong a confounder between bags must be to move a measure below a value.

This is about covariate shift, where λ(1) = 1 for calibrated log-odds. A bag-level variable that is missing from the columns, shifts the log-odds of bags and is correlated
with the scores makes the log-odds within bags wrong by a factor κ (`unbag.evaluation.sensitivity`).
The least standard deviation of such bag effects that moves the measure is compared with what the
strongest column, by itself, explains of the mean log-odds of bags: the comparison of Cinelli &
Hazlett (2020) with observed covariates, for bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from unbag._arrays import Floats
from unbag._text import measure_words, shown
from unbag.bags.bags import Bags
from unbag.evaluation.columns import Columns
from unbag.evaluation.measures import Measure, Sample
from unbag.evaluation.sensitivity import HeldOutLogOdds, PosteriorSample

# κ is looked for down to here: a relation within bags as strong as the fitted one, but reversed.
_LEAST = -1.0
_PRECISION = 1e-3


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
        if self.column is None:
            return f"{text}."
        return (
            f"{text}: {self.value:.2f} times the {self.column_effect:.2f} that "
            f"{shown(self.column, 40)}, the strongest column, explains between bags."
        )


def values_by_factor(
    held_out: HeldOutLogOdds, measure: Measure, sample: Sample, factors: Sequence[float]
) -> dict[float, float]:
    """Estimate a measure if log-odds within bags are wrong by each of some factors."""
    return {
        float(factor): float(
            measure.value(
                PosteriorSample(
                    sample.bags, sample.scores, posterior=held_out.posteriors(float(factor))
                )
            )
        )
        for factor in factors
    }


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
        return values_by_factor(held_out, measure, sample, [kappa])[kappa] - below

    column, strongest = (None, np.nan)
    if columns is not None:
        column, strongest = strongest_column(held_out, columns)
    if excess(1.0) < 0:
        return RobustnessValue(name, below, 0.0, 0.0, 1.0, column, strongest)
    if excess(_LEAST) >= 0:
        return RobustnessValue(name, below, np.inf, np.inf, np.nan, column, strongest)
    kappa = float(brentq(excess, _LEAST, 1.0, xtol=_PRECISION))
    spread = spread_of_bags(held_out)
    effect = spread * abs(held_out.between_slope(kappa) - kappa)
    value = effect / strongest if strongest > 0 else np.nan
    return RobustnessValue(name, below, float(value), float(effect), kappa, column, strongest)


def spread_of_bags(held_out: HeldOutLogOdds) -> float:
    """Standard deviation of the mean log-odds of bags; of several classes, that of the largest."""
    means, weights = held_out.bag_means, held_out.bags.sizes
    centred = means - np.average(means, weights=weights, axis=1)[:, None]
    return float(np.sqrt(np.average(centred**2, weights=weights, axis=1).max()))


def strongest_column(held_out: HeldOutLogOdds, columns: Columns) -> tuple[str | None, float]:
    """Name the column that explains most of the mean log-odds of bags, and its part of their SD."""
    bags = held_out.bags
    means = bag_means_of(columns, bags)
    weights = bags.sizes / bags.n_instances
    scores = held_out.bag_means
    scores = scores[np.argmax(scores.var(axis=1))]
    scores = scores - weights @ scores
    means = means - weights @ means
    spread = np.sqrt(weights @ means**2)
    covariance = np.abs((weights * scores) @ means)
    explained = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    if not explained.size or explained.max() == 0:
        return None, np.nan
    place = int(explained.argmax())
    return str(columns.names[place]), float(explained[place])


def bag_means_of(columns: Columns, bags: Bags) -> Floats:
    """Means of the columns over the bags: (n_bags, n_columns)."""
    rows = np.arange(bags.n_instances)
    weights = 1 / bags.sizes[bags.index]
    shape = (bags.n_bags, bags.n_instances)
    averaging = sparse.csr_array((weights, (bags.index, rows)), shape=shape)
    found: Any = averaging @ columns.values
    dense: Any = getattr(found, "toarray", lambda: found)()
    return np.asarray(dense, dtype=float)
