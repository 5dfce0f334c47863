"""The table of bags: its columns as numbers, and whether these fit the rows; every bag at fault is listed."""

from __future__ import annotations

import math
import numbers
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import narwhals as nw
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

# Share of the counts beyond which other totals are advised.
_NEARLY_ALL = 0.9

_TEXT = re.compile(
    r"\s*(?:(?P<sign><=|>=|<|>|≤|≥)\s*(?P<limit>\d+)|(?P<least>\d+)\s*\+"
    r"|(?P<low>\d+)\s*(?:-|–|to|\.\.)\s*(?P<high>\d+))\s*",
    re.IGNORECASE,
)
_HIDDEN = {"*", "suppressed", "unknown", "hidden", "masked", "withheld"}
_MISSING = {"", "na", "n/a", "nan", "null"}


class BagNumbers:
    """Columns of the bag table as numbers of the bags that are in both tables."""

    def __init__(self, table: nw.DataFrame[Any], match: Match, percent: bool) -> None:
        self._table, self._match, self._percent = table, match, percent

    def counts(self, names: list[str]) -> Floats:
        """Counts of each bag, summed over its rows."""
        return self._per_bag([read_numbers(self._table, name) for name in names])

    def limits(self, names: list[str], hidden: str | None) -> tuple[Floats | None, tuple[str, ...]]:
        """Lowest and highest counts, if some cell names a set; and what such cells say."""
        columns = {name: self._table[name].to_list() for name in names}
        cells_of_all = chain.from_iterable(columns.values())
        if hidden is None and not any(read_set(cell) or is_missing(cell) for cell in cells_of_all):
            return None, ()
        limits, notes = zip(*(read_cells(columns[n], n, hidden) for n in names), strict=True)
        if not any(notes):
            return None, ()
        found = self._per_bag([end for column in limits for end in column.T])
        return found.reshape(len(self._match.ids), len(names), 2), tuple(chain(*notes))

    def proportions(self, names: list[str], size: str | None) -> Floats:
        """Proportions of each bag; of several rows, weighted by their sizes."""
        columns = [self._proportions(name) for name in names]
        if not self._match.several:
            return self._per_bag(columns)
        if size is None:
            raise self._match.repeated_error()
        sizes = read_numbers(self._table, size)
        return self._per_bag([column * sizes for column in columns]) / self._per_bag([sizes])

    def deviations(self, names: list[str], are_counts: bool) -> Floats:
        """Standard deviations of the noise, which adds up in its squares."""
        if not are_counts:
            if self._match.several:
                raise self._match.repeated_error("")
            return self._per_bag([self._proportions(name) for name in names])
        columns = [read_numbers(self._table, name) for name in names]
        if not self._match.several:
            return self._per_bag(columns)
        # an invalid deviation stays invalid
        squares = [np.where(column < 0, np.nan, column**2) for column in columns]
        return np.sqrt(self._per_bag(squares))

    def _proportions(self, name: str) -> Floats:
        column, values = self._table[name], read_numbers(self._table, name, may_be_percent=True)
        # shares may carry their own percent sign
        texts = [] if column.dtype.is_numeric() else column.to_list()
        first = next((value for value in texts if isinstance(value, str)), "")
        return values / 100 if self._percent and not first.strip().endswith("%") else values

    def _per_bag(self, columns: list[Floats]) -> Floats:
        codes, n_bags = self._match.bag_codes, len(self._match.ids)
        used = codes >= 0
        return np.column_stack([np.bincount(codes[used], c[used], n_bags) for c in columns])


def read_numbers(frame: nw.DataFrame[Any], name: str, may_be_percent: bool = False) -> Floats:
    """Read a column as floats, NaN where a value is missing."""
    column = frame[name]
    if column.dtype.is_numeric():
        return column.cast(nw.Float64).to_numpy().astype(float)
    # columns of Python objects or text, and columns without any value
    numeric = np.full(len(column), np.nan)
    present = ~column.is_null().to_numpy().astype(bool)
    values = column.filter(present.tolist()).to_list()
    if all(isinstance(v, numbers.Number) and not isinstance(v, bool) for v in values):
        numeric[present] = values
        return numeric
    if not all(isinstance(v, str) for v in values):
        fields = {"column": name, "dtype": str(column.dtype)}
        raise JoinError("Column {column!r} of the {bags} holds {dtype}, not numbers.", fields)
    for row, value in zip(np.flatnonzero(present).tolist(), values, strict=True):
        plain, is_percent, unit = value.strip(), value.strip().endswith("%"), 1
        if may_be_percent and is_percent:
            # decimal commas, too: a percentage is not a list
            plain, unit = plain[:-1].strip().replace(",", "."), 100
        with suppress(ValueError):
            numeric[row] = float(plain) / unit
        if math.isnan(numeric[row]):
            shares = is_percent and not may_be_percent
            hint = "; if these are proportions, {proportion}" if shares else ""
            raise JoinError(
                "Column {column!r} of the {bags} must hold numbers; row {row} holds {value!r}"
                f"{hint}.",
                {"column": name, "row": row + 1, "value": value},
            )
    return numeric


