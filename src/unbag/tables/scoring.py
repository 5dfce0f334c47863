"""Class, score and probability of rows as columns of a table, and the rule for the class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from unbag._arrays import Floats
from unbag._outputs import by_output, probabilities_of_all
from unbag.bags.bags import check_bag_target
from unbag.bags.priors import prior_offset, resolve_class_prior
from unbag.model_selection.fitted import decision_scores
from unbag.observations.count_likelihood import label_posteriors
from unbag.tables.persistence import ModelFile
from unbag.tables.pipeline import split_pipeline

RuleName = Literal["balanced", "accuracy", "f1", "cost"]

_AIMS = {
    "balanced": "which maximises balanced accuracy",
    "accuracy": "which maximises accuracy",
    "f1": "which maximises F1 on the training bags",
    "cost": "which minimises the given costs",
    "given": "as specified",
}

# The rule for more than two classes, in words.
MOST_PROBABLE = "the most probable, which maximises accuracy"


@dataclass(frozen=True)
class Rule:
    """Positive is what has a probability above a threshold."""

    name: str
    threshold: float
    share: float

    def at(self, share: float) -> Rule:
        """The same rule where another share of the rows is positive.

        A threshold for recalls moves with the proportion and one for F1 with the odds; others do
        not move.
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


def make_rule(
    name: RuleName,
    probabilities: Floats,
    costs: tuple[float, float] = (1.0, 1.0),
    multiplicity: NDArray[np.int64] | None = None,
) -> Rule:
    """Make a rule for a population, of which every row may stand for several."""
    if name not in get_args(RuleName):
        raise ValueError(f"rules are {', '.join(get_args(RuleName))}, not {name!r}.")
    number = np.ones(len(probabilities)) if multiplicity is None else multiplicity
    share = float(np.average(probabilities, weights=number))
    if name == "balanced":
        return Rule(name, share, share)
    if name == "f1":
        return Rule(name, _best_for_f1(probabilities, number), share)
    alarm, miss = costs if name == "cost" else (1.0, 1.0)
    if not (alarm > 0 and miss > 0 and np.isfinite(alarm + miss)):
        raise ValueError(f"costs must be two positive numbers, not {alarm:g} and {miss:g}.")
    return Rule(name, alarm / (alarm + miss), share)


def _best_for_f1(probabilities: Floats, number: NDArray[Any]) -> float:
    """The threshold of largest F1 if each row is positive with its probability."""
    order = np.argsort(probabilities)[::-1]
    falling, number = probabilities[order], number[order]
    hits = np.cumsum(number * falling)
    f1 = 2 * hits / (np.cumsum(number) + hits[-1])
    best = int(np.argmax(f1))
    # in the middle, so that rounding moves no row
    after = falling[best + 1] if best + 1 < len(falling) else 0.0
    return float((falling[best] + after) / 2)


def rule_of(found: ModelFile, threshold: float | None, names: list[Any]) -> Rule | None:
    """Return the rule for classes: a threshold that is given, the one of the model file, or none."""
    if threshold is not None:
        if len(names) > 2:
            raise ValueError(f"a threshold is for two classes, and there are {len(names)}")
        return Rule("given", threshold, threshold)
    saved = found.metadata.get("rule")
    return None if saved is None else Rule(**saved)


class Scorer:
    """Scores the rows of a table: ``columns`` are what it gives, ``rule`` is that for the class."""

    def __init__(
        self, model: Any, names: list[Any], class_prior: list[float] | None, rule: Rule | None
    ) -> None:
        # features are made once for all three columns
        self._features, self._model = split_pipeline(model)
        self._names = names
        self._prior = self._check_prior(class_prior)
        self._has_scores = hasattr(self._model, "decision_function")
        self._has_probabilities = hasattr(self._model, "predict_proba")
        if rule is not None and self._prior is not None:
            rule = rule.at(self._prior[1])
        self.rule = rule if self._has_probabilities else None
        self.columns = [
            "class",
            *(self._columns("score") if self._has_scores else []),
            *(self._columns("probability") if self._has_probabilities else []),
        ]

    def _check_prior(self, class_prior: list[float] | None) -> list[float] | None:
        if class_prior is None:
            return None
        if not hasattr(self._model, "empirical_prior_"):
            raise ValueError(
                f"{type(self._model).__name__} gives probabilities for one population only; "
                "give no class prior"
            )
        if len(self._names) == 2 and len(class_prior) == 1:
            class_prior = [1 - class_prior[0], class_prior[0]]
        prior: list[float] = resolve_class_prior(class_prior, self._model.empirical_prior_).tolist()
        return prior

    @property
    def remarks(self) -> list[str]:
        """Remarks on the columns."""
        if len(self._names) > 2 and self._has_probabilities:
            return [f"Predicted class: {MOST_PROBABLE}."]
        return [] if self.rule is None else [f"Predicted class: {self.rule}."]

    def score(self, X: Any, y: NDArray[np.void] | None = None) -> dict[str, Any]:
        """Columns for some rows; with ``y``, given the counts of their bags."""
        X = X if self._features is None else self._features.transform(X)
        found: dict[str, Any] = {}
        if self._has_scores:
            found |= self._split("score", self._model.decision_function(X))
        place = None
        if self._has_probabilities:
            probabilities = self._probabilities(X, y)
            if len(self._names) > 2:
                place = probabilities.argmax(axis=1)
                found |= self._split("probability", probabilities)
            else:
                if self.rule is not None:
                    place = (probabilities[:, 1] > self.rule.threshold).astype(np.intp)
                found |= self._split("probability", probabilities[:, 1])
        if place is None:
            place = np.searchsorted(self._model.classes_, self._model.predict(X))
        return {"class": np.array(self._names)[place]} | found

    def _probabilities(self, X: Any, y: NDArray[np.void] | None) -> Floats:
        """Probabilities at the class prior, or given the counts of the bags, to which they add up."""
        if y is None:
            at_prior = {}
            if hasattr(self._model, "empirical_prior_"):
                at_prior["class_prior"] = "empirical" if self._prior is None else self._prior
            return np.asarray(self._model.predict_proba(X, **at_prior))
        # log-odds at the class prior of the training bags
        offset = prior_offset(self._model.class_prior_, self._model.empirical_prior_)
        scores = by_output(decision_scores(self._model, X))[None] + offset[None, :, None]
        # of an ensemble, that of its best base model
        model = getattr(self._model, "best_estimator_", self._model)
        effect = float(getattr(model, "bag_effect_", 0.0))
        return probabilities_of_all(label_posteriors(scores, check_bag_target(y), effect)[0]).T

    def _columns(self, what: str) -> list[str]:
        return [what] if len(self._names) == 2 else [f"{what}_{name}" for name in self._names]

    def _split(self, what: str, values: Any) -> dict[str, Any]:
        return dict(zip(self._columns(what), np.atleast_2d(values.T), strict=True))
