"""Numbers of rounds and leaves that count by what bags held out say of them."""

from importlib import import_module

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from unbag import BagKFold, LLPBoostingClassifier, check_bag_target
from unbag.datasets import make_bags, make_gaussian_bags
from unbag.models.boosted_forest import Forest, all_rounds, weigh
from unbag.models.boosted_goal import make_goal_at_equal_shares, pose
from unbag.models.boosted_library import TreeShape
from unbag.models.boosted_rounds import FIRST, boost
from unbag.models.boosted_settings import LIBRARIES
from unbag.tables.persistence import load_model, save_model

DATA = make_gaussian_bags(n_bags=24, bag_size=10, n_features=3, random_state=0)
# few values, so that bins are the same with all rows and without some
COARSE = np.clip(np.round(2 * DATA.X) / 2, -1.5, 1.5)
SETTINGS = {"bag_effect": 0, "params": {"min_data_in_bin": 1}}


def three_classes():
    labels = np.arange(1500) % 3
    X = np.random.default_rng(0).normal(size=(1500, 3)) + 2.5 * np.eye(3)[labels]
    rows, y = make_bags(labels, 15, n_bags=40, random_state=0)
    return X[rows], y, labels[rows]


def grown(name, n_rounds, classes=2):
    X, y = (DATA.X, DATA.y) if classes == 2 else three_classes()[:2]
    bags = check_bag_target(y)
    task = pose(make_goal_at_equal_shares("likelihood", 0.0, bags), bags)
    settings = {"n_jobs": 1, "learning_rate": 0.4, "min_child_weight": 2.0, "reg_lambda": 10.0}
    booster = LIBRARIES[name].rows(X, [], settings).booster(1 if classes == 2 else classes, 4)
    for _ in range(n_rounds):
        boost(task, [booster], FIRST)
    return X, booster


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", LIBRARIES)
class TestForest:
    def test_is_the_weighted_sum_of_what_trees_say_after_some_rounds(self, name, classes):
        import_module(name)
        X, booster = grown(name, 12, classes)
        rounds, shares = np.array([0, 3, 8, 12]), np.array([0.3, 0.1, 0.4, 0.2])
        forest = Forest(booster, rounds, shares)
        parts = [booster.predict(X, np.ones(n)) for n in rounds[1:]]
        expected = np.tensordot(shares[1:], parts, axes=1)
        tolerance = {"rtol": 1e-4, "atol": 1e-6} if name == "xgboost" else {"rtol": 1e-9}
        np.testing.assert_allclose(forest.predict(X), expected, **tolerance)
        shape = TreeShape(3, 1 if classes == 2 else classes)
        read = LIBRARIES[name].read(forest.text(), shape)
        np.testing.assert_allclose(read(X), expected, **tolerance)
        gains = np.tensordot(shares[1:], [booster.gains(n) for n in (3, 8, 12)], axes=1)
        np.testing.assert_allclose(forest.gains(), gains)

    def test_all_rounds_are_the_trees_as_their_library_writes_them(self, name, classes):
        import_module(name)
        _, booster = grown(name, 4, classes)
        assert all_rounds(booster, 4).text() == booster.text(np.ones(4))


class TestWeigh:
    risks = np.array([[0.30, 0.50], [0.20, 0.52], [0.90, 0.90]])

    def test_is_by_likelihood(self):
        found = weigh(self.risks, 100, 16.0)
        np.testing.assert_allclose(found[1] / found[0], np.exp(4 / 16))
        np.testing.assert_allclose(found.sum(), 1)

    def test_what_counts_for_nearly_nothing_is_left_out(self):
        assert weigh(self.risks, 1000, 16.0)[2] == 0
        np.testing.assert_allclose(weigh(self.risks, 1000, 0.01), [0, 1, 0])


