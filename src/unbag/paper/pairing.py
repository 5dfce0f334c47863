"""Pair the bags so that the pairs carry as much information as possible.

A pair of bags with proportions γ⁺ > γ⁻ and sizes n⁺, n⁻ carries the information

    HM(n⁺, n⁻) · (γ⁺ − γ⁻)²,    HM(a, b) = 2ab / (a + b),

and the error bound of the paper shrinks like one over the square root of the sum over all pairs
(appendix "Optimal Bag Matching"). The best pairing is therefore a maximum-weight matching: for bags
of equal size that of extremes, by sorting (the paper's proposition), and else Edmonds' blossom
algorithm, whose cost grows with the cube of the number of bags: 600 take two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unbag._arrays import Floats, Ints
from unbag._checks import check_one_each
from unbag._optional import optional

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

    >>> pairing = pair_extremes([0.4, 0.1, 0.9, 0.7, 0.2])
    >>> pairing.positive, pairing.negative
    (array([2, 3]), array([1, 4]))
    """
    gamma, _ = _check_bags(proportions, None)
    order = np.argsort(gamma, kind="stable")
    half = len(order) // 2
    return _as_pairing(order[::-1][:half], order[:half], gamma)


def pair_matching(proportions: ArrayLike, sizes: ArrayLike) -> Pairing:
    """Find the pairing with the most information: Σ HM(n⁺, n⁻) · (γ⁺ − γ⁻)² is maximal.

    This is a maximum-weight matching (Edmonds' blossom algorithm, from rustworkx). Large bags want
    large partners: here the bags of 100 go together, although 0.2 and 1 lie further apart.

    >>> proportions, sizes = [0.0, 0.2, 0.8, 1.0], [5, 100, 100, 5]
    >>> pairing = pair_matching(proportions, sizes)
    >>> pairing.positive, pairing.negative
    (array([3, 2]), array([0, 1]))
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
