"""Boosted trees from bags, grown by XGBoost."""

import json
import sys
import warnings
from functools import cache

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbag import LLPBoostingClassifier, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.tables.persistence import load_model, save_model

TWO = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
QUICK = {"num_leaves": 4, "n_estimators": 20, "cv": None}
FRAME = pd.DataFrame(
    {
        "kind": pd.Categorical(np.array(list("abcd"))[2 * (TWO.X[:, 1] > 0) + TWO.labels]),
        "number": TWO.X[:, 0],
    }
)


def boosted(*args, estimator=None, **options):
    return LLPBoostingClassifier(*args, estimator=estimator or xgboost.XGBClassifier(), **options)


@parametrize_with_checks([boosted(2, n_estimators=20, cv=2)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_agrees_with_lightgbm(classes):
    rng = np.random.default_rng(classes)
    shares = rng.dirichlet(np.ones(classes), 60)
    labels = np.concatenate([rng.choice(classes, 15, p=share) for share in shares])
    bag = np.repeat(np.arange(60), 15)
    X = rng.normal(size=(len(labels), classes)) + 2 * np.eye(classes)[labels]
    y = bag_target(bag, np.eye(classes)[labels].reshape(60, 15, classes).mean(axis=1)[bag])
    models = boosted(4, n_estimators=20, cv=3), LLPBoostingClassifier(4, n_estimators=20, cv=3)
    scores = [model.fit(X, y).predict_proba(X) for model in models]
    right = [(model.predict(X) == labels).mean() for model in models]
    assert min(right) > 0.8
    # a standard error of the difference is about .01
    assert right[0] == pytest.approx(right[1], abs=0.03)
    assert np.corrcoef(*(found[:, 0] for found in scores))[0, 1] > 0.98


class TestSearch:
    def test_ends_early_and_is_the_mean_of_its_folds(self):
        model = boosted((2, 4), n_estimators=400).fit(TWO.X, TWO.y)
        assert model.library_ == "xgboost"
        assert [leaves for leaves, _, _ in model.selection_path_] == [2, 4]
        assert max(looked[-1] for _, looked, _ in model.selection_path_) < 400
        assert roc_auc_score(TWO.labels, model.out_of_fold_scores_) > 0.85
        np.testing.assert_allclose(model.feature_importances_.sum(), 1)
        parts = []
        for text in model.model_texts_:
            trees = xgboost.Booster()
            trees.load_model(bytearray(text, "utf-8"))
            assert trees.num_boosted_rounds() == model.n_estimators_
            parts.append(trees.predict(xgboost.DMatrix(TWO.X), output_margin=True))
        start = TWO.X @ model.start_coef_[0] + model.start_intercept_[0]
        found = model.decision_function(TWO.X) - start
        np.testing.assert_allclose(found, np.mean(parts, axis=0), rtol=1e-5, atol=1e-6)


class TestData:
    def test_categories_are_split_by_sets_and_known_by_name(self):
        model = boosted(**QUICK).fit(FRAME, TWO.y)
        assert (model.predict(FRAME) == TWO.labels).mean() > 0.99
        other = FRAME.assign(kind=FRAME["kind"].cat.reorder_categories(list("dbca")))
        expected = model.decision_function(FRAME)
        np.testing.assert_array_equal(model.decision_function(other), expected)
        unknown = FRAME.assign(kind=pd.Categorical(["z", None] * (len(FRAME) // 2)))
        assert np.isfinite(model.decision_function(unknown)).all()

    def test_sparse_and_huge_ones_are_refused(self):
        with pytest.raises(ValueError, match=r"^XGBoost takes what a sparse matrix does not hold"):
            boosted(**QUICK).fit(csr_matrix(TWO.X), TWO.y)
        with pytest.raises(ValueError, match="beyond those of single precision"):
            boosted(**QUICK).fit(1e60 * TWO.X, TWO.y)
        with pytest.raises(ValueError, match="No column of X has values that differ"):
            boosted(**QUICK).fit(np.full((len(TWO.y), 2), [np.nan, 3.0]), TWO.y)


class TestEstimator:
    def test_its_settings_go_before_those_of_the_model(self):
        given = xgboost.XGBClassifier(
            n_estimators=7, learning_rate=0.1, max_leaves=3, reg_alpha=1.0, max_depth=1
        )
        model = boosted(estimator=given, cv=None).fit(TWO.X, TWO.y)
        assert (model.n_estimators_, model.num_leaves_) == (7, 3)
        same = boosted(
            3, n_estimators=7, learning_rate=0.1, cv=None, params={"max_depth": 1, "alpha": 1.0}
        )
        assert same.fit(TWO.X, TWO.y).model_texts_ == model.model_texts_
        trees = json.loads(model.model_texts_[0])["learner"]["gradient_booster"]["model"]["trees"]
        # a depth of one is two leaves
        assert {len(tree["parents"]) for tree in trees} == {3}

    def test_of_lightgbm(self):
        given = lightgbm.LGBMClassifier(min_child_samples=30, colsample_bytree=0.5)
        model = LLPBoostingClassifier(**QUICK, estimator=given).fit(TWO.X, TWO.y)
        assert model.library_ == "lightgbm"
        same = LLPBoostingClassifier(
            **QUICK, colsample_bytree=0.5, params={"min_data_in_leaf": 30}
        ).fit(TWO.X, TWO.y)
        assert same.model_texts_ == model.model_texts_
        plain = LLPBoostingClassifier(**QUICK).fit(TWO.X, TWO.y).model_texts_
        blank = LLPBoostingClassifier(**QUICK, estimator=lightgbm.LGBMClassifier())
        assert blank.fit(TWO.X, TWO.y).model_texts_ == plain != model.model_texts_

    def test_stays_as_it_is(self):
        model = boosted(**QUICK)
        before = model.estimator.get_params()
        copied = clone(model).fit(TWO.X, TWO.y)
        assert repr(copied.estimator.get_params()) == repr(before)
        assert not copied.estimator.__sklearn_is_fitted__()

    @pytest.mark.parametrize(
        ("estimator", "message"),
        [
            (xgboost.XGBRegressor(), "^estimator must be None, an unfitted lightgbm.LGBMCl"),
            ("xgboost", "an unfitted xgboost.XGBClassifier, not 'xgboost'.$"),
            (xgboost.XGBClassifier(booster="dart"), "^estimator may not set 'booster'"),
            (xgboost.XGBClassifier(scale_pos_weight=2), "estimator may not set 'scale_pos_wei"),
            (lightgbm.LGBMClassifier(class_weight="balanced"), "may not set 'class_weight'"),
            (xgboost.XGBClassifier(learning_rate=3.0), "learning_rate must be at most 1, not 3.0"),
            (xgboost.XGBClassifier(max_leaves=1), "num_leaves must be a whole number"),
        ],
    )
    def test_mistakes_get_one_sentence(self, estimator, message):
        with pytest.raises(ValueError, match=message):
            LLPBoostingClassifier(cv=None, estimator=estimator).fit(TWO.X, TWO.y)

    def test_names_that_the_library_also_knows_are_refused_in_params(self):
        for estimator, name in ((xgboost.XGBClassifier(), "eta"), (None, "lambda_l2")):
            model = LLPBoostingClassifier(estimator=estimator, params={name: 0.1})
            with pytest.raises(ValueError, match=f"^params may not hold '{name}'"):
                model.fit(TWO.X, TWO.y)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_saved_and_loaded(tmp_path, n_outputs):
    target = TWO.y
    if n_outputs == 3:
        counts = np.random.default_rng(0).multinomial(20, np.ones(3) / 3, 24)
        target = bag_target(TWO.y["bag"], counts=counts[TWO.y["bag"]])
    model = boosted((2, 4), n_estimators=20, cv=3).fit(FRAME, target)
    loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
    np.testing.assert_array_equal(loaded.decision_function(FRAME), model.decision_function(FRAME))
    assert loaded.fit(FRAME, target).model_texts_ == model.model_texts_


@cache
def small():
    return boosted(3, n_estimators=1, cv=None).fit(FRAME, TWO.y)


def change(path, value):
    """The text of a small model, with something else in one place."""
    found = json.loads(small().model_texts_[0])
    *way, last = path.split(".")
    place = found["learner"]
    for name in way:
        place = place[int(name) if name.isdigit() else name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(found)


TREE = "gradient_booster.model.trees.0."


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (TREE + "left_children", [7, -1, -1, -1, -1], "a branch leads nowhere"),
        (TREE + "left_children", [-1, -1, -1, -1, -1], "a branch leads nowhere"),
        (TREE + "left_children", [], "its right_children has not 0 entries"),
        (TREE + "right_children", [2], "its right_children has not 5 entries"),
        (TREE + "split_indices", [9, 0, 0, 0, 0], "there is no such column"),
        (TREE + "split_indices", [-1, 0, 0, 0, 0], "there is no such column"),
        (TREE + "split_indices", [0.5, 0, 0, 0, 0], "its split_indices are not whole numbers"),
        (TREE + "split_indices", [2**70, 0, 0, 0, 0], "too large"),
        (TREE + "split_type", [0, 0, 0, 0, 0], "a split is not of the kind of its column"),
        (TREE + "split_type", [7, 0, 0, 0, 0], "there is no such kind of split"),
        (TREE + "default_left", [2, 0, 0, 0, 0], "there is no such side"),
        (TREE + "split_type", [1, 0, 0, 0, 1], "a split is not of the kind of its column"),
        (TREE + "split_conditions", [0, 0, 0, 0, 1e99], "its split_conditions are not finite"),
        (TREE + "base_weights", [[1.0]], "its base_weights has not 5 entries"),
        (TREE + "categories", [10**6], "there is no such category"),
        (TREE + "categories_sizes", [9], "there is no such set of categories"),
        (TREE + "categories_nodes", [4], "there is no such set of categories"),
        (TREE + "parents", 3, None),
        (TREE + "sum_hessian", None, "it has no 'sum_hessian'"),
        ("gradient_booster.model.tree_info", [1], "its trees are not for 1 scores"),
        ("gradient_booster.model.trees", [], "its trees are not for 1 scores"),
        ("feature_types", ["q"], "it is not about 2 columns"),
        ("gradient_booster", None, "it has no 'gradient_booster'"),
        ("gradient_booster", "x", "string indices"),
        # what is not looked at does not reach XGBoost
        ("learner_model_param.num_feature", "9999", None),
        ("gradient_booster.model.iteration_indptr", [0, 10**9], None),
    ],
)
def test_forged_trees_are_refused(path, value, message):
    tree = json.loads(small().model_texts_[0])["learner"]["gradient_booster"]["model"]["trees"][0]
    assert len(tree["parents"]) == 5
    assert tree["split_type"][0] == 1
    model = boosted(3, n_estimators=1, cv=None).fit(FRAME, TWO.y)
    model.model_texts_ = [change(path, value)]
    if message is None:
        scores = model.decision_function(FRAME)
        np.testing.assert_array_equal(scores, small().decision_function(FRAME))
        return
    with pytest.raises(ValueError, match=f"^The text of the trees is damaged: .*{message}"):
        model.predict(FRAME)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "3", '{"learner": null}'])
def test_what_is_no_text_of_trees_is_refused(text):
    model = boosted(3, n_estimators=1, cv=None).fit(FRAME, TWO.y)
    model.model_texts_ = [text]
    with pytest.raises(ValueError, match=r"^The text of the trees is damaged: "):
        model.predict(FRAME)


def test_a_branch_that_leads_back_is_refused():
    model = boosted(3, n_estimators=1, cv=None).fit(FRAME, TWO.y)
    found = json.loads(model.model_texts_[0])
    tree = found["learner"]["gradient_booster"]["model"]["trees"][0]
    # nodes 1 to 4 in a circle: each is a child of one of them
    tree["left_children"], tree["right_children"] = [-1, 2, 1, -1, -1], [-1, 3, 4, -1, -1]
    model.model_texts_ = [json.dumps(found)]
    with pytest.raises(ValueError, match=r"a branch leads back"):
        model.predict(FRAME)


def test_without_xgboost_it_is_said_what_to_install(monkeypatch):
    model = boosted(**QUICK, learning_rate=0.31).fit(TWO.X, TWO.y)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match="pip install xgboost"):
        model.predict(TWO.X)