class TestClassifier:
    @pytest.mark.parametrize("temperature", [16.0, 0.5])
    def test_is_the_mean_over_folds_leaves_and_rounds(self, temperature):
        cv = BagKFold(3)
        model = LLPBoostingClassifier(
            (2, 4), n_estimators=15, cv=cv, start="zero", temperature=temperature, **SETTINGS
        ).fit(COARSE, DATA.y)
        looks = [
            (leaves, n, risk.mean())
            for leaves, rounds, risks in model.selection_path_
            for n, risk in zip(rounds, risks.T, strict=True)
        ]
        losses = len(COARSE) * np.array([loss for _, _, loss in looks])
        shares = softmax(-losses / temperature)
        expected, held_out = np.zeros(len(COARSE)), np.empty(len(COARSE))
        for train, test in cv.split(COARSE, DATA.y):
            own = sum(
                share
                * LLPBoostingClassifier(leaves, n_estimators=int(n), cv=None, **SETTINGS)
                .fit(COARSE[train], DATA.y[train])
                .decision_function(COARSE)
                for share, (leaves, n, _) in zip(shares, looks, strict=True)
            )
            expected += own / 3
            held_out[test] = own[test]
        # what counts for less than a thousandth is left out
        np.testing.assert_allclose(model.decision_function(COARSE), expected, atol=0.02)
        np.testing.assert_allclose(model.out_of_fold_scores_, held_out, atol=0.02)

    def test_zero_takes_the_best_alone(self):
        given = {"n_estimators": 20, "cv": 4, "start": "zero"}
        best = LLPBoostingClassifier((2, 4), **given).fit(DATA.X, DATA.y)
        cold = LLPBoostingClassifier((2, 4), temperature=1e-9, **given).fit(DATA.X, DATA.y)
        assert len(best.model_texts_) == 4
        assert len(cold.model_texts_) == 4
        assert (best.num_leaves_, best.n_estimators_) == (cold.num_leaves_, cold.n_estimators_)

    @pytest.mark.parametrize("temperature", [1e9, 0.5])
    def test_folds_are_weighed_without_their_own_bags(self, temperature):
        model = LLPBoostingClassifier(
            (2, 4), n_estimators=20, cv=4, temperature=temperature, store_folds=True
        ).fit(DATA.X, DATA.y)
        own = model.folds_.held_out[0]
        # where all count alike, it makes no difference who is asked
        same = np.allclose(own, model.out_of_fold_scores_)
        assert same == (temperature == 1e9)
        assert np.corrcoef(own, model.out_of_fold_scores_)[0, 1] > 0.95

    @pytest.mark.parametrize("name", LIBRARIES)
    def test_is_saved_and_loaded(self, name, tmp_path):
        estimator = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[name]
        model = LLPBoostingClassifier(
            (2, 4),
            n_estimators=10,
            cv=3,
            temperature=1,
            estimator=getattr(import_module(name), estimator)(),
        ).fit(DATA.X, DATA.y)
        assert len(model.model_texts_) == 6
        loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
        np.testing.assert_array_equal(
            loaded.decision_function(DATA.X), model.decision_function(DATA.X)
        )

    def test_three_classes(self):
        X, y, labels = three_classes()
        model = LLPBoostingClassifier((2, 4), n_estimators=15, cv=3, temperature=1).fit(X, y)
        assert (model.predict(X) == labels).mean() > 0.8
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)

    def test_importances_are_shares(self):
        X = np.column_stack([DATA.X, np.random.default_rng(0).normal(size=(len(DATA.X), 2))])
        model = LLPBoostingClassifier(
            (2, 4), n_estimators=15, cv=4, start="zero", temperature=1
        ).fit(X, DATA.y)
        np.testing.assert_allclose(model.feature_importances_.sum(), 1)
        assert model.feature_importances_[3:].sum() < 0.5
        assert roc_auc_score(DATA.labels, model.out_of_fold_scores_) > 0.7

    @pytest.mark.parametrize("temperature", [-1, np.inf, "warm"])
    def test_mistakes_get_one_sentence(self, temperature):
        with pytest.raises(ValueError, match="temperature must be a finite number of at least 0"):
            LLPBoostingClassifier(temperature=temperature).fit(DATA.X, DATA.y)
