"""Which rows of a table of instances belong to which row of a table of bags.

Keys are compared as they are, or without the differences that a user says to ignore.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Ints
from unbag._text import counted, plural, quoted, shown_value

Key = tuple[Any, ...]


def _ignoring(names: Sequence[str]) -> str:
    listed = quoted(names, ", ")
    return f"pass ignore={listed if len(names) == 1 else f'({listed})'}"


# What sentences call the two tables, and what they advise, unless callers give other words.
WORDS: dict[str, Any] = {
    "instances": "row table",
    "bags": "bag table",
    "drop": "pass unmatched='drop'",
    "convert": "convert one of them",
    "swap": "give the instances first",
    "proportion": "pass them as proportion",
    "positives": "pass them as positives",
    "percent": "pass percent=True",
    "noise": "pass its standard deviation as noise",
    "hidden": "where counts are hidden, say what they may be: hidden='1-9' or hidden='unknown'",
    "add_size": "with bag_size, or counts, they would be added up",
    "ignore": _ignoring,
}

# In this order: a bool is an integer to Python, and a datetime is a date.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "booleans"),
    (np.bool_, "booleans"),
    (numbers.Integral, "integers"),
    (float, "floats"),
    (np.floating, "floats"),
    (str, "text"),
    (dt.datetime, "times"),
    (dt.date, "dates"),
)


class JoinError(ValueError):
    """Two tables cannot be joined; ``fields`` has the columns, rows and values concerned.

    The sentence is a template in the fields and in `WORDS`, so that `worded` can phrase it for
    readers who know the tables as files.
    """

    def __init__(self, sentence: str, fields: Mapping[str, Any]) -> None:
        super().__init__(sentence, fields)
        self.sentence, self.fields = sentence, fields

    def worded(self, **words: Any) -> str:
        """Return the sentence with other words for the tables or for what to do."""
        fields = {"ignored": (), **WORDS, **words, **self.fields}
        fields["ignore"] = fields["ignore"](fields["ignored"])
        return self.sentence.format(**fields)

    def __str__(self) -> str:
        return self.worded()


class Match(NamedTuple):
    """The bags that are in both tables, and the ids of those that are not."""

    codes: Ints  # bag of each instance row that is kept, as a position in the next
    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    bag_codes: Ints  # bag of each row of the bag table, -1 if it has no instances
    twice: tuple[int | str, int, int] | None  # a bag with two rows there, and which they are
    n_several: int  # bags with more than one row there
    rows: Ints | None  # instance rows that are kept; None for all
    only_in_instances: dict[Key, int]  # with the number of their rows
    only_in_bags: list[Key]

    @property
    def several(self) -> bool:
        """Whether the bag table has more than one row for some bag."""
        return self.twice is not None

    def repeated_error(self, hint: str = "; {add_size}") -> JoinError:
        """Return the error for a bag with two rows where there may be one."""
        assert self.twice is not None
        bag, first, row = self.twice
        return JoinError(
            f"Bag {{bag!r}} appears twice in the {{bags}}, in rows {{first}} and {{row}}{hint}.",
            {"bag": bag, "first": first + 1, "row": row + 1},
        )

    def notes(self) -> list[str]:
        """Describe what was done to make the tables match."""
        if not self.several:
            return []
        some = f"{counted(self.n_several, 'bag')} {plural(self.n_several, 'has', 'have')}"
        return [f"{some} several rows in the {{bags}}, which are added up."]


def match_bags(
    instance_table: nw.DataFrame[Any],
    bag_table: nw.DataFrame[Any],
    keys: list[str],
    ignore: Sequence[str] = (),
) -> Match:
    """Find the rows of the bag table that each row of the row table belongs to."""
    for name in keys:
        _check_present(instance_table, name, "instances")
        _check_present(bag_table, name, "bags")
    codes, distinct = _number_keys(instance_table, keys)
    columns, aligned = [_values(bag_table[name]) for name in keys], []
    for name, own, other in zip(keys, distinct.columns, columns, strict=True):
        both = [normalised(values, ignore) for values in (_values(distinct[own]), other)]
        aligned.append(_align(both, name, [t[name].dtype for t in (instance_table, bag_table)]))
    instance_keys, bag_keys = (list(zip(*both, strict=True)) for both in zip(*aligned, strict=True))
    place: dict[Key, int] = {}
    groups = np.array([place.setdefault(key, len(place)) for key in bag_keys])
    found = np.fromiter((place.get(key, -1) for key in instance_keys), np.intp)
    group = found[codes]

    rows = np.flatnonzero(group >= 0)
    sizes = np.bincount(group[rows], minlength=len(place))
    used = np.flatnonzero(sizes)
    position_of = np.full(len(place), -1)
    position_of[used] = np.arange(len(used))
    # bags are called as the bag table has them, except dates, which it may hold as times
    first_row = np.zeros(len(place), dtype=np.intp)
    first_row[groups[::-1]] = np.arange(len(groups))[::-1]
    names = list(zip(*columns, strict=True)) if ignore else bag_keys
    again = np.flatnonzero(first_row[groups] < np.arange(len(groups)))[:1]
    twice = [(bag_id(bag_keys[row]), int(first_row[groups[row]]), int(row)) for row in again]
    ids = _distinct_ids([names[i] for i in first_row[used].tolist()])
    n_rows = np.bincount(codes, minlength=len(instance_keys)).tolist()
    alone = Counter[Key]()
    for key, n in zip(instance_keys, n_rows, strict=True):
        if key not in place:
            alone[key] += n
    return Match(
        codes=position_of[group[rows]],
        ids=ids,
        sizes=sizes[used],
        bag_codes=position_of[groups],
        twice=twice[0] if twice else None,
        n_several=int((np.bincount(groups) > 1).sum()),
        rows=None if len(rows) == len(group) else rows,
        only_in_instances=dict(alone),
        only_in_bags=[names[first_row[i]] for i in np.flatnonzero(sizes == 0).tolist()],
    )


def _number_keys(table: nw.DataFrame[Any], keys: list[str]) -> tuple[Ints, nw.DataFrame[Any]]:
    """Number the distinct keys of a table 0, 1, ...; give each row's number and the keys."""
    # own names, so that no key is called like one of the two numbers
    renamed = table.select(*[nw.col(name).alias(f"key {i}") for i, name in enumerate(keys)])
    try:
        distinct = renamed.unique(maintain_order=True)
        numbered = renamed.with_row_index("row").join(
            distinct.with_row_index("number"), on=renamed.columns, how="left"
        )
    except Exception as error:
        dtypes = " and ".join(str(table[name].dtype) for name in keys)
        raise JoinError(
            "The key {key} of the {instances} holds {dtypes}, which cannot name a bag.",
            {"key": quoted(keys), "dtypes": dtypes},
        ) from error
    # not every kind of frame keeps the order of rows in a join
    codes = numbered.select("row", "number").sort("row")["number"].to_numpy()
    return codes.astype(np.intp, copy=False), distinct


