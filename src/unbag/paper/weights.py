"""Weights of Scott and Zhang: pairs of bags, and small bags merged into large ones.

A pair of bags is a mutual contamination model; weighed by the information of each pair, they give
the table W of decontamination weights (`pair_weights`; `unbag.weights` has that of least squares).
A pair with proportions γ⁺ > γ⁻ and sizes n⁺, n⁻ carries the information

    HM(n⁺, n⁻) · (γ⁺ − γ⁻)²,    HM(a, b) = 2ab / (a + b),

and the error bound of the paper shrinks like one over the square root of the sum over all pairs
(appendix "Optimal Bag Matching"). The best pairing is therefore a maximum-weight matching: for bags
of equal size that of extremes, by sorting (the paper's proposition), and else Edmonds' blossom
algorithm, whose cost grows with the cube of the number of bags: 600 take two seconds.

The observed proportion of a small bag is noisy. So a K-merging scheme (section 3.2) joins K small
bags of a block into one large "positive" and K into one large "negative" bag: blockwise-pairwise of
every two consecutive bags the one with the larger proportion, blockwise-max of every block the half
with the larger proportions, so that in no block its contrast is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_choice, check_count, check_one_each
from unbag._optional import optional
from unbag._text import quoted
from unbag.bags.bags import SAME_PROPORTION, BagModel, Bags
from unbag.weights import check_contrast, decontamination_weights

WeightMethod = Literal["least_squares", "pairs"]


def bag_weights(
    bags: Bags,
    *,
    method: WeightMethod = "least_squares",
    bag_model: BagModel = "instances",
    merge: str | None = None,
    merge_size: int | None = None,
) -> Floats:
    """W of least squares or of pairs, small bags merged into large ones first if wanted.

    Parameters
    ----------
    bags : Bags
        At least two bags whose proportions differ.
    method : {"least_squares", "pairs"}, default="least_squares"
        Least squares uses every bag and any number of classes; pairs are the paper's, for two.
    bag_model : {"instances", "bags"}, default="instances"
        The paper's independent-instance (IIM) or independent-bag model (IBM): whether large bags
        have more weight.
    merge : {None, "blockwise_pairwise", "blockwise_max"}, default=None
        Whether small bags are first merged into large ones.
    merge_size : int, optional
        K, how many small bags make a large one; by default it grows like the square root of the
        number of bags.

    Returns
    -------
    W : ndarray of shape (n_bags, n_classes)
        Weights with Wᵀ times the proportions the identity, if bags allow it.

    Examples
    --------
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.paper import bag_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> bag_weights(bags, method="pairs")
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    """
    check_choice(method, get_args(WeightMethod), "weights")
    check_contrast(bags)
    if merge is None:
        return _weights(bags, method, bag_model, None)
    if merge not in MERGERS:
        raise ValueError(f"merge must be None or one of {quoted(MERGERS)}, not {merge!r}.")
    merged = MERGERS[merge](bags, merge_size)
    check_contrast(merged.bags)
    large = _weights(merged.bags, method, bag_model, merged.pairing)
    # the mean over a large bag is the mean of its small ones' means, weighted by size
    share = bags.sizes / merged.bags.sizes[merged.group]
    return large[merged.group] * share[:, None]


def _weights(
    bags: Bags, method: WeightMethod, bag_model: BagModel, pairing: Pairing | None
) -> Floats:
    if method == "least_squares":
        return decontamination_weights(bags, bag_model)
    if bags.n_classes != 2:
        raise ValueError(
            f"weights='pairs' is for two classes and there are {bags.n_classes}; "
            "use weights='least_squares'."
        )
    if pairing is None:
        pairing = pair_bags(bags.proportions[:, 1], bags.draws(bag_model))
    return pair_weights(bags, pairing, bag_model)


def pair_weights(bags: Bags, pairing: Pairing, bag_model: BagModel = "instances") -> Floats:
    """W of the paper: pair k weighs w_k ∝ n̄_k Δ_k², and inside a pair the unbiased loss ℓ^κ.

    With γ⁺ > γ⁻ the proportions of a pair, Δ = γ⁺ − γ⁻, and n̄ the harmonic mean of the two
    sizes (1 under the independent-bag model):

        W[k⁺, +] = w(1 − γ⁻)/Δ,    W[k⁻, +] = −w(1 − γ⁺)/Δ,
        W[k⁺, −] = −wγ⁻/Δ,         W[k⁻, −] = wγ⁺/Δ.

    As w ∝ Δ², nothing is divided by Δ.
    """
    if bags.noise is not None:
        # of two bags the one with the larger noise is the positive one more often
        raise ValueError(
            "weights='pairs' cannot make up for noise in the proportions, because it pairs bags by "
            "them; use weights='least_squares'."
        )
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


def convex_priors(W: Floats) -> Floats:
    """Shares (..., 2) of the second of two classes between which the corrected risk by W is convex.

    Let the loss have the same curvature for both classes, as the logistic loss does. The losses of a row of
    bag i then have (Wπ)_i times that curvature, so at the class prior π the risk is a convex
    function of the scores if and only if Wπ ≥ 0. For pairs of bags this is γ⁻ ≤ π₊ ≤ γ⁺ in every
    pair, which holds for the median share if extremes are paired. If the first of the two shares is the
    larger one, there is no such prior.
    """
    first, second = W[..., 0], W[..., 1]
    # (1 − s) first + s second ≥ 0
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = first / (first - second)
    low = np.where(second > first, crossing, 0.0).max(axis=-1)
    high = np.where(second < first, crossing, 1.0).min(axis=-1)
    return np.stack([np.clip(low, 0, 1), np.clip(high, 0, 1)], axis=-1)


# --- pairs of bags -------------------------------------------------------------------------------

# Sizes in units of the largest are no smaller, so that one over them stays finite.
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Pairing:
    """Pairs of bags: pair k is made of the bags ``positive[k]`` and ``negative[k]``.

    Every bag appears at most once, and in every pair the bag in `positive` has the strictly larger
    proportion. The pairs are ordered by their difference in proportion, largest first.
    """

    positive: Ints
    negative: Ints

    def __len__(self) -> int:
        return len(self.positive)

    def information(self, proportions: ArrayLike, sizes: ArrayLike | None = None) -> float:
        """Σ HM(n⁺, n⁻) · (γ⁺ − γ⁻)² over the pairs; without sizes every bag counts as one (IBM)."""
        gamma, n = _check_bags(proportions, sizes)
        return float(_information(gamma, n, self.positive, self.negative).sum())


def pair_extremes(proportions: ArrayLike) -> Pairing:
    """Pair the largest proportion with the smallest, the second largest with the second smallest...

    This maximises Σ (γ⁺ − γ⁻)² over all pairings, so it is the best pairing of bags of equal size
    (the proposition in the paper's appendix "Optimal Bag Matching"). Of an odd number of bags the
    middle one is left out.
    """
    gamma, _ = _check_bags(proportions, None)
    order = np.argsort(gamma, kind="stable")
    half = len(order) // 2
    return _as_pairing(order[::-1][:half], order[:half], gamma)


def pair_matching(proportions: ArrayLike, sizes: ArrayLike) -> Pairing:
    """Find the pairing with the most information: Σ HM(n⁺, n⁻) · (γ⁺ − γ⁻)² is maximal.

    This is a maximum-weight matching (Edmonds' blossom algorithm, from rustworkx).
    """
    gamma, n = _check_bags(proportions, sizes)
    first, second = np.triu_indices(len(gamma), 1)
    weights = _information(gamma, np.maximum(n / n.max(), _TINY), first, second)
    informative = weights > 0
    first, second, weights = first[informative], second[informative], weights[informative]
    if not len(weights):
        return _as_pairing(first, second, gamma)
    rx = optional("rustworkx", "Exact matching of bags", "paper")
    # rustworkx wants integers (of 128 bits). A unit is 2⁻⁶⁰ of the heaviest pair, and the optimum
    # weighs no less than that pair; so rounding can cost at most L · 2⁻⁶¹ of the optimum, which is
    # less than the rounding of a sum of L doubles.
    scaled = np.rint(weights * (2.0**60 / weights.max())).astype(np.int64)
    graph = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(gamma)))
    graph.add_edges_from(list(zip(first.tolist(), second.tolist(), scaled.tolist(), strict=True)))
    matched = rx.max_weight_matching(graph, weight_fn=int, verify_optimum=False)
    # the set comes in no fixed order
    pairs = np.array(sorted(tuple(sorted(pair)) for pair in matched), dtype=np.intp)
    return _as_pairing(pairs[:, 0], pairs[:, 1], gamma)


def pair_bags(proportions: ArrayLike, sizes: ArrayLike | None = None) -> Pairing:
    """Pair the bags so that Σ HM(n⁺, n⁻) · (γ⁺ − γ⁻)² is as large as possible.

    Bags of equal size are paired by `pair_extremes`, others by `pair_matching`.

    Parameters
    ----------
    proportions : array-like of shape (n_bags,)
        Proportion of the positive class in each bag. With an odd number of bags one is left out.
    sizes : array-like of shape (n_bags,), optional
        Number of instances in each bag. Left out, all bags are taken to have the same size.

    Returns
    -------
    pairing : Pairing
        Empty if all proportions are equal.

    Examples
    --------
    >>> from unbag.paper import pair_bags
    >>> pairing = pair_bags([0.4, 0.1, 0.9, 0.7], sizes=[20, 30, 30, 20])
    >>> pairing.positive, pairing.negative
    (array([2, 3]), array([1, 0]))
    """
    gamma, n = _check_bags(proportions, sizes)
    return pair_extremes(gamma) if (n == n[0]).all() else pair_matching(gamma, n)


def _information(gamma: Floats, n: Floats, i: Ints, j: Ints) -> Floats:
    """HM(n_i, n_j) · (γ_i − γ_j)²."""
    return 2 / (1 / n[i] + 1 / n[j]) * (gamma[i] - gamma[j]) ** 2


def _check_bags(proportions: ArrayLike, sizes: ArrayLike | None) -> tuple[Floats, Floats]:
    gamma = np.asarray(proportions, dtype=np.float64)
    if gamma.ndim != 1:
        raise ValueError(
            "proportions must be one-dimensional, one number for each bag, "
            f"not an array of shape {gamma.shape}."
        )
    if len(gamma) < 2:
        raise ValueError(f"Pairing needs at least two bags, and there is {len(gamma)}.")
    # Written so that NaN fails too.
    if not ((gamma >= 0) & (gamma <= 1)).all():
        raise ValueError("proportions must be finite numbers between 0 and 1.")
    if sizes is None:
        return gamma, np.ones_like(gamma)
    n = np.asarray(sizes, dtype=np.float64)
    check_one_each(n, len(gamma), "sizes", "bags")
    if not ((n > 0) & (n < np.inf)).all():
        raise ValueError("sizes must be positive, finite numbers.")
    return gamma, n


def _as_pairing(first: Ints, second: Ints, gamma: Floats) -> Pairing:
    """Put the larger proportion first, leave out ties, order by difference."""
    difference = gamma[first] - gamma[second]
    positive = np.where(difference > 0, first, second)
    negative = np.where(difference > 0, second, first)
    order = np.argsort(-np.abs(difference), kind="stable")
    order = order[difference[order] != 0]
    return Pairing(positive[order], negative[order])


# --- merging --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MergedBags:
    """Large bags, the one that each small bag joined, and the pairing of the two of each block.

    Rows of known label stay bags of their own, and a block without contrast has no pair.
    """

    bags: Bags
    group: Ints
    pairing: Pairing


def default_merge_size(n_bags: int) -> int:
    """K = ⌈√N⌉ for N = n_bags/2 pairs, so that K → ∞ and N/K → ∞ as the paper asks."""
    return max(1, ceil(sqrt(n_bags / 2)))


def blockwise_pairwise(bags: Bags, merge_size: int | None = None) -> MergedBags:
    """Merge by the paper's blockwise-pairwise scheme.

    Blocks of 2K consecutive bags, the last one shorter (or longer by one bag, which alone would
    have no partner). A last bag without a neighbour joins the positive side.
    """
    small, block = _blocks(bags, merge_size)
    return _merge(bags, small, block, _larger_of_neighbours(bags.proportions[small, 1]))


def blockwise_max(bags: Bags, merge_size: int | None = None) -> MergedBags:
    """Merge by the paper's blockwise-max scheme.

    With bags of unequal size the half with the larger proportions need not make the larger
    contrast; in such a block the blockwise-pairwise split is kept if it is the better one, so
    that the scheme dominates blockwise-pairwise always, as the theorem asks.
    """
    small, block = _blocks(bags, merge_size)
    proportion, sizes = bags.proportions[small, 1], bags.sizes[small]
    by_pairs = _larger_of_neighbours(proportion)
    by_rank = _larger_half(proportion, block)
    better = _contrast(proportion, sizes, block, by_pairs) > _contrast(
        proportion, sizes, block, by_rank
    )
    return _merge(bags, small, block, np.where(better[block], by_pairs, by_rank))


MERGERS: dict[str, Callable[[Bags, int | None], MergedBags]] = {
    "blockwise_pairwise": blockwise_pairwise,
    "blockwise_max": blockwise_max,
}


def _blocks(bags: Bags, merge_size: int | None) -> tuple[Ints, Ints]:
    """Bags to merge, and the block of each."""
    if bags.noise is not None:
        # the positive side would gather the bags whose noise is positive
        raise ValueError(
            "Noisy proportions cannot be merged, because bags are sorted by them; use merge=None, "
            "which makes up for the noise."
        )
    if bags.n_classes != 2:
        raise ValueError(f"Bags are merged for two classes only, and there are {bags.n_classes}.")
    small = np.flatnonzero(~bags.labelled)
    if len(small) < 2:
        raise ValueError(f"Merging needs at least two bags and there are {len(small)}.")
    size = default_merge_size(len(small)) if merge_size is None else merge_size
    check_count(size, "merge_size")
    block = np.arange(len(small)) // (2 * size)
    if len(small) % (2 * size) == 1 and block[-1] > 0:
        block[-1] -= 1
    return small, block


def _larger_of_neighbours(proportion: NDArray[Any]) -> Bools:
    """Mark the larger of every two consecutive bags; a last one alone is marked."""
    even = proportion[: len(proportion) // 2 * 2]
    first = even[::2] >= even[1::2]
    marked = np.ones(len(proportion), dtype=bool)
    marked[: len(even)] = np.column_stack([first, ~first]).ravel()
    return marked


def _larger_half(proportion: NDArray[Any], block: Ints) -> Bools:
    """Mark the half of every block with the larger proportions, rounded up."""
    order = np.lexsort((-proportion, block))
    counts = np.bincount(block)
    rank = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts)
    marked = np.empty(len(block), dtype=bool)
    marked[order] = rank < (np.repeat(counts, counts) + 1) // 2
    return marked


def _contrast(
    proportion: NDArray[Any], sizes: NDArray[Any], block: NDArray[Any], up: Bools
) -> Floats:
    """|Λ⁺ − Λ⁻| of every block."""
    side = 2 * block + up
    mean = np.bincount(side, proportion * sizes) / np.bincount(side, sizes)
    return np.abs(mean[1::2] - mean[::2])


def _merge(bags: Bags, small: Ints, block: Ints, up: Bools) -> MergedBags:
    n_large = 2 * (int(block[-1]) + 1)
    group = np.empty(bags.n_bags, dtype=np.intp)
    group[small] = 2 * block + up
    kept = np.flatnonzero(bags.labelled)
    group[kept] = n_large + np.arange(len(kept))
    sizes = np.bincount(group, bags.sizes).astype(np.int64)
    counts = np.stack([np.bincount(group, col * bags.sizes) for col in bags.proportions.T], axis=1)
    names = [f"block {i // 2 + 1}{'-+'[i % 2]}" for i in range(n_large)]
    merged = Bags(
        index=group[bags.index],
        ids=np.array([*names, *bags.ids[kept]], dtype=object),
        sizes=sizes,
        proportions=counts / sizes[:, None],
        classes=bags.classes,
        labelled=np.arange(len(sizes)) >= n_large,
        names=bags.names,
    )
    return MergedBags(merged, group, _pair_sides(merged, n_large))


def _pair_sides(merged: Bags, n_large: int) -> Pairing:
    """Pair the two large bags of each block, and the labelled rows of the two classes."""
    share = merged.proportions[:, 1]
    end = n_large + 2 * (merged.n_bags == n_large + 2)
    down, up = np.arange(0, end, 2), np.arange(1, end, 2)
    # unequal sizes can turn a block of neighbours around
    down, up = np.where(share[up] >= share[down], (down, up), (up, down))
    differs = share[up] - share[down] > SAME_PROPORTION
    return Pairing(positive=up[differs], negative=down[differs])
