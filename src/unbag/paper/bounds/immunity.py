"""Which losses need no correction, and which stay convex under it (appendix).

A loss is symmetric if ℓ₊(t) + ℓ₋(t) = C for all t. Then ℓ^κ is ℓ, scaled and shifted, and

    contaminated risk = (1 − κ⁺ − κ⁻) · clean risk + C (κ⁺ + κ⁻)/2:

training on contaminated data as if it were clean has the same minimiser. That is immunity. No
symmetric loss is convex (but for a straight line), so that there is a price.

For a convex loss with ℓ₊'' = ℓ₋'', the second derivative of the unbiased loss is

    (ℓ_σ^κ)'' = ℓ'' · (1 − 2κ^{−σ}) / (1 − κ⁺ − κ⁻),

and ℓ^κ is convex if neither contamination is above one half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Bools, Floats
from unbag.observations.losses import Loss
from unbag.paper.bounds.checks import check_contamination, find_loss

# Scores at which ℓ₊ + ℓ₋ is looked at: dense around 0, and far out.
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 601)])
_TOLERANCE = 1e-9


def symmetry_constant(loss: str | Loss) -> float | None:
    """C with ℓ₊(t) + ℓ₋(t) = C at 602 scores from 0 to 1000, or None if there is none.

    Parameters
    ----------
    loss : str or Loss
        A loss, by its name in `unbag.observations.LOSSES` or itself.

    Returns
    -------
    constant : float or None
        C.

    Examples
    --------
    >>> from unbag.paper.bounds import symmetry_constant
    >>> symmetry_constant("sigmoid")
    1.0
    >>> symmetry_constant("logistic") is None
    True
    """
    found = find_loss(loss)
    total = found.value(_GRID) + found.value(-_GRID)
    if np.ptp(total) > _TOLERANCE * np.abs(total).max():
        return None
    return float(total[0])


def is_symmetric(loss: str | Loss) -> bool:
    """Whether ℓ₊ + ℓ₋ is constant, which makes a loss immune to contamination.

    Parameters
    ----------
    loss : str or Loss
        A loss, by its name in `unbag.observations.LOSSES` or itself.

    Returns
    -------
    symmetric : bool
        Whether it is.

    Examples
    --------
    >>> from unbag.paper.bounds import is_symmetric
    >>> from unbag.observations.losses import LOSSES
    >>> [name for name in LOSSES if is_symmetric(name)]
    ['sigmoid', 'ramp', 'zero_one']
    """
    return symmetry_constant(loss) is not None


def immunity_constants(
    loss: str | Loss, kappa_plus: ArrayLike, kappa_minus: ArrayLike
) -> tuple[Floats, Floats]:
    """Slope and offset of the contaminated balanced risk as a function of the clean one.

    Parameters
    ----------
    loss : str or Loss
        A symmetric loss.
    kappa_plus, kappa_minus : float or array-like
        Contaminations, with κ⁺ + κ⁻ < 1.

    Returns
    -------
    slope, offset : ndarray
        1 − κ⁺ − κ⁻ and C (κ⁺ + κ⁻)/2.

    Examples
    --------
    Thirty and twenty percent of the labels are wrong. A classifier that errs on 10% of either
    class then seems to err on 30%:

    >>> from unbag.paper.bounds import immunity_constants
    >>> slope, offset = immunity_constants("zero_one", 0.3, 0.2)
    >>> round(float(slope * 0.1 + offset), 3)
    0.3
    """
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

    Parameters
    ----------
    loss : str or Loss
        A loss, by its name in `unbag.observations.LOSSES` or itself.
    kappa_plus : float or array-like
        Contaminations κ⁺ of the positive bags.
    kappa_minus : float or array-like
        Contaminations κ⁻ of the negative bags, with κ⁺ + κ⁻ < 1.

    Returns
    -------
    convex : ndarray of bool
        One for each pair.

    Examples
    --------
    >>> from unbag.paper.bounds import convexity_condition
    >>> convexity_condition("logistic", kappa_plus=[0.1, 0.5, 0.6], kappa_minus=0.3)
    array([ True,  True, False])
    >>> convexity_condition("hinge", 0.1, 0.3)
    array(False)
    """
    plus, minus = check_contamination(kappa_plus, kappa_minus)
    of_pair = np.vectorize(find_loss(loss).corrected_is_convex, otypes=[bool])
    return np.asarray(of_pair(plus, minus))