def _values(column: nw.Series[Any]) -> list[Any]:
    """List the values of a key column."""
    if isinstance(column.dtype, nw.Datetime) and column.dtype.time_zone is None:
        # many times faster than the time objects of pandas; those still serve for nanoseconds
        times = column.to_numpy()
        short = times.astype("datetime64[us]")
        if (short == times).all():
            return short.tolist()
    return column.to_list()


def _align(columns: list[list[Any]], name: str, dtypes: list[Any]) -> list[list[Any]]:
    """Make sure that the key values of two tables can be equal, and write dates as dates."""
    kinds = _kinds(columns, name)
    for i, kind in enumerate(kinds):
        # dates that a file has as text are dates all the same
        if kind == "text" and kinds[1 - i] in ("dates", "times"):
            columns[i] = _as_dates(columns[i], _DATES[:3])
    kinds = _kinds(columns, name)
    # a table without a type for dates holds them as times at midnight, compared as a whole, since
    # nanoseconds are not part of time()
    if all(
        kind == "dates"
        or (kind == "times" and all(v == dt.datetime.combine(v.date(), dt.time()) for v in values))
        for kind, values in zip(kinds, columns, strict=True)
    ):
        return [list(map(_day, values)) for values in columns]
    if kinds[0] != kinds[1]:
        # a number and its digits, perhaps with zeros before them
        same = set.intersection(*(set(normalised(v, ["leading_zeros"])) for v in columns))
        ignored = ["leading_zeros"] if same else ["time"] if {*kinds} == {"dates", "times"} else []
        what = "digits" if same else "days"
        advice = f"their {what} would: {{ignore}}" if ignored else "{convert}"
        raise JoinError(
            "The key column {column!r} holds {kinds[0]} ({dtypes[0]}) in the {instances} but "
            f"{{kinds[1]}} ({{dtypes[1]}}) in the {{bags}}, so that no bag can match; {advice}.",
            {"column": name, "kinds": kinds, "dtypes": dtypes, "ignored": ignored},
        )
    return columns


def _kinds(columns: list[list[Any]], name: str) -> list[str]:
    """What the key columns of both tables hold."""
    found = []
    for values, table in zip(columns, ("instances", "bags"), strict=True):
        kinds = sorted({_kind_of_type(kind) for kind in set(map(type, values))})
        if len(kinds) > 1 or values[0].__hash__ is None:
            problem = "holds {kinds}, which cannot name a bag"
            if len(kinds) > 1:
                problem = "mixes {kinds}; convert it to one of them"
            raise JoinError(
                f"The key column {{column!r}} of the {{{table}}} {problem}.",
                {"column": name, "kinds": " and ".join(kinds)},
            )
        zoned = kinds == ["times"] and all(v.tzinfo is not None for v in values)
        found.append("times with a time zone" if zoned else kinds[0])
    return found


def _kind_of_type(value_type: type) -> str:
    known = (kind for one, kind in _KINDS if issubclass(value_type, one))
    return next(known, f"values of type {value_type.__name__}")


def _day(value: dt.date) -> dt.date:
    return value.date() if isinstance(value, dt.datetime) else value


