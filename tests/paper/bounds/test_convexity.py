"""Where the corrected risk is convex: weights of pairs and of least squares, and where it is not."""

import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.losses import LOSSES
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.weights import bag_weights, convex_priors
from unbag.weights import decontamination_weights, pooled_shares

FIRST = np.zeros(1, dtype=np.intp)


def bags_of(shares, sizes):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return check_bag_target(bag_target(bag, np.asarray(shares)[bag]))


def prior_of(share):
    return np.array([1 - share, share])


def violations(value, n_rows, seed, many=200):
    """How many midpoints of random scores lie above the chord."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(many):
        ends = rng.normal(size=(2, 1, 1, n_rows)) * rng.choice([0.5, 2, 5])
        # far apart, or one step of a single row
        if rng.random() < 0.5:
            ends[1] = ends[0] + 3 * np.eye(1, n_rows, rng.integers(n_rows))
        first, second, middle = (value(f)[0] for f in (*ends, ends.mean(axis=0)))
        found += middle > (first + second) / 2 + 1e-9
    return found


def risk_of(bags, W, share, correction="none", loss="logistic"):
    risk = CorrectedRisk(W, bags, LOSSES[loss], prior_of(share), correction)
    return lambda scores: risk.value(scores, FIRST)


@pytest.mark.parametrize("loss", ["logistic", "huber", "squared"])
@pytest.mark.parametrize("method", ["pairs", "least_squares"])
def test_risk_is_convex_between_the_ends_and_nowhere_else(method, loss):
    rng = np.random.default_rng(0)
    bags = bags_of(rng.uniform(0, 0.5, 8), rng.integers(2, 4, 8))
    W = bag_weights(bags, method=method)
    low, high = convex_priors(W)
    assert low < high
    for share in (low + 1e-9, (low + high) / 2, high - 1e-9):
        assert violations(risk_of(bags, W, share, loss=loss), bags.n_instances, 0) == 0
    for share in (0.6 * low, high + 0.4 * (1 - high)):
        assert violations(risk_of(bags, W, share, loss=loss), bags.n_instances, 0) > 0


def test_ends_are_those_of_the_pairs():
    """γ⁻ ≤ π₊ ≤ γ⁺ in every pair."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        shares = rng.random(10)
        bags = bags_of(shares, np.full(10, 5))
        ends = convex_priors(bag_weights(bags, method="pairs"))
        ordered = np.sort(shares)
        np.testing.assert_allclose(ends, ordered[4:6], atol=1e-9)
        assert ends[0] <= np.median(shares) <= ends[1]


@pytest.mark.parametrize(("n_bags", "at_mean"), [(16, 323), (64, 170)])
def test_how_often_extreme_pairs_are_convex(n_bags, at_mean):
    """At the median share always, at the mean or ½ seldom: 1,000 draws of uniform shares."""
    rng = np.random.default_rng(0)
    inside = {"median": 0, "mean": 0, "half": 0}
    for _ in range(1000):
        shares = rng.uniform(0, 0.5, n_bags)
        bags = check_bag_target(bag_target(np.arange(n_bags), shares))
        low, high = convex_priors(bag_weights(bags, method="pairs"))
        for name, share in (("median", np.median(shares)), ("mean", shares.mean()), ("half", 0.5)):
            inside[name] += low - 1e-12 <= share <= high + 1e-12
    assert inside["median"] == 1000
    assert inside["mean"] == pytest.approx(at_mean, abs=50)
    assert inside["half"] == 0


def test_pairs_of_unequal_bags_need_not_be_convex_anywhere():
    """Two large bags go together although both have few positives, and two small ones with many."""
    bags = bags_of([0.1, 0.3, 0.6, 0.8], [1000, 1000, 2, 2])
    low, high = convex_priors(bag_weights(bags, method="pairs"))
    assert (low, high) == pytest.approx((0.6, 0.3))


def test_least_squares_are_convex_at_the_pooled_shares():
    rng = np.random.default_rng(0)
    for _ in range(20):
        bags = bags_of(rng.random(9), rng.integers(1, 30, 9))
        shares = pooled_shares(bags, "instances", np.ones((1, 9), dtype=bool))[0]
        low, high = convex_priors(decontamination_weights(bags))
        assert low < shares[1] < high


def test_several_problems_at_once():
    bags = bags_of([0.1, 0.3, 0.4, 0.9], [5, 5, 5, 5])
    W = bag_weights(bags, method="pairs")
    held_out = np.where(np.arange(4)[:, None] < 2, 0.0, W)
    ends = convex_priors(np.stack([W, held_out]))
    np.testing.assert_allclose(ends[0], [0.3, 0.4])
    assert ends.shape == (2, 2)


def test_with_the_bend_the_risk_is_convex_nowhere_near():
    """Not at the overall class prior either: midpoints above the chord, where there are none without."""
    plain, curved = 0, 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        bags = bags_of(rng.uniform(0, 0.5, 6), np.full(6, 3))
        W = decontamination_weights(bags)
        share = bags.class_shares[1]
        plain += violations(risk_of(bags, W, share), 18, seed, 100)
        curved += violations(risk_of(bags, W, share, "nonnegative"), 18, seed, 100)
    assert plain == 0
    assert curved > 10


def test_likelihood_is_a_difference_of_convex_functions():
    """−log Pr(K = k) = Σ_j lse f_j − log Σ_y e^{Σ_j f_jy}: both convex, their difference not."""
    bags = check_bag_target(bag_target(np.repeat([0, 1], 6), counts=np.repeat([2, 4], 6)))
    G = CountLikelihood(np.ones((1, 2), dtype=bool), bags)

    def first(scores):
        return np.logaddexp(0, scores[:, 0]).sum(axis=-1)

    def second(scores):
        return first(scores) - 12 * G.value(scores, FIRST)

    assert violations(first, 12, 0) == violations(second, 12, 0) == 0
    assert violations(lambda scores: G.value(scores, FIRST), 12, 0) > 0
