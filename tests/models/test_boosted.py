"""Boosted trees from bags."""

import re
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import roc_auc_score

from unbag import BagKFold, BagShuffleSplit, LLPBoostingClassifier, bag_target, check_bag_target
from unbag._optional import install_command
from unbag.datasets import make_gaussian_bags
from unbag.models.boosted_goal import make_goal_at_equal_shares, pose
from unbag.models.boosted_lightgbm import BinnedRows
from unbag.models.boosted_rounds import FIRST, boost
from unbag.tables.persistence import load_model, save_model

TWO = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
AIMS = ("likelihood", "forward")
QUICK = {"num_leaves": 4, "n_estimators": 20, "cv": None}


def three_classes(n_bags=40, size=15, seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), n_bags)
    labels = np.concatenate([rng.choice(3, size, p=share) for share in shares])
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(labels), 3)) + 2.5 * np.eye(3)[labels]
    counts = np.stack([np.bincount(bag, labels == c) for c in range(3)], axis=1)
    return X, bag_target(bag, counts=counts[bag]), labels


def settings(**changes):
    return {"learning_rate": 0.4, "min_sum_hessian_in_leaf": 2.0, "lambda_l2": 10.0, **changes}


# bags of 20 rows go by the saddle point
@pytest.mark.parametrize(
    ("name", "effect"), [(name, 0.0) for name in AIMS] + [("likelihood", 0.05)]
)
@pytest.mark.parametrize(("classes", "size"), [(2, 5), (2, 20), (3, 4)])
def test_gradient_and_a_bound_of_the_second_derivative(name, effect, classes, size):
    if classes == 2:
        y = make_gaussian_bags(n_bags=3, bag_size=size, random_state=0).y
    else:
        _, y, _ = three_classes(n_bags=3, size=size)
    bags = check_bag_target(y)
    task = pose(make_goal_at_equal_shares(name, effect, bags), bags)
    rng = np.random.default_rng(1)
    shape = (1, 1 if classes == 2 else classes, bags.n_instances)
    scores, h = rng.normal(size=shape), 1e-4

    def value(flat):
        return bags.n_instances * task.objective.value(flat.reshape(shape), FIRST)[0]

    def gradient(flat):
        return task.slopes(flat.reshape(shape), FIRST)[0].ravel()

    flat, eye = scores.ravel(), h * np.eye(scores.size)
    slopes = [(value(flat + e) - value(flat - e)) / (2 * h) for e in eye]
    np.testing.assert_allclose(gradient(flat), slopes, atol=1e-5)
    hessian = np.stack([(gradient(flat + e) - gradient(flat - e)) / (2 * h) for e in eye])
    bound = np.diag(task.slopes(scores, FIRST)[1].ravel())
    assert np.linalg.eigvalsh(bound - (hessian + hessian.T) / 2).min() > -1e-6


@pytest.mark.parametrize("name", AIMS)
def test_short_steps_lead_downhill_without_any_penalty(name):
    bags = check_bag_target(TWO.y)
    task = pose(make_goal_at_equal_shares(name, 0.0, bags), bags)
    free = settings(learning_rate=1.0, lambda_l2=0.0, min_sum_hessian_in_leaf=1e-3)
    booster = BinnedRows(TWO.X, [], free).booster(1, 16)
    scores, rises = booster.scores(), {True: [], False: []}
    for _ in range(80):
        boost(task, [booster], FIRST)
        values = [task.objective.value(f[None], FIRST)[0] for f in (scores, booster.scores())]
        short = bool(np.abs(booster.scores() - scores).max() < 1.79)
        rises[short].append(values[1] - values[0])
        scores = booster.scores()
    assert max(rises[True]) <= 0
    assert max(rises[False], default=0.0) == 0


