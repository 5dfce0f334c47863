"""The second theorem: merged bags, their unbiased risk, their contrasts and their bound."""

from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from unbag import bag_target, check_bag_target
from unbag.observations.losses import LOSSES
from unbag.paper.bounds import generalization_bound, merged_bound
from unbag.paper.bounds.contamination import MultiMCM, unbiased_coefficients
from unbag.paper.bounds.merged import expected_contrasts, largest_epsilon, required_epsilon
from unbag.paper.weights import MERGERS, bag_weights

BASE = {
    "n_pairs": 400,
    "merge_size": 100,
    "bag_size": 4,
    "loss": "logistic",
    "A": 1.0,
    "B": 1.0,
    "delta": 0.2,
    "epsilon": 0.15,
    "spread": 0.6,
    "tau": 0.5,
}
VALUES = np.linspace(-1, 1, 5)
PLUS, MINUS = np.array([1, 1, 2, 3, 3]) / 10, np.array([3, 4, 1, 1, 1]) / 10
SLOPES = np.linspace(-1, 1, 21)


def labelled_bags(n_bags, size, rng):
    """Bags whose labels are known to the test: proportions .45 and .55 are often misordered."""
    labels = rng.random((n_bags, size)) < rng.choice([0.2, 0.45, 0.55], n_bags)[:, None]
    bag = np.repeat(np.arange(n_bags), size)
    observed = np.repeat(labels.mean(axis=1), size)
    return labels, check_bag_target(bag_target(bag, observed))


def merged_risk(losses, merged, normaliser):
    """Ẽ = Σ_i w_i · normaliser · Σ_σ Σ_j ℓ_σ^κ̂, written from the definition.

    `losses` has the rows ℓ₋ and ℓ₊ of every instance.
    """
    share = merged.bags.proportions[:, 1]
    up, down = merged.pairing.positive, merged.pairing.negative
    w = (share[up] - share[down]) ** 2 / np.sum((share[up] - share[down]) ** 2)
    risk = 0.0
    for i in range(len(w)):
        coefficients = unbiased_coefficients(1 - share[up[i]], share[down[i]])
        for side, bag in ((0, down[i]), (1, up[i])):
            inside = losses[:, merged.bags.index == bag]
            risk += w[i] * normaliser * np.sum(coefficients[side] @ inside)
    return risk


# --- unbiased given proportions and labels ------------------------------------------------------


@pytest.mark.parametrize("scheme", MERGERS)
@pytest.mark.parametrize("merge_size", [1, 4])
def test_risk_is_unbiased_given_the_labels(scheme, merge_size):
    """E[ℓ(f(X)) | Y] instead of the loss: by linearity this is the conditional mean of Ẽ.

    With 1/(2nK) it is the clean risk, exactly. The definition in the paper has 1/(2n), which is
    K times too much. K = 1 is the plug-in method: misordered pairs do no harm.
    """
    rng = np.random.default_rng(0)
    size = 8
    labels, bags = labelled_bags(64, size, rng)
    merged = MERGERS[scheme](bags, merge_size)
    means = rng.normal(size=(2, 2))  # of ℓ₋ and ℓ₊ (rows) over the two classes (columns)
    losses = means[:, labels.ravel().astype(int)]
    clean = 0.5 * (means[0, 0] + means[1, 1])
    n_big = size * merge_size
    assert merged_risk(losses, merged, 1 / (2 * n_big)) == pytest.approx(clean)
    assert merged_risk(losses, merged, 1 / (2 * size)) == pytest.approx(merge_size * clean)
    W = bag_weights(bags, method="pairs", merge=scheme, merge_size=merge_size)
    assert 0.5 * np.sum(W.T * bags.means(losses)) == pytest.approx(clean)


