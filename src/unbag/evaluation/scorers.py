"""Scorers for `GridSearchCV` and `cross_val_score` that need bags, not labels.

A scorer is called with an estimator, instances and the target of whole bags, so it goes with
`unbag.BagKFold`: ``GridSearchCV(model, grid, cv=BagKFold(5), scoring=SCORERS["roc_auc"])``. Larger
is better for all of them. The log-likelihood is valid under label shift and under covariate shift,
and the default ``score`` of every model with probabilities; the others assume label shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag._outputs import by_output
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.measures import Area, Cost, Measure, Risk
from unbag.evaluation.sample import Sample, make_sample
from unbag.model_selection.fitted import check_gives_probabilities, last_step, log_odds_of
from unbag.observations.count_likelihood import CountLikelihood

ScorerFunction = Callable[[Any, Any, Any], float]


def mean_log_likelihood(bags: Bags, log_odds: Floats) -> float:
    """Log-likelihood of the counts of bags, per row."""
    likelihood = CountLikelihood(np.ones((1, bags.n_bags), dtype=bool), bags)
    losses = likelihood.bag_losses(by_output(log_odds)[None])
    return -float(losses.sum() / bags.n_instances)


def log_likelihood_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the log-likelihood of the counts per row, by a model with probabilities."""
    check_gives_probabilities(estimator)
    probabilities, model = np.asarray(estimator.predict_proba(X)), last_step(estimator)
    if hasattr(model, "empirical_prior_"):
        probabilities = probabilities * (model.empirical_prior_ / model.class_prior_)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    return mean_log_likelihood(check_bag_target(y), log_odds_of(probabilities))


def corrected_risk_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the corrected logistic risk with balanced classes, negated."""
    return -_value(Risk(), estimator, X, y)


def balanced_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the label-free balanced accuracy."""
    return _value(Cost(complement=True), estimator, X, y)


def roc_auc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the label-free area under the ROC curve; of several classes, the mean of each class against the rest."""
    sample = _sample(estimator, X, y)
    n_classes = sample.bags.n_classes
    if n_classes == 2:
        return Area().value(sample)
    return float(np.mean([Area().value(_against_rest(sample, c)) for c in range(n_classes)]))


def _against_rest(sample: Sample, c: int) -> Sample:
    """One class as positives, all others as negatives, by the log-odds of the class."""
    others = np.delete(sample.scores, c, axis=1)
    scores = sample.scores[:, c] - np.logaddexp.reduce(others, axis=1)
    bags, side = sample.bags, np.zeros((sample.bags.n_classes, 2))
    side[:, 0], side[c] = 1.0, (0.0, 1.0)
    noise = None if bags.noise is None else side.T @ bags.noise @ side
    two = replace(
        bags, proportions=bags.proportions @ side, classes=np.arange(2), noise=noise, names=None
    )
    return Sample(two, scores)


def _sample(estimator: Any, X: Any, y: Any) -> Sample:
    return make_sample(y, estimator.decision_function(X), trusted=True)


def _value(measure: Measure, estimator: Any, X: Any, y: Any) -> float:
    return measure.value(_sample(estimator, X, y))


SCORERS: dict[str, ScorerFunction] = {
    "log_likelihood": log_likelihood_scorer,
    "corrected_risk": corrected_risk_scorer,
    "balanced_accuracy": balanced_accuracy_scorer,
    "roc_auc": roc_auc_scorer,
}
