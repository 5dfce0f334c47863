"""From probabilities to classes: rules, each best for something that is said beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

RuleName = Literal["balanced", "accuracy", "f1", "cost"]

_AIMS = {
    "balanced": "which is best for the mean of both classes' recalls",
    "accuracy": "which is best for accuracy",
    "f1": "which is best for F1 on the bags of training",
    "cost": "which is cheapest at the costs given",
    "given": "as asked for",
}

# The rule for more than two classes, in words.
MOST_PROBABLE = "the most probable, which is best for accuracy"


@dataclass(frozen=True)
class Rule:
    """Positive is what has a probability above a threshold.

    Attributes
    ----------
    name : str
        What the threshold is best for, or "given".
    threshold : float
        For probabilities at ``share``.
    share : float
        Share of positives in the population that the threshold is for.
    """

    name: str
    threshold: float
    share: float

    def at(self, share: float) -> Rule:
        """The same rule where another share of the rows is positive.

        A threshold for recalls goes along with the share and one for F1 with the odds; others are
        what they are.
        """
        if self.name == "balanced":
            return Rule(self.name, share, share)
        if self.name != "f1":
            return Rule(self.name, self.threshold, share)
        odds = logit(self.threshold) + logit(share) - logit(self.share)
        return Rule(self.name, float(1 / (1 + np.exp(-odds))), share)

    @property
    def score_threshold(self) -> float:
        """The same for log-odds."""
        edges = np.finfo(float).tiny, 1 - np.finfo(float).epsneg
        return float(logit(np.clip(self.threshold, *edges)))

    def __str__(self) -> str:
        return f"positive above a probability of {self.threshold:.4g}, {_AIMS[self.name]}"

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values, for a file."""
        return {"name": self.name, "threshold": self.threshold, "share": self.share}


def make_rule(
    name: RuleName, probabilities: NDArray[np.float64], costs: tuple[float, float] = (1.0, 1.0)
) -> Rule:
    """Make a rule for a population.

    Parameters
    ----------
    name : {"balanced", "accuracy", "f1", "cost"}
        What it is best for.
    probabilities : ndarray of shape (n_instances,)
        Of the positive class, for rows of the population that the model did not see.
    costs : (float, float)
        Of a false alarm and of a miss, for "cost".

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.tables.rules import make_rule
    >>> print(make_rule("cost", np.array([0.1, 0.4]), costs=(1, 9)))
    positive above a probability of 0.1, which is cheapest at the costs given
    """
    if name not in get_args(RuleName):
        raise ValueError(f"rules are {', '.join(get_args(RuleName))}, not {name!r}.")
    share = float(np.mean(probabilities))
    if name == "balanced":
        return Rule(name, share, share)
    if name == "f1":
        return Rule(name, _best_for_f1(probabilities), share)
    alarm, miss = costs if name == "cost" else (1.0, 1.0)
    if not (alarm > 0 and miss > 0 and np.isfinite(alarm + miss)):
        raise ValueError(f"costs must be two positive numbers, not {alarm:g} and {miss:g}.")
    return Rule(name, alarm / (alarm + miss), share)


def _best_for_f1(probabilities: NDArray[np.float64]) -> float:
    """The threshold of largest F1 if each row is positive with its probability."""
    falling = np.sort(probabilities)[::-1]
    hits = np.cumsum(falling)
    f1 = 2 * hits / (np.arange(1, len(falling) + 1) + hits[-1])
    best = int(np.argmax(f1))
    # in the middle, so that rounding moves no row
    after = falling[best + 1] if best + 1 < len(falling) else 0.0
    return float((falling[best] + after) / 2)
