"""Nearly the best pairing of very many bags, by exchanges between pairs.

Bags that are alike are gathered in cells, and the cells are matched as if they were bags. Then
pairs exchange bags: four bags can be paired in three ways, and the best of the three is taken,
which is the step in the proof of the paper's proposition. The functions here know bags as arrays
of proportions γ and relative sizes n; `unbag.paper.pairing.pair_exchange` is their front.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from unbag._arrays import Floats, Ints

Couples: TypeAlias = tuple[Ints, Ints]


def pair_information(gamma: Floats, n: Floats, i: Any, j: Any) -> Floats:
    """HM(n_i, n_j) · (γ_i − γ_j)²."""
    return _information(gamma[i], n[i], gamma[j], n[j])


def _information(gamma_i: Floats, n_i: Floats, gamma_j: Floats, n_j: Floats) -> Floats:
    difference = gamma_i - gamma_j
    return 2 * n_i * n_j / (n_i + n_j) * (difference * difference)


def information_table(gamma: Floats, n: Floats) -> Floats:
    """Information of all pairs, as a symmetric table."""
    bags = np.arange(len(gamma))
    return pair_information(gamma, n, bags[:, None], bags)


_CELLS = 900


def match_cells(gamma: Floats, n: Floats) -> Couples:
    """Match cells of alike bags as if they were bags, then the bags of matched cells.

    The bags come sorted by proportion, save perhaps the last, and their number is even.
    """
    cells, rest = _cut_into_cells(n)
    means = gamma[cells].mean(axis=1), n[cells].mean(axis=1)
    table = information_table(*means)
    partner = linear_sum_assignment(table, maximize=True)[1]
    half = cells.shape[1] // 2
    first, second, unmatched = [], [], [rest]
    for cycle in _cycles(partner):
        members = cells[cycle]
        if len(cycle) % 2 == 0:
            first.append(members[0::2])
            second.append(members[1::2, ::-1])
            continue
        # In an odd cycle each cell gives half of its bags to the cell before and half to the one
        # after. A cycle of one cell pairs its own bags.
        evens, odds = members[:, 0 : 2 * half : 2], members[:, 1 : 2 * half : 2]
        first.append(evens)
        second.append(np.roll(odds, -1, axis=0)[:, ::-1])
        unmatched.append(members[:, 2 * half :])
    pool = np.concatenate([bags.ravel() for bags in unmatched])
    pool = pool[np.argsort(gamma[pool], kind="stable")]
    first.append(pool[: len(pool) // 2])
    second.append(pool[::-1][: len(pool) // 2])
    return (
        np.concatenate([bags.ravel() for bags in first]),
        np.concatenate([bags.ravel() for bags in second]),
    )


def _cut_into_cells(n: Floats) -> tuple[Ints, Ints]:
    """Cut strips of alike proportion, and the strips into cells of alike size."""
    bags = np.arange(len(n))
    if len(n) <= _CELLS:
        return bags[:, None], bags[:0]
    per_cell = len(n) // _CELLS
    # The few bags too many are taken evenly from all proportions.
    surplus = np.linspace(0, len(n) - 1, len(n) - _CELLS * per_cell).round().astype(np.intp)
    strips = np.delete(bags, surplus).reshape(int(_CELLS**0.5), -1)
    by_size = np.take_along_axis(strips, np.argsort(n[strips], axis=1, kind="stable"), axis=1)
    return np.sort(by_size.reshape(_CELLS, per_cell), axis=1), surplus


def _cycles(permutation: Ints) -> Iterator[list[int]]:
    """Cycles of a permutation."""
    following = permutation.tolist()
    seen = [False] * len(following)
    for begin in range(len(following)):
        cycle, at = [], begin
        while not seen[at]:
            seen[at] = True
            cycle.append(at)
            at = following[at]
        if cycle:
            yield cycle


# A sweep sorts the pairs by one key, cuts the sequence into blocks, sorts each block by another key
# and lets pairs of a block exchange: neighbours, the two halves, or the first with the last. These
# combinations gained most in trials. Pairs of like information and opposite share of sizes come
# first: there a large and a small bag stand against a small and a large one.
_SWEEPS: list[tuple[str | None, str, int, str]] = [
    ("information", "share of sizes", 64, "mirror"),
    ("information", "sum of sizes", 64, "neighbours"),
    ("sum of sizes", "share of sizes", 8, "mirror"),
    ("first proportion", "share of sizes", 32, "halves"),
    ("information", "first size", 32, "mirror"),
    ("second size", "first proportion", 64, "neighbours"),
    ("sum of sizes", "information", 64, "neighbours"),
    (None, "share of sizes", 64, "mirror"),
    ("first size", "second proportion", 64, "neighbours"),
    ("information", "sum of proportions", 64, "mirror"),
    ("smaller size", "share of sizes", 16, "mirror"),
    ("information", "difference of proportions", 64, "neighbours"),
    (None, "information", 64, "neighbours"),
    ("second proportion", "first size", 64, "neighbours"),
    (None, "sum of sizes", 16, "halves"),
    ("sum of sizes", "sum of proportions", 16, "mirror"),
]
# Much of the information often sits in few pairs, which are cheap to sweep by themselves.
_SHARES = (1 / 64, 1 / 16, 1 / 4, 1.0, 1 / 4, 1 / 16, 1 / 64)


class Pairs:
    """Pairs that exchange bags: `first` has the larger proportion."""

    def __init__(self, gamma: Floats, n: Floats, first: Ints, second: Ints) -> None:
        self.gamma, self.n = gamma, n
        self.first, self.second = first, second
        self.information = pair_information(gamma, n, first, second)
        self._orient(np.arange(len(first)))

    def improve(self, max_rounds: int, tolerance: float) -> None:
        """Sweep until a round gains less than the tolerance, relatively."""
        if len(self.first) < 2:
            return
        rng = np.random.default_rng(0)
        for _ in range(max_rounds):
            before = self.information.sum()
            for share in _SHARES:
                chosen = self._most_informative(share)
                for outer, inner, block, arrangement in _SWEEPS:
                    # Blocks of other lengths and begins bring other pairs together.
                    length = int(block * 2 ** rng.uniform(-2, 2))
                    self._exchange(*self._couples(chosen, outer, inner, length, arrangement, rng))
            if self.information.sum() - before <= tolerance * before:
                break

    def _most_informative(self, share: float) -> Ints:
        total = len(self.first)
        count = min(total, max(int(total * share), 500))
        if count == total:
            return np.arange(total)
        return np.argpartition(self.information, total - count)[total - count :]

    def _couples(
        self,
        chosen: Ints,
        outer: str | None,
        inner: str,
        length: int,
        arrangement: str,
        rng: np.random.Generator,
    ) -> Couples:
        """Which pairs meet: two arrays of pairs, each pair at most once."""
        half = max(1, min(length, len(chosen)) // 2)
        if outer is None:
            order = rng.permutation(len(chosen))
        else:
            order = np.argsort(self._key(outer, chosen), kind="stable")
        used = len(order) // (2 * half) * 2 * half
        begin = rng.integers(len(order) - used + 1)
        blocks = chosen[order[begin : begin + used]].reshape(-1, 2 * half)
        blocks = np.take_along_axis(
            blocks, np.argsort(self._key(inner, blocks), axis=1, kind="stable"), axis=1
        )
        if arrangement == "mirror":
            return blocks[:, :half].ravel(), blocks[:, : half - 1 : -1].ravel()
        if arrangement == "halves":
            return blocks[:, :half].ravel(), blocks[:, half:].ravel()
        return blocks[:, 0::2].ravel(), blocks[:, 1::2].ravel()

    def _key(self, name: str, pairs: Ints) -> Floats:
        """Values to sort by, in the words of `_SWEEPS`."""
        if name == "information":
            return self.information[pairs]
        values = self.n if name.endswith(("size", "sizes")) else self.gamma
        if name.startswith("first"):
            return values[self.first[pairs]]
        if name.startswith("second"):
            return values[self.second[pairs]]
        first, second = values[self.first[pairs]], values[self.second[pairs]]
        if name.startswith("sum"):
            return first + second
        if name.startswith("share"):
            return first / (first + second)
        return first - second if name == "difference of proportions" else np.minimum(first, second)

    def _exchange(self, x: Ints, y: Ints) -> None:
        """Let pair x[k] and pair y[k] take the best of the three ways to pair their four bags."""
        a, b, c, d = self.first[x], self.second[x], self.first[y], self.second[y]
        now = self.information[x] + self.information[y]
        # Looking the bags up is what costs most, so it is done once.
        bag_a, bag_b, bag_c, bag_d = ((self.gamma[bag], self.n[bag]) for bag in (a, b, c, d))
        ad, cb = _information(*bag_a, *bag_d), _information(*bag_c, *bag_b)
        ac, bd = _information(*bag_a, *bag_c), _information(*bag_b, *bag_d)
        best = np.maximum(ad + cb, ac + bd)
        # A gain within the rounding could come and go for ever.
        better = best > now * (1 + 1e-14)
        crossed = better & (ad + cb == best)
        parallel = better & ~crossed
        for chosen, partner_x, pair_y, information_x, information_y in (
            (crossed, d, (c, b), ad, cb),
            (parallel, c, (b, d), ac, bd),
        ):
            where_x, where_y = x[chosen], y[chosen]
            self.second[where_x] = partner_x[chosen]
            self.first[where_y], self.second[where_y] = pair_y[0][chosen], pair_y[1][chosen]
            self.information[where_x] = information_x[chosen]
            self.information[where_y] = information_y[chosen]
        self._orient(x[better])
        self._orient(y[better])

    def _orient(self, pairs: Ints) -> None:
        turned = pairs[self.gamma[self.first[pairs]] < self.gamma[self.second[pairs]]]
        self.first[turned], self.second[turned] = self.second[turned], self.first[turned]
