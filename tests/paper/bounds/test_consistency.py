"""What the theorems on consistency say of many small bags."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from unbag import check_bag_target
from unbag.observations.losses import LOSSES
from unbag.paper.bounds import generalization_bound, merged_bound, sample_bags, unbiased_loss
from unbag.paper.bounds.contamination import MultiMCM
from unbag.paper.weights import blockwise_max, blockwise_pairwise, pair_extremes

POINTS = np.linspace(-1, 1, 5)
POSITIVES, NEGATIVES = np.repeat(POINTS, [1, 1, 2, 3, 3]), np.repeat(POINTS, [3, 4, 1, 1, 1])
CLASS = {"loss": "logistic", "A": 1.0, "B": 1.0, "delta": 0.2}


def draw_bags(seed, model, proportions=(0.45, 0.55)):
    """Bags of 8 at .45 or .55, that is often misordered."""
    rng = np.random.RandomState(seed)
    gamma = rng.choice(proportions, 120)
    return sample_bags(gamma, 8, POSITIVES, NEGATIVES, model=model, random_state=rng)


def models_of(merged, bag_model):
    """Contamination models of merged bags, and the bag of each instance (−1: in no pair)."""
    pairs, share = merged.pairing, merged.bags.proportions[:, 1]
    models = MultiMCM.from_pairs(pairs, share, merged.bags.sizes, weights=bag_model)
    number = np.full(merged.bags.n_bags, -1)
    number[pairs.positive] = np.arange(len(pairs))
    number[pairs.negative] = len(pairs) + np.arange(len(pairs))
    return models, number[merged.bags.index]


@pytest.mark.parametrize(("model", "bag_model"), [("CIIM", "IIM"), ("CIBM", "IBM")])
def test_first_theorem_holds_for_observed_proportions_of_small_bags(model, bag_model):
    """K = 1, where a quarter of the pairs is upside down: f(x) = sx with |s| ≤ 1, all at once."""
    loss, slopes = LOSSES["logistic"], np.linspace(-1, 1, 9)
    truth = [
        (loss.value(s * POSITIVES).mean() + loss.value(-s * NEGATIVES).mean()) / 2 for s in slopes
    ]
    beyond, distances = [], []
    for seed in range(60):
        sample = draw_bags(seed, model)
        models, bag = models_of(blockwise_pairwise(check_bag_target(sample.target()), 1), bag_model)
        x, bag = sample.X[bag >= 0], bag[bag >= 0]
        distance = max(
            abs(models.risk(loss, s * x, bag) - t) for s, t in zip(slopes, truth, strict=True)
        )
        bound = generalization_bound(models, **CLASS, model=bag_model)
        beyond.append(distance > bound.value)
        distances.append(distance)
    assert np.mean(beyond) <= CLASS["delta"]
    assert bound.value < 15 * np.quantile(distances, 1 - CLASS["delta"])


@pytest.mark.parametrize("merge_size", [2, 5, 30])
def test_merging_never_makes_that_bound_smaller(merge_size):
    for seed in range(5):
        bags = check_bag_target(draw_bags(seed, "CIIM").target())

        def value(merge, size, bags=bags):
            return generalization_bound(models_of(merge(bags, size), "IIM")[0], **CLASS).value

        neighbours = value(blockwise_pairwise, 1)
        pairing = pair_extremes(bags.proportions[:, 1])
        best = MultiMCM.from_pairs(pairing, bags.proportions[:, 1], bags.sizes)
        best = generalization_bound(best, **CLASS).value
        assert best < neighbours < value(blockwise_pairwise, merge_size)
        assert best < value(blockwise_max, merge_size) < value(blockwise_pairwise, merge_size)


@pytest.mark.parametrize(("model", "bag_model"), [("CIIM", "IIM"), ("CIBM", "IBM")])
def test_one_block_bounds_pairs_without_merging(model, bag_model):
    """With K = N, Σ Δ̂² ≥ N (mean of Δ̂)² ≥ N ε₀²: the second theorem bounds neighbours at K = 1."""
    stated = merged_bound(
        60, 60, 8, **CLASS, epsilon=0.2, spread=0.8, tau=0.5, model=model
    )  # fmt: skip
    assert stated.probability > 0.75
    held = []
    for seed in range(60):
        bags = check_bag_target(draw_bags(seed, model, (0.1, 0.9)).target())
        merged = blockwise_pairwise(bags, 1)
        bound = generalization_bound(models_of(merged, bag_model)[0], **CLASS, model=bag_model)
        share = bags.proportions[:, 1].reshape(-1, 2)
        reached = np.abs(share[:, 0] - share[:, 1]).mean() >= stated.epsilon0
        assert bound.value <= stated.value or not reached
        held.append(reached)
    assert np.mean(held) >= stated.probability + CLASS["delta"]


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_norm_of_the_minimiser(loss):
    """One bag of one instance each, far apart: Ẽ(f) + λ‖f‖² is a sum over the two scores.

    The paper's ‖f̂‖² ≤ 2|ℓ|₀/(ε₀λ) fails; ‖f̂‖ ≤ |ℓ|b/(ε₀λ) holds, here with b = 1.
    """
    kappa, penalty = 0.25, 1e-4
    contrast = 1 - 2 * kappa
    corrected = unbiased_loss(loss, kappa, kappa)
    scores = np.array(
        [
            minimize_scalar(
                lambda t, sign=sign: corrected(t, sign) / 2 + penalty * t**2, bracket=(0, sign)
            ).x
            for sign in (-1, 1)
        ]
    )
    risk = np.sum(corrected(scores, [-1, 1])) / 2
    at_zero = float(LOSSES[loss].value(np.zeros(1))[0])
    # at f = 0 the corrected risk is the risk
    assert np.sum(corrected(0.0, [-1, 1])) / 2 == pytest.approx(at_zero)
    assert risk < -at_zero / contrast
    norm = np.linalg.norm(scores)
    assert norm**2 > 2 * at_zero / (contrast * penalty)
    assert norm <= LOSSES[loss].lipschitz / (contrast * penalty)
