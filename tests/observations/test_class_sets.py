"""Sets of counts of several classes: against exact distributions of counts, and fitted."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from unbag import LLPClassifier, bag_target, bags_from_frame, check_bag_target
from unbag.observations.information import CountObservation


def observed(n, low, high, multiplicity=None):
    y = bag_target(np.zeros(n, int), low=[low] * n, high=[high] * n, multiplicity=multiplicity)
    return CountObservation(check_bag_target(y, accept=("multiplicity", "sets")))


def in_set(scores, low, high):
    """Log-probability of the set, and mean and covariance of the counts in it."""
    found = {(0,) * len(low): 1.0}
    for p in softmax(scores, axis=0).T:
        after = {}
        for counts, weight in found.items():
            for c, one in enumerate(p):
                more = (*counts[:c], counts[c] + 1, *counts[c + 1 :])
                after[more] = after.get(more, 0.0) + weight * one
        found = after
    counts, weight = np.array(list(found)), np.array(list(found.values()))
    weight *= ((counts >= low) & (counts <= high)).all(axis=1)
    mean = weight @ counts / weight.sum()
    off = counts - mean
    return np.log(weight.sum()), mean, (off.T * weight) @ off / weight.sum()


@pytest.mark.parametrize(
    ("n", "low", "high", "spread"),
    [
        (8, [1, 0, 2], [4, 8, 8], 1.0),
        (12, [0, 0, 0], [3, 12, 5], 1.0),
        (12, [1, 1, 1], [9, 9, 9], 3.0),
        (12, [8, 0, 0], [12, 4, 2], 3.0),  # far from what is expected
        (12, [3, 4, 0], [3, 9, 12], 1.0),  # one count is known
        (10, [1, 0, 0, 2], [4, 9, 3, 9], 1.0),
        (40, [0, 1, 10], [9, 9, 40], 1.0),
        (60, [50, 0, 0], [60, 60, 60], 1.0),
    ],
)
def test_probability_means_and_gradient_are_those_of_all_counts(n, low, high, spread):
    scores = spread * np.random.default_rng(n).normal(size=(len(low), n))
    observation = observed(n, low, high)
    value, residual = observation.value_and_residual(scores)
    exact, mean, covariance = in_set(scores, low, high)
    assert value == pytest.approx(exact, abs=1e-10)
    p = softmax(scores, axis=0)
    np.testing.assert_allclose((p + residual).sum(axis=1), mean, atol=1e-9)
    for c in range(len(low)):
        step = np.zeros_like(scores)
        step[c, n // 2] = 1e-5
        slope = (observation.value(scores + step) - observation.value(scores - step)) / 2e-5
        assert residual[c, n // 2] == pytest.approx(slope, abs=1e-7)
    # information of common shifts of all scores: what counts vary by, less what is left
    information = observation.information(scores, residual)
    sums = information.factors.sum(axis=2)
    found = information.weights.sum(axis=2) + sums @ sums.T
    V = np.einsum("cj,dj->cd", -p, p) + np.diag(p.sum(axis=1))
    np.testing.assert_allclose(found, V - covariance, atol=0.05 * np.trace(V))


def test_rows_with_multiplicities_are_repeated_rows():
    number = np.array([3, 1, 5, 2, 9])
    scores = np.random.default_rng(1).normal(size=(3, 5))
    joined = observed(5, [1, 0, 4], [9, 9, 20], number)
    rows = observed(20, [1, 0, 4], [9, 9, 20])
    value, residual = joined.value_and_residual(scores)
    other, slopes = rows.value_and_residual(np.repeat(scores, number, axis=1))
    assert value == pytest.approx(other, abs=1e-10)
    starts = np.cumsum(number) - number
    np.testing.assert_allclose(residual, np.add.reduceat(slopes, starts, axis=1), atol=1e-9)


def test_sets_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"bag 0 contradict its 8 instances"):
        observed(8, [4, 4, 4], [8, 8, 8])
    with pytest.raises(ValueError, match=r"two classes only"):
        bag_target([1] * 9, low=[[1, 1, 1]] * 9, high=[[5, 5, 5]] * 9, noise=1.0)


def test_model_of_hidden_counts_is_near_that_of_all():
    rng, n_bags, size = np.random.default_rng(2), 120, 40
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(bag), 2)) + 0.8 * rng.normal(size=(n_bags, 2))[bag]
    slopes = np.array([[0.0, 0.0], [1.0, -0.5], [-0.5, 1.0]])
    p = softmax(X @ slopes.T - [0.0, 1.5, 1.5], axis=1)
    label = (rng.random((len(bag), 1)) > p.cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(bag=bag)
    counts = pd.crosstab(bag, label)
    cells = counts.map(lambda n: "<15" if n < 15 else str(n)).rename(columns="class {}".format)
    hidden = cells.rename_axis("bag").reset_index()
    with pytest.warns(UserWarning, match=r"are sets: '<15'"):
        X, y = bags_from_frame(frame, hidden, on="bag", positives=list(hidden)[1:])
    assert 0.3 < (y["low"] < y["high"]).mean() < 0.9
    found = LLPClassifier(kernel=None).fit(X, y).coef_
    np.testing.assert_allclose(found - found[:1], slopes, atol=0.2)
