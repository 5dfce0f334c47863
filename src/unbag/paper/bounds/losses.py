"""What the theory asks of a loss: immunity, convexity under the correction, calibration.

**Immunity and convexity** (appendices C and D). A loss is symmetric if ℓ₊(t) + ℓ₋(t) = C for all t.
Then ℓ^κ is ℓ, scaled and shifted, and

    contaminated risk = (1 − κ⁺ − κ⁻) · clean risk + C (κ⁺ + κ⁻)/2:

training on contaminated data as if it were clean has the same minimiser. No symmetric loss is
convex, except for a straight line. For a convex loss with ℓ₊'' = ℓ₋'',

    (ℓ_σ^κ)'' = ℓ'' · (1 − 2κ^{−σ}) / (1 − κ⁺ − κ⁻),

and ℓ^κ is convex if neither contamination is above one half.

**Calibration** (appendix H): the step from the risk that is minimised to the error, which is
theorems E and F of ``docs/theory/bounds.md``.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from unbag._arrays import Bools, Floats
from unbag._checks import check_nonnegative
from unbag.observations.losses import Loss
from unbag.paper.bounds.contamination import check_contamination, find_loss

# Scores at which ℓ₊ + ℓ₋ is looked at: dense around 0, and far out.
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 601)])
_TOLERANCE = 1e-9


def symmetry_constant(loss: str | Loss) -> float | None:
    """C with ℓ₊(t) + ℓ₋(t) = C at 602 scores from 0 to 1000, or None if there is none."""
    found = find_loss(loss)
    total = found.value(_GRID) + found.value(-_GRID)
    if np.ptp(total) > _TOLERANCE * np.abs(total).max():
        return None
    return float(total[0])


def is_symmetric(loss: str | Loss) -> bool:
    """Whether ℓ₊ + ℓ₋ is constant, which makes a loss immune to contamination."""
    return symmetry_constant(loss) is not None


def immunity_constants(
    loss: str | Loss, kappa_plus: ArrayLike, kappa_minus: ArrayLike
) -> tuple[Floats, Floats]:
    """Slope 1 − κ⁺ − κ⁻ and offset C(κ⁺ + κ⁻)/2 of the contaminated risk as a function of the clean one."""
    plus, minus = check_contamination(kappa_plus, kappa_minus)
    constant = symmetry_constant(loss)
    if constant is None:
        raise ValueError(
            f"The {find_loss(loss).name} loss is not immune: ℓ₊ + ℓ₋ = constant fails. Use a "
            "symmetric loss, or the unbiased loss."
        )
    return 1 - plus - minus, constant * (plus + minus) / 2


def convexity_condition(loss: str | Loss, kappa_plus: ArrayLike, kappa_minus: ArrayLike) -> Bools:
    """Whether the unbiased loss ℓ^κ is convex, pair by pair.

    The paper asks for κ⁺, κ⁻ < ½; at ½ one side of ℓ^κ is a straight line, which is convex too.
    Where all pairs meet the condition, which says γ⁻ ≤ ½ ≤ γ⁺, Ê_w is a convex function of the
    scores. Where some do not, it is none, although the risk that it estimates is; at other class
    priors it may be one (`unbag.paper.weights.convex_priors`).
    """
    plus, minus = check_contamination(kappa_plus, kappa_minus)
    of_pair = np.vectorize(find_loss(loss).corrected_is_convex, otypes=[bool])
    return np.asarray(of_pair(plus, minus))


# --- calibration ----------------------------------------------------------------------------------


# Margins among which the least risk is looked for, with ±1, where some losses have a kink. A least
# risk that comes out too large makes ψ smaller, which is safe; and at 0, where wrong signs do best,
# nothing is lost.
_POSITIVE = np.unique([*np.geomspace(1e-3, 40, 1000), 1.0])
_MARGINS = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])


def calibration_function(loss: str | Loss, theta: ArrayLike) -> Floats:
    """ψ(θ) of a convex or symmetric loss, for θ from 0 to 1."""
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
    """Bound how far the error rate is from the least, from how far the risk is: ψ⁻¹, at most 1."""
    check_nonnegative(excess_risk, "excess_risk")
    if calibration_function(loss, 1.0) <= excess_risk:
        return 1.0

    def surplus(theta: float) -> float:
        return float(calibration_function(loss, theta)) - excess_risk

    # rounded up: never too small
    return min(float(brentq(surplus, 0, 1, xtol=1e-12)) + 1e-12, 1.0)


def prior_shifted_error(excess_risk: float, trained_at: ArrayLike, moved_to: ArrayLike) -> float:
    """Bound the error at one class prior of logistic scores that were trained at another.

    ``trained_at`` and ``moved_to`` are q and π, the probabilities of the negative and the positive
    class, and the bound is that of E₀₁,π − inf E₀₁,π for the scores f(x) + log(π₊/π₋) − log(q₊/q₋).
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
