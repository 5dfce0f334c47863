"""How far the corrected risk can be from the true one: the paper's first theorem.

Pair i has the contaminations κ_i, the contrast s_i = 1 − κ_i⁺ − κ_i⁻ > 0, sizes n_i^± of harmonic
mean n̄_i, and the weight w_i. With probability at least 1 − δ, for all f of the class at once,

    |Ê_w(f) − E(f)| ≤ D √V,    V = Σ_i w_i² / (n̄_i s_i²),
    D = √2 B|ℓ| + A|ℓ| √log(2/δ),

under the model of independent instances (IIM); under that of independent bags (IBM) n̄_i → 1.
A and B are the constants of the class (`unbag.paper.bounds.RKHSBall`, `unbag.paper.bounds.TwoLayerReLU`).

The weights w_i ∝ n̄_i s_i² make V smallest: then V = HM(1/(n̄_i s_i²))/N, where uniform weights
leave V = AM(1/(n̄_i s_i²))/N. As printed, the theorem has the larger D = 2B|ℓ| + (1 + A|ℓ|)
√log(2/δ). ``docs/theory/bounds.md`` goes through the proof and says why the smaller one holds.

**Any table of weights.** The theorem is for pairs of bags. Its proof uses of them only that the risk is unbiased and
that one instance moves it little, and both hold for every table W with Σ_i W[i, c] γ_i[c'] = 1 for
c = c' and 0 otherwise: pairs, merged bags, least squares, two classes or more. Let π be any class
prior and

    Ê(f) = Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c(f(x)) over bag i),    E(f) = Σ_c π_c E[ℓ_c(f(X)) | c].

Then with probability at least 1 − δ, for all f of the class at once,

    |Ê(f) − E(f)| ≤ |ℓ| (2B + A √(2 log(2/δ))) · √V,

    V = Σ_i r_i² / n_i,    r_i = Σ_c π_c |W[i, c]|,

if instances are independent given their labels (IIM); if only bags are (IBM), n_i → 1. For pairs
and equal priors r_i = w/(2s) in both bags of a pair, hence V = ½ Σ w²/(n̄ s²), and the bound is that
of `generalization_bound`. With several classes scores are vectors, |ℓ| and A are for
their Euclidean norm, and 2B becomes 2√2 B. ``docs/theory/bounds.md`` has the proof.
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
from unbag.paper.bounds.checks import lipschitz_constant
from unbag.paper.bounds.contamination import MultiMCM, PairModel
from unbag.paper.corrected_risk import ClassPrior


@dataclass(frozen=True, eq=False)
class GeneralizationBound:
    """A bound on sup_f |Ê_w(f) − E(f)|, and what it is made of.

    ``value`` is the bound for the given ``weights``, ``with_optimal_weights`` that for
    w_i ∝ n̄_i s_i² (harmonic mean) and ``with_uniform_weights`` that for w_i = 1/N (arithmetic mean).
    ``stated`` is the right-hand side as printed in the paper, D = 2B|ℓ| + (1 + A|ℓ|)√log(2/δ), never
    smaller. ``coefficients`` are c_i = w_i |ℓ| / s_i, those of the weighted Rademacher complexity, and
    ``variation`` is V = Σ w_i² / (n̄_i s_i²).
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

    Parameters
    ----------
    pairs : MultiMCM
        Pairs of bags and their weights, see `unbag.paper.bounds.contamination.MultiMCM.from_pairs`.
    loss : str or Loss
        A Lipschitz loss, by name or as an object with the attribute ``lipschitz``.
    A : float
        Bound of |f(x)| for all functions f of the class, see `unbag.paper.bounds.RKHSBall`.
    B : float
        B of the paper's condition (SR) for the class.
    delta : float
        The bound may fail with this probability.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent, or only bags are.
    complexity : float, optional
        A Rademacher complexity estimated on these data for c = ``coefficients``
        (`unbag.paper.bounds.complexity.rademacher_complexity`). It takes the place of B, which may then
        be None: the bound is 2R + 3A|ℓ| √(log(3/δ) V), since the data's complexity R may differ from its
        mean. It belongs to the given weights, so that the forms with other weights are NaN.

    Returns
    -------
    GeneralizationBound

    Notes
    -----
    Observed proportions may stand for true ones. Given the labels, a bag has exactly the observed
    mixture, so that Ê_w is unbiased and the proof goes through with probabilities given the
    labels, whatever the size of bags (``docs/theory/bounds.md``).

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

    Parameters
    ----------
    W : array-like of shape (n_bags, n_classes)
        An unbiased table, such as `unbag.weights.decontamination_weights` gives.
    bags : Bags
        With exact proportions.
    loss : str or ClassLoss
        A Lipschitz loss.
    A : float
        Bound of |f(x)| for all functions f of the class, see `unbag.paper.bounds.RKHSBall`; for several
        classes, of the norm of the vector of scores.
    B : float
        B of the paper's condition (SR) for the class.
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