@pytest.mark.parametrize("scheme", MERGERS)
def test_risk_is_unbiased_when_instances_depend_on_each_other(scheme):
    """Under (CIBM) all instances of one class in a bag may be the same."""
    rng = np.random.default_rng(1)
    size, reps = 6, 4000
    labels, bags = labelled_bags(24, size, rng)
    W = bag_weights(bags, method="pairs", merge=scheme, merge_size=3)
    x = np.stack([rng.choice(VALUES, (reps, 24), p=p) for p in (MINUS, PLUS)], axis=-1)
    x = np.take_along_axis(x[:, :, None, :], labels.astype(int)[None, :, :, None], axis=-1)[..., 0]
    loss = LOSSES["logistic"]
    means = np.stack([loss.value(-x).mean(axis=-1), loss.value(x).mean(axis=-1)], axis=1)
    risks = 0.5 * np.sum(W.T * means, axis=(1, 2))
    clean = 0.5 * (loss.value(-VALUES) @ MINUS + loss.value(VALUES) @ PLUS)
    error = risks.std() / np.sqrt(reps)
    assert abs(risks.mean() - clean) < 4 * error
    assert error < 0.01 * clean


# --- contrasts ----------------------------------------------------------------------------------


def test_own_contrasts_of_blockwise_max_bound_sharper():
    """Bags of 8 at .45 or .55: the bound is .284/.204 times smaller, up to ε."""
    K, n_pairs, n = 4000, 4000, 8
    gamma = np.random.default_rng(0).choice([0.45, 0.55], 2 * n_pairs)
    found = {}
    for scheme in ("blockwise_pairwise", "blockwise_max"):
        epsilon = required_epsilon(0.01, n_pairs, K, scheme)
        contrasts = expected_contrasts(gamma, K, n, scheme=scheme)
        found[scheme] = merged_bound(
            n_pairs, K, n, "logistic", 1.0, 1.0, 0.05, epsilon, spread=0.1, tau=0.5,
            epsilon0=1e-3, contrasts=contrasts, scheme=scheme,
        )  # fmt: skip
        assert found[scheme].probability == pytest.approx(0.94)
    ratio = found["blockwise_pairwise"].value / found["blockwise_max"].value
    assert ratio == pytest.approx(0.284 / 0.204, rel=0.04)


def sample_labels(reps, rng):
    """True proportions .2 or .8 with equal probability, so that (LP) holds with Δ = .6 and τ = ½."""
    gamma = rng.choice([0.2, 0.8], (reps, 2 * BASE["n_pairs"]))
    return gamma, rng.binomial(BASE["bag_size"], gamma)


def block_contrasts(counts, scheme):
    shares = counts / BASE["bag_size"]
    blocks = shares.reshape(len(shares), -1, 2 * BASE["merge_size"])
    if scheme == "blockwise_pairwise":
        return np.abs(blocks[..., ::2] - blocks[..., 1::2]).mean(axis=-1)
    ordered = np.sort(blocks, axis=-1)
    half = BASE["merge_size"]
    return ordered[..., half:].mean(axis=-1) - ordered[..., :half].mean(axis=-1)


@pytest.mark.parametrize("scheme", MERGERS)
def test_contrasts_reach_what_the_theorem_says_as_often(scheme):
    rng = np.random.default_rng(2)
    gamma, counts = sample_labels(1000, rng)
    expected = expected_contrasts(gamma.ravel(), BASE["merge_size"], BASE["bag_size"])
    expected = expected.reshape(len(gamma), -1)
    observed = block_contrasts(counts, scheme)
    epsilon = 0.1
    bound = merged_bound(**{**BASE, "epsilon": epsilon}, scheme=scheme)
    allowed = 1 - BASE["delta"] - bound.probability
    reached = (observed >= expected - epsilon).all(axis=1)
    reached &= (expected - epsilon >= bound.epsilon0).all(axis=1)
    assert np.mean(~reached) <= allowed
    if scheme == "blockwise_pairwise":
        # without ε the first inequality is random
        assert 0.3 < np.mean(observed >= expected) < 0.7


