"""Kernel models against the linear one, against each other and against themselves."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from unbag import LLPKernelClassifier, LLPLinearClassifier
from unbag.datasets import make_gaussian_bags
from unbag.paper import Setting, make_trial

DATA = make_gaussian_bags(n_bags=30, bag_size=20, n_features=3, random_state=0)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_kernel_equals_linear_model(n_classes, loss):
    if n_classes > 2 and loss != "logistic":
        return  # refused; see the tests of the losses
    data = make_gaussian_bags(
        n_bags=30, bag_size=20, n_features=3, n_classes=n_classes, random_state=0
    )
    kernel = LLPKernelClassifier(0.01, kernel="linear", precision="double", tol=1e-9, loss=loss)
    linear = LLPLinearClassifier(
        0.01,
        training_prior="auto",
        # kernels have an intercept where a likelihood is maximised
        fit_intercept=loss == "logistic",
        tol=1e-9,
        loss=loss,
    )
    one, other = (m.fit(data.X, data.y).decision_function(data.X) for m in (kernel, linear))
    np.testing.assert_allclose(one, other, atol=1e-6)


@cache
def bags_of(dataset):
    return make_trial(Setting(dataset, (0.0, 0.5), 128), seed=0)


@pytest.mark.parametrize("dataset", ["magic", "adult"])
@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
@pytest.mark.parametrize(
    # with the likelihood the minimum is so flat that rounding ends the search a little earlier
    ("objective", "within"),
    [("corrected", 1e-3), ("likelihood", 5e-3), ("forward", 5e-3)],
)
def test_single_precision_scores_are_close(dataset, alpha, objective, within):
    trial = bags_of(dataset)
    bags = trial.y["bag"] < 6
    X, y = trial.X[bags], trial.y[bags]
    single, double = (
        LLPKernelClassifier(alpha, objective=objective, precision=precision, tol=1e-5).fit(X, y)
        for precision in ("single", "double")
    )
    assert single.converged_
    assert double.converged_
    X_test = trial.X_test[:500]
    np.testing.assert_allclose(
        single.decision_function(X_test), double.decision_function(X_test), atol=within
    )


def test_precomputed_kernel_equals_its_name():
    named = LLPKernelClassifier(gamma=0.5, precision="double").fit(DATA.X, DATA.y)
    given = LLPKernelClassifier(kernel="precomputed", precision="double")
    given.fit(rbf_kernel(DATA.X, gamma=0.5), DATA.y)
    new = DATA.X[:50] + 0.1
    np.testing.assert_allclose(
        given.decision_function(rbf_kernel(new, DATA.X, gamma=0.5)),
        named.decision_function(new),
        atol=1e-9,
    )


def test_polynomial_kernel_of_degree_one_is_linear_with_a_penalised_intercept():
    settings = {"alpha": 0.01, "objective": "corrected", "training_prior": "auto", "tol": 1e-9}
    kernel = LLPKernelClassifier(
        kernel="poly", degree=1, gamma=1.0, coef0=1.0, precision="double", **settings
    )
    linear = LLPLinearClassifier(fit_intercept=False, **settings)
    with_one = np.column_stack([DATA.X, np.ones(len(DATA.X))])
    np.testing.assert_allclose(
        kernel.fit(DATA.X, DATA.y).decision_function(DATA.X),
        linear.fit(with_one, DATA.y).decision_function(with_one),
        atol=1e-6,
    )


def test_number_of_threads_changes_rounding_only():
    X, y = np.tile(DATA.X, (3, 1)), np.tile(DATA.y, 3)
    y["bag"] += np.repeat([0, 100, 200], len(DATA.y))
    scores = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            scores.append(LLPKernelClassifier(tol=1e-6).fit(X, y).decision_function(DATA.X))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)


@pytest.mark.parametrize("merge", ["blockwise_pairwise", "blockwise_max"])
@pytest.mark.parametrize("weights", ["pairs", "least_squares"])
@pytest.mark.parametrize("bag_model", ["instances", "bags"])
def test_all_ways_to_weigh_bags_learn(weights, bag_model, merge):
    model = LLPKernelClassifier(1e-2, weights=weights, bag_model=bag_model, merge=merge)
    model.fit(DATA.X, DATA.y)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.78


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "hinge", "sigmoid", "ramp"])
def test_all_losses_learn(loss):
    model = LLPKernelClassifier(1e-2, loss=loss).fit(DATA.X, DATA.y)
    assert (model.predict(DATA.X) == DATA.labels).mean() > 0.78


def test_nonnegative_correction_keeps_class_risks_up():
    from unbag import check_bag_target
    from unbag.observations.corrected_risk import CorrectedRisk
    from unbag.observations.losses import get_loss
    from unbag.weights.decontamination import decontamination_weights

    bags = check_bag_target(DATA.y)
    W = decontamination_weights(bags)
    risk = CorrectedRisk(W, bags.membership, get_loss("logistic"), np.array([0.5, 0.5]), "none")
    lowest = {}
    for correction in ("nonnegative", "none"):
        model = LLPKernelClassifier(1e-5, objective="corrected", correction=correction)
        model.fit(DATA.X, DATA.y)
        scores = model.decision_function(DATA.X)[None, None]
        lowest[correction] = risk.class_risks(scores, np.zeros(1, dtype=int)).min()
    assert lowest["none"] < -0.2
    assert lowest["nonnegative"] > -0.11


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": "narrow"}, "gamma must be"),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"precision": "half"}, "precision must be"),
        ({"kernel": "precomputed"}, "must be square"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LLPKernelClassifier(**settings).fit(DATA.X, DATA.y)


def test_a_kernel_matrix_too_large_for_memory_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr("unbag.kernels.matrices.physical_memory", lambda: 10**6)
    with pytest.raises(MemoryError, match="approximation='nystroem'"):
        LLPKernelClassifier(approximation=None).fit(DATA.X, DATA.y)
