"""Scorers of bags agree with what labels say, and with the score of a model."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.scorers import SCORERS


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_area_is_that_of_labels(n_classes):
    data = make_gaussian_bags(60, 60, n_classes=n_classes, random_state=0)
    model = LLPClassifier(kernel=None).fit(data.X, data.y)
    probabilities = model.predict_proba(data.X)
    given = probabilities[:, 1] if n_classes == 2 else probabilities
    truth = roc_auc_score(data.labels, given, multi_class="ovr")
    assert SCORERS["roc_auc"](model, data.X, data.y) == pytest.approx(truth, abs=0.03)


@pytest.mark.parametrize("class_prior", ["empirical", "balanced"])
def test_the_log_likelihood_is_the_score_at_the_empirical_prior(class_prior):
    data = make_gaussian_bags(30, 20, proportions=(0.1, 0.5), random_state=0)
    model = LLPClassifier(kernel=None, class_prior=class_prior).fit(data.X, data.y)
    found = SCORERS["log_likelihood"](model, data.X, data.y)
    assert found == pytest.approx(model.score(data.X, data.y), rel=1e-9)
    at_empirical = model.predict_proba(data.X, class_prior="empirical")[:, 1]
    rows = bag_target(np.arange(len(data.X)), counts=data.labels)
    chosen = np.where(data.labels == 1, at_empirical, 1 - at_empirical)
    alone = SCORERS["log_likelihood"](model, data.X, rows)
    assert alone == pytest.approx(np.log(chosen).mean(), rel=1e-6)
