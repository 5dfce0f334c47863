"""From the risk to the error: calibration functions in closed form, and inequalities."""

import numpy as np
import pytest
from scipy.special import xlogy

from unbag.observations.losses import LOSSES, SquaredLoss
from unbag.paper.bounds.losses import calibration_function, excess_error, prior_shifted_error

THETA = np.linspace(0, 1, 21)
CLOSED = {
    "logistic": lambda t: 0.5 * (xlogy(1 + t, 1 + t) + xlogy(1 - t, 1 - t)),
    "squared": lambda t: t**2,
    "huber": lambda t: t**2,
    "hinge": lambda t: t,
    "sigmoid": lambda t: t / 2,
    "ramp": lambda t: t / 2,
    "zero_one": lambda t: t / 2,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_calibration_functions_are_known(loss):
    """A loss that wrong signs pay ½ for at least gives half the slope: at the score 0 it is ½."""
    found = calibration_function(loss, THETA)
    np.testing.assert_allclose(found, CLOSED[loss](THETA), atol=2e-4)
    assert (found <= CLOSED[loss](THETA) + 1e-12).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_excess_error_is_the_inverse_and_never_too_small(loss):
    for theta in (0.01, 0.1, 0.5, 0.9):
        risk = float(CLOSED[loss](np.array([theta]))[0])
        assert theta <= excess_error(loss, risk) <= theta * 1.02
    assert excess_error(loss, 10.0) == 1.0


def risks(rng, loss, prior, n_points=8):
    """Random classes and scores: excess of the risk and of the error, exactly."""
    mass = np.asarray(prior)[:, None] * rng.dirichlet(np.ones(n_points), 2)
    scores = rng.normal(size=(5, n_points)) * rng.choice([0.1, 1, 5])
    value = LOSSES[loss].value
    grid = np.linspace(-30, 30, 6001)
    least = (mass[0] * value(-grid)[:, None] + mass[1] * value(grid)[:, None]).min(axis=0).sum()
    risk = value(-scores) @ mass[0] + value(scores) @ mass[1]
    error = (scores > 0) @ mass[0] + (scores <= 0) @ mass[1]
    return np.maximum(risk - least, 0), error - mass.min(axis=0).sum()


@pytest.mark.parametrize("loss", ["logistic", "huber", "hinge", "sigmoid", "ramp"])
@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.9, 0.1)])
def test_errors_are_bounded_by_risks(loss, prior):
    rng = np.random.default_rng(0)
    for _ in range(10):
        excess, beyond = risks(rng, loss, prior)
        bounds = [excess_error(loss, risk) for risk in excess]
        assert (beyond <= np.array(bounds) + 1e-9).all()


def test_moved_scores_are_bounded_by_the_risk_they_were_trained_by():
    """Trained at q, moved to π: by Pinsker's inequality and the slope of the move."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(2000):
        P = rng.dirichlet(np.ones(6), 2)
        q, prior = (np.array([1 - p, p]) for p in rng.uniform(0.05, 0.95, 2))
        truth = np.log(q[1] * P[1] / (q[0] * P[0]))
        scores = truth + rng.normal(size=6) * 10 ** rng.uniform(-2, 0.5)
        probability, estimate = 1 / (1 + np.exp(-truth)), 1 / (1 + np.exp(-scores))
        divergence = probability * np.log(probability / estimate) + (1 - probability) * np.log(
            (1 - probability) / (1 - estimate)
        )
        excess = float((q @ P) @ divergence)
        moved = scores + np.log(prior[1] / prior[0]) - np.log(q[1] / q[0])
        mass = prior[:, None] * P
        error = mass[0] @ (moved > 0) + mass[1] @ (moved <= 0) - mass.min(axis=0).sum()
        ratios.append(error / prior_shifted_error(excess, q, prior))
    assert max(ratios) <= 1


def test_what_cannot_be_bounded_is_refused():
    class Bumpy(SquaredLoss):
        convex = False

    with pytest.raises(ValueError, match="convex or symmetric"):
        calibration_function(Bumpy(), [0.5])
    with pytest.raises(ValueError, match="between 0 and 1"):
        calibration_function("logistic", [-0.1])
    with pytest.raises(ValueError, match="excess_risk must be a finite number"):
        excess_error("logistic", -1.0)
    with pytest.raises(ValueError, match="two numbers above 0"):
        prior_shifted_error(0.1, (0, 1), (0.5, 0.5))
