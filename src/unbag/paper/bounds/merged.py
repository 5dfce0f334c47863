"""Merged bags: the expected contrast of their proportions, and the paper's second theorem.

2N small bags of n instances are merged, K at a time, into N/K pairs of large bags. Their
proportions are observed, the true ones are not; Γ_i⁺ − Γ_i⁻ is the contrast that merging makes in
block i on average over the labels. ``docs/theory/bounds.md`` has theorems and proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import binom

from unbag._arrays import Floats
from unbag._checks import (
    check_choice,
    check_count,
    check_inside,
    check_nonnegative,
    check_share,
)
from unbag.paper.bounds.contamination import ConditionalModel, check_proportions
from unbag.paper.bounds.generalization import lipschitz_constant, proved_factor, stated_factor

MergingScheme = Literal["blockwise_pairwise", "blockwise_max", "dominating"]


def expected_contrasts(
    proportions: ArrayLike,
    merge_size: int,
    bag_size: int | None = None,
    model: ConditionalModel = "CIIM",
    scheme: MergingScheme = "blockwise_pairwise",
) -> Floats:
    """Γ_i⁺ − Γ_i⁻ of the blockwise-pairwise or blockwise-max scheme, from the true proportions.

    The proportions are those of small bags of n = ``bag_size`` in the order in which they are merged,
    K = ``merge_size`` at a time. With F_j the distribution function of the number of positives of bag
    j, whose labels are independent under (CIIM), blockwise-pairwise has the mean over neighbours of

        E|γ̂_j − γ̂_{j+1}| = (1/n) Σ_{t<n} F_j(t)(1 − F_{j+1}(t)) + F_{j+1}(t)(1 − F_j(t)).

    Of blockwise-max, let C_t be how many of the 2K bags have more than t positives. The larger half
    has min(C_t, K) of them, so that

        Γ_i⁺ − Γ_i⁻ = (1/n) Σ_{t<n} (1 − E|C_t − K|/K).

    Under (CIBM) labels may depend on each other. The contrast is convex in the shares, so that the
    contrast of the true proportions is a lower bound, and n is not needed.
    """
    check_choice(model, get_args(ConditionalModel), "model")
    check_choice(scheme, ("blockwise_pairwise", "blockwise_max"), "scheme")
    check_count(merge_size, "merge_size")
    gamma = check_proportions(proportions)
    if not len(gamma) or len(gamma) % (2 * merge_size):
        raise ValueError(
            f"The number of bags must be a multiple of 2K = {2 * merge_size}, and {len(gamma)} "
            "is none."
        )
    by_max = scheme == "blockwise_max"
    if model == "CIBM":
        blocks = gamma.reshape(-1, 2 * merge_size)
        if by_max:
            ordered = np.sort(blocks, axis=1)
            return (ordered[:, merge_size:] - ordered[:, :merge_size]).mean(axis=1)
        return np.abs(blocks[:, ::2] - blocks[:, 1::2]).mean(axis=1)
    n = check_count(bag_size, "bag_size")
    contrast = np.zeros(len(gamma) // (2 * merge_size))
    for below in _below(gamma, n):
        blocks = below.reshape(-1, 2 * merge_size)
        if by_max:
            contrast += 1 - _mean_distance(1 - blocks) / merge_size
        else:
            left, right = blocks[:, ::2], blocks[:, 1::2]
            contrast += (left * (1 - right) + right * (1 - left)).mean(axis=1)
    return contrast / n


def _below(gamma: Floats, n: int) -> Iterator[Floats]:
    """F_j(t), the probability of at most t positives among n, for t = 0, ..., n − 1."""
    # no smaller than this, so that 0 · log stays 0 at proportions 0 and 1
    log_positive = np.log(np.maximum(gamma, 1e-300))
    log_negative = np.log(np.maximum(1 - gamma, 1e-300))
    choose = gammaln(n + 1) - gammaln(np.arange(n) + 1) - gammaln(n - np.arange(n) + 1)
    below = np.zeros_like(gamma)
    for t in range(n):
        below = below + np.exp(choose[t] + t * log_positive + (n - t) * log_negative)
        yield np.minimum(below, 1.0)


def _mean_distance(probabilities: Floats) -> Floats:
    """E|C − K| for C the sum of 2K independent draws, for every row of 2K probabilities."""
    n_blocks, many = probabilities.shape
    count = np.zeros((n_blocks, many + 1))
    count[:, 0] = 1.0
    for j in range(many):
        probability = probabilities[:, j, None]
        raised = count[:, : j + 1] * probability
        count[:, : j + 1] -= raised
        count[:, 1 : j + 2] += raised
    return count @ np.abs(np.arange(many + 1) - many // 2)


# --- bounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergedBound:
    """A bound on sup_f |Ẽ(f) − E(f)| for merged bags.

    ``value`` holds with ``probability`` at least; at or below zero that says nothing. ``stated`` is
    the right-hand side as printed in the paper, never smaller where it says something;
    ``largest_epsilon`` is the end of the range of ε for this ε₀.
    """

    value: float
    probability: float
    stated: float
    epsilon: float
    epsilon0: float
    largest_epsilon: float


def merged_bound(
    n_pairs: int,
    merge_size: int,
    bag_size: int,
    loss: Any,
    A: float,
    B: float,
    delta: float,
    epsilon: float,
    *,
    spread: float,
    tau: float,
    epsilon0: float | None = None,
    contrasts: ArrayLike | None = None,
    model: ConditionalModel = "CIIM",
    scheme: MergingScheme = "blockwise_pairwise",
) -> MergedBound:
    """Bound the distance between the risk of merged bags and the true one.

    Parameters
    ----------
    n_pairs, merge_size, bag_size : int
        N, half the number of small bags; K, how many of them make a large one; n, their size.
    loss : str or Loss
        A Lipschitz loss.
    A, B : float
        Bound of |f(x)| and B of condition (SR) for the class, see `unbag.paper.bounds.RKHSBall`.
    delta : float
        The part of the failure probability that belongs to the instances.
    epsilon : float
        ε: how far observed contrasts may fall short of their mean.
    spread, tau : float
        Δ and τ of condition (LP): neighbouring true proportions differ by less than Δ with
        probability at most τ.
    epsilon0 : float, optional
        ε₀; by default the largest that allows this ε, Δ(1 − τ) − ε(1 + Δ).
    contrasts : array-like of shape (n_pairs / merge_size,), optional
        Γ_i⁺ − Γ_i⁻ where the true proportions are known (`expected_contrasts`): those of
        blockwise-max for that scheme, else those of blockwise-pairwise. Left out,
        Γ_i⁺ − Γ_i⁻ − ε ≥ ε₀ takes their place.
    model : {"CIIM", "CIBM"}, default="CIIM"
        Whether instances are independent given the proportions, or only bags are.
    scheme : {"blockwise_pairwise", "blockwise_max", "dominating"}, default="blockwise_pairwise"
        How bags are merged. Without contrasts the bound is the same for all; the paper prints
        another for the schemes that dominate the first.

    Returns
    -------
    MergedBound
        With probability 1 − δ − 2(N/K) e^{−2Kε²}, or, with contrasts of blockwise-max,
        1 − δ − (N/K)(e^{−2Kε²} + e^{−Kε²}).

    Examples
    --------
    >>> from unbag.paper.bounds import merged_bound
    >>> bound = merged_bound(
    ...     20_000, 200, 8, "logistic", A=1.0, B=1.0, delta=0.05, epsilon=0.2, spread=1.0, tau=0.5
    ... )
    >>> round(bound.value, 3), round(bound.probability, 3), round(bound.epsilon0, 3)
    (0.083, 0.95, 0.1)
    """
    check_choice(model, get_args(ConditionalModel), "model")
    check_choice(scheme, get_args(MergingScheme), "scheme")
    for name, value in (("n_pairs", n_pairs), ("merge_size", merge_size), ("bag_size", bag_size)):
        check_count(value, name)
    if n_pairs % merge_size:
        raise ValueError(
            f"n_pairs must be a multiple of merge_size, and {n_pairs} is none of {merge_size}."
        )
    lipschitz = lipschitz_constant(loss)
    check_nonnegative(A, "A")
    check_nonnegative(B, "B")
    check_inside(delta, "delta")
    epsilon0, limit = _check_epsilons(epsilon, epsilon0, spread, tau)
    blocks = n_pairs // merge_size
    if contrasts is None:
        harmonic = epsilon0**-2
    else:
        kept = _check_contrasts(contrasts, blocks, epsilon, epsilon0)
        harmonic = float(1 / np.mean(kept**2))
    draws = bag_size if model == "CIIM" else 1
    own_contrasts = scheme == "blockwise_max" and contrasts is not None
    failure = blocks * _failure(epsilon, merge_size, own_contrasts)
    printed = (2 if scheme == "blockwise_pairwise" else 1) * blocks * draws
    return MergedBound(
        value=proved_factor(A, B, lipschitz, delta) * sqrt(harmonic / (n_pairs * draws)),
        probability=1 - delta - failure,
        stated=stated_factor(A, B, lipschitz, delta) * sqrt(harmonic / printed),
        epsilon=epsilon,
        epsilon0=epsilon0,
        largest_epsilon=limit,
    )


def largest_epsilon(spread: float, tau: float, epsilon0: float) -> float:
    """(Δ(1 − τ) − ε₀) / (1 + Δ), the end of the admissible range of ε."""
    _check_condition(spread, tau)
    if not 0 < epsilon0 < spread * (1 - tau):
        raise ValueError(
            f"0 < ε₀ < Δ(1 − τ) = {spread * (1 - tau):g} must hold, and ε₀ is {epsilon0:g}."
        )
    return (spread * (1 - tau) - epsilon0) / (1 + spread)


def required_epsilon(
    failure: float, n_pairs: int, merge_size: int, scheme: MergingScheme = "blockwise_pairwise"
) -> float:
    """Find the ε for which observed contrasts fall short with probability at most ``failure``.

    It solves 2(N/K) e^{−2Kε²} = failure or, for contrasts of blockwise-max,
    (N/K)(e^{−2Kε²} + e^{−Kε²}) = failure.
    """
    check_count(n_pairs, "n_pairs")
    check_count(merge_size, "merge_size")
    check_inside(failure, "failure")
    check_choice(scheme, get_args(MergingScheme), "scheme")
    if n_pairs < merge_size:
        raise ValueError(f"merge_size must be at most n_pairs = {n_pairs}, not {merge_size}.")
    each = failure * merge_size / n_pairs
    # e^{−Kε²}, which is √(each/2) or solves x² + x = each
    one = (sqrt(1 + 4 * each) - 1) / 2 if scheme == "blockwise_max" else sqrt(each / 2)
    return sqrt(-log(one) / merge_size)


def _failure(epsilon: float, merge_size: int, own_contrasts: bool) -> float:
    """Probability that (LP) or the labels leave the contrast of one block short by ε."""
    one = exp(-merge_size * epsilon**2)
    return one**2 + (one if own_contrasts else one**2)


def _check_condition(spread: float, tau: float = 0.0) -> None:
    """Check Δ and τ."""
    if not 0 < spread <= 1:
        raise ValueError(f"0 < Δ ≤ 1 must hold for differences of proportions; Δ is {spread:g}.")
    if not 0 <= tau < 1:
        raise ValueError(f"0 ≤ τ < 1 must hold, else ε₀ has no range; τ is {tau:g}.")


def _check_epsilons(
    epsilon: float, epsilon0: float | None, spread: float, tau: float
) -> tuple[float, float]:
    """ε₀ and the end of the range of ε."""
    _check_condition(spread, tau)
    end = spread * (1 - tau) / (1 + spread)
    if not epsilon > 0:
        raise ValueError(f"ε > 0 must hold, and ε is {epsilon:g}.")
    if epsilon0 is None:
        if not epsilon < end:
            raise ValueError(
                f"ε < Δ(1 − τ)/(1 + Δ) = {end:g} must hold, else no ε₀ is left; ε is {epsilon:g}."
            )
        return spread * (1 - tau) - epsilon * (1 + spread), epsilon
    limit = largest_epsilon(spread, tau, epsilon0)
    # the end of the range belongs to it, and may have been rounded
    if not epsilon <= limit * (1 + 1e-12):
        raise ValueError(
            f"ε ≤ (Δ(1 − τ) − ε₀)/(1 + Δ) = {limit:g} must hold, and ε is {epsilon:g}."
        )
    return epsilon0, limit


def _check_contrasts(contrasts: ArrayLike, blocks: int, epsilon: float, epsilon0: float) -> Floats:
    """Γ_i⁺ − Γ_i⁻ − ε, which must reach ε₀ in every block."""
    contrast = np.asarray(contrasts, dtype=float)
    if contrast.shape != (blocks,):
        raise ValueError(f"There are {blocks} blocks, but contrasts of shape {contrast.shape}.")
    wrong = ~((contrast - epsilon >= epsilon0 * (1 - 1e-12)) & (contrast <= 1))
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(
            f"ε₀ + ε ≤ Γ⁺ − Γ⁻ ≤ 1 must hold, with ε₀ + ε = {epsilon0 + epsilon:g}; block {first} "
            f"has {contrast[first]:g}."
        )
    return contrast - epsilon


# --- neighbouring bags ----------------------------------------------------------------------------


def misordering_probability(
    low: float, high: float, size_low: int, size_high: int | None = None, *, ties: float = 0.0
) -> float:
    """Probability that of two bags the one with the larger true proportion shows the smaller share.

    Σ_k P(K₁ = k) P(K₂/n₂ < k/n₁) for independent binomial counts K₁, K₂ of positives.

    Parameters
    ----------
    low, high : float
        The two true proportions.
    size_low : int
        Size of the bag with the smaller one.
    size_high : int, optional
        Size of the other; by default the same.
    ties : float in [0, 1], default=0
        Which part of the probability of equal shares to add; ½ if ties are broken at random.

    Returns
    -------
    probability : float
        The probability.

    Examples
    --------
    The paper's example, where it is 0.26:

    >>> from unbag.paper.bounds import misordering_probability
    >>> round(misordering_probability(0.45, 0.55, 8), 4)
    0.2559
    """
    if not 0 <= low <= high <= 1:
        raise ValueError(f"0 <= low <= high <= 1 fails: low is {low:g} and high is {high:g}.")
    n_low, n_high = size_low, size_low if size_high is None else size_high
    for n in (n_low, n_high):
        check_count(n, "size_low and size_high")
    check_share(ties, "ties")
    k = np.arange(n_low + 1)
    probability = binom.pmf(k, n_low, low)
    # in whole numbers, K₂ n₁ < k n₂ and K₂ n₁ = k n₂
    below = binom.cdf((k * n_high - 1) // n_low, n_high, high)
    equal = np.where(k * n_high % n_low == 0, binom.pmf(k * n_high // n_low, n_high, high), 0)
    return float(probability @ (below + ties * equal))


@dataclass(frozen=True)
class NeighbourCondition:
    """Δ and τ of condition (LP).

    ``share`` of the pairs of the given proportions differ by less than Δ, and τ(Δ) is at most ``tau``
    with probability 1 − δ. At 1 it says nothing.
    """

    spread: float
    share: float
    tau: float


def neighbour_condition(
    proportions: ArrayLike, spread: float, *, bag_size: int | None = None, delta: float = 0.05
) -> NeighbourCondition:
    """τ(Δ) of condition (LP) from bags, for true proportions that are independent.

    The proportions are true ones, or observed ones of bags of n = ``bag_size`` instances whose labels
    are independent (CIIM). ``tau`` may be too small with probability ``delta``: theorem C of
    ``docs/theory/bounds.md``.
    """
    gamma = np.sort(check_proportions(proportions))
    check_inside(delta, "delta")
    if len(gamma) < 2:
        raise ValueError(f"Two bags are needed for a difference, and there is {len(gamma)}.")
    _check_condition(spread)
    surplus = sqrt(log(1 / delta) / (2 * (len(gamma) // 2)))
    share = _share_below(gamma, spread)
    if bag_size is None:
        return NeighbourCondition(spread, share, min(share + surplus, 1.0))
    n = check_count(bag_size, "bag_size")
    # one u, chosen before the data are seen: there the probability to stray is one in √n and so small
    stray = sqrt(log(2 * sqrt(n)) / n)
    kept = 1 - 2 * exp(-n * stray**2)
    tau = (_share_below(gamma, spread + stray) + surplus) / kept if kept > 0 else 1.0
    return NeighbourCondition(spread, share, min(tau, 1.0))


def _share_below(ordered: Floats, distance: float) -> float:
    """Give the share of pairs of ordered numbers that differ by less than ``distance``."""
    n = len(ordered)
    ends = np.searchsorted(ordered, ordered + distance, side="left")
    return float(np.sum(ends - np.arange(n) - 1) / (n * (n - 1) / 2))
