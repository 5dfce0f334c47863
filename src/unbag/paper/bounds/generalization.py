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
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._checks import check_choice, check_inside, check_nonnegative
from unbag.bags.bags import BagModel, Bags
from unbag.paper.bounds.checks import check_exact, check_weights, lipschitz_constant
from unbag.paper.bounds.contamination import MultiMCM
from unbag.paper.bounds.sampling import PairModel
from unbag.paper.pairing import Pairing


@dataclass(frozen=True, eq=False)
class GeneralizationBound:
    """A bound on sup_f |Ê_w(f) − E(f)|, and what it is made of.

    Attributes
    ----------
    value : float
        The bound for the given weights.
    with_optimal_weights : float
        The same for w_i ∝ n̄_i s_i² (harmonic mean).
    with_uniform_weights : float
        The same for w_i = 1/N (arithmetic mean).
    stated : float
        The right-hand side as printed in the paper, D = 2B|ℓ| + (1 + A|ℓ|)√log(2/δ): never
        smaller. NaN where ``complexity`` takes the place of B.
    weights : ndarray of shape (n_pairs,)
        The weights w of ``value``.
    optimal_weights : ndarray of shape (n_pairs,)
        The best ones.
    coefficients : ndarray of shape (n_pairs,)
        c_i = w_i |ℓ| / s_i, the coefficients of the weighted Rademacher complexity.
    variation : float
        V = Σ w_i² / (n̄_i s_i²).

    Examples
    --------
    >>> from unbag.paper.bounds import generalization_bound
    >>> pairs = ([0.1, 0.4], [0.2, 0.3], [100, 100])
    >>> bound = generalization_bound(pairs, "logistic", A=1.0, B=1.0, delta=0.05, weights="uniform")
    >>> bool(bound.value > bound.with_optimal_weights), bound.weights
    (True, array([0.5, 0.5]))
    """

    value: float
    with_optimal_weights: float
    with_uniform_weights: float
    stated: float
    weights: Floats
    optimal_weights: Floats
    coefficients: Floats
    variation: float


