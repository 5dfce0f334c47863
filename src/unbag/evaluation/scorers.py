"""Scorers of cross-validation that need bags, not labels.

A scorer of `SCORERS` is called with an estimator, instances and the target of
whole bags, so it goes with `unbag.BagKFold`:
``GridSearchCV(model, grid, cv=BagKFold(5), scoring=SCORERS["roc_auc"])``. Larger is better for all
of them. The log-likelihood is valid under label shift and under covariate shift, and the default
``score`` of every model with probabilities; the others assume label shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from unbag._arrays import Floats
from unbag._outputs import by_output
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.measures import Area, Cost, Measure, Risk, Sample, make_sample
from unbag.model_selection.fitted import check_gives_probabilities, last_step, log_odds_of
from unbag.observations.count_likelihood import CountLikelihood


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


def _score_by(measure: Measure, sign: float, estimator: Any, X: Any, y: Any) -> float:
    return sign * measure.value(make_sample(y, estimator.decision_function(X), trusted=True))


def roc_auc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the area under the ROC curve; for several classes, its mean for each against the rest."""
    sample = make_sample(y, estimator.decision_function(X), trusted=True)
    bags, scores = sample.bags, sample.scores
    if bags.n_classes == 2:
        return Area().value(sample)
    found = []
    for c, own in enumerate(scores.T):
        others = np.logaddexp.reduce(np.delete(scores, c, axis=1), axis=1)
        side = np.eye(2)[(np.arange(bags.n_classes) == c).astype(int)]
        noise = None if bags.noise is None else side.T @ bags.noise @ side
        two = {"proportions": bags.proportions @ side, "classes": np.arange(2), "noise": noise}
        found.append(Area().value(Sample(replace(bags, names=None, **two), own - others)))
    return float(np.mean(found))


SCORERS: dict[str, Callable[[Any, Any, Any], float]] = {
    "log_likelihood": log_likelihood_scorer,
    # with the logistic loss and balanced classes
    "corrected_risk": partial(_score_by, Risk(), -1.0),
    "balanced_accuracy": partial(_score_by, Cost(complement=True), 1.0),
    "roc_auc": roc_auc_scorer,
}
