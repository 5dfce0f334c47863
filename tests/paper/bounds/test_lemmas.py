"""The lemmas that the proofs use, by enumeration of all signs or by exact probabilities."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from unbag.observations.losses import LOSSES, SoftmaxLoss


def mean_supremum(values):
    """E sup_f Σ_t ε_t values[f, t] over all signs."""
    signs = np.array(list(product([-1, 1], repeat=values.shape[1])))
    return (signs @ values.T).max(axis=1).mean()


def test_bounded_differences():
    """McDiarmid's inequality for a mean of coins, whose tail is known."""
    for n in (10, 100, 1000):
        for t in (0.05, 0.1, 0.2, 0.4):
            assert binom.sf(np.ceil(n * (0.5 + t)) - 1, n, 0.5) <= np.exp(-2 * n * t**2)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "ramp", "sigmoid"])
def test_contraction_of_a_lipschitz_loss(loss):
    """Of any set of functions, with weights of any sign: only differences count."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        f = rng.normal(size=(15, 8)) * 2
        towards, against = rng.normal(size=(2, 8))
        transformed = towards * LOSSES[loss].value(f) + against * LOSSES[loss].value(-f)
        slopes = LOSSES[loss].lipschitz * (np.abs(towards) + np.abs(against))
        assert mean_supremum(transformed) <= mean_supremum(slopes * f) + 1e-12


def test_contraction_of_absolute_values():
    """Ledoux and Talagrand's, for max(0, t): the 2 of networks."""
    rng = np.random.default_rng(0)
    signs = np.array(list(product([-1, 1], repeat=8)))
    for _ in range(50):
        t = rng.normal(size=(12, 8))
        transformed = np.abs(signs @ np.maximum(t, 0).T).max(axis=1).mean()
        assert transformed <= 2 * np.abs(signs @ t.T).max(axis=1).mean() + 1e-12


def test_contraction_of_vectors():
    """Maurer's, for several classes: √2, and a sign for every score of every row."""
    rng = np.random.default_rng(0)
    loss, n_classes, n = SoftmaxLoss(), 3, 3
    for _ in range(20):
        f = rng.normal(size=(10, n_classes, n)) * 2
        weights = rng.normal(size=(n_classes, n))
        transformed = np.einsum("ct,fct->ft", weights, loss.losses(f))
        slopes = loss.lipschitz * np.abs(weights).sum(axis=0)
        straight = (slopes * f).reshape(10, -1)
        assert mean_supremum(transformed) <= np.sqrt(2) * mean_supremum(straight) + 1e-12


def test_chernoff_bound_of_correlated_indicators():
    """P(Σ Z ≥ m(τ + ε)) ≤ e^{−2mε²} if P(all of a set are 1) ≤ τ^{size of the set}.

    Without replacement: so many of 2m balls are red, and m are drawn.
    """
    rng = np.random.default_rng(0)
    m, tau = 40, 0.3
    draws = rng.hypergeometric(int(2 * m * tau), int(2 * m * (1 - tau)), m, 100_000)
    for epsilon in (0.02, 0.05, 0.1, 0.15):
        assert np.mean(draws >= m * (tau + epsilon)) <= np.exp(-2 * m * epsilon**2)
    # one coin for all breaks the condition, and the bound
    common = m * (rng.random(100_000) < tau)
    assert np.mean(common >= m * (tau + 0.15)) > np.exp(-2 * m * 0.15**2)
