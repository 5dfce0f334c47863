"""What trees are added to: a linear function of the same bags."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import roc_auc_score

from unbag import (
    BagKFold,
    LLPBoostingClassifier,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
    check_bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import effective_sample_size
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.boosted_goal import make_goal_at_equal_shares
from unbag.models.boosted_start import (
    Start,
    fill_gaps,
    find_start,
    labelled_rows,
    teach_little,
)
from unbag.tables.persistence import load_model, save_model

DATA = make_gaussian_bags(n_bags=24, bag_size=10, n_features=3, random_state=0)
X = DATA.X * [1.0, 20.0, 0.1] + [0.0, 100.0, 3.0]
SCALED = (X - X.mean(axis=0)) / X.std(axis=0)
FOLDS = BagKFold(4)


def start_of(X, y=DATA.y, categorical=()):
    held = check_cv(FOLDS, X, y)
    bags, held = cut_by_folds(check_bag_target(y), held)
    goal = make_goal_at_equal_shares("auto", 0.0, bags)
    return find_start(X, bags, held, goal, list(categorical))


def test_is_the_linear_model_of_all_bags_and_of_each_fold():
    whole, folds, _ = start_of(X)
    linear = LLPLinearClassifierCV(10.0 ** -np.arange(6), cv=FOLDS, bag_effect=0)
    linear.fit(SCALED, DATA.y)
    np.testing.assert_allclose(
        whole.scores(X)[0, 0], linear.decision_function(SCALED), rtol=0.01, atol=0.01
    )
    for number, (train, _) in enumerate(FOLDS.split(X, DATA.y)):
        alone = LLPLinearClassifier(linear.alpha_, bag_effect=0)
        alone.fit(SCALED[train], DATA.y[train])
        np.testing.assert_allclose(
            folds.scores(X)[number, 0], alone.decision_function(SCALED), rtol=0.01, atol=0.01
        )
    np.testing.assert_allclose(folds.mean().scores(X)[0], folds.scores(X).mean(axis=0))


def test_missing_values_are_taken_for_the_mean_of_their_column():
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    start = start_of(gaps)[0]
    np.testing.assert_allclose(start.scores(gaps), start.scores(filled))
    np.testing.assert_allclose(start.fill, np.nanmean(gaps, axis=0))
    sparse = csr_matrix([[np.nan, 0.0], [1.0, np.nan]])
    np.testing.assert_array_equal(
        fill_gaps(sparse, np.array([5.0, 6.0])).toarray(), [[5, 0], [1, 6]]
    )


def test_sparse_comes_near_dense():
    thin = np.where(np.abs(DATA.X) < 0.7, 0.0, DATA.X)
    dense, sparse = start_of(thin)[0], start_of(csr_matrix(thin))[0]
    np.testing.assert_allclose(
        sparse.scores(csr_matrix(thin)), dense.scores(thin), rtol=0.02, atol=0.02
    )


def test_columns_of_one_value_and_categories_have_no_slope():
    start = start_of(np.column_stack([X, np.ones(len(X)), np.arange(len(X)) % 3]), categorical=[4])[
        0
    ]
    assert (start.coef[0, 0, :3] != 0).all()
    assert (start.coef[0, 0, 3:] == 0).all()


def test_nothing_is_zero_everywhere():
    assert not Start.nothing(2, 3, 4).scores(np.ones((5, 4))).any()


class TestTeachLittle:
    def bags(self, n_bags, size, shares):
        rng = np.random.default_rng(0)
        bag = np.repeat(np.arange(n_bags), size)
        return bag_target(bag, counts=rng.binomial(size, shares, n_bags)[bag])

    @pytest.mark.parametrize("shares", [[0.2, 0.6], [0.1, 0.8]])
    def test_bags_are_worth_what_bag_information_says(self, shares):
        y = self.bags(20, 16, np.resize(shares, 20))
        expected = effective_sample_size(y).labelled_rows
        assert labelled_rows(check_bag_target(y)) == pytest.approx(expected)

    def test_labels_are_worth_their_number(self):
        y = np.arange(90) % 3
        assert labelled_rows(check_bag_target(y)) == pytest.approx(90)

    @pytest.mark.parametrize(
        ("n_bags", "size", "shares", "little"),
        [
            (512, 8, [0.1, 0.9], True),  # few rows
            (50, 128, 0.3, True),  # rows that were shuffled
            (50, 128, [0.1, 0.9], False),
            (400, 16, 0.3, False),
            (50, 400, 0.3, False),  # more rows than were tried
        ],
    )
    def test_is_a_matter_of_rows_and_of_what_bags_are_worth(self, n_bags, size, shares, little):
        bags = check_bag_target(self.bags(n_bags, size, np.resize(shares, n_bags)))
        assert teach_little(bags) == little

    def test_shuffled_bags_start_from_a_linear_function(self):
        y = self.bags(40, 128, 0.3)
        Z = np.random.default_rng(1).normal(size=(len(y), 2))
        model = LLPBoostingClassifier(2, n_estimators=5, cv=3).fit(Z, y)
        assert model.start_coef_.any()


class TestTrees:
    # scores of the classes differ by a slope, to which trees have nothing to add
    few = DATA.y["bag"] < 6

    def test_may_be_none(self, tmp_path):
        model = LLPBoostingClassifier(2, n_estimators=5).fit(X[self.few], DATA.y[self.few])
        assert model.n_estimators_ == 0
        assert model.model_texts_ == []
        assert (model.feature_importances_ == 0).all()
        scores = X @ model.start_coef_[0] + model.start_intercept_[0]
        np.testing.assert_allclose(model.decision_function(X), scores)
        loaded = load_model(save_model(model, tmp_path / "model.unbag")).model
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))

    @pytest.mark.parametrize("refit", [False, True])
    def test_add_what_is_no_slope(self, refit):
        rng = np.random.default_rng(0)
        bag = np.repeat(np.arange(60), 8)
        Z = rng.normal(size=(len(bag), 2))
        labels = rng.random(len(bag)) < 1 / (
            1 + np.exp(-2 * Z[:, 0] - 4 * (np.abs(Z[:, 1]) > 1) + 2)
        )
        y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
        model = LLPBoostingClassifier(4, n_estimators=40, cv=4, refit=refit).fit(Z, y)
        assert model.n_estimators_ > 0
        auc = [
            roc_auc_score(labels, scores)
            for scores in (Z @ model.start_coef_[0], model.out_of_fold_scores_)
        ]
        assert auc[1] > auc[0] + 0.03

    def test_leave_categories_to_themselves(self):
        frame = pd.DataFrame({"number": X[:, 0], "kind": pd.Categorical(np.arange(len(X)) % 3)})
        model = LLPBoostingClassifier(2, n_estimators=5, cv=4).fit(frame, DATA.y)
        assert model.start_coef_[0, 0] != 0
        assert model.start_coef_[0, 1] == 0
        assert np.isfinite(model.decision_function(frame)).all()
