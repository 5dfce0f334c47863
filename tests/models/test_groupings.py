"""Classifiers of several groupings: one grouping, slopes, penalties, mistakes."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import (
    LLPLinearClassifier,
    MultiGroupingClassifier,
    MultiGroupingClassifierCV,
    bag_target,
    check_bag_target,
    multi_grouping_target,
)
from unbag.bags import check_groupings_target
from unbag.models.groupings import deal_out_cells
from unbag.observations.count_likelihood import CountLikelihood

SLOPES = np.array([1.0, -0.5])


def draw(seed, n=1500, sizes=(20, 12), noise=0.0):
    """Rows that keep their odds, counted by groupings that differ in who is in their cells."""
    rng = np.random.default_rng(seed)
    cells = [rng.integers(0, size, n) for size in sizes]
    X = rng.normal(size=(n, 2))
    for cell, size in zip(cells, sizes, strict=True):
        X += 0.7 * rng.normal(size=(size, 2))[cell]
    labels = rng.random(n) < expit(X @ SLOPES - 0.5)
    targets = {}
    for g, cell in enumerate(cells):
        counts = np.bincount(cell, labels) + noise * rng.normal(size=sizes[g])
        targets[f"by {g}"] = bag_target(cell, counts=counts[cell], noise=noise or None)
    return X, labels, multi_grouping_target(targets)


def exact(**settings):
    return MultiGroupingClassifier(1e-8, class_prior="empirical", tol=1e-6, **settings)


@pytest.mark.parametrize("class_prior", ["balanced", "empirical", [0.7, 0.3]])
def test_one_grouping_is_the_linear_model(class_prior):
    X, _, y = draw(0)
    ordinary = LLPLinearClassifier(
        objective="likelihood", bag_effect=0, class_prior=class_prior, tol=1e-7
    ).fit(X, y["by 0"])
    for target in (y["by 0"], multi_grouping_target({"alone": y["by 0"]})):
        model = MultiGroupingClassifier(class_prior=class_prior, tol=1e-7).fit(X, target)
        np.testing.assert_allclose(model.coef_, ordinary.coef_, atol=1e-5)
        np.testing.assert_allclose(model.intercept_, ordinary.intercept_, atol=1e-5)
        np.testing.assert_allclose(model.predict_proba(X), ordinary.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_slopes_are_right_on_average_and_better_than_by_one_grouping(noise):
    shared, alone = [], []
    for seed in range(15):
        X, _, y = draw(seed, noise=noise)
        shared.append(exact().fit(X, y).coef_[0] - SLOPES)
        alone.append(exact().fit(X, y["by 0"]).coef_[0] - SLOPES)
    error = np.std(shared, axis=0, ddof=1) / np.sqrt(len(shared))
    assert (np.abs(np.mean(shared, axis=0)) < 3 * error + 0.02).all()
    assert np.mean(np.square(shared)) < 0.8 * np.mean(np.square(alone))


def test_a_column_that_tells_nothing_new_changes_nothing():
    X, _, y = draw(1, n=4000, sizes=(8, 12))
    twice = multi_grouping_target({"one": y["by 0"], "again": y["by 0"]})
    once = exact().fit(X, y["by 0"])
    np.testing.assert_allclose(exact().fit(X, twice).coef_, once.coef_, atol=0.01)


def test_labels_make_a_grouping_too():
    X, labels, y = draw(2)
    some = np.where(np.arange(len(labels)) % 10 == 0, labels, np.nan)
    known = bag_target(y["by 0"]["bag"], y["by 0"]["proportion"], labels=some)
    both = multi_grouping_target({"by 0": known, "by 1": y["by 1"]})
    model = exact().fit(X, both)
    assert np.abs(model.coef_[0] - SLOPES).max() < 0.25


def test_sparse_rows_and_pipelines():
    X, _, y = draw(3)
    dense, sparse = exact().fit(X, y), exact().fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-4)
    pipeline = make_pipeline(StandardScaler(), exact()).fit(X, y)
    np.testing.assert_allclose(pipeline.predict_proba(X), dense.predict_proba(X), atol=1e-3)


def test_noise_is_weighed():
    """A table of nothing but noise is left aside."""
    X, _, y = draw(4)
    rng = np.random.default_rng(0)
    cell = y["by 1"]["bag"]
    nonsense = bag_target(cell, counts=(60 + 1e4 * rng.normal(size=12))[cell], noise=1e4)
    alone = exact().fit(X, y["by 0"])
    with_it = exact().fit(X, multi_grouping_target({"by 0": y["by 0"], "noise": nonsense}))
    np.testing.assert_allclose(with_it.coef_, alone.coef_, atol=0.01)


def draw_looks(seed, n=2000, sizes=(25, 20), noise=3.0):
    """Classes that keep their look, counted by groupings that act on their odds side by side."""
    rng = np.random.default_rng(seed)
    cells = [rng.integers(0, size, n) for size in sizes]
    odds = -1 + sum(0.8 * rng.normal(size=len(set(cell)))[cell] for cell in cells)
    labels = rng.random(n) < expit(odds)
    X = rng.normal(size=(n, 2)) + np.outer(labels - 0.5, SLOPES)
    targets = {}
    for g, cell in enumerate(cells):
        counts = np.bincount(cell, labels) + noise * rng.normal(size=sizes[g])
        targets[f"by {g}"] = bag_target(cell, counts=counts[cell], noise=noise or None)
    return X, multi_grouping_target(targets)


def test_which_world_noisy_counts_are_of_is_found_out():
    off = []
    for seed in range(8):
        X, y = draw_looks(seed)
        model = exact().fit(X, y)
        assert (model.looks_, model.covariance_) == (1.0, "none")
        off.append(model.coef_[0] - SLOPES)
        X, _, y = draw(seed, noise=3.0)
        model = exact().fit(X, y)
        assert (model.looks_, model.covariance_) == (0.0, "shared")
    error = np.std(off, axis=0, ddof=1) / np.sqrt(len(off))
    assert (np.abs(np.mean(off, axis=0)) < 3 * error + 0.02).all()
    # what it would be otherwise
    assert exact(looks=0).fit(*draw_looks(0)).coef_[0, 0] > 1.3


def test_exact_counts_are_those_of_either_world():
    X, y = draw_looks(0, noise=0.0)
    model = exact().fit(X, y)
    assert (model.looks_, model.covariance_) == (0.0, "shared")
    assert np.abs(model.coef_[0] - SLOPES).max() < 0.3


def test_looks_of_noisy_counts_are_those_of_the_ordinary_likelihood():
    X, _, y = draw(5, noise=3.0)
    bags = check_bag_target(y["by 0"])
    likelihood = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags, looks=1.0)
    model = exact(looks=1.0).fit(X, y["by 0"])
    scores = (X @ model.coef_[0] + model.intercept_)[None, None]
    slope = likelihood.value_and_gradient(scores, np.zeros(1, dtype=int))[1][0, 0]
    assert np.abs(X.T @ slope).max() < 1e-4
    with pytest.raises(ValueError, match="needs covariance='none'"):
        exact(looks=1.0).fit(X, y)
    assert np.isfinite(exact(looks=1.0, covariance="none").fit(X, y).coef_).all()


# --- the choice of a penalty ----------------------------------------------------------------------


def test_every_cell_is_held_out_once():
    groupings = check_groupings_target(draw(6)[2])
    held = deal_out_cells(groupings, 5, random_state=0)
    assert held.shape == (5, 32)
    assert (held.sum(axis=0) == 1).all()
    for own in groupings.by_grouping(held):
        assert own.sum(axis=1).min() >= own.shape[1] // 5
    other = deal_out_cells(groupings, 5, random_state=1)
    assert (held != other).any()


def test_penalties_are_chosen_by_what_was_held_out():
    """Columns of noise call for a penalty; without them there is little reason for any."""
    X, _, y = draw(7, n=800)
    rng = np.random.default_rng(0)
    wide = np.hstack([X, rng.normal(size=(len(X), 20))])
    alphas = [1.0, 1e-2, 1e-3, 1e-5]
    model = MultiGroupingClassifierCV(alphas, cv=3).fit(wide, y)
    assert 1e-5 < model.alpha_ < 1
    assert model.alphas_.tolist() == alphas
    assert model.selection_risks_.argmin() == alphas.index(model.alpha_)
    same = MultiGroupingClassifier(model.alpha_).fit(wide, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)


def test_risks_of_one_grouping_are_likelihoods_of_bags_held_out():
    X, _, y = draw(8)
    alone = y["by 0"]
    model = MultiGroupingClassifierCV([0.01], cv=4, class_prior="empirical", tol=1e-7).fit(X, alone)
    bags, risk = check_bag_target(alone), 0.0
    for out in deal_out_cells(check_groupings_target(alone), 4, random_state=0):
        rows = ~out[bags.index]
        part = MultiGroupingClassifier(0.01, class_prior="empirical", tol=1e-7)
        part.fit(X[rows], alone[rows])
        likelihood = CountLikelihood(out, bags)
        scores = part.decision_function(X)[None, None]
        risk += likelihood.value(scores, np.zeros(1, dtype=int))[0] * (~rows).sum() / len(X)
    np.testing.assert_allclose(model.selection_risks_[0], risk, atol=1e-4)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha must be a positive number, not 0"),
        ({"covariance": "some"}, "covariance must be one of 'shared', 'none', not 'some'"),
        ({"bag_effect": -1}, "bag_effect is a variance"),
        ({"class_prior": [1, 0]}, "class_prior leaves a class out"),
        ({"tol": 0}, "tol must be a positive number"),
        ({"looks": "yes"}, "looks must be 'auto' or a number from 0 to 1, not 'yes'"),
    ],
)
def test_wrong_settings_get_one_sentence(settings, message):
    X, _, y = draw(9, n=200, sizes=(5, 4))
    with pytest.raises(ValueError, match=message):
        MultiGroupingClassifier(**settings).fit(X, y)


def test_wrong_data_get_one_sentence():
    X, _, y = draw(9, n=200, sizes=(5, 4))
    with pytest.raises(ValueError, match="X has 199 rows but y has 200"):
        MultiGroupingClassifier().fit(X[1:], y)
    with pytest.raises(ValueError, match="In the grouping 'by 0': Bag"):
        MultiGroupingClassifier().fit(X[1:], y[1:])
    with pytest.raises(ValueError, match="cv=9 must be from 2 up to the number of cells"):
        MultiGroupingClassifierCV(cv=9).fit(X, y)
    with pytest.raises(ValueError, match="whose cells share rows"):
        MultiGroupingClassifier().fit(X, y).score(X, y)
