"""Variances of random intercepts, from what is known and predicted of bags."""

import numpy as np
import pytest
from scipy.special import expit, logit

from unbag.models.bag_variance import BagPredictions, estimate_bag_variance

TOL = 1e-5


def draw(shift, n_bags, seed, effect=0.0, noise=0.0, size=100):
    """A table of bags under an assumption, at the true log-odds."""
    rng = np.random.default_rng([seed, n_bags])
    p, labels = np.empty((n_bags, size)), np.empty((n_bags, size))
    for b in range(n_bags):
        if shift == "label" or (shift == "both" and b % 2):
            labels[b] = rng.random(size) < rng.uniform(0.05, 0.95)
            p[b] = expit((labels[b] - 0.5) * 1.65 + 1.28 * rng.normal(size=size))
        else:
            eta = 1.3 * rng.normal(size=size) + 0.9 * rng.normal()
            labels[b] = rng.random(size) < expit(eta + effect**0.5 * rng.normal())
            p[b] = expit(eta)
    p = expit(logit(p) + logit(labels.mean()) - logit(p.mean()))
    counts = labels.sum(axis=1) + noise**0.5 * rng.normal(size=n_bags)
    full = np.ones(n_bags)
    variances = (p * (1 - p)).sum(axis=1)
    return BagPredictions(
        counts, size * full, noise * full, p.sum(axis=1), variances, 0 * full, 0 * full
    )


def estimate(table):
    return estimate_bag_variance([table], np.zeros(len(table.sizes)), TOL).effects


def estimates(shift, n_bags, n_draws=30, **how):
    return np.array([estimate(draw(shift, n_bags, seed, **how)) for seed in range(n_draws)])


@pytest.mark.parametrize(("n_bags", "low", "high"), [(12, 0.08, 0.18), (200, 0.13, 0.17)])
def test_effects_of_bags_are_found_under_covariate_shift(n_bags, low, high):
    # 0.16, less where few bags leave much to the prior
    assert low < estimates("covariate", n_bags, effect=0.16).mean() < high


@pytest.mark.parametrize("shift", ["covariate", "label", "both"])
def test_nothing_is_found_where_there_is_nothing(shift):
    found = estimates(shift, 200, 10)
    assert found.mean() < 0.004
    if shift == "label":
        assert found.max() < 1e-4


def test_bags_that_follow_label_shift_have_no_effect_beside_others_that_do():
    found = estimates("both", 200, 10, effect=0.16)
    assert 0.11 < found[:, ::2].mean() < 0.19
    assert found[:, 1::2].mean() < 0.4 * found[:, ::2].mean()


def test_noise_that_overwhelms_leaves_no_effect():
    assert estimates("covariate", 50, 10, noise=900.0).mean() < 0.05


def test_the_estimate_moves_continuously_with_a_count():
    table = draw("both", 30, 4, effect=0.16)
    along = np.linspace(-5, 5, 101)
    counts = table.counts + along[:, None] * (np.arange(30) == 3)
    found = np.array([estimate(table._replace(counts=each)).mean() for each in counts])
    assert np.abs(np.diff(found)).max() < 5e-3


def test_the_effect_of_one_class_against_another_is_that_of_two_classes():
    table = draw("covariate", 60, 0, effect=0.16)
    other = table._replace(
        counts=table.sizes - table.counts, predicted=table.sizes - table.predicted
    )
    both = estimate_bag_variance([other, table], np.zeros(60), TOL).effects
    np.testing.assert_allclose(both, estimate(table), rtol=1e-3)
