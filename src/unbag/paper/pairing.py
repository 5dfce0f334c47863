"""Pair the bags so that the pairs carry as much information as possible.

A pair of bags with proportions γ⁺ > γ⁻ and sizes n⁺, n⁻ carries the information

    HM(n⁺, n⁻) · (γ⁺ − γ⁻)²,    HM(a, b) = 2ab / (a + b),

and the error bound of the paper shrinks like one over the square root of the sum over all pairs
(appendix "Optimal Bag Matching"). The best pairing is therefore a maximum-weight matching. Three
ways to find it:

=============  ==========================  ===============================  ====================
method         for                         answer                           cost for L bags
=============  ==========================  ===============================  ====================
`extremes`     bags of equal size          exact (the paper's proposition)  L log L
`matching`     up to a few thousand bags   exact                            about L³, memory L²
`exchange`     any number of bags          nearly exact: within 0.3% of     L log L
                                           the optimum where
                                           the study ``pairing`` can
                                           tell, mostly within 0.03%
=============  ==========================  ===============================  ====================

`pair_bags` chooses among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_choice, check_one_each
from unbag._optional import optional
from unbag.paper.exchange import Couples, Pairs, information_table, match_cells, pair_information

__all__ = ["Pairing", "pair_bags", "pair_exchange", "pair_extremes", "pair_matching"]

MATCHING_LIMIT = 600
"""`pair_bags` matches exactly up to this many bags; that takes less than half a second."""

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
        pairs = pair_information(gamma, _relative(n), self.positive, self.negative)
        return float(pairs.sum() * n.max())


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

    This is a maximum-weight matching (Edmonds' blossom algorithm, from rustworkx). Prices of the
    bags, taken from the assignment problem that relaxes it, tell beforehand which pairs cannot be
    part of the answer, and only the others are handed to the blossom algorithm.

    Large bags want large partners: here the bags of 100 go together, although 0.2 and 1 lie further
    apart.

    >>> proportions, sizes = [0.0, 0.2, 0.8, 1.0], [5, 100, 100, 5]
    >>> pairing = pair_matching(proportions, sizes)
    >>> pairing.positive, pairing.negative
    (array([3, 2]), array([0, 1]))
    """
    gamma, n = _check_bags(proportions, sizes)
    weights = information_table(gamma, _relative(n))
    if not weights.any():
        return _as_pairing(np.empty(0, np.intp), np.empty(0, np.intp), gamma)

    partner = linear_sum_assignment(weights, maximize=True)[1]
    prices = _prices(weights, partner)
    # slack ≥ 0, and a matching falls short of the bound Σ prices by the slack of its pairs plus the
    # prices of bags left out. A pair with more slack than the shortfall of a matching already
    # known is therefore in no better matching.
    slack = prices[:, None] + prices - weights
    candidates = _tightest(slack, per_bag=6)
    candidates[np.arange(len(gamma)), partner] = True
    first, second = _blossom(weights, candidates)
    bound = prices.sum()
    shortfall = bound - weights[first, second].sum()
    if shortfall > 1e-12 * bound:
        needed = slack <= shortfall + 1e-12 * bound
        if (needed & ~(candidates | candidates.T)).any():
            first, second = _blossom(weights, candidates | needed)
    return _as_pairing(first, second, gamma)