class TestSearch:
    def test_scores_of_bags_held_out_are_those_of_a_fit_without_them(self):
        settings = {"n_estimators": 30, "bag_effect": 0, "start": "zero"}
        model = LLPBoostingClassifier((2, 4), cv=BagKFold(3), **settings).fit(TWO.X, TWO.y)
        train, test = next(BagKFold(3).split(TWO.X, TWO.y))
        alone = LLPBoostingClassifier(
            model.num_leaves_, n_estimators=model.n_estimators_, cv=None, bag_effect=0
        ).fit(TWO.X[train], TWO.y[train])
        # bins are those of all rows there, so that a few rows fall on another side
        both = np.corrcoef(model.out_of_fold_scores_[test], alone.decision_function(TWO.X[test]))
        assert both[0, 1] > 0.98

    def test_is_the_mean_of_its_folds(self):
        model = LLPBoostingClassifier((2, 4), n_estimators=30).fit(TWO.X, TWO.y)
        assert len(model.model_texts_) == 10
        parts = [lightgbm.Booster(model_str=text).predict(TWO.X) for text in model.model_texts_]
        start = TWO.X @ model.start_coef_[0] + model.start_intercept_[0]
        np.testing.assert_allclose(model.decision_function(TWO.X), np.mean(parts, axis=0) + start)

    def test_ends_early_and_chooses_what_the_criteria_rank_best(self):
        model = LLPBoostingClassifier(8, n_estimators=400, early_stopping_rounds=20)
        model.fit(TWO.X, TWO.y)
        ((leaves, rounds, criteria),) = model.selection_path_
        assert leaves == 8
        assert rounds[-1] < 400
        assert criteria.shape == (2, len(rounds))
        ranks = np.argsort(np.argsort(criteria, axis=1), axis=1).sum(axis=0)
        assert model.n_estimators_ == rounds[ranks.argmin()]

    def test_learns(self):
        model = LLPBoostingClassifier().fit(TWO.X, TWO.y)
        assert roc_auc_score(TWO.labels, model.decision_function(TWO.X)) > 0.9
        assert roc_auc_score(TWO.labels, model.out_of_fold_scores_) > 0.85
        assert model.feature_importances_.shape == (3,)
        np.testing.assert_allclose(model.feature_importances_.sum(), 1)

    def test_finds_an_effect_of_bags(self):
        rng = np.random.default_rng(0)
        bag = np.repeat(np.arange(60), 60)
        X = rng.normal(size=(len(bag), 2)) + rng.normal(size=(60, 2))[bag]
        u = rng.normal(size=60)
        labels = rng.random(len(bag)) < 1 / (1 + np.exp(-X[:, 0] - u[bag]))
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        settings = {"n_estimators": 30, "start": "zero"}
        model = LLPBoostingClassifier(2, **settings).fit(X, y)
        assert model.bag_effect_ > 0.02
        low, high = model.bag_effect_interval_
        assert low < model.bag_effect_ < high
        fixed = LLPBoostingClassifier(2, bag_effect=model.bag_effect_, **settings).fit(X, y)
        assert fixed.model_texts_ == model.model_texts_

    def test_noisy_counts(self):
        rng = np.random.default_rng(0)
        noisy = TWO.y["proportion"][::20] + rng.normal(scale=0.02, size=24)
        y = bag_target(TWO.y["bag"], noisy[TWO.y["bag"]], noise=np.full(len(TWO.y), 0.02))
        model = LLPBoostingClassifier(4, n_estimators=40).fit(TWO.X, y)
        assert model.looks_ in (0.0, 1.0)
        assert roc_auc_score(TWO.labels, model.decision_function(TWO.X)) > 0.85

    def test_progress_is_shown(self, terminal):
        LLPBoostingClassifier(2, n_estimators=5, verbose=1).fit(TWO.X, TWO.y)
        assert "boosting" in terminal.readouterr().err


