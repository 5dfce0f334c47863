"""An ensemble: its weights, its scores, and what it leaves out."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, softmax

from unbag import (
    LLPBoostingClassifier,
    LLPClassifier,
    LLPEnsembleClassifier,
    LLPNeuralClassifier,
    bag_target,
)
from unbag._optional import install_command
from unbag.bags.bags import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models.ensemble import likelihood_weights
from unbag.observations.count_likelihood import BagObjective
from unbag.tables.persistence import save_model

DATA = make_gaussian_bags(n_bags=30, bag_size=20, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=20, bag_size=12, n_features=3, n_classes=3, random_state=0)
LINEAR = LLPClassifier(kernel=None)
QUICK = [("linear", LINEAR), ("boosted", LLPBoostingClassifier(2, n_estimators=20))]


# --- weights ------------------------------------------------------------------------------------


def test_weights_are_as_their_formula_says():
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(3, 40))
    best = losses.sum(axis=1).argmin()
    d = losses[best] - losses
    z = [row.sum() / np.sqrt(1 + (row**2).sum()) for row in d]
    np.testing.assert_allclose(likelihood_weights(losses), softmax(z))


def test_few_bags_leave_weights_nearly_equal_however_large_they_are():
    for size in (1, 100, 1e6):
        for n_bags in (1, 2, 5, 20):
            losses = np.stack([np.zeros(n_bags), np.full(n_bags, float(size))])
            worse = likelihood_weights(losses)[1]
            assert expit(-np.sqrt(n_bags)) - 1e-9 <= worse < 0.5


def test_models_that_are_equal_up_to_noise_have_nearly_equal_weights():
    rng, shares = np.random.default_rng(0), []
    for _ in range(200):
        losses = rng.normal(size=(2, 400))
        shares.append(likelihood_weights(losses)[0])
    assert 0.45 < np.mean(shares) < 0.55
    assert np.quantile(shares, 0.05) > 0.1


@pytest.mark.parametrize("n_bags", [3, 9, 16, 32, 100])
def test_one_more_bag_changes_weights_a_little(n_bags):
    losses = np.random.default_rng(n_bags).normal([[1.0], [1.2]], 1.0, (2, n_bags + 1))
    more, fewer = (likelihood_weights(part) for part in (losses, losses[:, :-1]))
    assert np.abs(more - fewer).max() < 0.35


# --- the ensemble -------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two classes", "three"])
def test_an_ensemble_of_one_model_is_that_model(data):
    model = LLPEnsembleClassifier([("alone", LINEAR)], cv=3).fit(data.X, data.y)
    alone = LLPClassifier(kernel=None).fit(data.X, data.y)
    np.testing.assert_allclose(
        model.decision_function(data.X), alone.decision_function(data.X), atol=1e-9
    )
    np.testing.assert_array_equal(model.weights_, [1.0])


@pytest.mark.parametrize("prior", ["empirical", "balanced", (0.9, 0.1)])
def test_scores_are_weighted_log_odds_at_one_class_prior(prior):
    models = [("one", LLPClassifier(kernel=None, class_prior="balanced")), QUICK[1]]
    model = LLPEnsembleClassifier(models, cv=3, class_prior=prior).fit(DATA.X, DATA.y)
    assert model.weights_.sum() == pytest.approx(1)
    probabilities = [
        one.predict_proba(DATA.X, class_prior=prior)[:, 1] for one in model.estimators_
    ]
    log_odds = np.log(probabilities) - np.log1p(-np.array(probabilities))
    np.testing.assert_allclose(model.decision_function(DATA.X), model.weights_ @ log_odds)


def splits_of(n_folds):
    """Folds of bags by their number, as splits and by row."""
    fold = DATA.y["bag"] % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)], fold


def test_weights_and_losses_are_those_of_held_out_bags():
    splits, fold = splits_of(3)
    model = LLPEnsembleClassifier(QUICK, cv=splits).fit(DATA.X, DATA.y)
    board = model.leaderboard_
    assert [row["loss"] for row in board] == sorted(row["loss"] for row in board)
    np.testing.assert_allclose(model.weights_, [row["weight"] for row in board])
    held_out = np.empty(len(DATA.y))
    for k in range(3):
        out = fold == k
        alone = LLPClassifier(kernel=None).fit(DATA.X[~out], DATA.y[~out])
        moved = np.log(model.empirical_prior_) - np.log(alone.class_prior_)
        held_out[out] = alone.decision_function(DATA.X[out]) + moved[1] - moved[0]
    losses = BagObjective(check_bag_target(DATA.y)).bag_losses(held_out[None, None])
    (loss,) = (row["loss"] for row in board if row["learner"] == "linear")
    assert loss == pytest.approx(losses.mean() / 20, abs=1e-6)


def test_out_of_fold_scores_do_not_depend_on_the_counts_of_their_bags():
    splits, fold = splits_of(3)
    other, flipped = DATA.y.copy(), fold == 0
    # of the same mean, so that the class prior is the same
    order = np.unique(other["bag"][flipped], return_inverse=True)[1].reshape(-1)
    shares = other["proportion"][flipped][np.unique(order, return_index=True)[1]]
    other["proportion"][flipped] = shares[::-1][order]
    one, two = (LLPEnsembleClassifier(QUICK[:1], cv=splits).fit(DATA.X, y) for y in (DATA.y, other))
    assert not np.allclose(one.estimators_[0].coef_, two.estimators_[0].coef_)
    held = [model.out_of_fold_scores_[flipped] for model in (one, two)]
    np.testing.assert_allclose(*held, atol=1e-5)


def test_by_default_it_is_the_mixed_model_and_trees():
    model = LLPEnsembleClassifier(cv=3).fit(DATA.X, DATA.y)
    assert {row["learner"] for row in model.leaderboard_} == {"mixed", "boosted"}
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.8
    assert model.out_of_fold_scores_.shape == DATA.labels.shape
    shares = check_bag_target(DATA.y).class_shares
    np.testing.assert_allclose(model.predict_proba(DATA.X).mean(axis=0), shares, atol=0.05)


def test_models_of_other_kinds_are_fitted_once_more_for_each_fold():
    models = [("neural", LLPNeuralClassifier(hidden=(8,), max_epochs=40)), *QUICK]
    model = LLPEnsembleClassifier(models, cv=3).fit(DATA.X, DATA.y)
    assert {row["learner"] for row in model.leaderboard_} == {"neural", "linear", "boosted"}
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.8


@pytest.mark.parametrize("n_bags", [3, 9, 10, 33])
def test_any_number_of_bags_is_enough_for_two_folds(n_bags):
    data = make_gaussian_bags(n_bags=n_bags, bag_size=30, random_state=2)
    model = LLPEnsembleClassifier(QUICK).fit(data.X, data.y)
    assert np.isfinite(model.out_of_fold_scores_).all()
    assert len(model.estimators_) == 2


def test_its_file_does_not_grow_with_the_rows(tmp_path):
    sizes = []
    for bag_size in (20, 400):
        data = make_gaussian_bags(n_bags=30, bag_size=bag_size, n_features=3, random_state=0)
        trees = LLPBoostingClassifier(2, n_estimators=5)
        model = LLPEnsembleClassifier([("boosted", trees)]).fit(data.X, data.y)
        assert model.estimators_[0].cv == trees.cv
        sizes.append(save_model(model, tmp_path / "model.unbag").stat().st_size)
    assert sizes[1] < 1.1 * sizes[0]


# --- what is left out ---------------------------------------------------------------------------


def test_without_lightgbm_trees_are_left_out_and_it_is_said(monkeypatch):
    monkeypatch.setattr("unbag.models.ensemble.find_spec", lambda _: None)
    model = LLPEnsembleClassifier(cv=2).fit(DATA.X, DATA.y)
    assert {row["learner"]: row["note"] for row in model.leaderboard_} == {
        "mixed": "",
        "boosted": f"needs LightGBM: {install_command('boosting')}",
    }


def test_sparse_rows_are_rows():
    dense = LLPEnsembleClassifier(QUICK).fit(DATA.X, DATA.y)
    sparse = LLPEnsembleClassifier(QUICK).fit(csr_array(DATA.X), DATA.y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_array(DATA.X)), dense.decision_function(DATA.X), atol=0.3
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimators": "trees"}, r"estimators must be a list of pairs, .* not 'trees'"),
        ({"estimators": []}, r"estimators must be a list of pairs, .* not \[\]"),
        ({"estimators": [("a", LINEAR), ("a", LINEAR)]}, r"of different names"),
    ],
)
def test_mistakes_get_one_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        LLPEnsembleClassifier(**{"estimators": QUICK, **settings}).fit(DATA.X, DATA.y)


def test_one_bag_is_too_few():
    one = bag_target(np.zeros(40, dtype=int), counts=np.full(40, 20))
    with pytest.raises(ValueError, match="bag"):
        LLPEnsembleClassifier(QUICK).fit(DATA.X[:40], one)
