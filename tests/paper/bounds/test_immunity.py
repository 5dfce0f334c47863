"""Symmetric losses against exact risks, and convexity against second differences."""

from itertools import product

import numpy as np
import pytest

from unbag.observations.losses import LOSSES, SquaredLoss
from unbag.paper.bounds import unbiased_loss
from unbag.paper.bounds.losses import (
    convexity_condition,
    immunity_constants,
    is_symmetric,
    symmetry_constant,
)

every_loss = pytest.mark.parametrize("loss", LOSSES)
SYMMETRIC = ["sigmoid", "ramp", "zero_one"]


def risks(loss, kappa_plus, kappa_minus, seed=0):
    """Clean and contaminated balanced risk of many scorings of ten points, exactly."""
    rng = np.random.RandomState(seed)
    positive, negative = rng.dirichlet(np.ones(10), 2)
    scores = rng.normal(size=(200, 10))
    above, below = LOSSES[loss].value(scores), LOSSES[loss].value(-scores)
    noisy_positive = (1 - kappa_plus) * positive + kappa_plus * negative
    noisy_negative = (1 - kappa_minus) * negative + kappa_minus * positive
    clean = (above @ positive + below @ negative) / 2
    return clean, (above @ noisy_positive + below @ noisy_negative) / 2


@every_loss
def test_symmetry_is_seen(loss):
    assert is_symmetric(loss) == (loss in SYMMETRIC) == LOSSES[loss].symmetric
    assert symmetry_constant(loss) == (1 if loss in SYMMETRIC else None)


def test_symmetry_holds_for_losses_of_ones_own():
    class Straight(SquaredLoss):
        def value(self, margin):
            return 3 - margin

    assert symmetry_constant(Straight()) == 6


@pytest.mark.parametrize("loss", SYMMETRIC)
@pytest.mark.parametrize("kappa", [(0, 0), (0.3, 0.2), (0.8, 0.1)])
def test_contaminated_risk_of_symmetric_losses_is_affine_in_the_clean_one(loss, kappa):
    clean, contaminated = risks(loss, *kappa)
    slope, offset = immunity_constants(loss, *kappa)
    np.testing.assert_allclose(contaminated, slope * clean + offset)
    assert contaminated.argmin() == clean.argmin()


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - set(SYMMETRIC)))
def test_other_losses_are_not_immune(loss):
    clean, contaminated = risks(loss, 0.3, 0.2)
    line = np.polyfit(clean, contaminated, 1)
    assert np.abs(np.polyval(line, clean) - contaminated).max() > 0.05
    with pytest.raises(ValueError, match=rf"{loss} loss is not immune: ℓ₊ \+ ℓ₋ = constant fails"):
        immunity_constants(loss, 0.3, 0.2)


def test_constants_come_for_many_pairs_at_once():
    slope, offset = immunity_constants("ramp", [0.1, 0.2], [0.3, 0.0])
    np.testing.assert_allclose(slope, [0.6, 0.8])
    np.testing.assert_allclose(offset, [0.2, 0.1])


@every_loss
def test_convexity_condition_is_what_second_differences_say(loss):
    grid = [0.0, 0.05, 0.2, 0.45, 0.5, 0.55, 0.9]
    kappas = np.array([pair for pair in product(grid, grid) if sum(pair) < 0.99])
    t = np.linspace(-6, 6, 241)
    corrected = unbiased_loss(loss, *kappas.T[:, :, None])
    curvatures = [np.diff(corrected(t, sign), n=2, axis=1).min(axis=1) for sign in (-1, 1)]
    expected = np.min(curvatures, axis=0) > -1e-9
    np.testing.assert_array_equal(convexity_condition(loss, *kappas.T), expected)
    assert expected.any() == LOSSES[loss].convex


@pytest.mark.parametrize("ask", [immunity_constants, convexity_condition])
def test_contamination_without_contrast_is_refused(ask):
    with pytest.raises(ValueError, match=r"κ⁺ \+ κ⁻ < 1 fails: the sum is 1.1 for pair 1"):
        ask("ramp", [0.5, 0.5], [0.2, 0.6])
