"""How far the risk of any table W can be from the true one: the bound for what is really run.

The first theorem is for pairs of bags. Its proof uses of them only that the risk is unbiased and
that one instance moves it little, and both hold for every table W with Σ_i W[i, c] γ_i[c'] = 1 for
c = c' and 0 otherwise: pairs, merged bags, least squares, two classes or more. Let π be any class
prior and

    Ê(f) = Σ_c π_c Σ_i W[i, c] · (mean of ℓ_c(f(x)) over bag i),    E(f) = Σ_c π_c E[ℓ_c(f(X)) | c].

Then with probability at least 1 − δ, for all f of the class at once,

    |Ê(f) − E(f)| ≤ |ℓ| (2B + A √(2 log(2/δ))) · √V,

    V = Σ_i r_i² / n_i,    r_i = Σ_c π_c |W[i, c]|,

if instances are independent given their labels (IIM); if only bags are (IBM), n_i → 1. For pairs
and equal priors r_i = w/(2s) in both bags of a pair, hence V = ½ Σ w²/(n̄ s²), and the bound is that
of `unbag.paper.bounds.generalization_bound`. With several classes scores are vectors, |ℓ| and A are for
their Euclidean norm, and 2B becomes 2√2 B. ``docs/theory/bounds.md`` has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count, check_inside, check_nonnegative, check_positive
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.observations.losses import get_loss
from unbag.paper.bounds.checks import check_exact, lipschitz_constant
from unbag.paper.bounds.planning import FEWEST_PLANNED, lost_bags, share_distribution
from unbag.paper.bounds.sampling import PairModel
from unbag.paper.corrected_risk import ClassPrior

# How far WᵀG may be from the identity by rounding.
_UNBIASED = 1e-6


@dataclass(frozen=True, eq=False)
class WeightsBound:
    """A bound on sup_f |Ê(f) − E(f)| for a table W.

    Attributes
    ----------
    value : float
        The bound.
    variation : float
        V = Σ_i r_i²/n_i.
    reach : ndarray of shape (n_bags,)
        r_i = Σ_c π_c |W[i, c]|: the losses of an instance of bag i count r_i/n_i in the risk.
    class_prior : ndarray of shape (n_classes,)
        π.

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.paper.bounds import weights_bound
    >>> from unbag.weights import decontamination_weights
    >>> bags = check_bag_target(bag_target([0] * 50 + [1] * 50, [0.2] * 50 + [0.8] * 50))
    >>> W = decontamination_weights(bags)
    >>> bound = weights_bound(W, bags, "logistic", A=1.0, B=1.0, delta=0.05)
    >>> round(bound.variation, 4), bound.reach.round(3)
    (0.0278, array([0.833, 0.833]))
    """

    value: float
    variation: float
    reach: Floats
    class_prior: Floats


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
        π. "empirical" are the pooled shares, where kernel models minimise the corrected risk.
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
    return WeightsBound(factor * sqrt(variation), variation, reach, prior)


def table_factor(loss: Any, A: float, B: float, delta: float, n_classes: int = 2) -> float:
    """|ℓ| (2B + A √(2 log(2/δ))), with 2√2 B in the place of 2B for several classes."""
    check_nonnegative(A, "A")
    check_nonnegative(B, "B")
    check_inside(delta, "delta")
    lipschitz = lipschitz_constant(get_loss(loss, n_classes) if isinstance(loss, str) else loss)
    signs = 2 if n_classes == 2 else 2 * sqrt(2)
    return lipschitz * (signs * B + A * sqrt(2 * log(2 / delta)))


@dataclass(frozen=True)
class BoundPlan:
    """How many bags bring the bound down to a target; found by `required_bags_for_bound`.

    Attributes
    ----------
    n_bags : int
        Number of bags it takes.
    bag_size : int
        Instances in every bag.
    n_instances : int
        Instances in all.
    value : float
        The bound that is expected from so many.
    variation_per_bag : float
        V times the number of bags.

    Examples
    --------
    >>> from unbag.paper.bounds import required_bags_for_bound
    >>> plan = required_bags_for_bound(50, (0.0, 0.5), target=0.1, loss="logistic", A=1.0, B=1.0, delta=0.05)
    >>> plan.n_bags, plan.n_instances
    (474, 23700)
    """

    n_bags: int
    bag_size: int
    n_instances: int
    value: float
    variation_per_bag: float


def required_bags_for_bound(
    bag_size: int,
    proportions: Any,
    target: float,
    loss: Any,
    A: float,
    B: float,
    delta: float,
    *,
    class_prior: ClassPrior = "balanced",
    model: PairModel = "IIM",
) -> BoundPlan:
    """Tell how many bags it takes until the bound for least squares is at most ``target``.

    For L bags of n instances and g = (1 − share, share) of a bag, L·W[i] goes to g_iᵀM⁻¹ with
    M = E[ggᵀ], so that V is about E[(Σ_c π_c |gᵀM⁻¹|_c)²]/(L n).

    Parameters
    ----------
    bag_size : int
        Instances in every bag.
    proportions : (low, high), frozen scipy.stats distribution or array-like
        How the bags differ. Two numbers or a distribution say where true proportions come from,
        as in `unbag.datasets.make_bags`: labels are drawn, so that observed proportions vary more.
        Three or more numbers are observed proportions of bags such as there will be.
    target : float
        The bound that is wanted.
    loss : str or ClassLoss
        A Lipschitz loss.
    A : float
        Bound of |f(x)| for all functions f of the class, see `unbag.paper.bounds.RKHSBall`.
    B : float
        B of the paper's condition (SR) for the class.
    delta : float
        The bound may fail with this probability.
    class_prior : {"balanced", "empirical"} or two numbers, default="balanced"
        "empirical" are the mean shares.
    model : {"IIM", "IBM"}, default="IIM"
        Whether instances are independent given their labels, or only bags are.

    Returns
    -------
    plan : BoundPlan
        With ``n_bags``.

    Examples
    --------
    >>> from unbag.paper.bounds import required_bags_for_bound
    >>> wanted = {"target": 0.1, "loss": "logistic", "A": 1.0, "B": 1.0, "delta": 0.05}
    >>> required_bags_for_bound(50, (0.0, 0.5), **wanted).n_bags
    474
    >>> required_bags_for_bound(50, (0.0, 0.5), **wanted, class_prior="empirical").n_bags
    281
    """
    check_count(bag_size, "bag_size")
    check_choice(model, get_args(PairModel), "model")
    check_positive(target, "target")
    factor = table_factor(loss, A, B, delta)
    per_bag = _variation_per_bag(*share_distribution(proportions, bag_size), class_prior)
    per_bag /= bag_size if model == "IIM" else 1
    lost = lost_bags(proportions)
    # a whole number must not be missed by rounding
    needed = ceil(factor**2 * per_bag / target**2 * (1 - 1e-12))
    n_bags = max(needed + lost, FEWEST_PLANNED)
    value = factor * sqrt(per_bag / (n_bags - lost))
    return BoundPlan(n_bags, bag_size, n_bags * bag_size, value, per_bag)


def _variation_per_bag(shares: Floats, chance: Floats, class_prior: Any) -> float:
    """E[(Σ_c π_c |gᵀM⁻¹|_c)²] over the distribution of shares."""
    G = np.column_stack([1 - shares, shares])
    if isinstance(class_prior, str):
        check_choice(class_prior, ("balanced", "empirical"), "class_prior")
        prior = np.full(2, 0.5) if class_prior == "balanced" else chance @ G
    else:
        prior = np.asarray(class_prior, dtype=float) / np.sum(class_prior)
    table = G @ np.linalg.inv(G.T @ (chance[:, None] * G))
    return float(chance @ (np.abs(table) @ prior) ** 2)


def _check_table(W: Floats, bags: Bags) -> Floats:
    check_exact(bags)
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
