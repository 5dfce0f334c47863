"""How far apart merging brings the proportions of bags, on average over the labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from unbag._arrays import Floats
from unbag._checks import check_choice, check_count
from unbag.paper.bounds.checks import check_proportions
from unbag.paper.bounds.sampling import ConditionalModel

MergingScheme = Literal["blockwise_pairwise", "blockwise_max", "dominating"]


def expected_contrasts(
    proportions: ArrayLike,
    merge_size: int,
    bag_size: int | None = None,
    model: ConditionalModel = "CIIM",
    scheme: MergingScheme = "blockwise_pairwise",
) -> Floats:
    """Γ_i⁺ − Γ_i⁻ of the blockwise-pairwise or blockwise-max scheme, from the true proportions.

    Of blockwise-pairwise it is the mean of E|γ̂_j − γ̂_{j+1}| over the K pairs of neighbours in
    block i. Under (CIIM) labels are independent, and with the distribution function F_j of the
    number of positives

        E|γ̂_j − γ̂_{j+1}| = (1/n) Σ_{t<n} F_j(t)(1 − F_{j+1}(t)) + F_{j+1}(t)(1 − F_j(t)).

    Of blockwise-max, let C_t be how many of the 2K bags have more than t positives, a sum of
    independent draws with the chances 1 − F_j(t). The larger half has min(C_t, K) of them and the
    smaller half the others, so that

        Γ_i⁺ − Γ_i⁻ = (1/n) Σ_{t<n} (1 − E|C_t − K|/K).

    Under (CIBM) labels may depend on each other. The contrast is a convex function of the shares,
    so that the contrast of the true proportions is a lower bound.

    Parameters
    ----------
    proportions : array-like of shape (2 * n_pairs,)
        True proportions of the small bags, in the order in which they are merged.
    merge_size : int
        K.
    bag_size : int, optional
        n; needed under (CIIM).
    model : {"CIIM", "CIBM"}, default="CIIM"
        Whether instances are independent given the proportions, or only bags are.
    scheme : {"blockwise_pairwise", "blockwise_max"}, default="blockwise_pairwise"
        How bags are merged.

    Returns
    -------
    contrasts : ndarray of shape (n_pairs / merge_size,)
        One for each pair of big bags.

    Examples
    --------
    Bags of 8 at .45 and .55 look further apart than they are.

    >>> from unbag.paper.bounds import expected_contrasts
    >>> expected_contrasts([0.45, 0.55], merge_size=1, bag_size=8).round(4)
    array([0.2119])
    >>> many = [0.45, 0.55] * 50
    >>> expected_contrasts(many, 50, 8, scheme="blockwise_max").round(4)
    array([0.2843])
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
    """F_j(t), the chance of at most t positives among n, for t = 0, ..., n − 1."""
    # no smaller than this, so that 0 · log stays 0 at proportions 0 and 1
    log_positive = np.log(np.maximum(gamma, 1e-300))
    log_negative = np.log(np.maximum(1 - gamma, 1e-300))
    choose = gammaln(n + 1) - gammaln(np.arange(n) + 1) - gammaln(n - np.arange(n) + 1)
    below = np.zeros_like(gamma)
    for t in range(n):
        below = below + np.exp(choose[t] + t * log_positive + (n - t) * log_negative)
        yield np.minimum(below, 1.0)


def _mean_distance(chances: Floats) -> Floats:
    """E|C − K| for C the sum of 2K independent draws, for every row of 2K chances."""
    n_blocks, many = chances.shape
    count = np.zeros((n_blocks, many + 1))
    count[:, 0] = 1.0
    for j in range(many):
        chance = chances[:, j, None]
        raised = count[:, : j + 1] * chance
        count[:, : j + 1] -= raised
        count[:, 1 : j + 2] += raised
    return count @ np.abs(np.arange(many + 1) - many // 2)
