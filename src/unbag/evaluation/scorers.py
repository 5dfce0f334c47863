"""Scorers for `GridSearchCV` and `cross_val_score` that need bags, not labels.

A scorer is called with an estimator, instances and the target of whole bags, so that it goes
with `unbag.BagKFold`: ``GridSearchCV(model, grid, cv=BagKFold(5), scoring=SCORERS["roc_auc"])``.
Larger is better for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbag.evaluation.measures import Area, Cost, Measure, Risk
from unbag.evaluation.sample import make_sample

ScorerFunction = Callable[[Any, Any, Any], float]


def corrected_risk_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the corrected logistic risk with balanced classes, negated."""
    return -_value(Risk(), estimator, X, y)


def balanced_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the label-free balanced accuracy."""
    return _value(Cost(complement=True), estimator, X, y)


def roc_auc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the label-free area under the ROC curve (two classes)."""
    return _value(Area(), estimator, X, y)


def _value(measure: Measure, estimator: Any, X: Any, y: Any) -> float:
    return measure.value(make_sample(y, estimator.decision_function(X), trusted=True))


SCORERS: dict[str, ScorerFunction] = {
    "corrected_risk": corrected_risk_scorer,
    "balanced_accuracy": balanced_accuracy_scorer,
    "roc_auc": roc_auc_scorer,
}
