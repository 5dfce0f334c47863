"""Boosted trees from bags."""

import re
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import roc_auc_score

from unbag import (
    BagKFold,
    BagShuffleSplit,
    LLPBoostingClassifier,
    LLPClassifier,
    bag_target,
    check_bag_target,
)
from unbag._optional import install_command
from unbag.datasets import make_gaussian_bags
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.boosting import fill_missing, fit_start
from unbag.models.boosting_lightgbm import BinnedRows, check_trees, mean_of_trees
from unbag.models.boosting_search import BoostingProblems
from unbag.tables.persistence import load_model, save_model

TWO = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
DRAWN = bag_target(TWO.y["bag"], np.clip(TWO.y["proportion"] + 0.025, 0, 1))
QUICK = {"num_leaves": 4, "n_estimators": 20, "cv": None}
FIRST = np.zeros(1, dtype=np.intp)
SETTINGS = {"learning_rate": 0.4, "min_sum_hessian_in_leaf": 2.0, "lambda_l2": 10.0}
SETTINGS |= {"max_bin": 1000, "min_data_in_bin": 1}


def three_classes(n_bags=40, size=15, seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), n_bags)
    labels = np.concatenate([rng.choice(3, size, p=share) for share in shares])
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(labels), 3)) + 2.5 * np.eye(3)[labels]
    counts = np.stack([np.bincount(bag, labels == c) for c in range(3)], axis=1)
    return X, bag_target(bag, counts=counts[bag]), labels


def pose(bags, included=None):
    """Problems that start from zero."""
    included = np.ones((1, bags.n_bags), dtype=bool) if included is None else included
    n_outputs = 1 if bags.n_classes == 2 else bags.n_classes
    return BoostingProblems(bags, included, np.zeros((len(included), n_outputs, bags.n_instances)))


# --- rounds -------------------------------------------------------------------------------------


# bags of 20 rows go by the saddlepoint approximation
@pytest.mark.parametrize(("classes", "size"), [(2, 5), (2, 20), (3, 4)])
@pytest.mark.parametrize("drawn", [False, True], ids=["counts", "sampling probabilities"])
def test_gradient_and_a_bound_of_the_second_derivative(classes, size, drawn):
    if classes == 2:
        y = make_gaussian_bags(n_bags=3, bag_size=size, random_state=0).y
    else:
        _, y, _ = three_classes(n_bags=3, size=size)
    if drawn:
        shares = np.linspace(0.31, 0.67, 3)[y["bag"]]
        thirds = np.column_stack([shares / 3, shares / 1.5, 1 - shares])
        y = bag_target(y["bag"], shares if classes == 2 else thirds)
    bags = check_bag_target(y)
    task = pose(bags)
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


@pytest.mark.parametrize("y", [TWO.y, DRAWN], ids=["counts", "sampling probabilities"])
def test_short_steps_lead_downhill_without_any_penalty(y):
    task = pose(check_bag_target(y))
    free = SETTINGS | {"learning_rate": 1.0, "lambda_l2": 0.0, "min_sum_hessian_in_leaf": 1e-3}
    booster = BinnedRows(TWO.X, [], free).booster(1, 16)
    scores, rises = booster.scores(), []
    for _ in range(80):
        task.boost([booster], FIRST)
        values = [task.objective.value(f[None], FIRST)[0] for f in (scores, booster.scores())]
        if np.abs(booster.scores() - scores).max() < 1.79:
            rises.append(values[1] - values[0])
        scores = booster.scores()
    assert len(rises) > 10
    assert max(rises) <= 1e-12