def generalization_bound(
    pairs: Any,
    loss: Any,
    A: float,
    B: float | None,
    delta: float,
    model: PairModel = "IIM",
    *,
    bags: Bags | None = None,
    weights: ArrayLike | Literal["optimal", "uniform"] | None = None,
    complexity: float | None = None,
) -> GeneralizationBound:
    """Bound the distance between corrected and true risk, for all f of a class at once.

    Parameters
    ----------
    pairs : Pairing, MultiMCM or (kappa_plus, kappa_minus, sizes)
        A pairing of ``bags``, whose contaminations are κ⁺ = 1 − γ⁺ and κ⁻ = γ⁻; contamination
        models; or plain arrays with one entry per pair, where ``sizes`` may have two columns, n⁺
        and n⁻. A fourth array is read as ``weights``.
    loss : str or Loss
        A Lipschitz loss, by name or as an object with the attribute ``lipschitz``.
    A : float
        Bound of |f(x)| for all functions f of the class, see `unbag.paper.bounds.RKHSBall`.
    B : float
        B of the paper's condition (SR) for the class.
    delta : float
        The bound may fail with this probability.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent, or only bags are. Rows of known label are no bag and
        count one by one under both.
    bags : Bags, optional
        The bags of the pairing.
    weights : "optimal", "uniform" or array-like of shape (n_pairs,), optional
        Weights of the pairs: not negative, of sum one. Left out, those of the MultiMCM, and
        otherwise the optimal ones.
    complexity : float, optional
        A Rademacher complexity estimated on these data for c = ``coefficients``
        (`unbag.paper.bounds.rademacher_complexity`). It takes the place of B, which may then be None:
        the bound is 2R + 3A|ℓ| √(log(3/δ) V), since the data's complexity R may differ from its
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
    >>> pairs = ([0.1, 0.4], [0.2, 0.3], [100, 100])
    >>> bound = generalization_bound(pairs, "logistic", A=1.0, B=1.0, delta=0.05)
    >>> round(bound.value, 3), round(bound.with_uniform_weights, 3), round(bound.stated, 3)
    (0.438, 0.605, 0.767)
    >>> bound.optimal_weights.round(3)
    array([0.845, 0.155])
    """
    check_choice(model, get_args(PairModel), "model")
    contrast, draws, w = _read_pairs(pairs, bags, weights, model)
    lipschitz = lipschitz_constant(loss)
    check_nonnegative(A, "A")
    check_inside(delta, "delta")

    information = draws * contrast**2
    best = information / information.sum()
    w = best if w is None else w
    variation = float(np.sum(w**2 / information))
    coefficients = w * lipschitz / contrast
    if complexity is not None:
        check_nonnegative(complexity, "complexity")
        value = 2 * complexity + 3 * A * lipschitz * sqrt(log(3 / delta) * variation)
        nan = float("nan")
        return GeneralizationBound(value, nan, nan, nan, w, best, coefficients, variation)
    B = check_nonnegative(B, "B")
    factor = proved_factor(A, B, lipschitz, delta)
    return GeneralizationBound(
        value=factor * sqrt(variation),
        with_optimal_weights=factor / sqrt(information.sum()),
        with_uniform_weights=factor * sqrt(np.mean(1 / information) / len(information)),
        stated=stated_factor(A, B, lipschitz, delta) * sqrt(variation),
        weights=w,
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


def _read_pairs(
    pairs: Any, bags: Bags | None, weights: Any, model: str
) -> tuple[Floats, Floats, Floats | None]:
    """Contrasts s_i, independent draws n̄_i, and the weights, or None for the optimal ones."""
    if isinstance(pairs, Pairing):
        pairs, draws = _models_of_bags(pairs, bags, "instances" if model == "IIM" else "bags")
    else:
        if isinstance(pairs, tuple | list) and len(pairs) in (3, 4):
            if len(pairs) == 4 and weights is not None:
                raise ValueError("weights are given twice: in pairs and on their own.")
            weights = pairs[3] if len(pairs) == 4 else weights
            pairs = _models_of_arrays(*pairs[:3])
        elif not isinstance(pairs, MultiMCM):
            raise ValueError(
                "pairs must be a Pairing (with bags), a MultiMCM or the arrays (kappa_plus, "
                "kappa_minus, sizes), with weights as a possible fourth."
            )
        elif weights is None:
            weights = pairs.weights
        draws = pairs.harmonic_sizes if model == "IIM" else np.ones(pairs.n_pairs)
    if isinstance(weights, str):
        check_choice(weights, ("optimal", "uniform"), "weights")
        weights = np.full(len(draws), 1 / len(draws)) if weights == "uniform" else None
    w = None if weights is None else check_weights(weights, len(draws))
    return pairs.contrast, draws, w


def _models_of_arrays(kappa_plus: Any, kappa_minus: Any, sizes: Any) -> MultiMCM:
    sizes = np.asarray(sizes)
    plus, minus = sizes.T if sizes.ndim == 2 and sizes.shape[1] == 2 else (sizes, sizes)
    return MultiMCM(kappa_plus, kappa_minus, sizes_plus=plus, sizes_minus=minus)


def _models_of_bags(
    pairing: Pairing, bags: Bags | None, bag_model: BagModel
) -> tuple[MultiMCM, Floats]:
    if bags is None:
        raise ValueError("A Pairing says which bags belong together: give the bags as well.")
    if bags.n_classes != 2:
        raise ValueError(f"The bounds are for two classes, and there are {bags.n_classes}.")
    check_exact(bags)
    if len(pairing) == 0:
        raise ValueError("There is no pair of bags, so that there is nothing to bound.")
    draws = bags.draws(bag_model)
    harmonic = 2 / (1 / draws[pairing.positive] + 1 / draws[pairing.negative])
    return MultiMCM.from_pairs(pairing, bags.proportions[:, 1], bags.sizes), harmonic
