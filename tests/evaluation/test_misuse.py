"""Calls that would go wrong silently are refused, with the right call."""

from functools import partial

import numpy as np
import pytest

from estimates import estimate_with_labels, plain_estimate
from unbag import LLPClassifier
from unbag import evaluation as metrics
from unbag.datasets import make_gaussian_bags
from unbag.evaluation.measures import MEASURES as ALL_MEASURES
from unbag.evaluation.measures import make_sample
from unbag.evaluation.scorers import SCORERS

DATA = make_gaussian_bags(12, 20, n_features=1, random_state=0)
SCORES = DATA.X[:, 0]
PROBABILITIES = 1 / (1 + np.exp(-SCORES))
HARD = (SCORES > 0).astype(int)
COST = {"cost": (1, 2)}

BY_THRESHOLD = {
    name: partial(plain_estimate, name)
    for name in ("balanced_accuracy", "accuracy", "recall", "precision", "f1")
} | {"cost": partial(plain_estimate, "cost", **COST)}
BY_ORDER = {
    "roc_auc": partial(plain_estimate, "roc_auc"),
}
MEASURES = [name for name in ALL_MEASURES if name not in ("roc_auc", "corrected_risk")]


def calls(functions):
    return pytest.mark.parametrize("function", functions.values(), ids=functions)


@pytest.mark.parametrize("estimator", [DATA.X, "auto", LLPClassifier])
def test_what_is_no_estimator(estimator):
    with pytest.raises(
        TypeError, match=r"^The estimator comes first.* not (ndarray|str|LLP\w+)\.$"
    ):
        metrics.cross_val_evaluate(estimator, DATA.X, DATA.y)


@pytest.mark.parametrize("threshold", ["x", None, np.nan])
def test_thresholds_that_are_none(threshold):
    with pytest.raises(ValueError, match=r"^threshold must be a finite number, not "):
        metrics.evaluate(DATA.y, SCORES, threshold=threshold)


@calls({**BY_THRESHOLD, "evaluate": partial(metrics.evaluate, n_resamples=20)})
def test_predictions_and_probabilities_at_threshold_zero(function):
    with pytest.raises(ValueError, match=r"class labels.*decision_function\(X\)"):
        function(DATA.y, HARD)
    with pytest.raises(ValueError, match=r"probabilities do.*decision_function.*threshold=0.5 for"):
        function(DATA.y, PROBABILITIES)


@calls(BY_THRESHOLD)
def test_threshold_that_divides_them_is_fine(function):
    right = function(DATA.y, SCORES)
    for given in (HARD, PROBABILITIES):
        np.testing.assert_allclose(function(DATA.y, given, threshold=0.5), right)
    both = np.column_stack([1 - PROBABILITIES, PROBABILITIES])
    np.testing.assert_allclose(function(DATA.y, both), right)


@calls(BY_ORDER)
def test_predictions_have_no_order(function):
    with pytest.raises(ValueError, match=r"labels rank no rows; give model.decision_function\(X\)"):
        function(DATA.y, HARD)
    function(DATA.y, PROBABILITIES)


@pytest.mark.parametrize("measure", MEASURES)
def test_estimates_refuse_them_too(measure):
    options = COST if measure == "cost" else {}
    for function in (metrics.estimate, metrics.identification_bounds):
        with pytest.raises(ValueError, match=r"give model.decision_function"):
            function(measure, DATA.y, HARD, **options)
        with pytest.raises(ValueError, match=r"threshold=0.5 for probabilities"):
            function(measure, DATA.y, PROBABILITIES, **options)
        with pytest.raises(ValueError, match="does not take all of 'sample_weight'"):
            function(measure, DATA.y, SCORES, sample_weight=np.ones(240), **options)
    labels = DATA.labels.astype(float)
    with pytest.raises(ValueError, match=r"threshold=0.5 for probabilities"):
        estimate_with_labels(measure, DATA.y, PROBABILITIES, labels, **options)


def test_area_and_risk_refuse_them_too():
    for function in (metrics.estimate, metrics.identification_bounds):
        with pytest.raises(ValueError, match="labels rank no rows"):
            function("roc_auc", DATA.y, HARD)
    with pytest.raises(ValueError, match="look like probabilities"):
        metrics.estimate("corrected_risk", DATA.y, PROBABILITIES)
    with pytest.raises(ValueError, match=r"look like predictions.*decision_function"):
        plain_estimate("corrected_risk", DATA.y, HARD)


def test_names_of_classes_in_place_of_scores():
    with pytest.raises(ValueError, match=r"Scores must be numbers.*not model.predict"):
        plain_estimate("roc_auc", np.array(["a", "b"] * 5), ["a", "b"] * 5)


def test_predictions_of_signs_are_divided_by_zero():
    labels = np.where(DATA.labels == 1, 1, -1)
    signs = np.where(SCORES > 0, 1, -1)
    right = plain_estimate("balanced_accuracy", labels, SCORES)
    assert plain_estimate("balanced_accuracy", labels, signs) == pytest.approx(right)
    with pytest.raises(ValueError, match="labels rank no rows"):
        plain_estimate("roc_auc", labels, signs)


def test_constant_scores_may_be_anything():
    assert plain_estimate("roc_auc", DATA.y, np.ones(240)) == pytest.approx(0.5)
    assert plain_estimate("recall", DATA.y, np.ones(240)) == pytest.approx(1)


def test_scorers_know_that_scores_are_scores():
    class Timid(LLPClassifier):
        def decision_function(self, X):
            return 0.5 + 0.01 * super().decision_function(X)

    model = Timid().fit(DATA.X, DATA.y)
    assert make_sample(DATA.y, model.decision_function(DATA.X)).kind == "probabilities"
    assert SCORERS["balanced_accuracy"](model, DATA.X, DATA.y) == pytest.approx(0.5)
    assert SCORERS["corrected_risk"](model, DATA.X, DATA.y) < 0
