"""τ(Δ) of condition (LP) from bags: the count of pairs by hand, and bounds that hold."""

import numpy as np
import pytest

from unbag.paper.bounds import merged_bound
from unbag.paper.bounds.merged import neighbour_condition


def test_pairs_are_counted():
    gamma = np.random.default_rng(0).random(60).round(2)
    first, second = np.triu_indices(60, 1)
    for spread in (0.05, 0.3, 1.0):
        # as the difference of two sorted numbers, so that rounding is the same
        expected = np.mean(np.maximum(gamma[first], gamma[second])
                           < np.minimum(gamma[first], gamma[second]) + spread)  # fmt: skip
        assert neighbour_condition(gamma, spread).share == pytest.approx(expected)


@pytest.mark.parametrize("bag_size", [None, 100, 400])
def test_bound_holds_as_often_as_it_says(bag_size):
    """Uniform proportions: τ(Δ) = 1 − (1 − Δ)²."""
    rng = np.random.default_rng(0)
    spread, delta, draws = 0.2, 0.2, 1000
    bounds = []
    for _ in range(draws):
        gamma = rng.random(100)
        seen = gamma if bag_size is None else rng.binomial(bag_size, gamma) / bag_size
        found = neighbour_condition(seen, spread, bag_size=bag_size, delta=delta)
        bounds.append(found.tau)
    assert np.mean(np.array(bounds) >= 1 - 0.8**2) >= 1 - delta
    assert np.median(bounds) < 0.9


def test_observed_differences_bound_true_ones():
    """P(|γ₁ − γ₂| < Δ) ≤ P(|γ̂₁ − γ̂₂| < Δ + u)/(1 − 2e^{−nu²})."""
    rng = np.random.default_rng(0)
    for n in (50, 500):
        gamma = rng.random((100_000, 2))
        seen = rng.binomial(n, gamma) / n
        stray = np.abs(np.diff(seen)) - np.abs(np.diff(gamma))
        for u in (0.1, 0.2):
            assert np.mean(stray >= u) <= 2 * np.exp(-n * u**2)


def test_it_is_what_the_theorem_takes():
    gamma = np.random.default_rng(0).choice([0.0, 1.0], 4000)
    found = neighbour_condition(gamma, 1.0)
    assert found.share == pytest.approx(0.5, abs=0.01)
    bound = merged_bound(
        2000, 500, 8, "logistic", 1.0, 1.0, 0.05, 0.1, spread=found.spread, tau=found.tau
    )
    assert bound.probability > 0.9


def test_small_bags_say_nothing():
    found = neighbour_condition([0.0, 1.0] * 50, 0.5, bag_size=1)
    assert found.tau == 1.0
    assert found.share == pytest.approx(49 / 99)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="Two bags are needed"):
        neighbour_condition([0.5], 0.1)
    with pytest.raises(ValueError, match="0 < Δ ≤ 1 must hold"):
        neighbour_condition([0.5, 0.6], 0.0)
    with pytest.raises(ValueError, match="delta must lie"):
        neighbour_condition([0.5, 0.6], 0.1, delta=0.0)
    with pytest.raises(ValueError, match="bag_size must be a whole number"):
        neighbour_condition([0.5, 0.6], 0.1, bag_size=2.5)