# --- the bound ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["CIIM", "CIBM"])
@pytest.mark.parametrize("scheme", MERGERS)
def test_bound_holds_as_often_as_it_says(model, scheme):
    """Everything is drawn: proportions, labels, and instances (dependent under CIBM)."""
    rng = np.random.default_rng(3)
    reps, n, half = 100, BASE["bag_size"], BASE["merge_size"]
    gamma, counts = sample_labels(reps, rng)
    loss = LOSSES["logistic"]
    margin = VALUES * SLOPES[:, None]
    losses = np.stack([loss.value(-margin), loss.value(margin)])
    truth = 0.5 * (losses[0] @ MINUS + losses[1] @ PLUS)
    sides = []
    for count, law in ((n - counts, MINUS), (counts, PLUS)):
        if model == "CIIM":
            sides.append(rng.multinomial(count, law))
        else:
            sides.append(count[..., None] * rng.multinomial(np.ones_like(count), law))
    shares = counts / n
    blocks = shares.reshape(reps, -1, 2 * half)
    if scheme == "blockwise_pairwise":
        first = blocks[..., ::2] >= blocks[..., 1::2]
        up = np.stack([first, ~first], axis=-1).reshape(blocks.shape)
    else:
        up = np.argsort(np.argsort(blocks, axis=-1), axis=-1) >= half
    members = sum(sides).reshape(*blocks.shape, len(VALUES))
    high = np.where(up[..., None], members, 0).sum(axis=2) / (n * half)
    low = np.where(up[..., None], 0, members).sum(axis=2) / (n * half)
    top = np.where(up, blocks, 0).sum(axis=2) / half
    bottom = np.where(up, 0, blocks).sum(axis=2) / half
    w = (top - bottom) ** 2
    w /= w.sum(axis=1, keepdims=True)
    coefficients = unbiased_coefficients(1 - top, bottom)
    means = np.stack([low, high], axis=2)
    estimate = 0.5 * np.einsum("rb,rbst,rbsv,tfv->rf", w, coefficients, means, losses)
    distance = np.abs(estimate - truth).max(axis=1)

    bound = merged_bound(**BASE, model=model, scheme=scheme)
    assert 0 < bound.probability < 1 - BASE["delta"]
    assert np.mean(distance > bound.value) <= 1 - bound.probability
    for gammas, far in zip(gamma[:20], distance[:20], strict=True):
        contrasts = expected_contrasts(gammas, half, n)
        sharp = merged_bound(**BASE, model=model, scheme=scheme, contrasts=contrasts)
        assert far < sharp.value < bound.value


def test_known_contrasts_give_the_bound_of_the_first_theorem():
    """Without ε, Ẽ is Ê_w of big bags of nK instances."""
    contrasts = np.array([0.5, 0.7, 0.6, 0.9])
    tiny = 1e-12
    merged = merged_bound(**{**BASE, "epsilon": tiny, "epsilon0": 0.1}, contrasts=contrasts)
    pairs = MultiMCM(np.zeros(4), 1 - contrasts, sizes_plus=400, sizes_minus=400)
    first = generalization_bound(pairs, "logistic", 1.0, 1.0, BASE["delta"])
    assert merged.value == pytest.approx(first.value)


@pytest.mark.parametrize(("model", "n_units"), [("CIIM", 1600), ("CIBM", 400)])
def test_small_bags_and_not_big_ones_are_the_independent_units(model, n_units):
    """One function f(x) = x with ℓ_σ(t) = −σt, pure bags of fair coins x = ±1.

    Ẽ − E = −(Bin(2·units, ½) − units)/units, whose tail is known: the bound must not be smaller,
    and with N/K instead of N it would be ten times larger.
    """
    loss = SimpleNamespace(name="linear", lipschitz=1.0)
    pure = {"B": 0.0, "loss": loss, "epsilon": 1e-12, "epsilon0": 0.1, "spread": 1.0, "tau": 0.0}
    bound = merged_bound(**{**BASE, **pure}, contrasts=np.ones(4), model=model)
    edge = n_units * bound.value
    probability = 2 * binom.cdf(np.ceil(n_units - edge) - 1, 2 * n_units, 0.5)
    assert BASE["delta"] / 20 < probability <= BASE["delta"]


def test_without_contrasts_the_smallest_admissible_one_is_taken():
    bound = merged_bound(**BASE)
    assert bound.epsilon0 == pytest.approx(0.6 * 0.5 - 0.15 * 1.6)
    smallest = merged_bound(**BASE, contrasts=np.full(4, bound.epsilon0 + bound.epsilon))
    assert smallest.value == pytest.approx(bound.value)
    assert largest_epsilon(0.6, 0.5, bound.epsilon0) == pytest.approx(bound.epsilon)


