"""Keys that are the same but for how they are written: what would make them match."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unbag._text import quoted, shown_value

Key = tuple[Any, ...]

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


def _without_case(values: list[Any]) -> list[Any]:
    return [v.casefold() if isinstance(v, str) else v for v in values]


def _without_blanks(values: list[Any]) -> list[Any]:
    return [" ".join(v.split()) if isinstance(v, str) else v for v in values]


def _without_zeros(values: list[Any]) -> list[Any]:
    return [re.sub(r"^0+(?=.)", "", str(v)) if isinstance(v, str | int) else v for v in values]


def iso_dates(values: list[Any]) -> list[Any]:
    """Dates of a column of text that has them in ISO form, or the column as it is."""
    return _as_dates(values, _DATES[:3])


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
    return [time.date() if isinstance(time, dt.datetime) else time for time in times]


FOLDS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "blanks": _without_blanks,
    "case": _without_case,
    "zeros": _without_zeros,
    "dates": _as_dates,
    "times": _as_days,
}
# Pairs of keys that are enough to tell in what they differ.
_PAIRS = 200
_WORDS = {
    "blanks": "blanks",
    "case": "case",
    "zeros": "leading zeros",
    "dates": "how dates are written",
    "times": "the time of day",
}


def check_folds(fold: Any) -> list[str]:
    """Read which differences between keys are to be ignored."""
    given = [] if fold is None else [fold] if isinstance(fold, str) else list(fold)
    unknown = [name for name in given if name not in FOLDS]
    if unknown:
        raise ValueError(f"fold must be of {quoted(FOLDS)}, not {unknown[0]!r}.")
    return [name for name in FOLDS if name in given]


def folded(values: list[Any], folds: Iterable[str]) -> list[Any]:
    """Write the values of a key column without differences that are to be ignored."""
    for name in folds:
        values = FOLDS[name](values)
    return values


def folding_hint(here: Sequence[Key], there: Sequence[Key]) -> tuple[str, dict[str, Any]] | None:
    """Say what would make keys of two tables match, with an example; None if nothing does.

    What to do stands in braces, for whoever knows how it is called.
    """
    ways = [[name] for name in FOLDS] + [list(FOLDS)]
    pairs, way = max(((_matches(here, there, way), way) for way in ways), key=lambda f: len(f[0]))
    if not pairs:
        return None
    told = [(_needed(*pair, way), *pair) for pair in pairs]
    needed, mine, other = max(told, key=lambda found: len(found[0]))
    differ = " and ".join(_WORDS[name] for name in needed)
    what = " and ".join(f"{{fold_{name}}}" for name in needed)
    fields = {"mine": shown_value(_shown(mine)), "other": shown_value(_shown(other))}
    return f"{{mine}} and {{other}} differ in {differ} only: {what}", fields


def _matches(here: Sequence[Key], there: Sequence[Key], folds: list[str]) -> list[tuple[Key, Key]]:
    """Pairs of keys, up to some hundred, that these folds make the same."""
    known = dict(zip(_fold_keys(there, folds), there, strict=True))
    some = zip(here, _fold_keys(here, folds), strict=True)
    return [(key, known[plain]) for key, plain in some if plain in known][:_PAIRS]


def _fold_keys(keys: Sequence[Key], folds: list[str]) -> list[Key]:
    columns = [folded(list(column), folds) for column in zip(*keys, strict=True)]
    return list(zip(*columns, strict=True))


def _needed(one: Key, other: Key, folds: list[str]) -> list[str]:
    """The fewest of these folds that make two keys the same."""
    needed = list(folds)
    for name in folds:
        fewer = [kept for kept in needed if kept != name]
        if fewer and _fold_keys([one], fewer) == _fold_keys([other], fewer):
            needed = fewer
    return needed


def _shown(key: Key) -> Any:
    if len(key) == 1:
        return key[0] if isinstance(key[0], str | int) else str(key[0])
    return " | ".join(map(str, key))
