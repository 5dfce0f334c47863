"""What is said about a classifier: a verdict, and numbers that know what they rest on."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeVar

from unbag._text import WIDTH

VerdictName = Literal["supported", "doubtful", "refuted"]
EstimateBasis = Literal["looks", "odds", "any", "both", "labels"]

SomeEstimate = TypeVar("SomeEstimate", bound="Estimate")


@dataclass(frozen=True)
class Verdict:
    """Whether bags bear out what estimates without labels assume.

    Attributes
    ----------
    name : {"supported", "doubtful", "refuted"}
        The verdict.
    reasons : tuple of str
        What speaks for that, in sentences.
    advice : tuple of str
        What would help.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate
    >>> data = make_gaussian_bags(n_bags=30, bag_size=30, n_features=1, random_state=0)
    >>> auc = estimate("roc_auc", data.y, data.X[:, 0], n_draws=100)
    >>> auc.verdict.name
    'supported'
    """

    name: VerdictName
    reasons: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def lead(self) -> str:
        """The verdict in a sentence."""
        return _LEADS[self.name]

    def __str__(self) -> str:
        lines = [self.lead, *(f"- {text}" for text in (*self.reasons, *self.advice))]
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)


_LEADS = {
    "supported": "Supported: nothing in these bags speaks against what the estimates assume.",
    "doubtful": "Doubtful: these bags may not be what estimates without labels assume.",
    "refuted": "Refuted: these bags are not what estimates without labels assume.",
}


@dataclass(frozen=True)
class Estimate:
    """An estimate, how far it may be off, and between which limits the truth lies.

    Estimates by weights are unbiased and so may lie outside [0, 1]; they are kept and shown as
    they are. Only limits are cut to what is possible, where they hold any of it.

    Attributes
    ----------
    value : float
        The estimate.
    standard_error : float
        Its standard error.
    low : float
        Lower limit.
    high : float
        Upper limit.
    level : float
        How often the interval should hold the truth.
    bounded : bool
        Whether the measure lies between 0 and 1.
    basis : {"looks", "odds", "any", "both", "labels"}
        What it rests on: classes that look the same in all bags; rows that have the same odds in
        all bags; next to nothing; the first and the third, whichever is right; labels.
    verdict : Verdict or None
        What speaks for and against it.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate
    >>> data = make_gaussian_bags(n_bags=30, bag_size=30, n_features=1, random_state=0)
    >>> auc = estimate("roc_auc", data.y, data.X[:, 0], n_draws=100)
    >>> bool(auc.low < auc.value < auc.high), auc.basis
    (True, 'looks')
    """

    value: float
    standard_error: float
    low: float
    high: float
    level: float
    bounded: bool = True
    basis: EstimateBasis = "looks"
    verdict: Verdict | None = None

    def widened(self, factor: float) -> Self:
        """Give the same with its error, and its limits, further from the value by a factor.

        Parameters
        ----------
        factor : float
            The factor.

        Returns
        -------
        estimate : Estimate
            The wider one.
        """
        low, high = (self.value + factor * (limit - self.value) for limit in (self.low, self.high))
        return replace(self, standard_error=factor * self.standard_error, low=low, high=high)

    @property
    def shown_limits(self) -> tuple[float, float]:
        """Limits, cut to what is possible unless nothing would be left."""
        if not self.bounded or self.low > 1 or self.high < 0:
            return self.low, self.high
        return max(self.low, 0.0), min(self.high, 1.0)

    def __str__(self) -> str:
        low, high = self.shown_limits
        return f"{self.value:.4f} ({low:.4f} to {high:.4f})"


def find_estimate(estimates: dict[str, SomeEstimate], measure: str) -> SomeEstimate:
    """Look an estimate up by the name of its measure."""
    if measure not in estimates:
        raise KeyError(f"There is no {measure!r} here; there are {', '.join(estimates)}.")
    return estimates[measure]
