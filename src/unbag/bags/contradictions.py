"""Where a table of bags contradicts a table of instances: every bag is listed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.bags.joining import BAGS, INSTANCES, Match, quoted

_LISTED = 5


class Contradiction(NamedTuple):
    """One bag for which the two tables do not fit together."""

    bag: int | str
    problem: str
    column: str
    stated: float | None
    rows: int


class ContradictionError(ValueError):
    """The two tables do not fit together; ``contradictions`` has every bag concerned."""

    def __init__(self, message: str, contradictions: list[Contradiction]) -> None:
        super().__init__(message)
        self.contradictions = contradictions


def check_matched(match: Match, unmatched: str, keys: list[str]) -> None:
    """Refuse bags that are in one of the tables only."""
    key = ", ".join(keys)
    found = [
        Contradiction(bag, f"no row in the {BAGS}", key, None, n)
        for bag, n in match.only_in_instances.items()
    ]
    found += [Contradiction(bag, "no instances", key, None, 0) for bag in match.only_in_bags]
    if len(match.ids) == 0:
        raise ContradictionError(
            "No bag is in both tables: the first is "
            f"{next(iter(match.only_in_instances))!r} in the {INSTANCES} and "
            f"{match.only_in_bags[0]!r} in the {BAGS}.",
            found,
        )
    if unmatched == "drop":
        return
    problems = [
        f"{_plural([repr(i) for i in ids], 'bag')} {'has' if len(ids) == 1 else 'have'} {what}"
        for ids, what in (
            (list(match.only_in_instances), f"instances but no row in the {BAGS}"),
            (match.only_in_bags, f"a row in the {BAGS} but no instances"),
        )
        if ids
    ]
    if problems:
        problem = ", and ".join(problems)
        raise ContradictionError(
            f"B{problem[1:]}; correct the key, or pass unmatched='drop' to leave such bags out.",
            found,
        )


def check_sizes(stated: NDArray[np.float64], match: Match, name: str) -> None:
    """Refuse sizes other than the number of rows."""
    wrong = np.flatnonzero(stated != match.sizes)
    if len(wrong):
        raise ContradictionError(
            f"The size column {name!r} contradicts the number of instance rows of "
            f"{_compared(wrong, stated, match)}.",
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
                f"Column {name!r} of the {BAGS} must hold counts; it does not for "
                f"{_valued(wrong, column, match)}.",
                _contradictions("no count", name, np.flatnonzero(wrong), column, match),
            )
    total = counts.sum(axis=1)
    if len(names) == 1:
        wrong = np.flatnonzero((total > match.sizes) & exact)
        problem = f"Column {names[0]!r} counts more positives than there are instance rows"
        brief = "more positives than rows"
    else:
        wrong = np.flatnonzero((total != match.sizes) & exact)
        problem = f"The counts {quoted(names)} do not sum to the number of instance rows"
        brief = "counts that do not sum to its rows"
    if len(wrong):
        raise ContradictionError(
            f"{problem} for {_compared(wrong, total, match)}.",
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
                f"Column {name!r} of the {BAGS} must hold proportions in [0, 1]; it does not for "
                f"{_valued(wrong, column, match)}.",
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
    told = [f"{bag!r} ({'missing' if np.isnan(v) else f'{v:.12g}'})" for bag, v in pairs]
    return _plural(told, "bag")


def _compared(wrong: NDArray[np.intp], stated: NDArray[np.float64], match: Match) -> str:
    bags, sizes = match.ids[wrong].tolist(), match.sizes[wrong].tolist()
    told = [
        f"{bag!r} ({'missing' if np.isnan(v) else f'{v:.12g}'}, but {n} row{'s' * (n != 1)})"
        for bag, v, n in zip(bags, stated[wrong].tolist(), sizes, strict=True)
    ]
    return _plural(told, "bag")


def _plural(told: list[str], noun: str) -> str:
    return f"{noun}{'s' * (len(told) != 1)} {listed(told)}"


def listed(told: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(told) - _LISTED
    return ", ".join(told[:_LISTED]) + (f" and {more} more" if more > 0 else "")