def test_held_out_bags_have_no_influence():
    bags = check_bag_target(TWO.y)
    included = np.arange(bags.n_bags)[None] % 3 > 0
    out = ~included[0][bags.index]
    binned = BinnedRows(TWO.X, [], SETTINGS)
    parts = binned.split(out)
    found = []
    for y in (TWO.y, bag_target(TWO.y["bag"], np.where(out, 1.0, TWO.y["proportion"]))):
        changed, booster = check_bag_target(y), binned.booster(1, 4, parts)
        task = pose(changed, included)
        # at the class prior of the bags that are learned from
        task.start = task.start - task.objective.offsets[:, :, None]
        for _ in range(5):
            task.boost([booster], FIRST)
        gradient, bound = task.slopes(booster.scores()[None], FIRST)
        assert (gradient[0, 0, out] == 0).all()
        assert (bound[0, 0, out] == 0).all()
        found.append(booster.scores())
    np.testing.assert_allclose(*found, atol=1e-9)
    # as if these rows were not there at all
    task = pose(bags.take(included[0])[0])
    booster = BinnedRows(TWO.X[~out], [], SETTINGS).booster(1, 4)
    for _ in range(5):
        task.boost([booster], FIRST)
    np.testing.assert_allclose(booster.scores(), found[0][:, ~out], atol=1e-5)
    np.testing.assert_allclose(booster.predict(TWO.X[~out], 5), booster.scores(), atol=1e-6)


@pytest.mark.parametrize("frame", [False, True], ids=["numbers", "categories"])
def test_pure_bags_give_the_trees_of_lightgbm_on_labels(frame):
    X = TWO.X
    if frame:
        kinds = np.array(["a", "b", "c", "d"])[2 * (X[:, 1] > 0) + (X[:, 2] > 0)]
        X = pd.DataFrame({"kind": pd.Categorical(kinds), "number": X[:, 0]})
    model = LLPBoostingClassifier(**QUICK, min_child_weight=2.0).fit(X, TWO.labels)
    numbers = TWO.X[:, :1] if frame else TWO.X
    linear = LLPClassifier(kernel=None).fit(numbers, TWO.labels)
    start = linear.decision_function(numbers)

    def log_loss(scores, _):
        p = 1 / (1 + np.exp(-scores - start))
        return p - TWO.labels, p * (1 - p)

    own = lightgbm.train(
        {
            "objective": log_loss,
            "num_leaves": 4,
            "min_data_in_leaf": 1,
            "verbosity": -1,
            "learning_rate": 0.4,
            "min_sum_hessian_in_leaf": 2.0,
            "lambda_l2": 10.0,
        },
        lightgbm.Dataset(X, TWO.labels.astype(float)),
        num_boost_round=20,
    )
    expected = start + own.predict(X, raw_score=True)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)


# --- where trees start --------------------------------------------------------------------------


def start_of(X, y=TWO.y, categorical=()):
    held = check_cv(BagKFold(4), X, y)
    bags, _ = cut_by_folds(check_bag_target(y), held)
    return fit_start(X, y, bags, held, list(categorical))


def test_the_start_is_the_mixed_model_of_the_bags_of_each_fold():
    start, q = start_of(TWO.X), check_bag_target(TWO.y).class_shares
    for number, (train, _) in enumerate(BagKFold(4).split(TWO.X, TWO.y)):
        alone = LLPClassifier(kernel=None, class_prior=q).fit(TWO.X[train], TWO.y[train])
        expected = alone.decision_function(TWO.X)
        np.testing.assert_allclose(start.scores(TWO.X)[number, 0], expected, atol=1e-8)


def test_missing_values_are_taken_for_the_mean_of_their_column():
    X = TWO.X.copy()
    X[::7, 1] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    start = start_of(X)
    np.testing.assert_allclose(start.scores(X), start.scores(filled))
    sparse = csr_matrix([[np.nan, 0.0], [1.0, np.nan]])
    expected = [[5, 0], [1, 6]]
    np.testing.assert_array_equal(fill_missing(sparse, np.array([5.0, 6.0])).toarray(), expected)


def test_categories_and_columns_of_one_value_have_no_slope():
    start = start_of(np.column_stack([TWO.X, np.ones(480), np.arange(480) % 3]), categorical=[4])
    assert (start.coef[:, 0, :3] != 0).all()
    assert (start.coef[:, 0, 3:] == 0).all()