@pytest.mark.parametrize("objective", AIMS)
def test_three_classes(objective):
    X, y, labels = three_classes()
    model = LLPBoostingClassifier(4, n_estimators=20, cv=3, objective=objective).fit(X, y)
    assert (model.predict(X) == labels).mean() > 0.8
    assert model.out_of_fold_scores_.shape == (len(labels), 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_shares_of_no_whole_counts_are_taken_forward():
    y = bag_target(TWO.y["bag"], np.clip(TWO.y["proportion"] + 0.025, 0, 1))
    assert LLPBoostingClassifier(**QUICK).fit(TWO.X, y).objective_ == "forward"


class TestData:
    def test_sparse_equals_dense(self):
        X = np.where(np.abs(TWO.X) < 0.7, 0.0, TWO.X)
        model = LLPBoostingClassifier(4, n_estimators=20, start="zero")
        dense = model.fit(X, TWO.y).decision_function(X)
        scores = model.fit(csr_matrix(X), TWO.y).decision_function(csr_matrix(X))
        np.testing.assert_array_equal(scores, dense)

    def test_infinity_is_refused(self):
        X = TWO.X.copy()
        X[3, 1] = np.inf
        with pytest.raises(ValueError, match=r"^X holds infinity, which trees cannot split by"):
            LLPBoostingClassifier(**QUICK).fit(X, TWO.y)


class TestCategories:
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(
                np.array(["a", "b", "c", "d"])[2 * (TWO.X[:, 1] > 0) + TWO.labels]
            ),
            "number, with a name": TWO.X[:, 0],
        }
    )

    def fitted(self, **changes):
        return LLPBoostingClassifier(**{**QUICK, **changes}).fit(self.frame, TWO.y)

    def test_are_split_by_sets(self):
        model = self.fitted(num_leaves=2, n_estimators=10)
        assert (model.predict(self.frame) == TWO.labels).mean() > 0.99
        assert list(model.feature_names_in_) == list(self.frame)
        assert model.categories_ == {0: ["a", "b", "c", "d"]}

    def test_are_known_by_name(self):
        model = self.fitted()
        other = self.frame.assign(kind=self.frame["kind"].cat.reorder_categories(list("dbca")))
        np.testing.assert_array_equal(
            model.decision_function(other), model.decision_function(self.frame)
        )

    def test_equal_what_lightgbm_makes_of_a_frame(self):
        frame = self.frame.set_axis(["kind", "number"], axis=1)
        model = LLPBoostingClassifier(**QUICK, min_child_weight=2.0).fit(frame, TWO.labels)
        start = np.log(TWO.labels.mean() / (1 - TWO.labels.mean()))

        def log_loss(scores, _):
            p = 1 / (1 + np.exp(-scores - start))
            return p - TWO.labels, p * (1 - p)

        own = lightgbm.train(
            {
                "objective": log_loss,
                "num_leaves": 4,
                "min_data_in_leaf": 1,
                "verbosity": -1,
                **settings(),
            },
            lightgbm.Dataset(frame, TWO.labels.astype(float)),
            num_boost_round=20,
        )
        np.testing.assert_allclose(
            model.decision_function(frame), own.predict(frame, raw_score=True), atol=1e-6
        )

    def test_unknown_and_missing_ones_get_a_score(self):
        frame = self.frame.assign(kind=pd.Categorical(["z", None] * (len(self.frame) // 2)))
        assert np.isfinite(self.fitted().decision_function(frame)).all()

    def test_polars(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(
            {
                "kind": polars.Series(self.frame["kind"].tolist(), dtype=polars.Enum(list("abcd"))),
                "number, with a name": TWO.X[:, 0],
            }
        )
        model = LLPBoostingClassifier(**QUICK).fit(frame, TWO.y)
        np.testing.assert_array_equal(
            model.decision_function(frame), self.fitted().decision_function(self.frame)
        )

    def test_arrays_and_text_are_refused(self):
        with pytest.raises(ValueError, match="can read them from a data frame only, not from a nd"):
            self.fitted().predict(np.zeros((3, 2)))
        with pytest.raises(ValueError, match=r"^Column 'note' holds neither numbers nor"):
            LLPBoostingClassifier(**QUICK).fit(self.frame.assign(note="x"), TWO.y)


def test_saved_and_loaded(tmp_path):
    model = LLPBoostingClassifier((2, 4), n_estimators=20).fit(TestCategories.frame, TWO.y)
    before = model.decision_function(TestCategories.frame)
    loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
    np.testing.assert_array_equal(loaded.decision_function(TestCategories.frame), before)
    assert loaded.model_texts_ == model.model_texts_


@pytest.mark.parametrize(
    ("line", "forged", "message"),
    [
        ("left_child=", "left_child=7", "a branch leads nowhere"),
        ("right_child=", "right_child=-9", "a branch leads nowhere"),
        ("left_child=", "left_child=0", "a branch leads nowhere"),
        ("split_feature=", "split_feature=9", "there is no such column"),
        ("leaf_value=", "leaf_value=1.0", "its leaf_value has not 2 entries"),
        ("threshold=", "threshold=5.0", "there is no such set of categories"),
        ("cat_boundaries=", "cat_boundaries=0 9", "its cat_threshold has not 9 entries"),
        ("is_linear=", "is_linear=1", "a leaf is no constant"),
        ("num_leaves=", "num_leaves=x", "invalid literal"),
        ("num_class=", "num_class=2", "its num_class is not 1"),
        ("max_feature_idx=", "max_feature_idx=5", "its max_feature_idx is not 1"),
        ("tree_sizes=", "tree_sizes=99999", "its trees are not as long as it says"),
        ("num_cat=", "num_cut=1", "it has no 'num_cat'"),
        ("shrinkage=", "num_cat=1", "a line is there twice"),
    ],
)
def test_forged_trees_are_refused(line, forged, message):
    model = LLPBoostingClassifier(2, n_estimators=1, cv=None).fit(TestCategories.frame, TWO.y)
    lines = [forged if old.startswith(line) else old for old in model.model_texts_[0].split("\n")]
    text = "\n".join(lines)
    if not line.startswith("tree_sizes"):
        size = text.index("end of trees") - text.index("Tree=")
        text = re.sub("tree_sizes=.*", f"tree_sizes={size}", text)
    model.model_texts_ = [text]
    with pytest.raises(ValueError, match=f"^The text of the trees is damaged: .*{message}"):
        model.predict(TestCategories.frame)


def test_without_lightgbm_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=re.escape(install_command("boosting"))):
        LLPBoostingClassifier(**QUICK).fit(TWO.X, TWO.y)


def test_columns_of_one_value_are_refused():
    with pytest.raises(ValueError, match="No column of X has values that differ"):
        LLPBoostingClassifier(**QUICK).fit(np.zeros((len(TWO.y), 2)), TWO.y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_leaves": 1}, "num_leaves must be a whole number of at least 2, or a list"),
        ({"num_leaves": (2.5,)}, "num_leaves must be a whole number of at least 2, or a list"),
        ({"num_leaves": (2, 4), "cv": None}, "With cv=None nothing is chosen"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, not 0"),
        ({"early_stopping_rounds": 0}, "early_stopping_rounds must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, not -1"),
        ({"n_jobs": 0}, "n_jobs, if not None or -1, must be a whole number of at least 1, not 0"),
        ({"learning_rate": 0}, "learning_rate must be a positive number"),
        ({"learning_rate": 1.5}, "learning_rate must be at most 1, not 1.5"),
        ({"min_child_weight": 0}, "min_child_weight must be a positive number"),
        ({"reg_lambda": -1}, "reg_lambda must be a finite number of at least 0, not -1"),
        ({"colsample_bytree": 2}, "colsample_bytree must be at most 1, not 2"),
        ({"start": "kernel"}, "start must be one of 'auto', 'linear', 'zero', not 'kernel'"),
        ({"start": "linear", "num_leaves": 2, "cv": None}, "start='linear' chooses a penalty on b"),
        ({"params": {"metric": "auc"}}, "params may not hold 'metric'"),
        ({"params": {"max_bns": 63}}, "LightGBM knows no parameter 'max_bns'; did you mean 'max_b"),
        ({"params": {"zzz": 1}}, r"LightGBM knows no parameter 'zzz'\.$"),
        ({"objective": "odd"}, "objective must be one of 'auto', 'likelihood', 'forw"),
        ({"class_prior": [0, 1]}, "class_prior leaves a class out"),
        ({"bag_effect": -1}, "bag_effect must be 'auto' or a variance"),
        ({"cv": BagShuffleSplit(3, random_state=0)}, "cv must hold out every bag exactly once"),
    ],
)
def test_mistakes_get_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        LLPBoostingClassifier(**change).fit(TWO.X, TWO.y)


def test_there_are_no_more_folds_than_bags():
    some = TWO.y["bag"] < 6
    model = LLPBoostingClassifier(2, n_estimators=5, start="zero").fit(TWO.X[some], TWO.y[some])
    assert len(model.model_texts_) == 6


def test_a_fold_without_contrast_is_named():
    y = bag_target(np.repeat([0, 1, 2], 20), np.repeat([0.2, 0.2, 0.8], 20))
    with pytest.raises(ValueError, match=r"^Fold . of 3 cannot be trained: .* chooses nothing.$"):
        LLPBoostingClassifier(cv=3).fit(TWO.X[:60], y)
