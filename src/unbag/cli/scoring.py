"""Class, score and probability of rows, as the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._outputs import by_output, chances_of_all
from unbag.bags.bags import check_bag_target
from unbag.model_selection.out_of_fold import decision_scores
from unbag.observations.count_likelihood import known_bag_posteriors
from unbag.tables.persistence import ModelFile
from unbag.tables.pipeline import split_pipeline
from unbag.tables.rules import MOST_PROBABLE, Rule


def rule_of(found: ModelFile, threshold: float | None, names: list[Any]) -> Rule | None:
    """The rule for classes: a threshold that is given, that of the model file, or none."""
    if threshold is not None:
        if len(names) > 2:
            raise ValueError(f"--threshold is for two classes, and there are {len(names)}")
        return Rule("given", threshold, threshold)
    told = found.metadata.get("rule")
    return None if told is None else Rule(**told)


class Scorer:
    """Scores the rows of a table.

    Parameters
    ----------
    model : classifier or pipeline
    names : list
        What to call the classes.
    class_prior : list of float or None
        Shares of the classes where the model is used, or of the second of two.
    rule : Rule or None
        Which rows are positive; without one, those that the model says.
    """

    def __init__(
        self, model: Any, names: list[Any], class_prior: list[float] | None, rule: Rule | None
    ) -> None:
        # so that features are made once, and not for each of the three
        self._features, self._model = split_pipeline(model)
        self._names = names
        self._prior = self._check_prior(class_prior)
        self._has = {
            "score": hasattr(self._model, "decision_function"),
            "probability": hasattr(self._model, "predict_proba"),
        }
        if rule is not None and self._prior is not None:
            rule = rule.at(self._prior[1])
        self._rule = rule if self._has["probability"] else None
        self.columns = ["class"]
        for what, has in self._has.items():
            self.columns += self._columns(what) if has else []

    @property
    def rule(self) -> dict[str, Any] | None:
        """The rule for classes, as plain values."""
        return None if self._rule is None else self._rule.to_dict()

    @property
    def remarks(self) -> list[str]:
        """What is said of the columns."""
        if len(self._names) > 2 and self._has["probability"]:
            return [f"Class: {MOST_PROBABLE}."]
        return [] if self._rule is None else [f"Class: {self._rule}."]

    def score(self, X: Any, y: NDArray[np.void] | None = None) -> dict[str, Any]:
        """Columns for some rows; with ``y``, given the counts of their bags."""
        X = X if self._features is None else self._features.transform(X)
        found: dict[str, Any] = {}
        chances = None
        if self._has["probability"]:
            chances = self._chances(X) if y is None else self._chances_given(X, y)
        found["class"] = np.array(self._names)[self._places(X, chances)]
        if self._has["score"]:
            found |= self._split("score", self._model.decision_function(X))
        if chances is not None:
            two = len(self._names) == 2
            found |= self._split("probability", chances[:, 1] if two else chances)
        return found

    def _places(self, X: Any, chances: NDArray[np.float64] | None) -> NDArray[np.intp]:
        if len(self._names) > 2 and chances is not None:
            return chances.argmax(axis=1)
        if self._rule is not None and chances is not None:
            return (chances[:, 1] > self._rule.threshold).astype(np.intp)
        return np.searchsorted(self._model.classes_, self._model.predict(X))

    def _chances(self, X: Any) -> NDArray[np.float64]:
        """Probabilities in the population that is asked for."""
        if not hasattr(self._model, "empirical_prior_"):
            return np.asarray(self._model.predict_proba(X))
        prior = "empirical" if self._prior is None else self._prior
        return np.asarray(self._model.predict_proba(X, class_prior=prior))

    def _chances_given(self, X: Any, y: NDArray[np.void]) -> NDArray[np.float64]:
        """Probabilities given the counts of the bags, which they add up to if these are exact."""
        scores = by_output(decision_scores(self._model, X))[None] + self._offset()
        effect = float(getattr(self._model, "bag_effect_", 0.0))
        found = known_bag_posteriors(scores, check_bag_target(y), effect)[0]
        return chances_of_all(found).T

    def _offset(self) -> NDArray[np.float64]:
        """From scores to log-odds at the shares of the training bags."""
        model = self._model
        move = np.log(model.empirical_prior_ + 1e-300) - np.log(model.class_prior_ + 1e-300)
        return (move[1:] - move[:1] if len(move) == 2 else move)[None, :, None]

    def _check_prior(self, class_prior: list[float] | None) -> list[float] | None:
        if class_prior is None:
            return None
        if not hasattr(self._model, "empirical_prior_"):
            raise ValueError(
                f"{type(self._model).__name__} gives probabilities for one population only; "
                "leave --class-prior out"
            )
        n_classes = len(self._names)
        if n_classes == 2 and len(class_prior) == 1:
            return [1 - class_prior[0], class_prior[0]]
        if len(class_prior) != n_classes or abs(sum(class_prior) - 1) > 1e-6:
            raise ValueError(
                f"--class-prior needs {n_classes} shares that add up to 1, not "
                f"{','.join(f'{share:g}' for share in class_prior)}"
            )
        return class_prior

    def _columns(self, what: str) -> list[str]:
        return [what] if len(self._names) == 2 else [f"{what}_{name}" for name in self._names]

    def _split(self, what: str, values: Any) -> dict[str, Any]:
        columns = values.T if values.ndim == 2 else [values]
        return dict(zip(self._columns(what), columns, strict=True))
