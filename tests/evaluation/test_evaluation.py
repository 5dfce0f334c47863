"""Whole evaluations: what they hold, and that no bag is scored by a model that saw it."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import BagKFold, BagShuffleSplit, LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_fit, cross_val_evaluate, estimate, evaluate
from unbag.model_selection.fitted import decision_scores
from unbag.model_selection.splitters import map_folds

DATA = make_gaussian_bags(n_bags=30, bag_size=30, n_features=1, random_state=0)


class Mute(ClassifierMixin, BaseEstimator):
    """Remembers the bags that it saw, and gives no scores."""

    def fit(self, X, y):  # noqa: ARG002
        self.seen_ = set(y["bag"].tolist())
        self.classes_ = np.array([0, 1])
        return self


class Check(Mute):
    """Scores a row 1 if its bag, the only feature, was trained on, else 0."""

    def decision_function(self, X):
        return np.array([float(bag in self.seen_) for bag in np.asarray(X)[:, 0]])


class Probabilities(Mute):
    """Gives probabilities only."""

    def predict_proba(self, X):
        return np.column_stack([1 - 0.3 * np.ones(len(X)), 0.3 * np.ones(len(X))])


def test_no_bag_is_scored_by_a_model_that_saw_it():
    X = DATA.y["bag"].astype(float)[:, None]
    parts, fold = map_folds(Check(), X, DATA.y, decision_scores, cv=4)
    assert all((part == 0).all() for part in parts)
    # and bags stay whole
    assert all(len(np.unique(fold[DATA.y["bag"] == bag])) == 1 for bag in range(30))
    assert set(fold) == {0, 1, 2, 3}


def test_scores_are_those_of_each_fold_in_its_place():
    found = cross_fit(LLPClassifier(kernel=None), DATA.X, DATA.y, cv=3)
    scores, fold = found.scores, found.fold
    for number, (train, test) in enumerate(BagKFold(3).split(DATA.X, DATA.y)):
        model = LLPClassifier(kernel=None).fit(DATA.X[train], DATA.y[train])
        np.testing.assert_allclose(scores[test], model.decision_function(DATA.X[test]))
        assert (fold[test] == number).all()


def test_folds_of_a_fitted_pipeline_keep_its_features_and_terms():
    settings = {"n_landmarks": 20}
    whole = make_pipeline(StandardScaler(), LLPClassifier(**settings)).fit(DATA.X, DATA.y)
    found = cross_fit(whole, DATA.X, DATA.y, cv=3, warm_start=True)
    fresh = cross_fit(clone(whole), DATA.X, DATA.y, cv=3)
    assert np.corrcoef(found.scores, fresh.scores)[0, 1] > 0.99
    for number, (train, test) in enumerate(BagKFold(3).split(DATA.X, DATA.y)):
        model = whole[-1].refit(whole[0].transform(DATA.X[train]), DATA.y[train])
        expected = model.decision_function(whole[0].transform(DATA.X[test]))
        np.testing.assert_array_equal(found.parts[number].scores, expected)


def test_evaluation_holds_what_single_estimates_give():
    scores = DATA.X[:, 0]
    found = evaluate(DATA.y, scores, threshold=0.2, class_prior=(0.7, 0.3))
    assert found["roc_auc"] == estimate("roc_auc", DATA.y, scores)
    assert found["precision"] == estimate(
        "precision", DATA.y, scores, threshold=0.2, class_prior=(0.7, 0.3)
    )
    assert found.roc.tpr[-1] == pytest.approx(1.0)
    table = found.frame()
    assert list(table.columns) == ["value", "standard_error", "low", "high", "assumption"]
    assert table.loc["roc_auc", "value"] == found["roc_auc"].value
    text = str(found)
    assert "30 bags (900 rows) without labels" in text
    assert "roc_auc" in text


def test_frames_pipelines_and_sparse_matrices_can_be_evaluated():
    plain = cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y)
    sparse = cross_val_evaluate(LLPClassifier(kernel=None), csr_array(DATA.X), DATA.y)
    assert sparse["roc_auc"].value == pytest.approx(plain["roc_auc"].value, abs=1e-4)
    frame = pd.DataFrame(DATA.X, columns=["a"])
    piped = cross_val_evaluate(
        make_pipeline(StandardScaler(), LLPClassifier(kernel=None)), frame, DATA.y
    )
    assert piped["roc_auc"].value == pytest.approx(plain["roc_auc"].value, abs=0.02)
    assert "5 folds" in str(piped)


def test_folds_whose_models_differ_by_a_shift_do_not_spoil_the_curve():
    """A model whose scores are all moved by where it was trained, ranked as well as before.

    Its probabilities stay: moved so far, they would say anything about the shift between bags.
    """

    class Moody(LLPClassifier):
        def decision_function(self, X):
            return super().decision_function(X) + 1e3 * np.sin(1e3 * self.coef_[0, 0])

        def predict_proba(self, X):
            p = expit(super().decision_function(X))
            return np.column_stack([1 - p, p])

    steady = cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y)
    moody = cross_val_evaluate(Moody(kernel=None), DATA.X, DATA.y)
    assert moody["roc_auc"].value == pytest.approx(steady["roc_auc"].value, abs=1e-12)
    np.testing.assert_allclose(moody.roc.tpr, steady.roc.tpr)
    pooled = evaluate(DATA.y, moody.scores)["roc_auc"].value
    assert pooled < steady["roc_auc"].value - 0.1


def test_several_jobs_change_nothing():
    one = cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y)
    with parallel_config("threading"):
        two = cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y, n_jobs=2)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_probabilities_do_where_there_is_no_decision_function():
    np.testing.assert_allclose(cross_fit(Probabilities(), DATA.X, DATA.y).scores, np.log(0.3 / 0.7))


def test_three_classes():
    data = make_gaussian_bags(n_bags=40, bag_size=40, n_classes=3, n_features=3, random_state=0)
    found = cross_val_evaluate(LLPClassifier(kernel=None), data.X, data.y)
    assert found.roc is None
    assert set(found.estimates) >= {"balanced_accuracy", "accuracy", "recall of 2"}


def test_labels_can_be_evaluated_too():
    labels = DATA.labels
    found = cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, labels)
    assert found["roc_auc"].standard_error < 0.03


def test_unknown_measure_is_named():
    with pytest.raises(KeyError, match="There is no 'gini' here; there are roc_auc"):
        evaluate(DATA.y, DATA.X[:, 0])["gini"]


def test_splits_that_leave_bags_out_are_refused():
    with pytest.raises(ValueError, match="hold out every bag exactly once"):
        cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y, cv=BagShuffleSplit(3))


def test_splits_that_cut_bags_are_refused():
    rows = np.arange(len(DATA.y))
    cut = [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]
    with pytest.raises(ValueError, match="holds out part of bag"):
        cross_val_evaluate(LLPClassifier(kernel=None), DATA.X, DATA.y, cv=cut)


def test_model_without_scores_is_refused():
    with pytest.raises(ValueError, match="gives neither a decision_function nor probabilities"):
        cross_fit(Mute(), DATA.X, DATA.y)


def test_four_bags_are_evaluated_in_four_folds():
    few = DATA.y["bag"] < 4
    with pytest.warns(UserWarning, match="5 folds need as many bags, and there are 4"):
        found = cross_val_evaluate(
            LLPClassifier(kernel=None), DATA.X[few], DATA.y[few], n_resamples=50
        )
    assert (found.n_bags, found.fold.max() + 1) == (4, 4)
