"""How sure an estimate is: a verdict, estimates that name what they rest on, and intervals.

Whole bags are resampled, so that rows of a bag may depend on each other in any way, and W is
computed again for every draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils import check_random_state

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside
from unbag._text import wrapped
from unbag.evaluation.measures import Measure, Sample, Tally
from unbag.weights import moment_terms

VerdictName = Literal["not_rejected", "inconclusive", "rejected"]
Assumption = Literal["label_shift", "covariate_shift", "either", "sensitivity", "labels"]


@dataclass(frozen=True)
class Verdict:
    """Whether bags contradict an assumption; "not_rejected" is not proof."""

    name: VerdictName
    assumption: Assumption  # of the verdict of an evaluation, what its estimates rest on
    reasons: tuple[str, ...]  # findings, in sentences
    advice: tuple[str, ...] = ()  # what would help
    other: VerdictName = "rejected"  # with "sensitivity": the verdict on covariate shift

    @property
    def lead(self) -> str:
        """The verdict in a sentence."""
        if self.assumption == "labels":
            return "No assumption is needed."
        if self.assumption == "either":
            return "Inconclusive: these bags cannot show whether label shift holds."
        if self.assumption == "sensitivity":
            if self.other == "rejected":
                return "Label shift and covariate shift are rejected: these bags contradict both."
            rejected = "Label shift is rejected: these bags contradict it."
            return f"{rejected} Covariate shift is inconclusive."
        shift = self.assumption.replace("_", " ")
        return {
            "not_rejected": f"No conflict with {shift} found.",
            "inconclusive": f"Inconclusive: these bags cannot show whether {shift} holds.",
            "rejected": f"{shift.capitalize()} is rejected: these bags contradict it.",
        }[self.name]

    def __str__(self) -> str:
        lines = [self.lead, *(f"- {text}" for text in (*self.reasons, *self.advice))]
        return "\n".join(line for text in lines for line in wrapped(text, rest="  "))


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error, its interval and the assumption behind it.

    Estimates by unmixing weights are unbiased, so they may lie outside [0, 1] and are not clipped.
    Only limits are clipped to [0, 1].

    Attributes
    ----------
    value, standard_error : float
        The estimate, and its standard error.
    low, high : float
        Limits of its interval.
    confidence_level : float
        Probability with which the interval should cover the true value.
    bounded : bool
        Whether the measure lies between 0 and 1.
    assumption : {"label_shift", "covariate_shift", "sensitivity", "either", "labels"}
        What it rests on.
    verdict : Verdict or None
        Verdict on the assumption, with its reasons.
    """

    value: float
    standard_error: float
    low: float
    high: float
    confidence_level: float
    bounded: bool = True
    assumption: Assumption = "label_shift"
    verdict: Verdict | None = None

    @property
    def is_range(self) -> bool:
        """Whether it rests on no single assumption: its limits are not a confidence interval."""
        return self.assumption in ("either", "sensitivity")

    @property
    def shown_limits(self) -> tuple[float, float]:
        """Limits, cut to what is possible unless nothing would be left."""
        if not self.bounded or self.low > 1 or self.high < 0:
            return self.low, self.high
        return max(self.low, 0.0), min(self.high, 1.0)

    def __str__(self) -> str:
        low, high = self.shown_limits
        return f"{self.value:.4f} ({low:.4f} to {high:.4f})"


def widen(estimate: Estimate, factor: float) -> Estimate:
    """Move the limits away from the value by a factor, and multiply the standard error by it."""
    value = estimate.value
    low, high = (value + factor * (limit - value) for limit in (estimate.low, estimate.high))
    return replace(estimate, standard_error=factor * estimate.standard_error, low=low, high=high)


def with_limits(estimate: Estimate, low: float, high: float) -> Estimate:
    """Give an estimate other limits, cut to what is possible."""
    if estimate.bounded:
        low, high = max(low, 0.0), min(high, 1.0)
    return replace(estimate, low=low, high=high)


# A draw whose bags are nearly all alike carries no information, and is drawn again; if too many are, the
# rest do not show how estimates vary.
_CONDITION_LIMIT = 1e8
_LEAST_USABLE = 0.75

# Numbers in one block of draws.
_BLOCK = 2**23


