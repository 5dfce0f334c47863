"""Merging small bags into large ones, for consistency when bags are small (section 3.2).

The observed proportion of a small bag is noisy, so that in a pair the bag with the larger true
proportion is often taken for the smaller. A K-merging scheme joins K small bags of a block into
one large "positive" and K into one large "negative" bag, whose observed proportions are sharp.

* blockwise-pairwise (BP): of every two consecutive bags, the one with the larger proportion
  joins the positive bag;
* blockwise-max (BM): of every block, the half with the larger proportions does. BM dominates BP:
  in no block is its contrast smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_count
from unbag.bags.bags import SAME_PROPORTION, Bags
from unbag.weights.pairing import Pairing


@dataclass(frozen=True, eq=False)
class MergedBags:
    """Large bags, and how they came about.

    Attributes
    ----------
    bags : Bags
        The large bags; rows of known label stay bags of their own.
    group : ndarray of shape (n_small_bags,)
        The large bag that each small one joined.
    pairing : Pairing
        The two large bags of each block (a block without contrast is left out).
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
