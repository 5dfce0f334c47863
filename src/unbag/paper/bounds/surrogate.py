"""From the loss that is minimised to the errors that are meant: the last step of consistency.

For a margin loss φ let H(η) = inf_t ηφ(t) + (1 − η)φ(−t) be the least risk where the positive class
has the chance η, and H⁻(η) the least among scores t of the wrong sign. With

    ψ(θ) = H⁻((1 + θ)/2) − H((1 + θ)/2),

which is convex for convex and for symmetric losses, every f obeys (Bartlett, Jordan and McAuliffe)

    ψ(E₀₁(f) − inf E₀₁) ≤ E(f) − inf E,

where E₀₁ is the error rate at the same class prior: for equal priors, the balanced error. The loss
is calibrated if ψ > 0 beyond 0; then whatever brings the risk to its infimum brings the error to
its own.

Models may be trained at one prior, q, and their scores moved to another, π, by the difference of
the log-odds. For the logistic loss the error at π is bounded by the risk at q too (`prior_shifted_error`):

    E₀₁,π(f moved) − inf E₀₁,π ≤ 2 max(ρ, 1/ρ) max_c(π_c/q_c) √((E_q(f) − inf E_q)/2),

with ρ = (π₊/π₋)/(q₊/q₋). ``docs/bounds.md`` has the proof.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._checks import check_nonnegative
from unbag.observations.losses import Loss
from unbag.paper.bounds.checks import find_loss

# Margins among which the least risk is looked for, with ±1, where some losses have a kink. A least
# risk that comes out too large makes ψ smaller, which is safe; and at 0, where wrong signs do best,
# nothing is lost.
_POSITIVE = np.unique([*np.geomspace(1e-3, 40, 1000), 1.0])
_MARGINS = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
# How often an interval is halved until ψ⁻¹ is found.
_HALVINGS = 40


def calibration_function(loss: str | Loss, theta: ArrayLike) -> Floats:
    """ψ(θ) of a convex or symmetric loss.

    Parameters
    ----------
    loss : str or Loss
        A loss, by its name in `unbag.observations.LOSSES` or itself.
    theta : array-like
        θ, from 0 to 1.

    Returns
    -------
    psi : ndarray
        ψ of each θ.

    Examples
    --------
    >>> from unbag.paper.bounds import calibration_function
    >>> calibration_function("hinge", [0.0, 0.5, 1.0]).round(3) + 0.0
    array([0. , 0.5, 1. ])
    >>> calibration_function("logistic", [0.5]).round(4)  # ½Σ(1 ± θ)log(1 ± θ)
    array([0.1308])
    """
    found = find_loss(loss)
    if not (found.convex or found.symmetric):
        raise ValueError(
            f"ψ is known to be convex for convex or symmetric losses, and the {found.name} loss is "
            "neither."
        )
    eta = (1 + np.asarray(theta, dtype=float)[..., None]) / 2
    if not ((eta >= 0.5) & (eta <= 1)).all():
        raise ValueError("θ must lie between 0 and 1.")
    risks = eta * found.value(_MARGINS) + (1 - eta) * found.value(-_MARGINS)
    return risks[..., _MARGINS <= 0].min(axis=-1) - risks.min(axis=-1)


def excess_error(loss: str | Loss, excess_risk: float) -> float:
    """Bound how far the error rate is from the least, from how far the risk is: ψ⁻¹.

    Parameters
    ----------
    loss : str or Loss
        A convex or symmetric loss.
    excess_risk : float
        E(f) − inf E, at some class prior.

    Returns
    -------
    float
        A bound of E₀₁(f) − inf E₀₁ at the same prior, at most 1.

    Examples
    --------
    >>> from unbag.paper.bounds import excess_error
    >>> round(excess_error("logistic", 0.02), 3)
    0.199
    """
    check_nonnegative(excess_risk, "excess_risk")
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if calibration_function(loss, middle) >= excess_risk:
            high = middle
        else:
            low = middle
    # the end where ψ is the larger: never too small
    return high


def prior_shifted_error(excess_risk: float, trained_at: ArrayLike, moved_to: ArrayLike) -> float:
    """Bound the error at one class prior of logistic scores that were trained at another.

    Parameters
    ----------
    excess_risk : float
        E_q(f) − inf E_q for the logistic loss.
    trained_at, moved_to : array-like of shape (2,)
        q and π, the chances of the negative and the positive class.

    Returns
    -------
    float
        A bound of E₀₁,π − inf E₀₁,π for the scores f(x) + log(π₊/π₋) − log(q₊/q₋).

    Examples
    --------
    >>> from unbag.paper.bounds import prior_shifted_error
    >>> round(prior_shifted_error(1e-4, (0.75, 0.25), (0.5, 0.5)), 3)
    0.085
    """
    check_nonnegative(excess_risk, "excess_risk")
    q, prior = (_check_prior(p) for p in (trained_at, moved_to))
    ratio = float(prior[1] * q[0] / (prior[0] * q[1]))
    stretch = 2 * max(ratio, 1 / ratio) * float(np.max(prior / q))
    return min(stretch * sqrt(excess_risk / 2), 1.0)


def _check_prior(prior: ArrayLike) -> Floats:
    found = np.asarray(prior, dtype=float)
    if found.shape != (2,) or not (found > 0).all():
        raise ValueError("A class prior must be two numbers above 0.")
    return found / found.sum()