def test_proportions_of_no_whole_counts_are_sampling_probabilities():
    model = LLPBoostingClassifier(**QUICK).fit(TWO.X, DRAWN)
    share = DRAWN["proportion"]
    noisy = bag_target(DRAWN["bag"], share, noise=np.sqrt(share * (1 - share) / 20))
    same = LLPBoostingClassifier(**QUICK).fit(TWO.X, noisy)
    np.testing.assert_allclose(model.decision_function(TWO.X), same.decision_function(TWO.X))
    assert roc_auc_score(TWO.labels, model.decision_function(TWO.X)) > 0.85


def test_there_may_be_no_trees(tmp_path):
    data = make_gaussian_bags(n_bags=60, bag_size=8, n_features=4, random_state=0)
    X = data.X
    model = LLPBoostingClassifier(2, n_estimators=25).fit(X, data.y)
    assert model.n_estimators_ == 0
    assert model.booster_ is None
    assert (model.feature_importances_ == 0).all()
    scores = X @ model.start_coef_[0] + model.start_intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), scores)
    loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_trees_add_what_is_no_slope():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 8)
    X = rng.normal(size=(len(bag), 2))
    labels = rng.random(len(bag)) < 1 / (1 + np.exp(-2 * X[:, 0] - 4 * (np.abs(X[:, 1]) > 1) + 2))
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    model = LLPBoostingClassifier(4, n_estimators=40, cv=4).fit(X, y)
    assert model.n_estimators_ > 0
    scores = X @ model.start_coef_[0], model.out_of_fold_scores_
    without, found = (roc_auc_score(labels, one) for one in scores)
    assert found > without + 0.03


# --- the search ---------------------------------------------------------------------------------


class TestSearch:
    def test_scores_of_held_out_bags_are_those_of_a_fit_without_them(self):
        model = LLPBoostingClassifier((2, 4), cv=BagKFold(3), n_estimators=30)
        model.fit(TWO.X, TWO.y)
        train, test = next(BagKFold(3).split(TWO.X, TWO.y))
        rounds = max(1, model.n_estimators_)
        alone = LLPBoostingClassifier(model.num_leaves_, n_estimators=rounds, cv=None)
        alone.fit(TWO.X[train], TWO.y[train])
        # bins are those of all rows there, so that a few rows fall on another side
        both = np.corrcoef(model.out_of_fold_scores_[test], alone.decision_function(TWO.X[test]))
        assert both[0, 1] > 0.98

    def test_scores_are_the_linear_function_and_the_booster(self):
        X, y, _ = three_classes()
        model = LLPBoostingClassifier(4, n_estimators=20, cv=3, class_prior="balanced").fit(X, y)
        start = X @ model.start_coef_.T + model.start_intercept_
        trees = model.booster_.predict(X, raw_score=True) if model.n_estimators_ else 0.0
        found = model.decision_function(X) + np.log(model.empirical_prior_ * 3)
        np.testing.assert_allclose(found, start + trees)

    def test_ends_early_and_chooses_the_least_loss(self):
        model = LLPBoostingClassifier(8, n_estimators=400, early_stopping_rounds=20)
        model.fit(TWO.X, TWO.y)
        ((leaves, rounds, losses),) = model.selection_path_
        assert leaves == 8
        assert rounds[-1] < 400
        assert losses.shape == rounds.shape
        assert model.n_estimators_ == rounds[losses.argmin()]

    def test_folds_are_those_of_splits_in_the_order_of_the_rows(self):
        """Also where rows of a bag do not lie together."""
        mixed = np.random.default_rng(0).permutation(480)
        X, y = TWO.X[mixed], TWO.y[mixed]
        fold = y["bag"] % 3
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
        model = LLPBoostingClassifier(2, n_estimators=10, cv=splits).fit(X, y)
        back = np.argsort(mixed)
        again = LLPBoostingClassifier(
            2, n_estimators=10, cv=[(mixed[a], mixed[b]) for a, b in splits]
        )
        again.fit(TWO.X, TWO.y)
        np.testing.assert_allclose(
            again.out_of_fold_scores_, model.out_of_fold_scores_[back], atol=1e-6
        )

    def test_learns(self):
        model = LLPBoostingClassifier().fit(TWO.X, TWO.y)
        assert roc_auc_score(TWO.labels, model.decision_function(TWO.X)) > 0.9
        assert roc_auc_score(TWO.labels, model.out_of_fold_scores_) > 0.85
        assert model.feature_importances_.shape == (3,)
        shares = check_bag_target(TWO.y).class_shares
        np.testing.assert_allclose(model.predict_proba(TWO.X).mean(axis=0), shares, atol=0.05)

    def test_noisy_counts(self):
        rng = np.random.default_rng(0)
        noisy = TWO.y["proportion"][::20] + rng.normal(scale=0.02, size=24)
        y = bag_target(TWO.y["bag"], noisy[TWO.y["bag"]], noise=np.full(len(TWO.y), 0.02))
        model = LLPBoostingClassifier(4, n_estimators=40).fit(TWO.X, y)
        assert roc_auc_score(TWO.labels, model.decision_function(TWO.X)) > 0.85

    def test_progress_is_shown(self, terminal):
        LLPBoostingClassifier(2, n_estimators=5, verbose=1).fit(TWO.X, TWO.y)
        assert "boosting" in terminal.readouterr().err

    def test_there_are_no_more_folds_than_bags(self):
        some = TWO.y["bag"] < 6
        model = LLPBoostingClassifier(2, n_estimators=5).fit(TWO.X[some], TWO.y[some])
        assert np.isfinite(model.out_of_fold_scores_).all()

    def test_a_fold_without_contrast_is_named(self):
        y = bag_target(np.repeat([0, 1, 2], 20), np.repeat([0.2, 0.2, 0.8], 20))
        with pytest.raises(ValueError, match=r"^Fold . of 3 cannot be trained: .* nothing.$"):
            LLPBoostingClassifier(cv=3).fit(TWO.X[:60], y)


