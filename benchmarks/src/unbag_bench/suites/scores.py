"""Rows of the suites as tables of scores: a line for each set, a column for each method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from unbag._arrays import Floats
from unbag.paper.rows import Row
from unbag_bench.suites.landscape import PUBLISHED, published
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.tasks import SUITES

# Methods of ours by which we are judged, the first that was run on every set.
DEFAULTS = ("network", "mixed", "mixed-linear")


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of methods on the same sets, means over the draws that all of them have.

    Attributes
    ----------
    names, kinds : tuple of str
        The sets, and the kind of the bags of each.
    by_method : dict of ndarray of shape (n_sets,)
        Not a number where a method refused the bags.
    seeds : dict of tuple of int
        Draws of each set that all methods have.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    by_method: dict[str, Floats]
    seeds: dict[str, tuple[int, ...]]

    def of_kind(self, kind: str) -> Scores:
        """Keep the sets of one kind."""
        own = np.array([found == kind for found in self.kinds])
        names = tuple(name for name, kept in zip(self.names, own, strict=True) if kept)
        parts = {method: values[own] for method, values in self.by_method.items()}
        return Scores(names, (kind,) * len(names), parts, self.seeds)


def of_suite(rows: Iterable[Row], suite: str) -> list[Row]:
    """Rows of one suite whose bags could be drawn, each with the kind of its bags.

    A check makes sure that all methods had the same bags.
    """
    kind_of = SUITES[suite].kind_of
    found = [
        row | {"kind": kind_of(row["name"])}
        for row in rows
        if row["suite"] == suite and "skipped" not in row
    ]
    digests: dict[tuple[str, int], str] = {}
    for row in found:
        draw = row["name"], row["seed"]
        if digests.setdefault(draw, row["bags"]) != row["bags"]:
            raise ValueError(
                f"Rows of {suite}, {row['name']}, draw {row['seed']}, were made with different "
                "bags; delete those of one of the two."
            )
    return found


def blind(rows: Iterable[Row]) -> list[Row]:
    """Rows of methods that see no labels."""
    return [row for row in rows if not METHODS[row["method"]].sees_labels]


@dataclass(frozen=True, eq=False)
class FullTable:
    """Methods and draws of a suite without a gap between them.

    Attributes
    ----------
    suite : str
    methods : list of str
        That see no labels, in the order of METHODS.
    rows : list of dict
        Of these draws, those of other methods as well.
    number : int
        How many larger tables of other draws there are.
    wider : bool
        Whether it has more methods, on fewer draws of the same sets.
    """

    suite: str
    methods: list[str]
    rows: list[Row]
    number: int = 0
    wider: bool = False

    @property
    def title(self) -> str:
        """Name of the suite, and whether these are the sets that only some methods had."""
        return self.suite + ", further sets" * (self.number > 0) + ", more methods" * self.wider


def full_tables(rows: Sequence[Row], suite: str) -> list[FullTable]:
    """Cut a suite into tables without a gap: the largest, then the largest of the other draws."""
    left = of_suite(rows, suite)
    found: list[FullTable] = []
    while blind(left):
        methods, draws = _largest(blind(left))
        own = [row for row in left if _draw(row) in draws]
        found.append(FullTable(suite, methods, own, len(found)))
        left = [row for row in left if _draw(row) not in draws]
    return found


def with_more_methods(table: FullTable) -> FullTable | None:
    """Find all methods that were run on every set, on the draws that all of them have."""
    own = blind(table.rows)
    names = {row["name"] for row in own}
    draws = _draws_by_method(own)
    full = [m for m in METHODS if m in draws and {name for name, _ in draws[m]} == names]
    shared = set.intersection(*(draws[method] for method in full))
    if len(full) == len(table.methods) or {name for name, _ in shared} != names:
        return None
    rows = [row for row in table.rows if _draw(row) in shared]
    return FullTable(table.suite, full, rows, table.number, wider=True)


def _largest(rows: Sequence[Row]) -> tuple[list[str], set[tuple[str, int]]]:
    """Methods and draws with the most cells: those with the most draws, as many as it takes."""
    draws = _draws_by_method(rows)
    methods = sorted(draws, key=lambda method: -len(draws[method]))
    sets = (draws[method] for method in methods)
    shared: list[set[tuple[str, int]]] = list(accumulate(sets, set.intersection))
    cells = [(number + 1) * len(some) for number, some in enumerate(shared)]
    last = max(range(len(cells)), key=lambda number: (cells[number], number))
    return [name for name in METHODS if name in methods[: last + 1]], shared[last]


def _draws_by_method(rows: Sequence[Row]) -> dict[str, set[tuple[str, int]]]:
    draws: dict[str, set[tuple[str, int]]] = {}
    for row in rows:
        draws.setdefault(row["method"], set()).add(_draw(row))
    return draws


def _draw(row: Row) -> tuple[str, int]:
    return row["name"], row["seed"]


def make_scores(rows: Sequence[Row], metric: str, methods: Sequence[str]) -> Scores:
    """Make the table of methods on the sets that all of them were run on."""
    found = {(row["name"], row["seed"], row["method"]): row for row in rows}
    draws = sorted({(row["name"], row["seed"]) for row in rows}, key=_place_of(rows))
    draws = [draw for draw in draws if all((*draw, method) in found for method in methods)]
    names = tuple(dict.fromkeys(name for name, _ in draws))
    seeds = {name: tuple(seed for other, seed in draws if other == name) for name in names}
    by_method = {
        method: np.array(
            [
                np.mean([found[name, s, method].get(metric, np.nan) for s in seeds[name]])
                for name in names
            ]
        )
        for method in methods
    }
    kind_of = {row["name"]: row["kind"] for row in rows}
    kinds = tuple(kind_of[name] for name in names)
    return Scores(names, kinds, by_method, seeds)


def _place_of(rows: Sequence[Row]) -> Callable[[tuple[str, int]], tuple[int, int]]:
    """Sets in the order of their suite, whatever order they were run in."""
    known = [name for suite in {row["suite"] for row in rows} for name in SUITES[suite].all_names]
    place = {name: number for number, name in enumerate(known)}
    return lambda draw: (place[draw[0]], draw[1])


def add_published(scores: Scores, metric: str) -> Scores:
    """Add what was published of eight methods in the same splits of the landscape."""
    theirs = {
        published_name(method): np.array(
            [
                getattr(published(name, method, "abs"), metric)[[*scores.seeds[name]]].mean()
                for name in scores.names
            ]
        )
        for method in PUBLISHED
    }
    return Scores(scores.names, scores.kinds, scores.by_method | theirs, scores.seeds)


def published_name(method: str) -> str:
    """Name of a method of theirs beside ours."""
    return f"{method} (published)"


def default_of(methods: Iterable[str]) -> str | None:
    """Tell which of ours is judged."""
    present = set(methods)
    return next((name for name in DEFAULTS if name in present), None)
