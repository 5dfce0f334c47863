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
    [("likelihood", 5e-3), ("forward", 5e-3)],
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


def test_number_of_threads_changes_rounding_only():
    X, y = np.tile(DATA.X, (3, 1)), np.tile(DATA.y, 3)
    y["bag"] += np.repeat([0, 100, 200], len(DATA.y))
    scores = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            scores.append(LLPKernelClassifier(tol=1e-6).fit(X, y).decision_function(DATA.X))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3)


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
