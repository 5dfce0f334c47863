"""Bag effects: between-bag differences that the features do not explain.

Let γ_b be the proportion of a class in bag b and p̂_b the mean of its probabilities over the rows of
b, by a model that did not see b. Three things can separate them.

- Sampling: given the rows, γ_b varies around p̂_b with the variance v_b/n_b, v_b the mean of p(1 − p).
- A slope. Under covariate shift, γ_b is p̂_b on average. Under label shift, p̂_b moves by s < 1 for
  every unit of γ_b, s the difference between the mean probabilities of the classes:
  γ_b − q = (p̂_b − q)/s, and the sampling variance is 1/s times the above if probabilities are
  calibrated. Penalised models, which shrink probabilities towards q, have a slope as well. The count
  likelihood is right under both: a slope β ≥ 1 common to all bags is not a bag effect.
- A random effect per bag: the variance τ² q(1 − q), beyond any slope and sampling.

So, with d_b = (γ_b − q − β(p̂_b − q))²/q(1 − q) and e_b = β v_b/(n_b q(1 − q)),

    τ² = Σ_b w_b² (d_b − e_b) / Σ_b w_b²,    w_b = 1/(e_b + τ²),

where β is that of least squares with the weights w_b, iterated to convergence. For several classes
d_b and e_b are the means over classes, Σ_c (...)_c / q_c / (C − 1). Known noise of the proportions
adds to e_b. The 95% interval is [τ² − 2 SE, max(τ² + 2 SE, τ²_U)], where τ²_U solves
(C − 1) Σ_b d_b/(e_b + τ²) = χ²_{0.025} with (B − 2)(C − 1) degrees of freedom, for B bags (the
Q-profile method). τ² is at most 1.

**Which assumption?** Under covariate shift the slope is 1. Under label shift, s is Var(p)/q(1 − q)
if probabilities are calibrated, p̂_b varies by s² Var(γ) + s(1 − s) q(1 − q)/n, and least squares give

    β* = s Σ_b w_b (γ_b − q)² / Σ_b w_b [s² (γ_b − q)² + s(1 − s) q(1 − q)/n_b],

near 1/s for large bags with different proportions and 1 for random bags, which carry no
information. Probabilities shrunk towards q by a factor a have the slope 1/a in place of 1, or 1/as
in large bags, while β* becomes 1/a²s: √β* lies between the two whatever a is, and separates the two
assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.defaults import FEWEST_BAGS, LEAST_CONTRAST

# Estimates settle within a few rounds; a variance changes by less than this, relative to sampling.
_MOST_ROUNDS = 50
_SETTLED = 1e-6

# Variances below are rounding.
_ROUNDING = 1e-12

# Dispersions below this are described as one.
_NOTABLE_DISPERSION = 1.005

# Half the width of a 95% interval, in standard errors, and what lies beyond each of its ends.
NORMAL_95, _TAIL = 1.959964, 0.025

# Standard errors of a deviation that is found in four of five cases, by a test at 5%.
DETECTED = NORMAL_95 + 0.84

ShiftType = Literal["covariate_shift", "label_shift"]


@dataclass(frozen=True)
class BagEffect:
    """Estimated variance of bag effects."""

    variance: float  # τ², in units of q(1 − q)
    low: float  # lower limit of its 95% interval
    high: float  # upper limit
    slope: float
    share: float  # q, of the second class; of the largest one for several classes
    slope_error: float = np.inf  # standard error of β
    slope_label_shift: float = np.nan  # β*, the expected β under label shift
    slope_unconstrained: float = np.nan

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > _ROUNDING

    @property
    def z_value(self) -> float:
        """Variance over its standard error, as far as the upper limit shows that."""
        return float(NORMAL_95 * self.variance / max(self.high - self.variance, _ROUNDING))

    @property
    def spread(self) -> float:
        """Between-bag SD not explained by the features, in percentage points."""
        return self._points(self.variance)

    @property
    def shift_type(self) -> ShiftType | None:
        """Assumption that the slope agrees with, if it can separate them."""
        if not self.slope_label_shift > LEAST_CONTRAST:
            return None
        line, margin = np.sqrt(self.slope_label_shift), NORMAL_95 * self.slope_error
        if self.slope + margin < line:
            return "covariate_shift"
        return "label_shift" if self.slope - margin > line else None

    @property
    def prefers_label_shift(self) -> bool:
        """Whether label shift fits better: β is not below √β* by a standard error."""
        return not self.slope + self.slope_error < np.sqrt(self.slope_label_shift)

    @property
    def message(self) -> str:
        """The slope, and the assumption that it agrees with, in words."""
        if not np.isfinite(self.slope_error) or not np.isfinite(self.slope_label_shift):
            return (
                "There are too few bags, or features separate classes too little, to compare label "
                "shift with covariate shift."
            )
        if self.shift_type is None:
            return f"{self.slope_text} Inconclusive."
        shift = self.shift_type.replace("_", " ")
        return f"{self.slope_text} The bags agree with {shift}; this does not prove it."

    @property
    def slope_text(self) -> str:
        """The slope, what either assumption expects, and what would have been detected."""
        slope, margin = self.slope_unconstrained, NORMAL_95 * self.slope_error
        off = " Below 1, log-odds are too large or reversed, which covariate shift allows."
        return (
            f"Observed on predicted bag proportions: slope {slope:.2f} ± {margin:.2f}; covariate "
            f"shift expects 1.00, label shift {self.slope_label_shift:.2f} (a deviation of "
            f"{DETECTED * self.slope_error:.2f} would have been detected)."
            f"{off if slope + margin < 1 else ''}"
        )

    def _points(self, variance: float) -> float:
        return float(100 * np.sqrt(variance * self.share * (1 - self.share)))

    def __str__(self) -> str:
        low, high = self._points(self.low), self._points(self.high)
        if not np.isfinite(high):
            return "there are too few bags to estimate bag effects"
        if not self.significant:
            return f"no bag effect found (between-bag SD of at most {high:.1f} percentage points)"
        return (
            f"between-bag SD of {self.spread:.1f} percentage points not explained by the features "
            f"(95% interval: {low:.1f} to {high:.1f})"
        )


def estimate_bag_effect(bags: Bags, probabilities: Floats) -> BagEffect:
    """Estimate it from held-out probabilities (n_classes, n_instances) at the overall class prior."""
    p = np.asarray(probabilities)
    return effect_of_means(bags, bags.means(p).T, bags.means(p * (1 - p)).T)


def effect_of_means(bags: Bags, means: Floats, variances: Floats) -> BagEffect:
    """Estimate the same from the means of p and p(1 − p) over bags: (n_bags, n_classes)."""
    used, q = ~bags.labelled, np.clip(bags.class_shares, 1e-6, None)
    # what is reported is about the second of two classes, the largest of several
    focus = float(q[1] if len(q) == 2 else q.max())
    if used.sum() < FEWEST_BAGS:
        return BagEffect(0.0, 0.0, np.inf, 1.0, focus)
    sizes, scale = bags.sizes[used], np.sqrt(q * (len(q) - 1))
    centre, noise = q, np.zeros(len(sizes))
    if bags.noise is not None:
        # of noisy counts alone, the mean of probabilities is known less well than q
        centre = sizes @ means[used] / sizes.sum()
        noise = (np.einsum("bcc->bc", bags.noise[used]) / scale**2).sum(axis=1)
    # γ_b and p̂_b less the means of all, in units in which each class has the same variance
    apart, explained = (bags.proportions[used] - q) / scale, (means[used] - centre) / scale
    sampling = (variances[used] / scale**2).sum(axis=1) / sizes
    along, both = (explained**2).sum(axis=1), (apart * explained).sum(axis=1)

    def fit(slope: float, variance: float) -> tuple[Floats, float]:
        """Weights 1/(e_b + τ²), and the β of least squares by them."""
        weights = 1 / (slope * sampling + noise + variance + _ROUNDING)
        return weights, float(weights @ both / max(weights @ along, _ROUNDING))

    def squares(slope: float) -> Floats:
        return np.asarray(((apart - slope * explained) ** 2).sum(axis=1))

    variance, slope = 0.0, 1.0
    for _ in range(_MOST_ROUNDS):
        weights, unconstrained = fit(slope, variance)
        slope = max(1.0, unconstrained)
        excess = squares(slope) - (slope * sampling + noise)
        new = max(0.0, float(weights**2 @ excess / (weights @ weights)))
        settled = abs(new - variance) <= _SETTLED * (new + float(sampling.mean()))
        variance = new
        if settled:
            break
    degrees = (len(sizes) - 2) * (len(q) - 1)
    least = float(chdtri(degrees, 1 - _TAIL)) / (len(q) - 1)

    def too_large(candidate: float) -> float:
        """Whether squares are as small as by the Q-profile's limit, by their excess over it."""
        by, own = fit(slope, candidate)
        return float(by @ squares(max(1.0, own))) - least

    largest = 1.0
    if too_large(1.0) < 0:
        largest = float(brentq(too_large, 0.0, 1.0)) if too_large(0.0) > 0 else 0.0
    few = np.sqrt(len(sizes) / (len(sizes) - 2))
    error = few * np.sqrt(weights**4 @ (excess - variance) ** 2) / (weights @ weights)
    pulls = both - unconstrained * along
    slope_error = few * np.sqrt(weights**2 @ pulls**2) / max(weights @ along, _ROUNDING)
    # s, how well probabilities separate the classes
    separation = 1 - float(np.average(sampling * sizes, weights=sizes))
    between = separation * (weights @ ((apart**2).sum(axis=1) - noise))
    around = separation * between + separation * (1 - separation) * (weights @ (1 / sizes))
    return BagEffect(
        variance=variance,
        low=float(max(variance - NORMAL_95 * error, 0.0)),
        high=float(max(variance + NORMAL_95 * error, largest)),
        slope=slope,
        share=focus,
        slope_error=float(slope_error),
        slope_label_shift=float(between / around) if separation > 0 and around > 0 else np.nan,
        slope_unconstrained=unconstrained,
    )


def describe_effect(model: Any) -> str | None:
    """Describe the bag effects of a fitted model; None if it estimates none."""
    variance = getattr(model, "bag_effect_", None)
    if variance is None:
        return None
    facts = []
    if variance > 0:
        facts.append(
            f"log-odds differ between bags by a standard deviation of {np.sqrt(variance):.2f} that "
            "features do not explain"
        )
    dispersion = getattr(model, "dispersion_", 1.0)
    if dispersion > _NOTABLE_DISPERSION:
        facts.append(
            f"counts vary {dispersion:.2f} times as much as the model predicts (overdispersion)"
        )
    return ", and ".join(facts) or "no bag effect, no overdispersion"
