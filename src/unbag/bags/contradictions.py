"""Where a table of bags contradicts a table of instances: every bag is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag._text import capital, listing, plural, quoted
from unbag.bags.joining import JoinError, Match


class Contradiction(NamedTuple):
    """One bag for which the two tables do not fit together."""

    bag: int | str
    problem: str
    column: str
    stated: float | None
    rows: int


class ContradictionError(JoinError):
    """The two tables do not fit together; ``contradictions`` has every bag concerned."""

    def __init__(
        self, sentence: str, fields: Mapping[str, Any], contradictions: list[Contradiction]
    ) -> None:
        super().__init__(sentence, fields)
        self.args, self.contradictions = (sentence, fields, contradictions), contradictions


def check_matched(match: Match, unmatched: str, keys: list[str]) -> None:
    """Refuse bags that are in one of the tables only."""
    key = ", ".join(keys)
    found = [
        Contradiction(bag, "no row in the bag table", key, None, n)
        for bag, n in match.only_in_instances.items()
    ]
    found += [Contradiction(bag, "no instances", key, None, 0) for bag in match.only_in_bags]
    if len(match.ids) == 0:
        raise ContradictionError(
            "No bag is in both tables: the first is {here!r} in the {instances} and {there!r} in "
            "the {bags}.",
            {"here": next(iter(match.only_in_instances)), "there": match.only_in_bags[0]},
            found,
        )
    if unmatched == "drop":
        return
    sides = {"here": list(match.only_in_instances), "there": match.only_in_bags}
    has = {side: plural(len(ids), "has", "have") for side, ids in sides.items()}
    problems = {
        "here": f"{{here}} {has['here']} instances but no row in the {{bags}}",
        "there": f"{{there}} {has['there']} a row in the {{bags}} but no instances",
    }
    wrong = {side: _named(list(map(repr, ids))) for side, ids in sides.items() if ids}
    if wrong:
        first = next(iter(wrong))
        wrong[first] = capital(wrong[first])
        problem = ", and ".join(problems[side] for side in wrong)
        advice = "correct the key, or {drop} to leave such bags out"
        raise ContradictionError(f"{problem}; {advice}.", wrong, found)


def check_sizes(stated: NDArray[np.float64], match: Match, name: str) -> None:
    """Refuse sizes other than the number of rows."""
    wrong = np.flatnonzero(stated != match.sizes)
    if len(wrong):
        raise ContradictionError(
            "The size column {column!r} contradicts the number of instance rows of {wrong}.",
            {"column": name, "wrong": _compared(wrong, stated, match)},
            _contradictions("another size than it has rows", name, wrong, stated, match),
        )


def check_counts(
    counts: NDArray[np.float64], match: Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    """Refuse what is no count, and exact counts that the rows cannot have."""
    for name, column in zip(names, counts.T, strict=True):
        wrong = ~np.isfinite(column) | ((column < 0) & exact)
        if wrong.any():
            raise ContradictionError(
                "Column {column!r} of the {bags} must hold counts; it does not for {wrong}.",
                {"column": name, "wrong": _valued(wrong, column, match)},
                _contradictions("no count", name, np.flatnonzero(wrong), column, match),
            )
    total = counts.sum(axis=1)
    if len(names) == 1:
        wrong = np.flatnonzero((total > match.sizes) & exact)
        problem = "Column {columns} counts more positives than there are instance rows"
        brief = "more positives than rows"
    else:
        wrong = np.flatnonzero((total != match.sizes) & exact)
        problem = "The counts {columns} do not sum to the number of instance rows"
        brief = "counts that do not sum to its rows"
    if len(wrong):
        raise ContradictionError(
            f"{problem} for {{wrong}}.",
            {"columns": quoted(names), "wrong": _compared(wrong, total, match)},
            _contradictions(brief, ", ".join(names), wrong, total, match),
        )


def check_proportions(
    shares: NDArray[np.float64], match: Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    """Refuse what is no proportion, and exact ones outside [0, 1]."""
    for name, column in zip(names, shares.T, strict=True):
        wrong = ~np.isfinite(column) | (((column < 0) | (column > 1)) & exact)
        if wrong.any():
            raise ContradictionError(
                "Column {column!r} of the {bags} must hold proportions in [0, 1]; it does not for "
                "{wrong}.",
                {"column": name, "wrong": _valued(wrong, column, match)},
                _contradictions(
                    "no proportion in [0, 1]", name, np.flatnonzero(wrong), column, match
                ),
            )


def _contradictions(
    problem: str, column: str, wrong: NDArray[np.intp], stated: NDArray[np.float64], match: Match
) -> list[Contradiction]:
    bags, sizes = match.ids[wrong].tolist(), match.sizes[wrong].tolist()
    values = [None if np.isnan(value) else value for value in stated[wrong].tolist()]
    return [
        Contradiction(bag, problem, column, value, n)
        for bag, value, n in zip(bags, values, sizes, strict=True)
    ]


def _valued(wrong: NDArray[np.bool_], values: NDArray[np.float64], match: Match) -> str:
    pairs = zip(match.ids[wrong].tolist(), values[wrong].tolist(), strict=True)
    return _named([f"{bag!r} ({_value(v)})" for bag, v in pairs])


def _compared(wrong: NDArray[np.intp], stated: NDArray[np.float64], match: Match) -> str:
    bags, sizes = match.ids[wrong].tolist(), match.sizes[wrong].tolist()
    rows = zip(bags, stated[wrong].tolist(), sizes, strict=True)
    return _named([f"{bag!r} ({_value(v)}, but {n} {plural(n, 'row')})" for bag, v, n in rows])


def _value(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.12g}"


def _named(bags: list[str]) -> str:
    return f"{plural(len(bags), 'bag')} {listing(bags)}"
