"""Contrasts of shares, by draws from their posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._text import shown


@dataclass(frozen=True, eq=False)
class Contrast:
    """A difference or ratio of two shares.

    Attributes
    ----------
    first, second : str
        The shares.
    kind : {"difference", "ratio"}
        First minus second, or first divided by second.
    estimate : float
        Posterior mean of a difference, posterior median of a ratio.
    low, high : float
        Limits of an interval.
    probability : float
        Posterior probability that the first share is larger.
    least, most : float
        What it can be whatever the model.
    confidence_level : float
        Posterior probability of the interval.
    """

    first: str
    second: str
    kind: str
    estimate: float
    low: float
    high: float
    probability: float
    least: float
    most: float
    confidence_level: float

    def __str__(self) -> str:
        sign = "−" if self.kind == "difference" else "/"
        form = "+.3f" if self.kind == "difference" else ".3f"
        return (
            f"{shown(self.first)} {sign} {shown(self.second)}: {self.estimate:{form}} "
            f"({100 * self.confidence_level:g}% interval {self.low:{form}} to {self.high:{form}}), "
            f"larger with probability {self.probability:.3f}; bounds {self.least:{form}} to "
            f"{self.most:{form}}"
        )


def make_contrast(
    names: list[str],
    draws: list[Floats],
    bounds: list[tuple[float, float]],
    kind: str,
    confidence_level: float,
) -> Contrast:
    """Compare two shares by their draws and bounds."""
    check_choice(kind, ("difference", "ratio"), "kind")
    first, second = draws
    (least, most), (other_least, other_most) = bounds
    if kind == "difference":
        found, ends = first - second, (least - other_most, most - other_least)
        estimate = float(found.mean())
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.nan_to_num(first / second, nan=1.0)
            ends = (np.divide(least, other_most), np.divide(most, other_least))
        estimate = float(np.median(found))
    low, high = (float(limit) for limit in interval(found, confidence_level))
    larger = float(np.mean(first > second) + 0.5 * np.mean(first == second))
    return Contrast(
        first=names[0],
        second=names[1],
        kind=kind,
        estimate=estimate,
        low=low,
        high=high,
        probability=larger,
        least=float(ends[0]),
        most=float(ends[1]),
        confidence_level=confidence_level,
    )


def interval(draws: NDArray[Any], confidence_level: float) -> Any:
    """Limits of central intervals over the first axis."""
    tails = [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0]
    return np.quantile(draws, tails, axis=0, method="hazen")
