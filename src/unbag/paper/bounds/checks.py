"""The conditions of the theorems: each is checked here, and what fails is named."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Bools, Floats
from unbag._checks import check_one_each
from unbag.observations.losses import Loss, get_loss

# Weights that were divided by their sum rarely sum to exactly one.
_SUM_TOLERANCE = 1e-9


def check_contamination(kappa_plus: ArrayLike, kappa_minus: ArrayLike) -> tuple[Floats, Floats]:
    """Two arrays of one shape with κ⁺, κ⁻ ≥ 0 and κ⁺ + κ⁻ < 1."""
    plus, minus = np.broadcast_arrays(
        np.asarray(kappa_plus, dtype=float), np.asarray(kappa_minus, dtype=float)
    )
    for name, kappa in (("κ⁺", plus), ("κ⁻", minus)):
        _refuse(~(kappa >= 0), kappa, f"{name} ≥ 0 fails: {name} is")
    _refuse(~(plus + minus < 1), plus + minus, "κ⁺ + κ⁻ < 1 fails: the sum is")
    return plus, minus


def check_weights(weights: ArrayLike, n_pairs: int) -> Floats:
    """One weight for each pair, on the simplex: w ≥ 0 and Σ w = 1."""
    w = np.asarray(weights, dtype=float)
    check_one_each(w, n_pairs, "weights", "pairs")
    _refuse(~(w >= 0), w, "w ≥ 0 fails: the weight is")
    if not abs(w.sum() - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"Σ w = 1 fails: the weights sum to {w.sum():g}.")
    return w


def check_coefficients(coefficients: ArrayLike, n_pairs: int) -> Floats:
    """One finite coefficient c ≥ 0 for each pair."""
    c = np.asarray(coefficients, dtype=float)
    check_one_each(c, n_pairs, "coefficients", "pairs")
    _refuse(~((c >= 0) & (c < np.inf)), c, "c ≥ 0 fails: the coefficient is")
    return c


def check_proportions(proportions: ArrayLike) -> Floats:
    """One number between 0 and 1 for each bag."""
    gamma = np.atleast_1d(np.asarray(proportions, dtype=float))
    if gamma.ndim != 1:
        raise ValueError(
            f"proportions must be one number for each bag, not an array of shape {gamma.shape}."
        )
    _refuse(~((gamma >= 0) & (gamma <= 1)), gamma, "0 ≤ γ ≤ 1 fails: the proportion is", of="bag")
    return gamma


def check_sizes(sizes: ArrayLike, n: int, name: str, of: str) -> NDArray[np.int64]:
    """Whole numbers above 0, one for all or one for each."""
    found = np.asarray(sizes)
    if found.dtype.kind not in "iu" or found.shape not in ((), (n,)) or not (found > 0).all():
        raise ValueError(
            f"{name} must be whole numbers above 0, one for all {of}s or one for each."
        )
    return np.broadcast_to(found, n).astype(np.int64)


def find_loss(loss: str | Loss) -> Loss:
    """Look a two-class loss up by its name."""
    found = get_loss(loss)
    if not isinstance(found, Loss):
        raise ValueError("Contamination models are for losses of two classes.")
    return found


def lipschitz_constant(loss: Any) -> float:
    """|ℓ| of a loss, which must be finite."""
    loss = get_loss(loss) if isinstance(loss, str) else loss
    constant = getattr(loss, "lipschitz", None)
    if constant is None:
        raise ValueError("loss must be a name or an object with the attribute lipschitz.")
    if not 0 < constant < np.inf:
        name = getattr(loss, "name", type(loss).__name__)
        raise ValueError(f"The bounds need a Lipschitz loss, and loss={name!r} is not Lipschitz.")
    return float(constant)


def _refuse(wrong: Bools, values: Floats, words: str, of: str = "pair") -> None:
    """Name the first wrong value, and which pair or bag it is of; NaN should count as wrong."""
    if wrong.any():
        first = int(wrong.argmax())
        where = f" for {of} {first}" if wrong.ndim else ""
        raise ValueError(f"{words} {values.ravel()[first]:g}{where}.")


def check_spread(spread: float) -> None:
    """A difference of proportions, 0 < Δ ≤ 1."""
    if not 0 < spread <= 1:
        raise ValueError(f"0 < Δ ≤ 1 must hold for differences of proportions; Δ is {spread:g}.")
