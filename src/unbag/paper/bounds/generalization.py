"""How far the corrected risk can be from the true one: the paper's first theorem.

For pairs of bags (`generalization_bound`), and for every table W with Σ_i W[i, c] γ_i[c'] = 1 for
c = c' and 0 otherwise (`weights_bound`): pairs, merged bags, least squares, two classes or more.
A and B are the constants of the class (`unbag.paper.bounds.RKHSBall`,
`unbag.paper.bounds.TwoLayerReLU`). ``docs/theory/bounds.md`` has the proofs, and says why the
constants here are smaller than those printed in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._checks import check_choice, check_inside, check_nonnegative
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.observations.losses import get_loss
from unbag.paper.bounds.contamination import MultiMCM, PairModel
from unbag.paper.corrected_risk import ClassPrior


@dataclass(frozen=True, eq=False)
class GeneralizationBound:
    """A bound on sup_f |Ê_w(f) − E(f)|, and what it is made of.

    ``value`` is the bound for the given ``weights``, ``with_optimal_weights`` that for
    w_i ∝ n̄_i s_i² (harmonic mean) and ``with_uniform_weights`` that for w_i = 1/N (arithmetic mean).
    ``stated`` is the right-hand side as printed in the paper, never smaller. ``coefficients`` are
    c_i = w_i |ℓ| / s_i, those of the weighted Rademacher complexity, and ``variation`` is
    V = Σ w_i² / (n̄_i s_i²).
    """

    value: float
    with_optimal_weights: float
    with_uniform_weights: float
    stated: float
    optimal_weights: Floats
    coefficients: Floats
    variation: float


def generalization_bound(
    pairs: MultiMCM,
    loss: Any,
    A: float,
    B: float | None,
    delta: float,
    model: PairModel = "IIM",
    *,
    complexity: float | None = None,
) -> GeneralizationBound:
    """Bound the distance between corrected and true risk, for all f of a class at once.

    With probability 1 − δ it is at most D √V with D = √2 B|ℓ| + A|ℓ| √log(2/δ) and, for pairs of
    contrasts s_i, sizes of harmonic mean n̄_i and weights w_i, V = Σ_i w_i² / (n̄_i s_i²). Under (IBM)
    n̄_i → 1. Observed proportions may stand for true ones, whatever the size of bags.

    Parameters
    ----------
    pairs : MultiMCM
        Pairs of bags and their weights, see `unbag.paper.bounds.contamination.MultiMCM.from_pairs`.
    loss : str or Loss
        A Lipschitz loss, by name or as an object with the attribute ``lipschitz``.
    A, B : float
        Bound of |f(x)| and B of condition (SR) for the class, see `unbag.paper.bounds.RKHSBall`.
    delta : float
        The bound may fail with this probability.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent, or only bags are.
    complexity : float, optional
        A Rademacher complexity R estimated on these data for c = ``coefficients``
        (`unbag.paper.bounds.complexity.rademacher_complexity`). It takes the place of B, which may then
        be None: the bound is 2R + 3A|ℓ| √(log(3/δ) V). It belongs to the given weights, so that the
        forms with other weights are NaN.

    Returns
    -------
    GeneralizationBound

    Examples
    --------
    >>> from unbag.paper.bounds import generalization_bound
    >>> from unbag.paper.bounds.contamination import MultiMCM
    >>> pairs = MultiMCM([0.1, 0.4], [0.2, 0.3], sizes_plus=100, sizes_minus=100)
    >>> bound = generalization_bound(pairs, "logistic", A=1.0, B=1.0, delta=0.05)
    >>> round(bound.value, 3), round(bound.with_uniform_weights, 3), round(bound.stated, 3)
    (0.438, 0.605, 0.767)
    >>> bound.optimal_weights.round(3)
    array([0.845, 0.155])
    """
    check_choice(model, get_args(PairModel), "model")
    lipschitz = lipschitz_constant(loss)
    check_nonnegative(A, "A")
    check_inside(delta, "delta")
    information = pairs.contrast**2 * (pairs.harmonic_sizes if model == "IIM" else 1)
    best = information / information.sum()
    variation = float(np.sum(pairs.weights**2 / information))
    coefficients = pairs.weights * lipschitz / pairs.contrast
    if complexity is not None:
        check_nonnegative(complexity, "complexity")
        value = 2 * complexity + 3 * A * lipschitz * sqrt(log(3 / delta) * variation)
        nan = float("nan")
        return GeneralizationBound(value, nan, nan, nan, best, coefficients, variation)
    B = check_nonnegative(B, "B")
    factor = proved_factor(A, B, lipschitz, delta)
    return GeneralizationBound(
        value=factor * sqrt(variation),
        with_optimal_weights=factor / sqrt(information.sum()),
        with_uniform_weights=factor * sqrt(np.mean(1 / information) / len(information)),
        stated=stated_factor(A, B, lipschitz, delta) * sqrt(variation),
        optimal_weights=best,
        coefficients=coefficients,
        variation=variation,
    )


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


def proved_factor(A: float, B: float, lipschitz: float, delta: float) -> float:
    """D = √2 B|ℓ| + A|ℓ| √log(2/δ), the factor that the proof gives."""
    return lipschitz * (sqrt(2) * B + A * sqrt(log(2 / delta)))


def stated_factor(A: float, B: float, lipschitz: float, delta: float) -> float:
    """D = 2B|ℓ| + (1 + A|ℓ|) √log(2/δ), the factor printed in the paper."""
    return 2 * B * lipschitz + (1 + A * lipschitz) * sqrt(log(2 / delta))


# --- any table of weights -------------------------------------------------------------------------

# How far WᵀG may be from the identity by rounding.
_UNBIASED = 1e-6


@dataclass(frozen=True, eq=False)
class WeightsBound:
    """A bound on sup_f |Ê(f) − E(f)| for a table W.

    ``variation`` is V = Σ_i r_i²/n_i, ``reach`` r_i = Σ_c π_c |W[i, c]|: the losses of an instance of
    bag i count r_i/n_i in the risk.
    """

    value: float
    variation: float
    reach: Floats


def weights_bound(
    W: ArrayLike,
    bags: Bags,
    loss: Any,
    A: float,
    B: float,
    delta: float,
    *,
    class_prior: ClassPrior = "balanced",
    model: PairModel = "IIM",
) -> WeightsBound:
    """Bound the distance between the risk by a table W and the true one, for all f of a class.

    Ê(f) = Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c(f(x)) over bag i) differs from its mean by at most
    |ℓ| (2B + A √(2 log(2/δ))) · √V with probability 1 − δ, where V = Σ_i r_i² / n_i and
    r_i = Σ_c π_c |W[i, c]|. Under (IBM) n_i → 1; for several classes 2B → 2√2 B.

    Parameters
    ----------
    W : array-like of shape (n_bags, n_classes)
        An unbiased table, such as `unbag.weights.decontamination_weights` gives.
    bags : Bags
        With exact proportions.
    loss : str or ClassLoss
        A Lipschitz loss.
    A, B : float
        Bound of |f(x)| and B of condition (SR) for the class, see `unbag.paper.bounds.RKHSBall`; for
        several classes, A bounds the norm of the vector of scores.
    delta : float
        The bound may fail with this probability.
    class_prior : {"balanced", "empirical"} or array-like of shape (n_classes,), default="balanced"
        π. "empirical" is the overall class prior, where kernel models minimise the corrected risk.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent given their labels, or only bags are.

    Returns
    -------
    bound : WeightsBound
        With ``value`` and what it is made of.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.paper.bounds import weights_bound
    >>> from unbag.weights import decontamination_weights
    >>> bag = np.repeat(np.arange(100), 50)
    >>> bags = check_bag_target(bag_target(bag, np.linspace(0, 0.5, 100)[bag]))
    >>> W = decontamination_weights(bags)
    >>> balanced = weights_bound(W, bags, "logistic", A=1.0, B=1.0, delta=0.05)
    >>> pooled = weights_bound(W, bags, "logistic", 1.0, 1.0, 0.05, class_prior="empirical")
    >>> round(balanced.value, 3), round(pooled.value, 3)
    (0.231, 0.177)
    """
    check_choice(model, get_args(PairModel), "model")
    table = _check_table(np.asarray(W, dtype=float), bags)
    prior = resolve_class_prior(class_prior, bags.class_shares)
    reach = np.abs(table) @ prior
    draws = bags.draws("instances" if model == "IIM" else "bags")
    variation = float(np.sum(reach**2 / draws))
    factor = table_factor(loss, A, B, delta, bags.n_classes)
    return WeightsBound(factor * sqrt(variation), variation, reach)


def table_factor(loss: Any, A: float, B: float, delta: float, n_classes: int = 2) -> float:
    """|ℓ| (2B + A √(2 log(2/δ))), with 2√2 B in place of 2B for several classes."""
    check_nonnegative(A, "A")
    check_nonnegative(B, "B")
    check_inside(delta, "delta")
    lipschitz = lipschitz_constant(get_loss(loss, n_classes) if isinstance(loss, str) else loss)
    signs = 2 if n_classes == 2 else 2 * sqrt(2)
    return lipschitz * (signs * B + A * sqrt(2 * log(2 / delta)))


def _check_table(W: Floats, bags: Bags) -> Floats:
    if bags.noise is not None:
        raise ValueError("The bounds need exact proportions, and those of these bags are noisy.")
    if W.shape != bags.proportions.shape:
        raise ValueError(
            f"W must have one row for each of the {bags.n_bags} bags and one column for each of "
            f"the {bags.n_classes} classes, not the shape {W.shape}."
        )
    error = np.abs(W.T @ bags.proportions - np.eye(bags.n_classes)).max()
    if not error <= _UNBIASED * max(1.0, float(np.abs(W).sum(axis=0).max())):
        raise ValueError(
            "Σ_i W[i, c] γ_i[c'] must be 1 for c = c' and 0 otherwise, and differs from that by up "
            f"to {error:.2g}: the risk by this table is not unbiased."
        )
    return W
