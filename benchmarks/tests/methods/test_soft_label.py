"""Soft labels: weighted logistic regression, however it is written down."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from unbag import BagKFold, bag_target
from unbag.datasets import make_gaussian_bags
from unbag_bench.methods import (
    SoftLabelClassifier,
    SoftLabelClassifierCV,
)

LinearSoftLabelClassifier = partial(SoftLabelClassifier, kernel="linear")
LinearSoftLabelClassifierCV = partial(SoftLabelClassifierCV, kernel="linear")

ALPHA = 1e-3
two_or_three = pytest.mark.parametrize("n_classes", [2, 3])


def make_data(n_classes=2, n_bags=30):
    """Bags of different sizes."""
    data = make_gaussian_bags(
        n_bags=n_bags, bag_size=20, n_features=3, n_classes=n_classes, random_state=0
    )
    kept = np.arange(len(data.y)) % 20 < 5 + data.y["bag"] % 16
    X, labels, bag = data.X[kept], data.labels[kept], data.y["bag"][kept]
    counts = np.stack([np.bincount(bag, labels == c) for c in range(n_classes)], axis=1)
    y = bag_target(bag, counts=(counts[:, 1] if n_classes == 2 else counts)[bag])
    return X, y, labels


def soft_labels(y):
    proportion = y["proportion"]
    return np.column_stack([1 - proportion, proportion]) if proportion.ndim == 1 else proportion


def logistic_regression(X, soft, class_weight, alpha=ALPHA, fit_intercept=True):
    """Every row once for each class, weighted by its soft label."""
    n, n_classes = soft.shape
    weight = (soft * class_weight).T.ravel()
    C = 1 / (2 * alpha * weight.sum())
    model = LogisticRegression(C=C, tol=1e-12, max_iter=10_000, fit_intercept=fit_intercept)
    rows, labels = np.tile(X, (n_classes, 1)), np.repeat(np.arange(n_classes), n)
    return model.fit(rows, labels, sample_weight=weight)


def centred(scores):
    return scores if scores.ndim == 1 else scores - scores.mean(axis=1, keepdims=True)


@two_or_three
@pytest.mark.parametrize("class_prior", ["empirical", "balanced"])
def test_equals_logistic_regression_on_weighted_copies_of_each_row(n_classes, class_prior):
    X, y, _ = make_data(n_classes)
    soft = soft_labels(y)
    class_weight = 1 if class_prior == "empirical" else 1 / soft.sum(axis=0)
    ours = LinearSoftLabelClassifier(ALPHA, class_prior=class_prior, tol=1e-10).fit(X, y)
    theirs = logistic_regression(X, soft, class_weight)
    np.testing.assert_allclose(
        centred(ours.decision_function(X)), centred(theirs.decision_function(X)), atol=1e-6
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    shares = soft.mean(axis=0)
    prior = shares if class_prior == "empirical" else np.full(n_classes, 1 / n_classes)
    np.testing.assert_allclose(ours.class_prior_, prior)


@two_or_three
def test_plain_labels_give_plain_logistic_regression(n_classes):
    X, _, labels = make_data(n_classes)
    theirs = LogisticRegression(C=1 / (2 * ALPHA * len(X)), tol=1e-12, max_iter=10_000)
    theirs.fit(X, labels)
    single = bag_target(np.arange(len(X)), np.eye(n_classes)[labels])
    for y in (labels, single):
        ours = LinearSoftLabelClassifier(ALPHA, class_prior="empirical", tol=1e-10).fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("class_prior", ["empirical", "balanced"])
@pytest.mark.parametrize(
    ("search", "single", "settings"),
    [
        (LinearSoftLabelClassifierCV, LinearSoftLabelClassifier, {}),
        # "scale" would differ from fold to fold
        (
            SoftLabelClassifierCV,
            SoftLabelClassifier,
            {"gamma": 0.3},
        ),
    ],
)
def test_batched_search_equals_fits_one_by_one(search, single, settings, class_prior):
    X, y, _ = make_data()
    alphas = [1e-1, 1e-2, 1e-3]
    settings = {**settings, "class_prior": class_prior, "tol": 1e-9}
    model = search(alphas, **settings).fit(X, y)
    held_out = np.empty((3, len(y)))
    for train, test in BagKFold(5).split(X, y):
        for number, alpha in enumerate(alphas):
            fold = single(alpha, **settings).fit(X[train], y[train])
            held_out[number, test] = fold.decision_function(X[test])
    soft = soft_labels(y)
    weight = soft if class_prior == "empirical" else soft / soft.mean(axis=0) / 2
    probability = 1 / (1 + np.exp(-held_out))
    risks = [
        log_loss(
            np.repeat([0, 1], len(y)),
            np.tile(p, 2),
            sample_weight=weight.T.ravel(),
            normalize=False,
        )
        / len(y)
        for p in probability
    ]
    np.testing.assert_allclose(model.selection_risks_, risks, atol=1e-6)
    best = int(np.argmin(risks))
    assert model.alpha_ == alphas[best]
    np.testing.assert_allclose(model.out_of_fold_scores_, held_out[best], atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        SoftLabelClassifier,
        SoftLabelClassifierCV,
        LinearSoftLabelClassifier,
        LinearSoftLabelClassifierCV,
    ],
)
def test_three_classes(estimator):
    data = make_gaussian_bags(n_bags=60, bag_size=15, n_classes=3, separation=4.0, random_state=0)
    model = estimator().fit(data.X, data.y)
    assert model.decision_function(data.X).shape == (900, 3)
    assert (model.predict(data.X) == data.labels).mean() > 0.85


def test_learns_the_mean_proportion_of_the_bags_an_instance_may_come_from():
    """E[γ | x] = (r E[γ²] + E[γ(1 − γ)]) / (r E[γ] + E[1 − γ]) with r = p₊/p₋ at x."""
    data = make_gaussian_bags(
        n_bags=60, bag_size=50, n_features=1, proportions=(0.0, 0.5), random_state=0
    )
    x = np.linspace(-2, 2, 41)[:, None]
    # Gaussians at ±1: log p₊/p₋ = 2x, the sign left to the data set
    side = np.sign(data.X[data.labels == 1].mean())
    ratio = np.exp(2 * side * x[:, 0])
    gamma, n = data.y["proportion"], len(data.y)
    first, second = gamma.sum() / n, (gamma**2).sum() / n
    expected = (ratio * second + first - second) / (ratio * first + 1 - first)
    empirical = SoftLabelClassifier(1e-4, class_prior="empirical").fit(data.X, data.y)
    np.testing.assert_allclose(empirical.predict_proba(x)[:, 1], expected, atol=0.05)
    assert not empirical.predict(x).any()
    # so that the balanced prior finds where the densities meet
    balanced = SoftLabelClassifier(1e-4).fit(data.X, data.y)
    far = np.abs(x[:, 0]) > 0.15
    np.testing.assert_array_equal(balanced.predict(x)[far], (ratio > 1)[far])


def test_unknown_class_prior_is_named():
    X, y, _ = make_data()
    with pytest.raises(ValueError, match="class_prior must be"):
        LinearSoftLabelClassifier(class_prior="uniform").fit(X, y)
