"""The bound for any table W: its algebra, what it says of pairs and of the overall class prior."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from unbag import bag_target, check_bag_target
from unbag.observations.losses import SoftmaxLoss
from unbag.paper.bounds import (
    RKHSBall,
    TwoLayerReLU,
    generalization_bound,
    weights_bound,
)
from unbag.paper.bounds.contamination import MultiMCM
from unbag.paper.bounds.generalization import table_factor
from unbag.paper.kernels import Kernel
from unbag.paper.weights import MERGERS, bag_weights, pair_bags
from unbag.weights import decontamination_weights

CONSTANTS = {"loss": "logistic", "A": 1.5, "B": 2.0, "delta": 0.1}


def bags_of(shares, sizes):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return check_bag_target(bag_target(bag, np.asarray(shares)[bag]))


def random_bags(seed, n_bags=12, n_classes=2):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 40, n_bags)
    shares = rng.dirichlet(np.ones(n_classes), n_bags)
    return bags_of(shares[:, 1] if n_classes == 2 else shares, sizes)


# --- algebra ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["IIM", "IBM"])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_have_the_bound_of_the_first_theorem(model, seed):
    """V_W = V/2, so that 2B√V_W = √2 B√V and A√(2 log)√V_W = A√log √V."""
    bags = random_bags(seed)
    bag_model = "instances" if model == "IIM" else "bags"
    pairing = pair_bags(bags.proportions[:, 1], bags.draws(bag_model))
    W = bag_weights(bags, method="pairs", bag_model=bag_model)
    models = MultiMCM.from_pairs(pairing, bags.proportions[:, 1], bags.sizes, weights=model)
    first = generalization_bound(models, **CONSTANTS, model=model)
    found = weights_bound(W, bags, **CONSTANTS, model=model)
    assert found.variation == pytest.approx(first.variation / 2)
    assert found.value == pytest.approx(first.value)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_variation_by_a_loop(n_classes):
    bags = random_bags(0, n_classes=n_classes)
    W = decontamination_weights(bags)
    prior = np.arange(1.0, n_classes + 1)
    prior = prior / prior.sum()
    found = weights_bound(W, bags, **CONSTANTS, class_prior=prior)
    by_hand = 0.0
    for i, n in enumerate(bags.sizes):
        by_hand += sum(p * abs(w) for p, w in zip(prior, W[i], strict=True)) ** 2 / n
    assert found.variation == pytest.approx(by_hand)
    lipschitz, signs = (1, 2) if n_classes == 2 else (np.sqrt(2), 2 * np.sqrt(2))
    factor = lipschitz * (signs * 2.0 + 1.5 * np.sqrt(2 * np.log(20)))
    assert found.value == pytest.approx(factor * np.sqrt(by_hand))


def test_labelled_rows_count_one_by_one_under_both_models():
    bags = check_bag_target(np.repeat([0, 1], [30, 60]))
    W = decontamination_weights(bags)
    values = [weights_bound(W, bags, **CONSTANTS, model=m).variation for m in ("IIM", "IBM")]
    assert values == pytest.approx([1 / 120 + 1 / 240] * 2)


@pytest.mark.parametrize("scheme", MERGERS)
def test_merged_bags_are_a_table_too_and_never_a_better_one(scheme):
    rng = np.random.default_rng(0)
    bags = bags_of(rng.binomial(8, rng.choice([0.3, 0.7], 80)) / 8, np.full(80, 8))
    best, merged = (
        weights_bound(bag_weights(bags, method="pairs", merge=m), bags, **CONSTANTS)
        for m in (None, scheme)
    )
    assert best.value < merged.value


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_variation_is_at_most_that_of_least_squares_as_a_sum_of_squares(n_classes):
    """V_W ≤ Σ_c π_c [(GᵀNG)⁻¹]_cc, by Jensen: what consistency of least squares rests on."""
    for seed in range(5):
        bags = random_bags(seed, 30, n_classes)
        W = decontamination_weights(bags)
        found = weights_bound(W, bags, **CONSTANTS, class_prior="empirical")
        G, q = bags.proportions, bags.class_shares
        inverse = np.linalg.inv(G.T @ (bags.sizes[:, None] * G))
        assert found.variation <= q @ np.diag(inverse) * (1 + 1e-12)
        if n_classes == 2:
            n, spread = bags.n_instances, bags.sizes @ (G[:, 1] - q[1]) ** 2
            assert q @ np.diag(inverse) == pytest.approx(1 / n + q[0] * q[1] / spread)


@pytest.mark.parametrize(
    ("distribution", "expected"), [(lambda x: x / 2, 0.586), (lambda x: beta(1, 9).ppf(x), 0.153)]
)
def test_pooled_shares_make_it_smaller(distribution, expected):
    """Uniform on [0, ½], and Beta(1, 9)."""
    shares = distribution((np.arange(20_000) + 0.5) / 20_000)
    bags = check_bag_target(bag_target(np.arange(20_000), shares))
    W = decontamination_weights(bags)
    balanced, pooled = (
        weights_bound(W, bags, **CONSTANTS, class_prior=p).variation
        for p in ("balanced", "empirical")
    )
    assert pooled / balanced == pytest.approx(expected, abs=0.001)


# --- classes of functions -----------------------------------------------------------------------


def test_constants_of_the_gaussian_kernel_need_no_data():
    ball = RKHSBall(Kernel("rbf", gamma=3.0), radius=2.0)
    rng = np.random.default_rng(0)
    assert ball.constants() == ball.constants(100 * rng.normal(size=(5, 2))) == (2.0, 2.0)
    with pytest.raises(ValueError, match="The linear kernel has no bound of its own"):
        RKHSBall(Kernel("linear")).constants()


def test_constant_of_vectors_of_scores_holds():
    """E sup Σ_kc ε_kc a_k f_c(x_k) = R E √(Σ_c ε_cᵀ(aaᵀ∘K)ε_c) ≤ R b √C ‖a‖."""
    rng = np.random.default_rng(0)
    X, a, n_classes = rng.normal(size=(30, 2)), rng.random(30), 4
    kernel = Kernel("rbf", gamma=0.5)
    K = kernel.block(X, X)
    signs = rng.choice([-1, 1], (4000, n_classes, 30)) * a
    found = 2.0 * np.sqrt(np.einsum("dck,kl,dcl->d", signs, K, signs)).mean()
    _, B = RKHSBall(kernel, radius=2.0).constants(n_outputs=n_classes)
    assert 0.9 * B * np.linalg.norm(a) < found <= B * np.linalg.norm(a)


def test_softmax_loss_is_lipschitz():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 1, 3, 5000)) * 5
    loss = SoftmaxLoss()
    steps = np.abs(loss.losses(first) - loss.losses(second))[0]
    ratio = steps / np.linalg.norm(first - second, axis=1)[0]
    assert 0.95 * loss.lipschitz < ratio.max() <= loss.lipschitz


def test_networks_have_a_bound():
    bags = random_bags(0)
    networks = TwoLayerReLU([1.0, 0.5], [1.0, 2.0], data_bound=3.0)
    A, B = networks.constants(np.zeros((1, 2)))
    found = weights_bound(decontamination_weights(bags), bags, "logistic", A, B, 0.05)
    assert found.value == pytest.approx(
        (12 * 2 + 6 * np.sqrt(2 * np.log(40))) * np.sqrt(found.variation)
    )


# --- mistakes -----------------------------------------------------------------------------------


def test_mistakes_are_named():
    bags = random_bags(0)
    W = decontamination_weights(bags)
    with pytest.raises(ValueError, match="the risk by this table is not unbiased"):
        weights_bound(1.01 * W, bags, **CONSTANTS)
    with pytest.raises(ValueError, match="one row for each of the 12 bags"):
        weights_bound(W[1:], bags, **CONSTANTS)
    with pytest.raises(ValueError, match="not Lipschitz"):
        weights_bound(W, bags, **{**CONSTANTS, "loss": "squared"})
    with pytest.raises(ValueError, match="model must be one of"):
        weights_bound(W, bags, **CONSTANTS, model="CIIM")
    noisy = replace(bags, noise=np.zeros((12, 2, 2)))
    with pytest.raises(ValueError, match="exact proportions"):
        weights_bound(W, noisy, **CONSTANTS)
    with pytest.raises(ValueError, match="B must be a finite number"):
        table_factor("logistic", 1.0, -1.0, 0.1)
