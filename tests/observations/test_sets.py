"""Counts known as sets: against enumeration in small bags, against exact sums in larger ones."""

from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

from unbag import bag_target, check_bag_target
from unbag.bags.count_sets import CountWeights
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.information import CountObservation

SETS = [(0, 0), (1, 12), (1, 3), (4, 9), (6, 6), (0, 7), (11, 12), (0, 12)]


def observed(sizes, low, high, noise=None, multiplicity=None, order=None):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    if order is not None:
        bag = bag[order]
    names = range(len(sizes))
    y = bag_target(
        bag,
        low=dict(zip(names, low, strict=True)),
        high=dict(zip(names, high, strict=True)),
        noise=None if noise is None else dict(zip(names, noise, strict=True)),
        multiplicity=multiplicity,
    )
    return check_bag_target(y, accept=("multiplicity", "sets"))


def count_distribution(scores):
    found = np.ones(1)
    for p in expit(scores):
        found = np.append(found * (1 - p), 0) + np.append(0, found * p)
    return found


def enumerate_bag(scores, low, high):
    """log Pr(low <= K <= high), posterior means and covariance of labels, over all labels."""
    labels = np.array(list(product([0, 1], repeat=len(scores))))
    weight = np.exp(labels @ scores - np.log1p(np.exp(scores)).sum())
    weight *= (labels.sum(axis=1) >= low) & (labels.sum(axis=1) <= high)
    mean = weight @ labels / weight.sum()
    return (
        np.log(weight.sum()),
        mean,
        (labels.T * weight) @ labels / weight.sum() - np.outer(mean, mean),
    )


def dense(information):
    u = information.factors[0]
    return np.diag(information.weights[0, 0]) + u.T @ u


@pytest.mark.parametrize(("low", "high"), SETS)
@pytest.mark.parametrize("spread", [0.0, 0.7, 2.0])
def test_small_bags_are_enumerated(low, high, spread):
    n = 12
    scores = 0.3 + spread * np.random.default_rng(0).normal(size=n)
    observation = CountObservation(observed([n], [low], [high]))
    value, residual = observation.value_and_residual(scores[None])
    exact, mean, covariance = enumerate_bag(scores, low, high)
    p = expit(scores)
    assert value == pytest.approx(exact, abs=1e-10)
    np.testing.assert_allclose(residual[0], mean - p, atol=1e-10)
    # the variances of labels and of their sum are exact, the covariances to first order
    found = np.diag(p * (1 - p)) - dense(observation.information(scores[None], residual))
    np.testing.assert_allclose(np.diag(found), np.diag(covariance), atol=1e-6)
    assert found.sum() == pytest.approx(covariance.sum(), abs=1e-3)
    scale = np.sqrt(np.outer(p * (1 - p), p * (1 - p)))
    assert np.abs((found - covariance) / scale).max() < (1e-4 if spread == 0 else 0.12)


@pytest.mark.parametrize(("low", "high"), [(2, 6), (0, 3), (5, 12)])
def test_noise_before_hiding_composes(low, high):
    n, sd = 12, 1.5
    scores = np.random.default_rng(1).normal(size=n)
    observation = CountObservation(observed([n], [low], [high], [sd]))
    k = np.arange(n + 1)
    upper = norm.cdf((high + 0.5 - k) / sd) if high < n else 1.0
    lower = norm.cdf((low - 0.5 - k) / sd) if low > 0 else 0.0
    exact = np.log(count_distribution(scores) @ (upper - lower))
    assert observation.value(scores[None]) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("sd", [0.0, 2.0])
def test_larger_bags_are_close_to_exact_sums_and_gradients_to_differences(sd):
    rng = np.random.default_rng(2)
    sizes = [20, 40, 90, 300]
    low, high = [1, 10, 1, 151], [9, 14, 90, 300]
    scores = rng.normal(-1, 1, sum(sizes))
    bags = observed(sizes, low, high, None if sd == 0 else [sd] * 4)
    likelihood = CountLikelihood(np.ones(4, dtype=bool), bags)
    losses = likelihood.bag_losses(scores[None, None])[0]
    for b, start in enumerate(np.cumsum(sizes) - sizes):
        pmf, k = count_distribution(scores[start : start + sizes[b]]), np.arange(sizes[b] + 1)
        if sd == 0:
            weight = (k >= low[b]) & (k <= high[b])
        else:
            upper = norm.cdf((high[b] + 0.5 - k) / sd) if high[b] < sizes[b] else 1.0
            weight = upper - norm.cdf((low[b] - 0.5 - k) / sd)
        assert losses[b] == pytest.approx(-np.log(pmf @ weight), abs=0.01)
    problem = np.zeros(1, dtype=int)
    _, gradient = likelihood.value_and_gradient(scores[None, None], problem)
    for j in [0, 30, 70, 200, 449]:
        step = 1e-5 * (np.arange(len(scores)) == j)
        ends = [likelihood.value((scores + s)[None, None], problem)[0] for s in (step, -step)]
        assert gradient[0, 0, j] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-9)


