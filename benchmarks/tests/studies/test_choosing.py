"""What `benchmarks/choosing_rules.py` computes itself: losses of single bags, and the evidence."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from unbag import bag_target, check_bag_target
from unbag.observations import CountLikelihood, ForwardLikelihood
from unbag_bench.studies.choosing_rules import (
    curvatures,
    losses_by_bag,
    minus_log_evidence,
    resampled,
    within,
)


def make_set(size, n_bags, n_columns, seed=0):
    """Columns and bags, in an order that is not that of the bags; some bags are pure."""
    rng = np.random.default_rng(seed)
    bag = rng.permutation(np.repeat(np.arange(n_bags), size))
    X = rng.normal(size=(size * n_bags, n_columns))
    w = rng.normal(size=n_columns)
    labels = rng.random(len(X)) < expit(X @ w - 0.5)
    labels[bag == 0], labels[bag == 1] = False, True
    counts = np.bincount(bag, labels)[bag]
    return X, w, check_bag_target(bag_target(bag, counts=counts))


@pytest.mark.parametrize("size", [20, 64])
def test_losses_of_bags_sum_to_the_likelihoods(size):
    X, w, bags = make_set(size, 12, 3)
    scores = np.stack([X @ w - 0.5, 0.1 * X @ w])
    everybody, problem = np.ones(12, dtype=bool), np.zeros(2, dtype=int)
    for losses, kind in zip(
        losses_by_bag(scores, bags), (CountLikelihood, ForwardLikelihood), strict=True
    ):
        whole = kind(everybody, bags).value(scores[:, None], problem)
        np.testing.assert_allclose(losses.sum(axis=1) / len(X), whole, rtol=1e-7)


def test_curvature_is_that_of_the_likelihood():
    """By finite differences: the covariance given counts is exact up to terms of 1/size."""
    X, w, bags = make_set(400, 30, 2)
    Z, theta = np.column_stack([X, np.ones(len(X))]), np.append(w, -0.5)
    objective = CountLikelihood(np.ones(30, dtype=bool), bags)

    def slope(theta):
        scores = (Z @ theta)[None, None]
        return len(X) * Z.T @ objective.value_and_gradient(scores, np.zeros(1, int))[1][0, 0]

    steps = 1e-4 * np.eye(3)
    expected = np.array([(slope(theta + h) - slope(theta - h)) / 2e-4 for h in steps])
    (found,) = curvatures(X, (Z @ theta)[None], bags)
    np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected).max())


def test_evidence_is_the_integral_over_the_slope():
    """One column: the chance of the counts, integrated over its coefficient on a grid."""
    X, _, bags = make_set(32, 60, 1)
    N, alphas = len(X), 10.0 ** -np.arange(1, 5)
    objective = CountLikelihood(np.ones(60, dtype=bool), bags)
    slopes, intercepts = np.linspace(-4, 4, 401), np.linspace(-1.5, 0.5, 41)
    scores = slopes[:, None, None] * X[:, 0] + intercepts[:, None]
    grid = np.array([objective.value(f[:, None], np.zeros(41, dtype=int)) for f in scores])
    profile = grid.min(axis=1)  # the intercept at its best, as the fit has it
    best = (profile + alphas[:, None] * slopes**2).argmin(axis=1)
    prior = np.exp(-N * alphas[:, None] * slopes**2)
    exact = -logsumexp(-N * profile, b=prior / prior.sum(axis=1, keepdims=True), axis=1)
    fits = scores[best, grid.argmin(axis=1)[best]]
    found = minus_log_evidence(X, fits, profile[best], slopes[best][:, None], alphas, bags)
    np.testing.assert_allclose(found, exact, atol=0.2)
    assert np.ptp(exact) > 1


def test_penalties_that_bags_do_not_tell_apart():
    losses = np.array([[1.0, 3.0, 2.0, 4.0], [1.1, 2.7, 2.3, 4.0], [2.0, 4.0, 3.0, 5.0]])
    assert within(losses, 0, 1.0).tolist() == [True, True, False]
    np.testing.assert_array_equal(resampled([losses, losses])[2], 0)
    assert resampled([losses, losses]).sum() == pytest.approx(1)