@pytest.mark.parametrize("model", ["CIIM", "CIBM"])
@pytest.mark.parametrize("scheme", ["blockwise_pairwise", "blockwise_max", "dominating"])
def test_printed_bound_is_never_smaller_where_it_says_something(model, scheme):
    rng = np.random.default_rng(5)
    informative = 0
    for _ in range(500):
        size = int(rng.integers(1, 300))
        spread, tau = rng.uniform(0.2, 1), rng.uniform(0, 0.6)
        bound = merged_bound(
            size * int(rng.integers(1, 50)),
            size,
            int(rng.integers(1, 20)),
            "hinge",
            A=rng.uniform(0, 9),
            B=rng.uniform(0, 9),
            delta=rng.uniform(0.01, 0.9),
            epsilon=spread * (1 - tau) / (1 + spread) * rng.uniform(0.5, 0.99),
            spread=spread,
            tau=tau,
            model=model,
            scheme=scheme,
        )
        if bound.probability > 0:
            informative += 1
            assert bound.value <= bound.stated
    assert informative > 50


def test_a_hundred_thousand_pairs_take_less_than_a_second():
    gamma = np.random.default_rng(0).choice([0.0, 1.0], 200_000)
    start = perf_counter()
    contrasts = expected_contrasts(gamma, merge_size=500, bag_size=8)
    bound = merged_bound(
        100_000, 500, 8, "logistic", 1.0, 1.0, 0.05, 0.1, spread=1.0, tau=0.5, contrasts=contrasts
    )
    assert perf_counter() - start < 1
    assert bound.probability > 0.9


def test_epsilon_for_a_probability_of_failure():
    epsilon = required_epsilon(0.05, 20_000, 200)
    assert 2 * 100 * np.exp(-2 * 200 * epsilon**2) == pytest.approx(0.05)
    epsilon = required_epsilon(0.05, 20_000, 200, "blockwise_max")
    one = np.exp(-200 * epsilon**2)
    assert 100 * (one + one**2) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "ε > 0 must hold"),
        ({"epsilon": 0.2}, r"ε < Δ\(1 − τ\)/\(1 \+ Δ\) = 0.1875 must hold"),
        ({"epsilon0": 0.1}, r"ε ≤ \(Δ\(1 − τ\) − ε₀\)/\(1 \+ Δ\) = 0.125 must hold.*0.15"),
        ({"epsilon0": 0.3}, r"0 < ε₀ < Δ\(1 − τ\) = 0.3 must hold"),
        ({"epsilon0": 0.0}, "0 < ε₀"),
        ({"spread": 0.0}, "0 < Δ ≤ 1 must hold"),
        ({"spread": 1.5}, "0 < Δ ≤ 1 must hold"),
        ({"tau": 1.0}, "0 ≤ τ < 1 must hold"),
        ({"delta": 1.5}, "delta must lie between 0 and 1"),
        ({"model": "IIM"}, "model must be one of 'CIIM', 'CIBM'"),
        ({"scheme": "best"}, "scheme must be one of"),
        ({"merge_size": 30}, "n_pairs must be a multiple of merge_size"),
        ({"bag_size": 2.5}, "bag_size must be a whole number"),
        ({"loss": "squared"}, "not Lipschitz"),
        ({"contrasts": [0.5, 0.5]}, "There are 4 blocks"),
        ({"contrasts": [0.5, 0.5, 0.2, 0.5]}, "ε₀ .*; block 2 has 0.2"),
        ({"contrasts": [0.5, 0.5, 0.5, 1.2]}, "≤ 1 must hold.*; block 3 has 1.2"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        merged_bound(**{**BASE, **change})


def test_mistakes_in_the_probability_of_failure_are_named():
    with pytest.raises(ValueError, match="failure must lie"):
        required_epsilon(0.0, 10, 1)
    with pytest.raises(ValueError, match="merge_size must be at most"):
        required_epsilon(0.5, 1, 10)
