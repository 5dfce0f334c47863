"""Complexities against enumeration of all signs, and suprema against numerical maximisation."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from unbag import bag_target, check_bag_target
from unbag.paper.bounds import RKHSBall, TwoLayerReLU, complexity
from unbag.paper.bounds.complexity import rademacher_complexity
from unbag.paper.kernels import Kernel
from unbag.paper.weights import Pairing, pair_extremes

KERNELS = [Kernel("rbf", gamma=0.7), Kernel("linear")]
CLASSES = [*(RKHSBall(kernel, radius=1.5) for kernel in KERNELS), TwoLayerReLU([1, 0.5], [2, 1])]


def small_problem():
    """Two pairs of bags of unequal sizes, and a fifth bag that is in no pair."""
    bags = check_bag_target(
        bag_target([3, 1, 1, 2, 2, 4, 3, 5], [0.8, 0.1, 0.1, 0.9, 0.9, 0.3, 0.8, 0.5])
    )
    X = np.random.default_rng(3).normal(size=(8, 2))
    return X, bags, pair_extremes(bags.proportions[:, 1])


def all_signs(n):
    return np.array(list(product([-1.0, 1.0], repeat=n)))


def exact_complexity(functions, X, bags, pairing, c, model):
    """Mean over all signs and all choices, written from the definition."""
    if model == "IIM":
        a = np.zeros(len(X))
        for i, pair in enumerate(zip(pairing.positive, pairing.negative, strict=True)):
            for bag in pair:
                a[bags.index == bag] = c[i] / (2 * bags.sizes[bag])
        return functions._suprema(X, a * all_signs(len(X))).mean()
    total = 0.0
    members = [np.flatnonzero(bags.index == bag) for bag in range(bags.n_bags)]
    sides = [pairing.positive, pairing.negative]
    for sigma in product([0, 1], repeat=len(c)):
        choices = [members[sides[s][i]] for i, s in enumerate(sigma)]
        means = [
            functions._suprema(X[list(rows)], c * all_signs(len(c))).mean()
            for rows in product(*choices)
        ]
        total += np.mean(means) / 2 ** len(c)
    return total


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_supremum_over_the_ball_is_that_found_numerically(kernel):
    rng = np.random.default_rng(0)
    X, u, radius = rng.normal(size=(4, 3)), rng.normal(size=4), 1.3
    K = kernel.matrix(X)
    # f = Σ α_k k(x_k, ·); nothing outside this span helps
    found = max(
        -minimize(
            lambda alpha: -u @ K @ alpha,
            rng.normal(size=4) * 0.1,
            constraints={"type": "ineq", "fun": lambda alpha: radius**2 - alpha @ K @ alpha},
            method="SLSQP",
        ).fun
        for _ in range(3)
    )
    assert RKHSBall(kernel, radius)._suprema(X, u[None])[0] == pytest.approx(found, rel=1e-4)


def test_linear_ball_is_a_ball_of_weight_vectors():
    rng = np.random.default_rng(1)
    X, u = rng.normal(size=(30, 2)), rng.normal(size=(5, 30))
    angle = np.linspace(0, 2 * np.pi, 20_001)
    grid = np.stack([np.cos(angle), np.sin(angle)])
    expected = 2 * (u @ X @ grid).max(axis=1)
    assert RKHSBall(Kernel("linear"), 2.0)._suprema(X, u) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("model", ["IIM", "IBM"])
@pytest.mark.parametrize("functions", CLASSES, ids=lambda c: getattr(c, "kernel", c).__class__)
def test_estimate_agrees_with_all_signs_and_stays_below_its_bound(functions, model):
    X, bags, pairing = small_problem()
    c = np.array([0.4, 1.1])
    exact = exact_complexity(functions, X, bags, pairing, c, model)
    estimate = rademacher_complexity(functions, X, bags, pairing, c, model, n_draws=4000)
    assert abs(estimate.value - exact) < 4.5 * estimate.standard_error
    assert 0 < estimate.standard_error < 0.02 * estimate.value
    assert exact < estimate.upper_bound
    harmonic = 2 / (1 / bags.sizes[pairing.positive] + 1 / bags.sizes[pairing.negative])
    inside = np.sum(c**2 / (2 * harmonic)) if model == "IIM" else np.sum(c**2)
    assert estimate.upper_bound == pytest.approx(functions.constants(X)[1] * np.sqrt(inside))


def test_networks_stay_below_their_bound_and_attain_a():
    rng = np.random.default_rng(2)
    X, a = rng.normal(size=(7, 2)), rng.random(7)
    networks = TwoLayerReLU([0.5, 2.0], [1.5, 1.0])
    angle = np.linspace(0, 2 * np.pi, 2001)
    units = np.maximum(X @ np.stack([np.cos(angle), np.sin(angle)]), 0)
    signed = a * all_signs(7)
    # every hidden unit takes the best direction, with the better sign
    suprema = networks.scale * np.abs(signed @ units).max(axis=1)
    A, B = networks.constants(X)
    bound = networks._suprema(X, signed).mean()
    assert suprema.mean() < bound < B * np.sqrt(np.sum(a**2))
    assert networks.scale * units.max() == pytest.approx(A, rel=1e-5)
    norms = np.linalg.norm([0.5, 2.0]) * np.linalg.norm([1.5, 1.0])
    assert norms * np.linalg.norm(X, axis=1).max() > A


def test_data_in_blocks_give_the_same(monkeypatch):
    rng = np.random.default_rng(4)
    X, u = rng.normal(size=(50, 3)), rng.normal(size=(6, 50))
    ball = RKHSBall(Kernel("rbf"))
    whole = ball._suprema(X, u)
    _, bags, pairing = small_problem()
    before = rademacher_complexity(ball, X[:8], bags, pairing, [1, 1])
    monkeypatch.setattr(complexity, "BLOCK", 120)
    assert ball._suprema(X, u) == pytest.approx(whole)
    after = rademacher_complexity(ball, X[:8], bags, pairing, [1, 1])
    assert abs(after.value - before.value) < 6 * before.standard_error


def test_bounds_of_the_whole_space_replace_those_of_the_data():
    X = np.array([[3.0, 4.0]])
    assert RKHSBall(Kernel("linear"), 2.0, kernel_bound=7.0).constants(X) == (14.0, 14.0)
    assert RKHSBall(Kernel("rbf"), 2.0).constants(X) == (2.0, 2.0)
    assert TwoLayerReLU([1], [1], data_bound=7.0).constants(X) == (7.0, 14.0)


def test_pairs_without_coefficient_do_not_count():
    X, bags, pairing = small_problem()
    ball = RKHSBall(Kernel("rbf"))
    first = Pairing(pairing.positive[:1], pairing.negative[:1])
    both = rademacher_complexity(ball, X, bags, pairing, [1, 0], n_draws=2000)
    alone = rademacher_complexity(ball, X, bags, first, [1], n_draws=2000)
    assert abs(both.value - alone.value) < 6 * alone.standard_error
    assert rademacher_complexity(ball, X, bags, pairing, [0, 0]).value == 0


def test_mistakes_are_named():
    X, bags, pairing = small_problem()
    ball = RKHSBall(Kernel("rbf"))
    with pytest.raises(ValueError, match="c ≥ 0 fails: the coefficient is -1 for pair 1"):
        rademacher_complexity(ball, X, bags, pairing, [1, -1])
    with pytest.raises(ValueError, match="each of the 2 pairs"):
        rademacher_complexity(ball, X, bags, pairing, [1])
    with pytest.raises(ValueError, match="one row for each of the 8 instances"):
        rademacher_complexity(ball, X[:3], bags, pairing, [1, 1])
    with pytest.raises(ValueError, match="model must be one of 'IIM', 'IBM', not 'iid'"):
        rademacher_complexity(ball, X, bags, pairing, [1, 1], "iid")
    with pytest.raises(ValueError, match="n_draws must be a whole number of at least 2"):
        rademacher_complexity(ball, X, bags, pairing, [1, 1], n_draws=1)
    with pytest.raises(ValueError, match="radius must be a finite number"):
        RKHSBall(Kernel("rbf"), -1.0)
    with pytest.raises(ValueError, match="one entry for each hidden unit"):
        TwoLayerReLU([1, 2], [1])
    with pytest.raises(ValueError, match="finite and not negative"):
        TwoLayerReLU([1, -2], [1, 1])