@dataclass(frozen=True)
class Uncertainty:
    """How intervals are made: by resampling bags."""

    confidence_level: float = 0.95
    n_resamples: int = 1000
    random_state: Any = 0

    def __post_init__(self) -> None:
        check_inside(self.confidence_level, "confidence_level")
        check_count(self.n_resamples, "n_resamples", least=2)

    def of(self, measure: Measure, sample: Sample) -> Estimate:
        """Estimate a measure with its interval."""
        value, level = measure.value(sample), self.confidence_level
        if np.isnan(value):
            # no row is predicted positive, and there is no precision
            return Estimate(value, np.nan, np.nan, np.nan, level, measure.bounded)
        sample = sample.with_labelled_rows_apart()
        tally = measure.tally(sample)
        if sample.posterior is None:
            draws = tally.value(self.draw_class_means(sample, tally.bag_means))
        else:
            draws = tally.value(self._draw_posterior_means(sample, tally, sample.posterior))
            draws += value - np.nanmean(draws)
        unseen = measure.unseen(sample, (1 - level) / 2)
        ends = np.append(self.limits(draws, sample), unseen)
        low, high, error = ends.min(), ends.max(), np.nanstd(draws, ddof=1)
        return Estimate(value, float(error), float(low), float(high), level, measure.bounded)

    def limits(self, draws: Floats, sample: Sample) -> Floats:
        """Limits from draws along the first axis.

        The spread of few bags is uncertain: tails are taken as far out as those of Student's
        distribution lie on the normal one.
        """
        degrees, tail = _degrees_of_freedom(sample), (1 - self.confidence_level) / 2
        tail = float(stats.norm.cdf(stats.t.ppf(tail, degrees)))
        return np.nanquantile(draws, [tail, 1 - tail], axis=0)

    def draw_class_means(self, sample: Sample, bag_means: Floats) -> Floats:
        """Class means that other samples might have given: (n_resamples, n_classes, n_statistics).

        They scatter as estimates do, with the degrees of freedom that W takes made up for.
        """
        rng = check_random_state(self.random_state)
        means = sample.weights.T @ bag_means
        n_bags, n_classes = sample.bags.proportions.shape
        draws = _draw_bags(sample, bag_means, self.n_resamples, rng)
        return means + np.sqrt(n_bags / max(n_bags - n_classes, 1)) * (draws - means)

    def _draw_posterior_means(self, sample: Sample, tally: Tally, posterior: Floats) -> Floats:
        """Class means by given posteriors of bags drawn with replacement, scattered alike."""
        bags = sample.bags
        sums = np.stack([tally.sums(row) for row in posterior], axis=1)
        mass = bags.means(posterior).T * bags.sizes[:, None]  # of each class in a bag
        parts = np.concatenate([sums, mass[:, :, None]], axis=2)
        flat = parts.reshape(bags.n_bags, -1)
        total, seed = flat.sum(axis=0), self.random_state
        times = _times_drawn if isinstance(seed, Integral) else _times_drawn.__wrapped__
        spare = bags.n_bags / max(bags.n_bags - bags.n_classes, 1)
        draws = times(bags.n_bags, self.n_resamples, seed) @ flat
        draws = total + np.sqrt(spare) * (draws - total)
        draws = draws.reshape(self.n_resamples, *parts.shape[1:])
        # of few bags, some draws leave nothing of a class
        left = np.where(draws[..., -1:] > 0, draws[..., -1:], np.nan)
        return draws[..., :-1] / left


@lru_cache(maxsize=1)
def _times_drawn(n_bags: int, n_resamples: int, random_state: Any) -> NDArray[np.uint16]:
    """How often each bag is drawn; the same for all measures of an evaluation."""
    even = np.full(n_bags, 1 / n_bags)
    times = check_random_state(random_state).multinomial(n_bags, even, n_resamples)
    return times.astype(np.uint16)


def _degrees_of_freedom(sample: Sample) -> int:
    n_bags, n_classes = sample.bags.proportions.shape
    if n_bags <= n_classes:
        raise ValueError(
            f"{n_bags} bags of {n_classes} classes leave no degrees of freedom for the variance "
            "between bags: intervals take more bags than classes."
        )
    return n_bags - n_classes


def _draw_bags(
    sample: Sample, bag_means: Floats, n_resamples: int, rng: np.random.RandomState
) -> Floats:
    """Class means of bags drawn with replacement.

    With c_i the number of times that bag i is drawn, they are A⁻¹ Σ_i c_i n_i γ_i m_iᵀ for
    A = Σ_i c_i n_i γ_i γ_iᵀ. With noise taken off the proportions, some A would be nearly singular,
    and θ + A⁻¹ Σ_i c_i (n_i γ_i m_iᵀ − A_i θ) with the A of all bags is taken instead.
    """
    _degrees_of_freedom(sample)
    n_bags, n_classes = sample.bags.proportions.shape
    normal, instrument = moment_terms(sample.bags)
    sides = instrument[:, :, None] * bag_means[:, None, :]
    noisy = sample.bags.noise is not None
    if noisy:
        means = sample.weights.T @ bag_means
        sides = np.linalg.solve(normal.sum(axis=0), sides - normal @ means) + means / n_bags
    terms = np.hstack([normal.reshape(n_bags, -1), sides.reshape(n_bags, -1)])
    found, n_found = [], 0
    while n_found < n_resamples:
        size = min(max(1, _BLOCK // n_bags), n_resamples - n_found)
        sums = rng.multinomial(n_bags, np.full(n_bags, 1 / n_bags), size).astype(float) @ terms
        A = sums[:, : n_classes**2].reshape(size, n_classes, n_classes)
        right: Any = sums[:, n_classes**2 :].reshape(size, n_classes, bag_means.shape[1])
        if not noisy:
            size_of = np.linalg.eigvalsh(A)
            usable = size_of[:, 0] > size_of[:, -1] / _CONDITION_LIMIT
            if usable.mean() < _LEAST_USABLE:
                raise ValueError(
                    f"The {n_bags} bags are too few or too alike for intervals: their proportions "
                    "hardly differ."
                )
            right = np.linalg.solve(A[usable], right[usable])
        found.append(right)
        n_found += len(right)
    return np.concatenate(found)
