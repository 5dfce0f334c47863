"""LMMCM, the paper's Algorithm 1: its classifiers and the search of their penalty."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from unbag import BagKFold, BagShuffleSplit, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.losses import LOSSES, get_loss
from unbag.paper import LMMCMClassifier, LMMCMClassifierCV, bag_weights
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.experiments import METHODS
from unbag.weights import decontamination_weights, pooled_shares, precision

DATA = make_gaussian_bags(n_bags=25, bag_size=20, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=40, bag_size=8, n_classes=3, random_state=0)
NEW = DATA.X[:50] + 0.1
HALF = np.array([0.5, 0.5])
ALPHA = 1e-2
TRAINABLE = [name for name, loss in LOSSES.items() if loss.trainable]
FIRST = np.zeros(1, dtype=np.intp)


def labelled(n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.repeat(np.arange(n_classes), 40 * np.arange(1, n_classes + 1))
    return rng.normal(size=(len(y), 3)) + y[:, None], y


# --- a single penalty ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_classes", "weights"), [(2, "least_squares"), (2, "pairs"), (3, "least_squares")]
)
def test_pure_bags_equal_balanced_logistic_regression(n_classes, weights):
    X, y = labelled(n_classes)
    ours = LMMCMClassifier(ALPHA, kernel="linear", weights=weights, tol=1e-10).fit(X, y)
    theirs = LogisticRegression(
        C=1 / (2 * ALPHA * len(y)), class_weight="balanced", tol=1e-12, max_iter=10_000
    ).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    if n_classes == 2:
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


@pytest.mark.parametrize("merge", [None, "blockwise_pairwise", "blockwise_max"])
@pytest.mark.parametrize("weights", ["pairs", "least_squares"])
@pytest.mark.parametrize("bag_model", ["instances", "bags"])
def test_all_ways_to_weigh_bags_learn(weights, bag_model, merge):
    model = LMMCMClassifier(ALPHA, weights=weights, bag_model=bag_model, merge=merge)
    model.fit(DATA.X, DATA.y)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.78


@pytest.mark.parametrize("loss", TRAINABLE)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_all_losses_learn(loss, kernel):
    model = LMMCMClassifier(ALPHA, kernel=kernel, loss=loss).fit(DATA.X, DATA.y)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.78
    assert hasattr(model, "predict_proba") == LOSSES[loss].gives_probabilities


def test_solution_is_a_minimum_of_the_corrected_risk():
    """No direction leads downhill: α‖f‖² + R is larger at points around the solution."""
    settings = {"weights": "pairs", "training_prior": "same", "tol": 1e-8}
    model = LMMCMClassifier(ALPHA, gamma=0.3, **settings).fit(DATA.X, DATA.y)
    K = rbf_kernel(DATA.X, gamma=0.3)
    bags = check_bag_target(DATA.y)
    W = bag_weights(bags, method="pairs")
    risk = CorrectedRisk(W, bags, get_loss("logistic"), HALF, "none")

    def value(coef):
        return risk.value((coef @ K)[None, None], FIRST)[0] + ALPHA * coef @ K @ coef

    found = model.dual_coef_[0]
    for step in np.random.default_rng(0).normal(size=(20, len(found))) * 1e-4:
        assert value(found) < value(found + step)


def test_nonnegative_correction_keeps_class_risks_up():
    bags = check_bag_target(DATA.y)
    W = bag_weights(bags)
    risk = CorrectedRisk(W, bags, get_loss("logistic"), HALF, "none")
    lowest = {}
    for correction in ("nonnegative", "none"):
        model = LMMCMClassifier(1e-5, correction=correction).fit(DATA.X, DATA.y)
        scores = model.decision_function(DATA.X)[None, None]
        lowest[correction] = risk.class_risks(scores, FIRST).min()
    assert lowest["none"] < -0.2
    assert lowest["nonnegative"] > -0.11


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_pooled_training_prior_moves_scores_by_the_log_odds(kernel):
    y = bag_target(np.repeat(np.arange(10), 50), np.repeat(np.linspace(0.05, 0.5, 10), 50))
    settings = {"kernel": kernel, "tol": 1e-9}
    pooled = LMMCMClassifier(ALPHA, training_prior="pooled", **settings).fit(DATA.X, y)
    at_shares = LMMCMClassifier(
        ALPHA, training_prior="same", class_prior="empirical", **settings
    ).fit(DATA.X, y)
    share = at_shares.class_prior_[1]
    moved = pooled.decision_function(NEW) + np.log(share / (1 - share))
    if kernel == "linear":  # whose intercept takes the move up
        np.testing.assert_allclose(moved, at_shares.decision_function(NEW), atol=1e-4)
    assert (pooled.training_prior_, at_shares.training_prior_) == ("pooled", "same")


@pytest.mark.parametrize(
    ("settings", "target", "expected"),
    [
        ({}, DATA.y, "pooled"),
        ({"kernel": "linear"}, DATA.y, "same"),
        ({"weights": "pairs"}, DATA.y, "same"),
        ({"loss": "hinge"}, DATA.y, "same"),
        ({"class_prior": (0, 1)}, DATA.y, "same"),
        ({}, DATA.labels, "same"),
    ],
)
def test_automatic_training_prior(settings, target, expected):
    model = LMMCMClassifier(ALPHA, **settings).fit(DATA.X, target)
    assert model.training_prior_ == expected


# --- at the shares of all bags -------------------------------------------------------------------


@pytest.mark.parametrize("bag_model", ["instances", "bags"])
@pytest.mark.parametrize("noise", [None, 0.05])
@pytest.mark.parametrize("data", [DATA, THREE], ids=["two", "three"])
def test_every_bag_has_a_positive_weight_at_the_pooled_shares(data, noise, bag_model):
    """W q = v: what makes the risk convex there."""
    bags = check_bag_target(data.y)
    if noise is not None:
        covariance = noise**2 * (np.eye(bags.n_classes) - 1 / bags.n_classes)
        bags = replace(bags, noise=np.broadcast_to(covariance, (bags.n_bags, *covariance.shape)))
    included = np.arange(bags.n_bags)[None] % np.array([[1000], [3]]) != 1
    for row, shares in zip(included, pooled_shares(bags, bag_model, included), strict=True):
        part, _ = bags.take(row)
        W = decontamination_weights(part, bag_model=bag_model)
        draws = precision(part, bag_model)
        np.testing.assert_allclose(W @ shares, draws / draws.sum(), rtol=1e-9)


def test_pooled_risk_is_logistic_regression_on_stretched_shares():
    """At the overall class prior an instance has the soft label q + μ(γ − q), which may leave [0, 1]."""
    model = LMMCMClassifier(1e-2, kernel="linear", training_prior="pooled", tol=1e-9)
    model.fit(DATA.X, DATA.y)
    share = DATA.y["proportion"]
    mean = share.mean()
    stretched = mean + mean * (1 - mean) / share.var() * (share - mean)

    def loss(theta):
        f = DATA.X @ theta[:-1] + theta[-1]
        return np.mean(np.logaddexp(0, f) - stretched * f) + 1e-2 * np.sum(theta[:-1] ** 2)

    best = minimize(loss, np.zeros(DATA.X.shape[1] + 1), tol=1e-12).x
    np.testing.assert_allclose(model.coef_[0], best[:-1], atol=1e-4)
    # moved from the overall class prior to equal ones
    np.testing.assert_allclose(model.intercept_[0], best[-1] - np.log(mean / (1 - mean)), atol=1e-4)


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two", "three"])
def test_at_the_pooled_shares_both_training_priors_are_the_same(data):
    shares = check_bag_target(data.y).class_shares
    scores = [
        LMMCMClassifier(1e-3, kernel="linear", class_prior=shares, training_prior=prior, tol=1e-9)
        .fit(data.X, data.y)
        .decision_function(data.X)
        for prior in ("pooled", "same")
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


def test_pooled_selection_keeps_class_risks_from_turning_negative():
    """Even where the fit does not, as it would choose what fits the noise of its weights best."""
    data = make_gaussian_bags(n_bags=20, bag_size=10, n_features=3, random_state=4)
    model = LMMCMClassifierCV([1e-4], training_prior="same").fit(data.X, data.y)
    bags = check_bag_target(data.y)
    W, even = decontamination_weights(bags), np.array([0.5, 0.5])
    free, bounded = (
        CorrectedRisk(W, bags, get_loss("logistic"), even, correction).value(
            model.out_of_fold_scores_[None, None], FIRST
        )[0]
        for correction in ("none", "nonnegative")
    )
    assert model.selection_risks_[0] == pytest.approx(bounded, rel=1e-9)
    assert free < bounded - 1e-3


# --- functions ----------------------------------------------------------------------------------


def test_sparse_instances_give_the_same_model():
    settings = {"kernel": "linear", "tol": 1e-8}
    dense = LMMCMClassifier(ALPHA, **settings).fit(DATA.X, DATA.y)
    sparse = LMMCMClassifier(ALPHA, **settings).fit(csr_array(DATA.X), DATA.y)
    np.testing.assert_allclose(
        dense.decision_function(NEW), sparse.decision_function(csr_array(NEW)), atol=1e-3
    )


def test_models_can_be_cloned_and_pickled():
    model = LMMCMClassifierCV([1e-1, 1e-2], gamma="auto")
    model = clone(model).fit(DATA.X, DATA.y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.decision_function(NEW), again.decision_function(NEW))


# --- search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "linear"},
        # "scale" would differ from fold to fold
        {"gamma": 0.3, "weights": "pairs"},
        {"gamma": 0.3, "training_prior": "pooled"},
    ],
)
@pytest.mark.parametrize("selection", ["pooled", "folds"])
def test_batched_search_equals_fits_one_by_one(settings, selection):
    alphas, settings = [1e-1, 1e-2, 1e-3], {**settings, "tol": 1e-9}
    model = LMMCMClassifierCV(alphas, selection=selection, **settings).fit(DATA.X, DATA.y)
    method = settings.get("weights", "least_squares")
    held_out, by_fold = np.empty((3, len(DATA.y))), []

    def risk_of(y, scores, correction):
        bags = check_bag_target(y)
        prior, offset = HALF, 0.0
        if settings.get("training_prior", "same") == "pooled" or (
            method == "least_squares" and "gamma" in settings
        ):
            prior = bags.class_shares
            offset = np.log(prior[1] / prior[0])
        W = bag_weights(bags, method=method)
        risk = CorrectedRisk(W, bags, get_loss("logistic"), prior, correction)
        return risk.value((scores + offset)[None, None], FIRST)[0]

    for train, test in BagKFold(5).split(DATA.X, DATA.y):
        for number, alpha in enumerate(alphas):
            fold = LMMCMClassifier(alpha, **settings).fit(DATA.X[train], DATA.y[train])
            held_out[number, test] = fold.decision_function(DATA.X[test])
        by_fold.append([risk_of(DATA.y[test], row[test], "none") for row in held_out])
    if selection == "folds":
        expected = np.array(by_fold)
    else:
        expected = np.array([risk_of(DATA.y, row, "nonnegative") for row in held_out])
    np.testing.assert_allclose(model.selection_risks_, expected, atol=1e-5)
    mean = expected if expected.ndim == 1 else expected.mean(axis=0)
    best = int(np.argmin(mean))
    assert model.alpha_ == alphas[best]
    np.testing.assert_allclose(model.out_of_fold_scores_, held_out[best], atol=1e-4)
    again = LMMCMClassifier(model.alpha_, **settings).fit(DATA.X, DATA.y)
    np.testing.assert_allclose(
        model.decision_function(NEW), again.decision_function(NEW), atol=1e-4
    )


def test_folds_that_hold_out_some_bags_only_choose_by_folds():
    cv = BagShuffleSplit(3, random_state=0)
    with pytest.raises(ValueError, match="selection='pooled' needs a cv that holds out every bag"):
        LMMCMClassifierCV(cv=cv).fit(DATA.X, DATA.y)
    model = LMMCMClassifierCV(cv=cv, selection="folds").fit(DATA.X, DATA.y)
    assert model.out_of_fold_scores_ is None
    assert model.selection_risks_.shape == (3, 11)


def test_folds_whose_bags_are_alike_say_nothing():
    y = bag_target(np.repeat(np.arange(4), 125), np.repeat([0.2, 0.8, 0.2, 0.8], 125))
    rows = np.arange(500)
    folds = [(rows[y["bag"] != b], rows[y["bag"] == b]) for b in range(4)]
    with pytest.raises(ValueError, match="In no fold do the held-out bags differ"):
        LMMCMClassifierCV(cv=folds, selection="folds").fit(DATA.X, y)
    two = np.isin(y["bag"], [0, 1])
    folds[:2] = [(rows[~two], rows[two])]
    with pytest.warns(UserWarning, match=r"folds \[2, 3\] all have the same proportion"):
        LMMCMClassifierCV(cv=folds, selection="folds").fit(DATA.X, y)


def test_the_published_settings():
    model = METHODS["lmmcm-paper"].estimator
    assert list(model.alphas) == pytest.approx([1, 0.1, 0.01, 1e-3, 1e-4, 1e-5])
    chosen = (model.cv, model.selection, model.gamma, model.weights, model.correction, model.loss)
    assert chosen == (5, "folds", "scale", "pairs", "none", "logistic")


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": "narrow"}, "gamma must be"),
        ({"weights": "all"}, "weights must be one of"),
        ({"bag_model": "rows"}, "bag_model must be one of"),
        ({"merge": "random"}, "merge must be None or one of"),
        ({"loss": "zero_one"}, "measures a classifier but cannot train one"),
        ({"correction": "clip"}, "correction must be one of"),
        ({"training_prior": "best"}, "training_prior must be one of"),
        ({"training_prior": "pooled", "class_prior": (0, 1)}, "class_prior positive"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"tol": 0.0}, "tol must be a positive number"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LMMCMClassifier(**settings).fit(DATA.X, DATA.y)


def test_what_is_for_two_classes_is_said():
    three = np.arange(len(DATA.X)) % 3
    for settings in ({"weights": "pairs"}, {"loss": "hinge"}):
        with pytest.raises(ValueError, match="is for two classes and there are 3"):
            LMMCMClassifier(**settings).fit(DATA.X, three)


def test_fits_that_do_not_converge_are_counted():
    with pytest.warns(ConvergenceWarning, match="did not converge within max_iter=1 iterations"):
        LMMCMClassifierCV(max_iter=1).fit(DATA.X, DATA.y)


def test_a_loss_without_probabilities_has_none():
    model = LMMCMClassifier(kernel="linear", loss="hinge").fit(DATA.X, DATA.y)
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(DATA.X)