def test_three_classes():
    X, y, labels = three_classes()
    model = LLPBoostingClassifier(4, n_estimators=20, cv=3).fit(X, y)
    assert (model.predict(X) == labels).mean() > 0.8
    assert model.out_of_fold_scores_.shape == (len(labels), 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_class_prior_moves_scores_by_its_log_odds():
    balanced, given = (
        LLPBoostingClassifier(**QUICK, class_prior=prior).fit(TWO.X, TWO.y)
        for prior in ("balanced", [0.8, 0.2])
    )
    moved = balanced.decision_function(TWO.X) + np.log(0.2 / 0.8)
    np.testing.assert_allclose(given.decision_function(TWO.X), moved)
    np.testing.assert_allclose(
        balanced.predict_proba(TWO.X, class_prior=[0.8, 0.2]), given.predict_proba(TWO.X)
    )


def test_same_seed_same_model_for_any_number_of_threads():
    model = LLPBoostingClassifier(
        4, n_estimators=5, params={"colsample_bytree": 0.5}, random_state=3, cv=None
    )
    texts = {model.set_params(n_jobs=n_jobs).fit(TWO.X, TWO.y).trees_ for n_jobs in (1, 1, 2)}
    assert len(texts) == 1
    generator = np.random.RandomState(3)
    assert model.set_params(random_state=generator).fit(TWO.X, TWO.y).trees_ in texts
    assert model.set_params(random_state=None).fit(TWO.X, TWO.y).trees_


def test_missing_values_may_tell_classes_apart():
    X = TWO.X.copy()
    X[:, 1:] = 0
    X[TWO.labels == 1, 1] = np.nan
    model = LLPBoostingClassifier(**QUICK).fit(X, TWO.y)
    assert (model.predict(X) == TWO.labels).mean() > 0.99


def test_sparse_comes_near_dense():
    X = np.where(np.abs(TWO.X) < 0.7, 0.0, TWO.X)
    model = LLPBoostingClassifier(4, n_estimators=20)
    dense = model.fit(X, TWO.y).decision_function(X)
    scores = model.fit(csr_matrix(X), TWO.y).decision_function(csr_matrix(X))
    assert np.corrcoef(scores, dense)[0, 1] > 0.99


# --- categories ---------------------------------------------------------------------------------


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
        model = self.fitted(num_leaves=2, n_estimators=30)
        assert (model.predict(self.frame) == TWO.labels).mean() > 0.99
        assert list(model.feature_names_in_) == list(self.frame)
        assert model.categories_ == {0: ["a", "b", "c", "d"]}

    def test_are_known_by_name(self):
        model = self.fitted()
        other = self.frame.assign(kind=self.frame["kind"].cat.reorder_categories(list("dbca")))
        np.testing.assert_array_equal(
            model.decision_function(other), model.decision_function(self.frame)
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


# --- trees as text ------------------------------------------------------------------------------


def test_the_mean_of_trees_predicts_the_mean():
    bags = check_bag_target(TWO.y)
    task, binned, texts, scores = pose(bags), BinnedRows(TWO.X, [], SETTINGS), [], []
    for leaves in (2, 4, 8):
        booster = binned.booster(1, leaves)
        for _ in range(leaves):
            task.boost([booster], FIRST)
        texts.append(booster.text(leaves))
        scores.append(booster.scores()[0])
    text = mean_of_trees(texts)
    check_trees(text, 3, 1)
    found = lightgbm.Booster(model_str=text)
    assert found.num_trees() == 14
    np.testing.assert_allclose(found.predict(TWO.X), np.mean(scores, axis=0))


def test_saved_and_loaded(tmp_path):
    model = LLPBoostingClassifier((2, 4), n_estimators=20).fit(TestCategories.frame, TWO.y)
    before = model.decision_function(TestCategories.frame)
    loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
    np.testing.assert_array_equal(loaded.decision_function(TestCategories.frame), before)
    assert loaded.trees_ == model.trees_


@pytest.mark.parametrize(
    ("line", "forged", "message"),
    [
        ("left_child=", "left_child=7", "a branch leads nowhere"),
        ("right_child=", "right_child=-9", "a branch leads nowhere"),
        ("left_child=", "left_child=0", "a branch leads nowhere"),
        ("split_feature=", "split_feature=9", "there is no such column"),
        ("leaf_value=", "leaf_value=1.0", "its leaf_value has not 2 entries"),
        ("leaf_value=", "leaf_value=inf 0.5", "'inf' in its leaf_value is not a number"),
        ("leaf_value=", "leaf_value=1_0 0.5", "'1_0' in its leaf_value is not a number"),
        ("threshold=", "threshold=nan", "'nan' in its threshold is not a number"),
        ("threshold=", "threshold=+1", r"'\+1' in its threshold is not a number"),
        ("decision_type=", "decision_type=257", "there is no such decision"),
        ("cat_threshold=", "cat_threshold=0x1", "'0x1' is not a whole number"),
        ("threshold=", "threshold=5.0", "there is no such set of categories"),
        ("cat_boundaries=", "cat_boundaries=0 9", "its cat_threshold has not 9 entries"),
        ("is_linear=", "is_linear=1", "a leaf is not constant"),
        ("num_leaves=", "num_leaves=x", "'x' is not a whole number"),
        ("left_child=", "left_child=1_0", "'1_0' is not a whole number"),
        ("left_child=", "left_child=\u0661", "it holds '\u0661'"),
        ("threshold=", "threshold=0.5\u2028left_child=0", "it holds"),
        ("threshold=", "threshold=0.5\rleft_child=0", "it holds"),
        ("num_class=", "num_class=2", "its num_class is not 1"),
        ("max_feature_idx=", "max_feature_idx=5", "its max_feature_idx is not 1"),
        ("tree_sizes=", "tree_sizes=99999", "its trees are not as long as it says"),
        ("num_cat=", "num_cut=1", "its lines are not those"),
        ("leaf_weight=", "leaf_weight=1.0", "its leaf_weight has not 2 entries"),
        ("internal_count=", "more=1", "its lines are not those"),
        ("internal_count=", "internal_count=1 2 3", "its internal_count has not 1 entries"),
        ("shrinkage=", "num_cat=1", "its lines are not those"),
        ("label_index=", "label_index=0\nlabel_index=0", "its lines are not those"),
        ("label_index=", "average_output\nlabel_index=0", "its lines are not those"),
        ("feature_infos=", "monotone_constraints=1\nfeature_infos=a b", "has not 2 entries"),
        ("tree_sizes=", "tree_sizes=\nend of trees", "there is more behind their end"),
        # LightGBM reads on until it finds "end of parameters", beyond the end of the text
        ("end of trees", "end of trees\n\nparameters:\n[verbosity: 1]", "more behind their end"),
        ("feature_infos=", "feature_infos=none", "its feature_infos has not 2 entries"),
    ],
)
def test_forged_trees_are_refused(line, forged, message):
    model = LLPBoostingClassifier(2, n_estimators=1, cv=None).fit(TestCategories.frame, TWO.y)
    lines = [forged if old.startswith(line) else old for old in model.trees_.split("\n")]
    text = "\n".join(lines)
    if not line.startswith("tree_sizes"):
        size = text.index("end of trees") - text.index("Tree=")
        text = re.sub("tree_sizes=.*", f"tree_sizes={size}", text)
    model.trees_ = text
    with pytest.raises(ValueError, match=f"^The text of the trees is damaged: .*{message}"):
        model.predict(TestCategories.frame)


def test_branches_that_lead_to_one_place_are_refused():
    """What walks over all branches, as SHAP values do, would take a time exponential in the depth."""
    model = LLPBoostingClassifier(3, n_estimators=1, cv=None).fit(TWO.X, TWO.y)
    model.predict(TWO.X)
    text = re.sub("left_child=.*", "left_child=1 -1", model.trees_)
    text = re.sub("right_child=.*", "right_child=1 -2", text)
    size = text.index("end of trees") - text.index("Tree=")
    model.trees_ = re.sub("tree_sizes=.*", f"tree_sizes={size}", text)
    with pytest.raises(ValueError, match="two branches lead to one place"):
        model.predict(TWO.X)


# --- mistakes -----------------------------------------------------------------------------------


def test_without_lightgbm_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=re.escape(install_command("boosting"))):
        LLPBoostingClassifier(**QUICK).fit(TWO.X, TWO.y)


def test_columns_of_one_value_and_infinity_are_refused():
    with pytest.raises(ValueError, match="No column of X has values that differ"):
        LLPBoostingClassifier(**QUICK).fit(np.zeros((len(TWO.y), 2)), TWO.y)
    X = TWO.X.copy()
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"^X holds infinity, which trees cannot split by"):
        LLPBoostingClassifier(**QUICK).fit(X, TWO.y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_leaves": 1}, "num_leaves must be a whole number of at least 2, or a list"),
        ({"num_leaves": (2.5,)}, "num_leaves must be a whole number of at least 2, or a list"),
        ({"num_leaves": (2, 4), "cv": None}, "With cv=None nothing is chosen"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, not 0"),
        ({"early_stopping_rounds": 0}, "early_stopping_rounds must be a whole number"),
        ({"random_state": -1}, "Seed must be between 0 and"),
        ({"n_jobs": 0}, "n_jobs, if not None or -1, must be a whole number of at least 1, not 0"),
        ({"learning_rate": 0}, "learning_rate must be a positive number"),
        ({"learning_rate": 1.5}, "learning_rate must be at most 1, not 1.5"),
        ({"min_child_weight": 0}, "min_child_weight must be a positive number"),
        ({"reg_lambda": -1}, "reg_lambda must be a finite number of at least 0, not -1"),
        ({"params": {"metric": "auc"}}, "params may not hold 'metric'"),
        ({"params": {"eta": 0.1}}, "params may not hold 'eta'"),
        ({"params": {"max_bns": 63}}, "LightGBM has no parameter 'max_bns'; did you mean 'max_b"),
        ({"params": {"zzz": 1}}, r"LightGBM has no parameter 'zzz'\.$"),
        ({"class_prior": [0, 1]}, "class_prior leaves a class out"),
        ({"cv": BagShuffleSplit(3, random_state=0)}, "cv must hold out every bag exactly once"),
    ],
)
def test_mistakes_get_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        LLPBoostingClassifier(**change).fit(TWO.X, TWO.y)