def bag_id(key: Key) -> int | str:
    """Name a bag after its key."""
    if len(key) > 1:
        return " | ".join(map(str, key))
    whole = isinstance(key[0], numbers.Integral) and not isinstance(key[0], bool)
    return int(key[0]) if whole else str(key[0])


def _distinct_ids(keys: list[Key]) -> NDArray[Any]:
    ids: list[Any] = [bag_id(key) for key in keys]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise ValueError(
            f"Two different keys would both be written as bag {twice!r}; rename one of them."
        )
    if ids and isinstance(ids[0], int):
        # NumPy would make floats of a list with small and very large integers
        return np.array(ids, dtype=np.int64 if max(ids) < 2**63 else np.uint64)
    return np.array(ids)


def _check_present(frame: nw.DataFrame[Any], name: str, table: str) -> None:
    column = frame[name]
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan().fill_null(True)
    if missing.any():
        row = int(missing.to_numpy().astype(bool).argmax())
        raise JoinError(
            f"Row {{row}} of the {{{table}}} has no value in the key column {{column!r}}; fill "
            "it in, or leave the row out.",
            {"row": row + 1, "column": name},
        )


# --- differences between keys that do not matter ------------------------------------------------

# Ways to write a date, the plainest first.
_DATES = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%d %b %Y",
    "%d %B %Y",
)


def _as_dates(values: list[Any], forms: Sequence[str] = _DATES) -> list[Any]:
    """Dates of a column of text, if one way to write dates fits all of it."""
    for form in forms:
        try:
            times = [dt.datetime.strptime(v.strip(), form) for v in values]
        except (ValueError, AttributeError):
            continue
        if all(time.time() == dt.time() for time in times):
            return [time.date() for time in times]
    return values


def _as_days(values: list[Any]) -> list[Any]:
    """Days of a column of times, or of text that has them in ISO form."""
    try:
        times = [dt.datetime.fromisoformat(v.strip()) if isinstance(v, str) else v for v in values]
    except ValueError:
        return values
    if not all(isinstance(time, dt.date) for time in times):
        return values
    return list(map(_day, times))


def _each(change: Callable[[Any], Any], kinds: Any = str) -> Callable[[list[Any]], list[Any]]:
    """Change the values of some types, one by one."""
    return lambda values: [change(v) if isinstance(v, kinds) else v for v in values]


# Differences that can be ignored, in words, and what takes them away.
_NORMALISERS: dict[str, tuple[str, Callable[[list[Any]], list[Any]]]] = {
    "whitespace": ("whitespace", _each(lambda v: " ".join(v.split()))),
    "case": ("case", _each(str.casefold)),
    "leading_zeros": (
        "leading zeros",
        _each(lambda v: re.sub(r"^0+(?=.)", "", str(v)), (str, int)),
    ),
    "date_format": ("how dates are written", _as_dates),
    "time": ("the time of day", _as_days),
}
# Keys that suffice to see in what they differ.
_SOME = 200


def check_ignore(ignore: Any) -> list[str]:
    """Validate which differences between keys are to be ignored."""
    given = [] if ignore is None else [ignore] if isinstance(ignore, str) else list(ignore)
    unknown = [name for name in given if name not in _NORMALISERS]
    if unknown:
        raise ValueError(f"ignore must be of {quoted(_NORMALISERS)}, not {unknown[0]!r}.")
    return [name for name in _NORMALISERS if name in given]


def normalised(values: list[Any], ignore: Iterable[str]) -> list[Any]:
    """Return the values of a key column without the differences to ignore."""
    for name in ignore:
        values = _NORMALISERS[name][1](values)
    return values


def ignore_hint(here: Sequence[Key], there: Sequence[Key]) -> tuple[str, dict[str, Any]] | None:
    """Return advice on what to ignore so that keys match, with an example; None if nothing helps."""
    ways = [way for n in range(1, len(_NORMALISERS) + 1) for way in combinations(_NORMALISERS, n)]
    # of ways that match as many, the first ignores the least
    pairs, way = max(((_matches(here[:_SOME], there, w), w) for w in ways), key=lambda f: len(f[0]))
    if not pairs:
        return None
    differ = " and ".join(_NORMALISERS[name][0] for name in way)
    mine, other = (
        shown_value(key[0] if len(key) == 1 and isinstance(key[0], str | int) else bag_id(key))
        for key in pairs[0]
    )
    fields = {"mine": mine, "other": other, "ignored": list(way)}
    return f"{{mine}} and {{other}} differ in {differ} only: {{ignore}}", fields


def _matches(
    here: Sequence[Key], there: Sequence[Key], ignore: Sequence[str]
) -> list[tuple[Key, Key]]:
    """Return pairs of keys that are then the same."""
    plain = [
        zip(*(normalised(list(column), ignore) for column in zip(*keys, strict=True)), strict=True)
        for keys in (here, there)
    ]
    known = dict(zip(plain[1], there, strict=True))
    return [(key, known[own]) for key, own in zip(here, plain[0], strict=True) if own in known]