def read_set(text: Any, hidden: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """Limits that a cell such as "<10" or "*" names, NaN for none; None if it names no set.

    >>> from unbag.bags.bag_table import read_set
    >>> read_set("<10"), read_set("10 - 19"), read_set("≥1"), read_set("*", (1, 9))
    ((nan, 9.0), (10.0, 19.0), (1.0, nan), (1, 9))
    """
    if not isinstance(text, str):
        return None
    if text.strip().casefold() in _HIDDEN:
        return (np.nan, np.nan) if hidden is None else hidden
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    if found["low"]:
        return float(found["low"]), float(found["high"])
    sign, limit = found["sign"] or "≥", float(found["limit"] or found["least"])
    if "<" in sign or sign == "≤":
        return np.nan, limit - (sign == "<")
    return limit + (sign == ">"), np.nan


def is_missing(text: Any) -> bool:
    """Whether a cell of text stands for a missing value."""
    return isinstance(text, str) and text.strip().casefold() in _MISSING


def read_cells(values: list[Any], name: str, hidden: str | None) -> tuple[Floats, list[str]]:
    """Limits (n_cells, 2) of the counts of a column, and what its cells that name sets say.

    ``hidden`` says what is meant by nothing, "*" and the like.
    """
    range_ = None if hidden is None else read_set(hidden)
    if hidden is not None and range_ is None:
        raise ValueError(
            f"hidden must be a set of counts such as '1-9' or 'unknown', not {hidden!r}."
        )
    found, kinds = np.empty((len(values), 2)), Counter[str]()
    for row, value in enumerate(values):
        missing = value is None or value != value or is_missing(value)
        limits = range_ if missing else read_set(value, range_)
        if limits is not None:
            kinds["missing" if missing else repr(value.strip())] += 1
            found[row] = limits
            continue
        try:
            found[row] = float(value)
        except (TypeError, ValueError):
            found[row] = np.nan
        if not np.isfinite(found[row]).all():
            raise JoinError(
                "Column {column!r} of the {bags} must hold counts, or sets of them such as '<10'; row "
                "{row} holds {value!r}; {hidden}.",
                {"column": name, "row": row + 1, "value": value if isinstance(value, str) else ""},
            )
    if not kinds:
        return found, []
    shown = listing([f"{kind} ({n:,})" for kind, n in kinds.most_common()])
    n_sets = sum(kinds.values())
    note = f"{n_sets:,} of {len(values):,} counts in {name!r} are sets: {shown}; they are fitted as such."
    if n_sets > _NEARLY_ALL * len(values):
        note += " Exact totals of larger groups, where there are any, say more."
    return found, [note]


def read_class_numbers(column: Any, names: list[str]) -> Floats:
    """Class numbers of a column of known labels, NaN where there is none."""
    numbers, names = range(max(len(names), 2)), names if len(names) > 1 else []
    known: dict[Any, int] = {number: number for number in numbers}
    known |= {str(number): number for number in numbers} | dict(zip(names, numbers, strict=False))
    found = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_list()):
        if value is None or value != value or value == "":
            continue
        label = value.strip() if isinstance(value, str) else value
        if label not in known:
            classes = ", ".join(map(str, [*numbers, *names]))
            raise JoinError(
                "Column {column!r} of the {instances} must hold labels ({classes}) or nothing; row "
                "{row} holds {value!r}.",
                {"column": column.name, "classes": classes, "row": row + 1, "value": value},
            )
        found[row] = known[label]
    return found


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
    key, there, rows = ", ".join(keys), match.only_in_bags, match.only_in_instances
    here, gone = list(map(bag_id, rows)), list(map(bag_id, there))
    found = [
        Inconsistency(bag_id(one), "no row in the bag table", key, None, n)
        for one, n in rows.items()
    ]
    found += [Inconsistency(bag, "no instances", key, None, 0) for bag in gone]
    hint = ignore_hint(list(rows), there) if here and there else None
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