def test_gradient_is_continuous_where_the_limit_is_the_mean():
    scores = np.random.default_rng(3).normal(size=40)
    likelihood = CountLikelihood(np.ones(1, dtype=bool), observed([40], [20], [40]))
    middle = scores - np.log(expit(scores).mean() / (1 - expit(scores).mean()))
    problem = np.zeros(1, dtype=int)
    found = [
        likelihood.value_and_gradient((middle + shift)[None, None], problem)[1][0, 0]
        for shift in np.linspace(-0.3, 0.3, 241)
    ]
    assert np.abs(np.diff(found, 2, axis=0)).max() < 2e-5


def test_scores_of_any_size_and_multiplicities():
    sizes, number = [6, 8], np.random.default_rng(4).integers(1, 9, 14)
    bags = observed(sizes, [1, 12], [9, 20], multiplicity=number)
    rows = observed([number[:6].sum(), number[6:].sum()], [1, 12], [9, 20])
    scores = np.random.default_rng(5).normal(size=(1, 14))
    repeated = np.repeat(scores, number, axis=1)
    for factor in (1.0, 50.0, 2000.0):
        value, residual = CountObservation(bags).value_and_residual(factor * scores)
        other, slopes = CountObservation(rows).value_and_residual(factor * repeated)
        assert np.isfinite(value)
        assert value == pytest.approx(other, rel=1e-9)
        joined = np.add.reduceat(slopes[0], np.cumsum(number) - number)
        np.testing.assert_allclose(residual[0], joined, atol=1e-8)


@pytest.mark.parametrize("effect", [0.3, 2.0])
def test_random_intercepts_make_value_and_gradient_consistent(effect):
    sizes = [12, 30, 60]
    bags = observed(sizes, [1, 1, 10], [9, 30, 19])
    observation = CountObservation(bags).with_bag_effects(effect)
    scores = np.random.default_rng(6).normal(-1, 1, (1, sum(sizes)))
    _, residual = observation.value_and_residual(scores)
    for j in [0, 20, 80]:
        step = 1e-4 * (np.arange(sum(sizes)) == j)[None]
        slope = (observation.value(scores + step) - observation.value(scores - step)) / 2e-4
        assert residual[0, j] == pytest.approx(slope, abs=2e-2 * abs(slope) + 1e-3)


def test_set_of_one_count_is_the_count():
    bags = observed([5, 40], [2, 11], [2, 11])
    exact = check_bag_target(bag_target(bags.index, counts={0: 2, 1: 11}))
    scores = np.random.default_rng(7).normal(size=(1, 45))
    assert CountObservation(bags).value(scores) == CountObservation(exact).value(scores)


@pytest.mark.parametrize(
    ("n", "low", "high"), [(9, 1, 5), (80, 1, 3), (80, 1, 9), (80, 10, 30), (200, 0, 30)]
)
def test_under_label_shift_counts_in_a_set_have_weights(n, low, high):
    bags = observed([n, n, n], [low, 2, 5], [high, 2, 5])
    observation = CountObservation(bags).with_label_shift(1.0)
    scores = np.random.default_rng(8).normal(-1.5, 1.0, (1, 3 * n))
    value, residual = observation.value_and_residual(scores)
    weights = np.exp(CountWeights(bags, 1.0).logs(np.arange(n + 1.0)[None], np.array([n]))[0])
    # with them, counts are distributed as shares of bags say
    shares = binom.pmf(np.arange(n + 1), n, bags.class_shares[1]) * weights
    assert shares.sum() == pytest.approx(1.0, abs=1e-9)
    inside = slice(low, high + 1)
    known = sum(
        np.log(count_distribution(scores[0, i * n : (i + 1) * n])[k]) for i, k in ((1, 2), (2, 5))
    )
    exact = np.log(count_distribution(scores[0, :n])[inside] @ weights[inside]) + known
    assert value == pytest.approx(exact, abs=1e-9 if n < 12 else 0.1)
    for j in (0, n // 2, n - 1):
        step = 1e-5 * (np.arange(3 * n) == j)
        slope = (observation.value(scores + step) - observation.value(scores - step)) / 2e-5
        assert residual[0, j] == pytest.approx(slope, abs=1e-6)
