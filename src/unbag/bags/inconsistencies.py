"""Checks of a table of bags against a table of instances; every bag at fault is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag._text import capital, counted, listing, plural, quoted
from unbag.bags.joining import JoinError, Match, bag_id, ignore_hint

# How far a count may be from a whole number, relative to its size.
_ROUNDING = 1e-9
# Decimals beyond which a proportion counts as exact, and what sums may then be off by.
_MOST_DECIMALS = 8
_TOLERANCE = 1e-6
# What sizes count: rows of the instance table, or members of bags of which these are a sample.
_MEMBERS = {"row": "instance rows", "member": "members by its size"}


class Inconsistency(NamedTuple):
    """One bag for which the two tables do not fit together."""

    bag: int | str
    problem: str
    column: str
    reported: float | None
    rows: int


class InconsistencyError(JoinError):
    """The two tables do not fit together; ``inconsistencies`` has every bag concerned."""

    def __init__(
        self, sentence: str, fields: Mapping[str, Any], inconsistencies: list[Inconsistency]
    ) -> None:
        super().__init__(sentence, fields)
        self.args, self.inconsistencies = (sentence, fields, inconsistencies), inconsistencies


def check_matched(match: Match, unmatched: str, keys: list[str]) -> None:
    """Reject bags that are in one of the tables only."""
    key = ", ".join(keys)
    here, there = list(match.only_in_instances), match.only_in_bags
    ids = {"here": list(map(bag_id, here)), "there": list(map(bag_id, there))}
    n_rows = match.only_in_instances.values()
    found = [
        Inconsistency(bag, "no row in the bag table", key, None, n)
        for bag, n in zip(ids["here"], n_rows, strict=True)
    ]
    found += [Inconsistency(bag, "no instances", key, None, 0) for bag in ids["there"]]
    hint = ignore_hint(here, there) if here and there else None
    advice, fields = hint or ("", {})
    if len(match.ids) == 0:
        raise InconsistencyError(
            "No bag is in both tables: the first is {here!r} in the {instances} and {there!r} in "
            f"the {{bags}}{advice and '; '}{advice}.",
            {"here": ids["here"][0], "there": ids["there"][0], **fields},
            found,
        )
    if unmatched == "drop":
        return
    sides = ids
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
        advice = advice or "correct the key, or {drop} to leave such bags out"
        raise InconsistencyError(f"{problem}; {advice}.", {**wrong, **fields}, found)


def check_sizes_hold_rows(reported: NDArray[np.float64], match: Match, name: str) -> None:
    """Reject sizes below the number of rows; a bag may have more, of which rows are a sample."""
    wrong = np.flatnonzero(~(reported >= match.sizes))
    if len(wrong):
        raise InconsistencyError(
            "The size column {column!r} contradicts the number of instance rows of {wrong}.",
            {"column": name, "wrong": _compared(wrong, reported, match)},
            _inconsistencies("another size than it has rows", name, wrong, reported, match),
        )


def check_counts(
    counts: NDArray[np.float64],
    match: Match,
    names: list[str],
    exact: NDArray[np.bool_],
    sizes: NDArray[np.float64],
) -> None:
    """Reject what is not a count, and exact counts that bags of these sizes cannot have."""
    for name, column in zip(names, counts.T, strict=True):
        wrong = ~np.isfinite(column) | ((column < 0) & exact)
        fraction = exact & (np.abs(column - np.round(column)) > _ROUNDING * np.maximum(column, 1))
        if wrong.any() or fraction.any():
            # shares that were taken for counts
            within = ((column >= 0) & (column <= 1))[np.isfinite(column)].all()
            likely = (
                "if these are shares, {proportion}" if within else "if noise was added, {noise}"
            )
            hint = f"; {likely}" if fraction.any() else ""
            raise InconsistencyError(
                f"Column {{column!r}} of the {{bags}} must hold counts; it does not for "
                f"{{wrong}}{hint}.",
                {"column": name, "wrong": _valued(wrong | fraction, column, match)},
                _inconsistencies(
                    "not a count", name, np.flatnonzero(wrong | fraction), column, match
                ),
            )
    total = counts.sum(axis=1)
    hint, what = "", "row" if (sizes == match.sizes).all() else "member"
    if len(names) == 1:
        wrong = np.flatnonzero((total > sizes) & exact)
        problem = f"Column {{columns}} counts more positives than there are {_MEMBERS[what]}"
        brief = f"more positives than {what}s"
    else:
        wrong = np.flatnonzero((total != sizes) & exact)
        problem = f"The counts {{columns}} do not sum to the number of {_MEMBERS[what]}"
        brief = f"counts that do not sum to its {what}s"
        if len(wrong) and (total[exact] <= sizes[exact]).all():
            hint = "; give a column for each class, if one is missing"
    if len(wrong):
        raise InconsistencyError(
            f"{problem} for {{wrong}}{hint}.",
            {"columns": quoted(names), "wrong": _compared(wrong, total, match, sizes, what)},
            _inconsistencies(brief, ", ".join(names), wrong, total, match),
        )


def check_reported_proportions(
    shares: NDArray[np.float64], match: Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    """Reject what is not a proportion, and exact ones outside [0, 1] or that do not sum to 1."""
    for name, column in zip(names, shares.T, strict=True):
        wrong = ~np.isfinite(column) | (((column < 0) | (column > 1)) & exact)
        if wrong.any():
            known = column[np.isfinite(column)]
            beyond = (known >= 0).all() and (known > 1).any()
            whole = (known == np.round(known)).all() and not (column > match.sizes).any()
            likely = {"percentages, {percent}": (known <= 100).all(), "counts, {positives}": whole}
            hint = "".join(f"; if these are {what}" for what in likely if beyond and likely[what])
            raise InconsistencyError(
                "Column {column!r} of the {bags} must hold proportions in [0, 1]; it does not for "
                f"{{wrong}}{hint}.",
                {"column": name, "wrong": _valued(wrong, column, match)},
                _inconsistencies(
                    "not a proportion in [0, 1]", name, np.flatnonzero(wrong), column, match
                ),
            )

    if len(names) > 1:
        _check_sums(shares, match, names, exact)


def _check_sums(
    shares: NDArray[np.float64], match: Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    """Reject shares that do not sum to 1, by more than their rounding can explain."""
    total = shares.sum(axis=1)
    wrong = (np.abs(total - 1) > _rounding(shares[exact])) & exact
    if not wrong.any():
        return
    all_below = (total[exact] <= 1).all()
    hint = "; give a column for each class, if one is missing" if all_below else ""
    raise InconsistencyError(
        f"The shares {{columns}} must sum to 1; they do not for {{wrong}}{hint}.",
        {"columns": quoted(names), "wrong": _valued(wrong, total, match)},
        _inconsistencies(
            "shares that do not sum to 1", ", ".join(names), np.flatnonzero(wrong), total, match
        ),
    )


def _rounding(shares: NDArray[np.float64]) -> float:
    """How far the proportions of a bag may be from 1 in sum, for as many decimals as they show."""
    n_classes = shares.shape[1]
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = shares * 10**decimals
        if (np.abs(scaled - np.round(scaled)) < 1e-6).all():
            return max(n_classes / 2 * 10.0**-decimals * (1 - 1e-9), _TOLERANCE)
    return _TOLERANCE


def _inconsistencies(
    problem: str, column: str, wrong: NDArray[np.intp], reported: NDArray[np.float64], match: Match
) -> list[Inconsistency]:
    bags, sizes = match.ids[wrong].tolist(), match.sizes[wrong].tolist()
    values = [None if np.isnan(value) else value for value in reported[wrong].tolist()]
    return [
        Inconsistency(bag, problem, column, value, n)
        for bag, value, n in zip(bags, values, sizes, strict=True)
    ]


def _valued(wrong: NDArray[np.bool_], values: NDArray[np.float64], match: Match) -> str:
    pairs = zip(match.ids[wrong].tolist(), values[wrong].tolist(), strict=True)
    return _named([f"{bag!r} ({_value(v)})" for bag, v in pairs])


def _compared(
    wrong: NDArray[np.intp],
    reported: NDArray[np.float64],
    match: Match,
    sizes: NDArray[Any] | None = None,
    what: str = "row",
) -> str:
    bags, others = match.ids[wrong].tolist(), match.sizes if sizes is None else sizes
    rows = zip(bags, reported[wrong].tolist(), others[wrong].tolist(), strict=True)
    return _named([f"{bag!r} ({_value(v)}, but {counted(n, what)})" for bag, v, n in rows])


def _value(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.12g}"


def _named(bags: list[str]) -> str:
    return f"{plural(len(bags), 'bag')} {listing(bags)}"
