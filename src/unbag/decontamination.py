"""Decontamination weights: the small table W that turns bag averages into class averages.

W has one row per bag and one column per class, with

    Σ_i W[i, c] · γ_i[c'] = 1 if c = c' else 0,

so that for any function h, Σ_i W[i, c] · (mean of h over bag i) is an unbiased estimate of
E[h(X) | class c]. This module is the only home of that algebra. There are two ways to make W:

* from pairs of bags, the paper's way (`pair_weights`),
* by least squares over all bags, for any number of classes (`least_squares_weights`).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags import SAME_PROPORTION, BagModel, Bags
from unbag.merging import MERGERS
from unbag.pairing import Pairing, pair_bags

WeightMethod = Literal["least_squares", "pairs"]


def decontamination_weights(
    bags: Bags,
    *,
    method: WeightMethod = "least_squares",
    bag_model: BagModel = "instances",
    merge: str | None = None,
    merge_size: int | None = None,
) -> NDArray[np.float64]:
    """Make W for the given bags.

    Parameters
    ----------
    bags : Bags
        At least two bags whose proportions differ.
    method : {"least_squares", "pairs"}
        Least squares uses every bag and any number of classes; pairs are the paper's.
    bag_model : {"instances", "bags"}
        The paper's independent-instance or independent-bag model: whether a large bag tells
        more than a small one.
    merge : {None, "blockwise_pairwise", "blockwise_max"}
        Whether small bags are first merged into large ones.
    merge_size : int, optional
        K, how many small bags make a large one; by default it grows like the square root of the
        number of bags.

    Returns
    -------
    W : ndarray of shape (n_bags, n_classes)

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.decontamination import decontamination_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> W = decontamination_weights(bags)
    >>> (W.T @ bags.proportions).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    if method not in get_args(WeightMethod):
        raise ValueError(f"weights must be 'least_squares' or 'pairs', not {method!r}.")
    check_contrast(bags)
    if merge is None:
        return _weights(bags, method, bag_model, None)
    if merge not in MERGERS:
        names = ", ".join(map(repr, MERGERS))
        raise ValueError(f"merge must be None or one of {names}, not {merge!r}.")
    merged = MERGERS[merge](bags, merge_size)
    check_contrast(merged.bags)
    large = _weights(merged.bags, method, bag_model, merged.pairing)
    # the mean over a large bag is the mean of its small ones' means, weighted by size
    share = bags.sizes / merged.bags.sizes[merged.group]
    return large[merged.group] * share[:, None]


def least_squares_weights(bags: Bags, bag_model: BagModel = "instances") -> NDArray[np.float64]:
    """W = N G (Gᵀ N G)⁻¹, the unbiased linear weights of least variance Σ W²/n.

    G holds the proportions, N = diag(n_i) the number of independent draws in each bag (1 for
    every bag under the independent-bag model).
    """
    root = np.sqrt(bags.draws(bag_model))[:, None]
    q, r = np.linalg.qr(root * bags.proportions)
    return root * (q @ np.linalg.inv(r).T)


def pair_weights(
    bags: Bags, pairing: Pairing, bag_model: BagModel = "instances"
) -> NDArray[np.float64]:
    """W of the paper: pair k weighs w_k ∝ n̄_k Δ_k², and inside a pair the unbiased loss ℓ^κ.

    With γ⁺ > γ⁻ the proportions of a pair, Δ = γ⁺ − γ⁻, and n̄ the harmonic mean of the two
    sizes (1 under the independent-bag model):

        W[k⁺, +] = w(1 − γ⁻)/Δ,    W[k⁻, +] = −w(1 − γ⁺)/Δ,
        W[k⁺, −] = −wγ⁻/Δ,         W[k⁻, −] = wγ⁺/Δ.

    As w ∝ Δ², nothing is divided by Δ.
    """
    if len(pairing) == 0:
        raise ValueError(
            "In no pair or block of bags do the two sides differ in proportion, so that pairs say "
            "nothing; use weights='least_squares'."
        )
    positive = bags.proportions[:, 1]
    high, low = positive[pairing.positive], positive[pairing.negative]
    draws = bags.draws(bag_model)
    harmonic = 2 / (1 / draws[pairing.positive] + 1 / draws[pairing.negative])
    difference = high - low
    scale = harmonic * difference / np.sum(harmonic * difference**2)
    W = np.zeros((bags.n_bags, 2))
    W[pairing.positive] = np.column_stack([-low, 1 - low]) * scale[:, None]
    W[pairing.negative] = np.column_stack([high, high - 1]) * scale[:, None]
    return W


def class_means(W: NDArray[np.float64], bags: Bags, values: NDArray[Any]) -> NDArray[np.float64]:
    """Estimate E[h(X) | class c] from the values of h on all instances.

    The last axis of ``values`` runs over instances, that of the result over classes.
    """
    return bags.means(values) @ W


def _weights(
    bags: Bags, method: WeightMethod, bag_model: BagModel, pairing: Pairing | None
) -> NDArray[np.float64]:
    if method == "least_squares":
        return least_squares_weights(bags, bag_model)
    if bags.n_classes != 2:
        raise ValueError(
            f"weights='pairs' is for two classes and there are {bags.n_classes}; "
            "use weights='least_squares'."
        )
    if pairing is None:
        pairing = pair_bags(bags.proportions[:, 1], bags.draws(bag_model))
    return pair_weights(bags, pairing, bag_model)


def check_contrast(bags: Bags) -> None:
    """No method can learn from bags that are all alike."""
    if bags.n_classes < 2:
        raise ValueError(
            f"There is only one class, {bags.classes[0]!r}: nothing can be told apart."
        )
    if bags.n_bags < 2:
        raise ValueError("There is only one bag; no method can learn from fewer than two.")
    spread = np.linalg.svd(bags.proportions - bags.proportions.mean(axis=0), compute_uv=False)
    # shares sum to one, so that of C directions at most C − 1 can vary
    varying = int((spread > SAME_PROPORTION * np.sqrt(bags.n_bags)).sum())
    if varying == 0:
        share = ", ".join(f"{p:.4g}" for p in bags.proportions[0])
        raise ValueError(
            f"All {bags.n_bags} bags have the same class proportions ({share}); no method can "
            "learn from these, because the bags must differ to tell the classes apart."
        )
    if varying < bags.n_classes - 1:
        raise ValueError(
            f"The proportions of the bags vary in {varying} direction(s) only, but "
            f"{bags.n_classes} classes need {bags.n_classes - 1}: no method can tell all of them "
            "apart from these bags."
        )
