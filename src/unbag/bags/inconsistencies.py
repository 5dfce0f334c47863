"""Checks of a table of bags against a table of instances; every bag at fault is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from unbag._arrays import Bools, Floats
from unbag._text import capital, counted, listing, plural, quoted
from unbag.bags.joining import JoinError, Match, bag_id, ignore_hint

# How far a count may be from a whole number, relative to its size.
_ROUNDING = 1e-9
# Decimals beyond which a proportion counts as exact, and what sums may then be off by.
_MOST_DECIMALS = 8
_TOLERANCE = 1e-6
# What sizes count: rows of the row table, or members of bags of which these are a sample.
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
    key, there = ", ".join(keys), match.only_in_bags
    here = [bag_id(one) for one in match.only_in_instances]
    n_rows, gone = match.only_in_instances.values(), list(map(bag_id, there))
    found = [
        Inconsistency(bag, "no row in the bag table", key, None, n)
        for bag, n in zip(here, n_rows, strict=True)
    ]
    found += [Inconsistency(bag, "no instances", key, None, 0) for bag in gone]
    hint = ignore_hint(list(match.only_in_instances), there) if here and there else None
    advice, fields = hint or ("", {})
    if len(match.ids) == 0:
        raise InconsistencyError(
            "No bag is in both tables: the first is {here!r} in the {instances} and {there!r} in "
            f"the {{bags}}{advice and '; '}{advice}.",
            {"here": here[0], "there": gone[0], **fields},
            found,
        )
    if unmatched == "drop" or not found:
        return
    problems: list[str] = []
    for name, ids, problem in (
        ("here", here, "instances but no row in the {bags}"),
        ("there", gone, "a row in the {bags} but no instances"),
    ):
        if ids:
            named = _named([repr(bag) for bag in ids])
            fields[name] = named if problems else capital(named)
            problems.append(f"{{{name}}} {plural(len(ids), 'has', 'have')} {problem}")
    advice = advice or "correct the key, or {drop} to leave such bags out"
    raise InconsistencyError(f"{', and '.join(problems)}; {advice}.", fields, found)


def check_sizes_hold_rows(reported: Floats, match: Match, name: str) -> None:
    """Reject sizes below the number of rows; a bag may have more, of which rows are a sample."""
    _refuse(
        ~(reported >= match.sizes),
        reported,
        match,
        "The size column {column!r} contradicts the number of instance rows of {wrong}.",
        name,
        "another size than it has rows",
        match.sizes,
    )


def check_counts(
    counts: Floats, match: Match, names: list[str], exact: Bools, sizes: Floats
) -> None:
    """Reject what is not a count, and exact counts that bags of these sizes cannot have."""
    for name, column in zip(names, counts.T, strict=True):
        wrong = ~np.isfinite(column) | ((column < 0) & exact)
        fraction = exact & (np.abs(column - np.round(column)) > _ROUNDING * np.maximum(column, 1))
        # shares that were taken for counts
        within = ((column >= 0) & (column <= 1))[np.isfinite(column)].all()
        likely = (
            "if these are proportions, {proportion}" if within else "if noise was added, {noise}"
        )
        hint = f"; {likely}" if fraction.any() else "; {hidden}" if np.isnan(column).any() else ""
        sentence = f"Column {{column!r}} of the {{bags}} must hold counts; it does not for {{wrong}}{hint}."
        _refuse(wrong | fraction, column, match, sentence, name, "not a count")
    total = counts.sum(axis=1)
    what = "row" if (sizes == match.sizes).all() else "member"
    hint = "; give a column for each class, if one is missing"
    if len(names) == 1:
        wrong, hint = total > sizes, ""
        problem = f"Column {{columns}} counts more positives than there are {_MEMBERS[what]}"
        brief = f"more positives than {what}s"
    else:
        wrong = total != sizes
        hint = hint if (total[exact] <= sizes[exact]).all() else ""
        problem = f"The counts {{columns}} do not sum to the number of {_MEMBERS[what]}"
        brief = f"counts that do not sum to its {what}s"
    sentence = f"{problem} for {{wrong}}{hint}."
    _refuse(wrong & exact, total, match, sentence, names, brief, sizes, what)


def check_reported_proportions(
    shares: Floats, match: Match, names: list[str], exact: Bools
) -> None:
    """Reject what is not a proportion, and exact ones outside [0, 1] or that do not sum to 1."""
    for name, column in zip(names, shares.T, strict=True):
        known = column[np.isfinite(column)]
        beyond = (known >= 0).all() and (known > 1).any()
        whole = (known == np.round(known)).all() and not (column > match.sizes).any()
        likely = {"percentages, {percent}": (known <= 100).all(), "counts, {positives}": whole}
        hint = "".join(f"; if these are {what}" for what in likely if beyond and likely[what])
        _refuse(
            ~np.isfinite(column) | (((column < 0) | (column > 1)) & exact),
            column,
            match,
            "Column {column!r} of the {bags} must hold proportions in [0, 1]; it does not for "
            f"{{wrong}}{hint}.",
            name,
            "not a proportion in [0, 1]",
        )
    if len(names) > 1:
        total = shares.sum(axis=1)
        all_below = (total[exact] <= 1).all()
        hint = "; give a column for each class, if one is missing" if all_below else ""
        sentence = f"The shares {{columns}} must sum to 1; they do not for {{wrong}}{hint}."
        wrong = (np.abs(total - 1) > _rounding(shares[exact])) & exact
        _refuse(wrong, total, match, sentence, names, "shares that do not sum to 1")


def _rounding(shares: Floats) -> float:
    """How far the proportions of a bag may be from 1 in sum, for as many decimals as they show."""
    n_classes = shares.shape[1]
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = shares * 10**decimals
        if (np.abs(scaled - np.round(scaled)) < 1e-6).all():
            return max(n_classes / 2 * 10.0**-decimals * (1 - 1e-9), _TOLERANCE)
    return _TOLERANCE


def _refuse(
    wrong: Bools,
    reported: Floats,
    match: Match,
    sentence: str,
    column: str | list[str],
    problem: str,
    sizes: Any = None,
    what: str = "row",
) -> None:
    """Raise the sentence if some bag is wrong, with its value and, if given, its size."""
    found, shown = [], []
    names = [column] if isinstance(column, str) else column
    for i in np.flatnonzero(wrong).tolist():
        bag, value = match.ids[i].item(), float(reported[i])
        given = None if np.isnan(value) else value
        found.append(Inconsistency(bag, problem, ", ".join(names), given, int(match.sizes[i])))
        text = "missing" if given is None else f"{value:.12g}"
        size = "" if sizes is None else f", but {counted(sizes[i].item(), what)}"
        shown.append(f"{bag!r} ({text}{size})")
    if found:
        fields = {"column": column, "columns": quoted(names), "wrong": _named(shown)}
        raise InconsistencyError(sentence, fields, found)


def _named(bags: list[str]) -> str:
    return f"{plural(len(bags), 'bag')} {listing(bags)}"
