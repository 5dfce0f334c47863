"""The log-likelihood that learners share: what it adds up to, and its gradient."""

import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.bags.priors import prior_offset
from unbag.datasets import add_count_noise, make_gaussian_bags
from unbag.observations.count_likelihood import BagObjective, CountLikelihood

DATA = make_gaussian_bags(n_bags=12, bag_size=20, random_state=0)
THREE = make_gaussian_bags(n_bags=12, bag_size=20, n_classes=3, random_state=0)
KNOWN = bag_target(
    DATA.y["bag"], DATA.y["proportion"], labels=np.where(np.arange(240) % 30, np.nan, DATA.labels)
)
DRAWN = bag_target(DATA.y["bag"], np.where(DATA.y["bag"] % 2, 0.31, 0.57))
NOISY = add_count_noise(DATA.y, 1.0, random_state=0)
kinds = pytest.mark.parametrize(
    "y", [DATA.y, THREE.y, KNOWN, NOISY, DRAWN], ids=["two", "three", "labels", "noise", "drawn"]
)


def scores_for(bags, n_columns=1, seed=0):
    outputs = 1 if bags.n_classes == 2 else bags.n_classes
    return np.random.default_rng(seed).normal(size=(n_columns, outputs, bags.n_instances))


@kinds
def test_losses_of_bags_add_up_to_the_value(y):
    bags = check_bag_target(y)
    scores, likelihood = scores_for(bags, 2), BagObjective(bags)
    losses = likelihood.bag_losses(scores)
    assert losses.shape == (2, bags.n_bags)
    value = likelihood.value(scores, np.zeros(2, dtype=int))
    np.testing.assert_allclose(losses.sum(axis=1) / bags.n_instances, value, rtol=1e-10)


@kinds
def test_gradient_is_that_of_finite_differences(y):
    bags = check_bag_target(y)
    included = np.ones((2, bags.n_bags), dtype=bool)
    included[1, :3] = False
    likelihood, scores = BagObjective(bags, included), scores_for(bags)
    direction, step, problem = scores_for(bags, seed=1), 1e-4, np.ones(1, dtype=int)
    ahead, back = (likelihood.value(scores + s * direction, problem)[0] for s in (step, -step))
    slope = np.sum(likelihood.value_and_gradient(scores, problem)[1] * direction)
    assert (ahead - back) / (2 * step) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("y", [DATA.y, THREE.y, DRAWN])
def test_problems_are_about_log_odds_at_their_own_prior(y):
    bags = check_bag_target(y)
    included = np.arange(bags.n_bags)[None] % 3 > 0
    likelihood, scores = BagObjective(bags, included), scores_for(bags)
    part, rows = bags.take(included[0])
    at_own_prior = prior_offset(bags.class_shares, part.class_shares)
    direct = BagObjective(part).value(scores[:, :, rows] + at_own_prior[:, None], [0])
    np.testing.assert_allclose(likelihood.value(scores, np.zeros(1, dtype=int)), direct)
    np.testing.assert_allclose(likelihood.offsets[0], at_own_prior)


def test_counts_have_the_count_likelihood():
    bags, zero = check_bag_target(DATA.y), np.zeros(1, dtype=int)
    expected = CountLikelihood(np.ones(12, dtype=bool), bags).value(scores_for(bags), zero)
    assert BagObjective(bags).value(scores_for(bags), zero) == pytest.approx(expected)


def test_proportions_that_no_counts_give_have_the_noise_of_sampling():
    share = np.where(DATA.y["bag"] % 2, 0.33, 0.57)  # 6.6 and 11.4 of 20
    drawn = check_bag_target(bag_target(DATA.y["bag"], share))
    noise = np.sqrt(share * (1 - share) / 20)
    noisy = check_bag_target(bag_target(DATA.y["bag"], share, noise=noise))
    scores = scores_for(drawn)
    losses = BagObjective(drawn).bag_losses(scores)
    np.testing.assert_allclose(losses, BagObjective(noisy).bag_losses(scores))