def pair_exchange(proportions: ArrayLike, sizes: ArrayLike) -> Pairing:
    """Find a pairing of nearly the most information, for up to millions of bags.

    Bags that are alike are put together in at most 900 cells of equally many bags, and the cells
    are matched as if they were bags. Then pairs exchange bags: four bags can be paired in three
    ways, and the best of the three is taken (the step in the proof of the paper's proposition).
    One sweep does this for all pairs at once, two by two, and each sweep brings other pairs
    together. It ends when a round of sweeps gains less than 0.002%, or after a number of rounds
    that falls from 64 to 2 as the number of bags grows, so the cost is that of some sorts.
    """
    all_gamma, all_n = _check_bags(proportions, sizes)
    # One order for the same bags, however the caller lists them.
    order = np.lexsort((all_n, all_gamma))
    gamma, n = all_gamma[order], _relative(all_n[order])
    if len(order) % 2:
        # A practically empty bag makes the number even. The bag paired with it is left out, and
        # exchanges choose whom.
        gamma, n = np.append(gamma, gamma.mean()), np.append(n, _TINY)
    pairs = Pairs(gamma, n, *match_cells(gamma, n))
    pairs.improve(max_rounds=int(np.clip(2_000_000 // len(gamma), 2, 64)), tolerance=2e-5)
    kept = np.maximum(pairs.first, pairs.second) < len(order)
    return _as_pairing(order[pairs.first[kept]], order[pairs.second[kept]], all_gamma)


def pair_bags(
    proportions: ArrayLike, sizes: ArrayLike | None = None, method: str = "auto"
) -> Pairing:
    """Pair the bags so that Σ HM(n⁺, n⁻) · (γ⁺ − γ⁻)² is as large as possible.

    Parameters
    ----------
    proportions : array-like of shape (n_bags,)
        Proportion of the positive class in each bag. With an odd number of bags one is left out.
    sizes : array-like of shape (n_bags,), optional
        Number of instances in each bag. Left out, all bags are taken to have the same size.
    method : {"auto", "extremes", "matching", "exchange"}, default="auto"
        How to look for the pairing:

        - "extremes": `pair_extremes`, which does not look at the sizes.
        - "matching": `pair_matching`, exact.
        - "exchange": `pair_exchange`, nearly exact and fast.
        - "auto": "extremes" if all sizes are equal, else "matching" up to 600 bags, else
          "exchange".

    Returns
    -------
    Pairing
        Empty if all proportions are equal.

    Examples
    --------
    >>> pairing = pair_bags([0.4, 0.1, 0.9, 0.7], sizes=[20, 30, 30, 20])
    >>> pairing.positive, pairing.negative
    (array([2, 3]), array([1, 0]))
    """
    check_choice(method, ("auto", "extremes", "matching", "exchange"), "method")
    gamma, n = _check_bags(proportions, sizes)
    if method == "auto":
        if (n == n[0]).all():
            method = "extremes"
        else:
            method = "matching" if len(n) <= MATCHING_LIMIT else "exchange"
    if method == "extremes":
        return pair_extremes(gamma)
    return pair_matching(gamma, n) if method == "matching" else pair_exchange(gamma, n)


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


def _relative(n: Floats) -> Floats:
    """Sizes in units of the largest, where their products cannot overflow nor their sums vanish."""
    return np.maximum(n / n.max(), _TINY)


def _as_pairing(first: Ints, second: Ints, gamma: Floats) -> Pairing:
    """Put the larger proportion first, leave out ties, order by difference."""
    difference = gamma[first] - gamma[second]
    positive = np.where(difference > 0, first, second)
    negative = np.where(difference > 0, second, first)
    order = np.argsort(-np.abs(difference), kind="stable")
    order = order[difference[order] != 0]
    return Pairing(positive[order], negative[order])


# --- exact matching -----------------------------------------------------------------------------


def _prices(weights: Floats, partner: Ints) -> Floats:
    """Prices y ≥ 0 of the bags with y_i + y_j ≥ weights[i, j]: Σ y bounds every matching.

    They solve the dual of the assignment problem. There, u_i + v_j ≥ weights[i, j] with equality
    where j is the partner of i; so v at the partners is a longest path in a graph without
    positive cycles, which Bellman and Ford's iteration finds. The table is symmetric, hence
    (u + v) / 2 serves as well.
    """
    bags = np.arange(len(partner))
    assigned = weights[bags, partner]
    steps = weights[:, partner] - assigned[:, None]
    v = np.zeros(len(partner))
    tolerance = 1e-13 * weights.max()
    active = bags
    # Without rounding, as many iterations as there are bags would always be enough.
    for _ in range(len(bags)):
        raised = np.maximum(v, (v[active, None] + steps[active]).max(axis=0))
        active = np.flatnonzero(raised > v + tolerance)
        v = raised
        if not len(active):
            break
    prices = (assigned - v) / 2
    prices[partner] += v / 2
    # What rounding has left open is closed here, so that the bound holds in any case.
    shortfall = np.max(weights - prices[:, None] - prices)
    return prices + max(shortfall, 0.0) / 2


def _tightest(slack: Floats, per_bag: int) -> Bools:
    """Mark the pairs of least slack, some for each bag."""
    chosen = np.zeros(slack.shape, dtype=bool)
    count = min(per_bag + 1, len(slack))
    nearest = np.argpartition(slack, count - 1, axis=1)[:, :count]
    np.put_along_axis(chosen, nearest, True, axis=1)
    return chosen


def _blossom(weights: Floats, candidates: Bools) -> Couples:
    """Maximum-weight matching among the candidate pairs."""
    rx = optional("rustworkx", "Exact matching of bags", "paper")
    first, second = np.nonzero(np.triu((candidates | candidates.T) & (weights > 0), 1))
    # rustworkx wants integers (of 128 bits). A unit is 2⁻⁶⁰ of the heaviest pair, and the optimum
    # weighs no less than that pair; so rounding can cost at most L · 2⁻⁶¹ of the optimum, which is
    # less than the rounding of a sum of L doubles.
    edges = weights[first, second]
    scaled = np.rint(edges * (2.0**60 / edges.max())).astype(np.int64)
    graph = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(weights)))
    graph.add_edges_from(list(zip(first.tolist(), second.tolist(), scaled.tolist(), strict=True)))
    matched = rx.max_weight_matching(graph, weight_fn=int, verify_optimum=False)
    # The set comes in no fixed order.
    pairs = np.array(sorted(tuple(sorted(pair)) for pair in matched), dtype=np.intp)
    return pairs[:, 0], pairs[:, 1]
