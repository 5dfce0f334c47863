"""Boosted trees from bags, whichever library grows them."""

from functools import partial

import lightgbm
import numpy as np
import pytest
import xgboost

from unbag import LLPBoostingClassifier, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models.boosted_goal import make_goal_at_equal_shares, pose, pose_folds
from unbag.models.boosted_lightgbm import BinnedRows
from unbag.models.boosted_rounds import FIRST, boost
from unbag.models.boosted_xgboost import QuantileRows

TWO = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
QUICK = {"num_leaves": 4, "n_estimators": 20, "cv": None}
CLASSIFIERS = {
    "lightgbm": LLPBoostingClassifier,
    "xgboost": partial(LLPBoostingClassifier, estimator=xgboost.XGBClassifier()),
}

every_aim = pytest.mark.parametrize("name", ["likelihood", "forward"])
both_libraries = pytest.mark.parametrize("library", CLASSIFIERS)
both_classifiers = pytest.mark.parametrize("boosted", CLASSIFIERS.values(), ids=CLASSIFIERS)


def make_rows(library, X, learning_rate=0.4):
    """Rows to grow trees on, with a bin for every value."""
    settings = {"learning_rate": learning_rate, "max_bin": 1000}
    if library == "lightgbm":
        settings |= {"min_sum_hessian_in_leaf": 2.0, "lambda_l2": 10.0, "min_data_in_bin": 1}
        return BinnedRows(X, [], settings)
    settings |= {"min_child_weight": 2.0, "reg_lambda": 10.0, "n_jobs": 1}
    return QuantileRows(X, [], settings)


def grow_on_labels(library, labels):
    """Scores of the library itself by the log-loss, at scores of the pooled share."""
    q = labels.mean()
    start = np.log(q / (1 - q))

    def log_loss(scores, _):
        p = 1 / (1 + np.exp(-scores - start))
        return p - labels, p * (1 - p)

    if library == "lightgbm":
        settings = {"num_leaves": 4, "min_sum_hessian_in_leaf": 2.0, "lambda_l2": 10.0}
        settings |= {"min_data_in_leaf": 1, "boost_from_average": False, "verbosity": -1}
        settings |= {"objective": log_loss, "learning_rate": 0.4}
        trees = lightgbm.train(settings, lightgbm.Dataset(TWO.X, labels.astype(float)), 20)
        return trees.predict(TWO.X, raw_score=True)
    settings = {"max_leaves": 4, "min_child_weight": 2.0, "reg_lambda": 10.0, "base_score": 0.0}
    settings |= {"tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
    data = xgboost.QuantileDMatrix(TWO.X)
    trees = xgboost.train({**settings, "learning_rate": 0.4}, data, 20, obj=log_loss)
    return trees.predict(data, output_margin=True)


@both_libraries
@every_aim
def test_pure_bags_give_the_trees_of_labels(library, name):
    model = CLASSIFIERS[library](**QUICK, objective=name, min_child_weight=2.0)
    found = model.fit(TWO.X, TWO.labels).decision_function(TWO.X)
    # the forward likelihood takes no share for less than a millionth; XGBoost has single precision
    close = {"lightgbm": 1e-5, "xgboost": 1e-4}[library]
    np.testing.assert_allclose(found, grow_on_labels(library, TWO.labels), atol=close)


@both_libraries
@every_aim
def test_every_round_leads_downhill(library, name):
    bags = check_bag_target(TWO.y)
    task = pose(make_goal_at_equal_shares(name, 0.0, bags), bags)
    booster = make_rows(library, TWO.X, learning_rate=1.0).booster(1, 8)
    values = []
    for _ in range(10):
        values.append(task.objective.value(booster.scores()[None], FIRST)[0])
        boost(task, [booster], FIRST)
    assert (np.diff(values) < 0).all()


@both_libraries
@every_aim
def test_bags_held_out_have_no_influence(library, name):
    bags = check_bag_target(TWO.y)
    held = np.arange(bags.n_bags)[None] % 3 == 0
    out = held[0][bags.index]
    begin = make_rows(library, TWO.X).without(out)
    found = []
    for y in (TWO.y, bag_target(TWO.y["bag"], np.where(out, 1.0, TWO.y["proportion"]))):
        changed, booster = check_bag_target(y), begin(1, 4)
        task = pose_folds(make_goal_at_equal_shares(name, 0.0, changed), changed, held)
        for _ in range(5):
            boost(task, [booster], FIRST)
        gradient, bound = task.slopes(booster.scores()[None], FIRST)
        assert (gradient[0, 0, out] == 0).all()
        assert (bound[0, 0, out] == 0).all()
        found.append(booster.scores())
    np.testing.assert_array_equal(*found)
    # it is as if these rows were not there at all
    alone = bags.take(~held[0])[0]
    task = pose(make_goal_at_equal_shares(name, 0.0, alone), alone)
    booster = make_rows(library, TWO.X[~out]).booster(1, 4)
    for _ in range(5):
        boost(task, [booster], FIRST)
    np.testing.assert_allclose(booster.scores(), found[0][:, ~out], atol=1e-5)
    predicted = booster.predict(TWO.X, np.ones(5))[:, ~out]
    np.testing.assert_allclose(predicted, booster.scores(), atol=1e-6)


@both_classifiers
def test_refit_is_a_fit_with_what_was_chosen(boosted):
    model = boosted((2, 4), n_estimators=30, refit=True, start="zero").fit(TWO.X, TWO.y)
    again = boosted(model.num_leaves_, n_estimators=model.n_estimators_, cv=None)
    assert model.model_texts_ == again.fit(TWO.X, TWO.y).model_texts_
    assert again.out_of_fold_scores_ is None


@both_classifiers
def test_class_prior_moves_scores_by_its_log_odds(boosted):
    balanced, given = (
        boosted(**QUICK, class_prior=prior).fit(TWO.X, TWO.y) for prior in ("balanced", [0.8, 0.2])
    )
    moved = balanced.decision_function(TWO.X) + np.log(0.2 / 0.8)
    np.testing.assert_allclose(given.decision_function(TWO.X), moved)
    np.testing.assert_allclose(
        balanced.predict_proba(TWO.X, class_prior=[4, 1]), given.predict_proba(TWO.X)
    )
    with pytest.raises(ValueError, match="one number for each of the 2 classes"):
        balanced.predict_proba(TWO.X, class_prior=[1, 1, 1])


@both_classifiers
def test_same_seed_same_model_whatever_the_threads(boosted):
    model = boosted(4, n_estimators=5, colsample_bytree=0.5, random_state=3, cv=None)
    texts = {
        model.set_params(n_jobs=n_jobs).fit(TWO.X, TWO.y).model_texts_[0] for n_jobs in (1, 1, 2)
    }
    assert len(texts) == 1


@both_classifiers
def test_missing_values_tell(boosted):
    X = TWO.X.copy()
    X[:, 1:] = 0
    X[TWO.labels == 1, 1] = np.nan
    model = boosted(**QUICK).fit(X, TWO.y)
    assert (model.predict(X) == TWO.labels).mean() > 0.99
