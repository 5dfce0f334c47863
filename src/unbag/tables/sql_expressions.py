"""Columns of a table, and features that are made of them, as expressions of SQL.

Every dialect has doubles, CASE, COALESCE and BETWEEN; more is taken only where a model needs it.
Missing, infinite and NaN values are NULL here, as the features of this package have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbag.tables.features import MISSING
from unbag.tables.mixed_features import RARE

_LARGEST = float(np.finfo(np.float64).max)

# Parts of a sum side by side; of more there are sums of sums, since depth is limited.
_ABREAST = 16

# Veltkamp's constant, by which a double is rounded to the 24 bits of single precision.
_SPLIT = float(2**29 + 1)


_AS_SINGLE = "CAST(CAST({} AS FLOAT) AS DOUBLE)"


class SqlDialect(NamedTuple):
    """What differs between engines; conversions have the value in braces."""

    seconds: str  # since 1970, of a time
    quote: str = '"'  # around identifiers
    backslashes: bool = False  # whether one in a string begins an escape sequence
    double: str = "CAST({} AS DOUBLE)"
    text: str = "CAST({} AS VARCHAR)"
    single: str | None = None  # to single precision and back, where the engine has that type
    smaller: str = "LEAST"  # of two numbers
    larger: str = "GREATEST"
    escaped_names: bool = False  # whether a backslash begins an escape sequence there, too


DIALECTS: dict[str, SqlDialect] = {
    "duckdb": SqlDialect("EPOCH({})", single=_AS_SINGLE),
    "sqlite": SqlDialect(
        "(STRFTIME('%s', {0}) + (STRFTIME('%f', {0}) - STRFTIME('%S', {0})))",
        # an identifier in double quotes that is not a column would be a string
        quote="`",
        double="CAST({} AS REAL)",
        text="CAST({} AS TEXT) COLLATE BINARY",
        smaller="MIN",
        larger="MAX",
    ),
    "spark": SqlDialect(
        "(UNIX_MICROS(CAST({} AS TIMESTAMP)) / 1000000e0)",
        quote="`",
        backslashes=True,
        text="CAST({} AS STRING)",
        single=_AS_SINGLE,
    ),
    "postgresql": SqlDialect(
        "CAST(EXTRACT(EPOCH FROM {}) AS DOUBLE PRECISION)",
        double="CAST({} AS DOUBLE PRECISION)",
        text="CAST({} AS TEXT)",
        single="CAST(CAST({} AS REAL) AS DOUBLE PRECISION)",
    ),
    "bigquery": SqlDialect(
        "(UNIX_MICROS(TIMESTAMP({})) / 1000000e0)",
        quote="`",
        backslashes=True,
        double="CAST({} AS FLOAT64)",
        text="CAST({} AS STRING)",
        escaped_names=True,
    ),
    "snowflake": SqlDialect("(DATE_PART(EPOCH_MICROSECOND, {}) / 1000000e0)", backslashes=True),
}


def literal(value: float) -> str:
    """A double, which would be a decimal number without an exponent."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if value < 0 else text


def total(parts: Sequence[str]) -> str:
    """The sum of some expressions, not deeper than a logarithm of their number."""
    if len(parts) <= _ABREAST:
        return f"({' + '.join(parts) or literal(0)})"
    middle = len(parts) // 2
    return f"({total(parts[:middle])} + {total(parts[middle:])})"


class Writer:
    """Names, strings and columns in a dialect; ``columns`` that were written, in lower case."""

    def __init__(self, dialect: str) -> None:
        if dialect not in DIALECTS:
            raise ValueError(f"dialects are {', '.join(DIALECTS)}, not {dialect!r}.")
        self.dialect = DIALECTS[dialect]
        self.columns: set[str] = set()

    def name(self, name: str) -> str:
        """An identifier."""
        _check_characters(name)
        quote = self.dialect.quote
        if self.dialect.escaped_names:
            return f"{quote}{_escaped(name, quote)}{quote}"
        return f"{quote}{name.replace(quote, 2 * quote)}{quote}"

    def string(self, text: str) -> str:
        """A string."""
        _check_characters(text)
        if not self.dialect.backslashes:
            return "'" + text.replace("'", "''") + "'"
        text = _escaped(text, "'")
        return f"'{text}'"

    def column(self, name: str, kind: str) -> Raw:
        """A column of numbers, truth values or times."""
        own = self._column(name)
        if kind == "boolean":
            return Raw(f"CASE WHEN {own} THEN 1e0 WHEN NOT {own} THEN 0e0 END", False)
        form = self.dialect.seconds if kind == "time" else self.dialect.double
        return Raw(form.format(own), kind == "number")

    def category(self, name: str, levels: Sequence[str] | None) -> Category:
        """A column of text."""
        text = self.dialect.text.format(self._column(name))
        return Category(f"COALESCE({text}, {self.string(MISSING)})", levels, self.string)

    def _column(self, name: str) -> str:
        self.columns.add(name.casefold())
        return self.name(name)

    def single(self, value: str) -> str:
        """A double rounded to single precision."""
        if self.dialect.single is not None:
            return self.dialect.single.format(value)
        split = f"{value} * {literal(_SPLIT)}"
        return f"({split} - ({split} - {value}))"

    def exp(self, value: str) -> str:
        """The exponential, of what is neither an overflow nor an error of underflow."""
        smaller, larger = self.dialect.smaller, self.dialect.larger
        return f"EXP({larger}({smaller}({value}, 700e0), (-700e0)))"


def _escaped(text: str, quote: str) -> str:
    """Text in which backslashes, quotes and line ends are escape sequences."""
    for plain, escaped in (("\\", "\\\\"), (quote, f"\\{quote}"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return text


class Feature:
    """A number that is made of a column: an expression, NULL where it is missing."""

    def __init__(self, value: str) -> None:
        self.value = value

    def split(self, threshold: float, left: str, right: str, gap_left: bool) -> str:  # noqa: ARG002
        """One of two expressions: the left one for numbers up to a threshold."""
        return f"CASE WHEN {self.value} <= {literal(threshold)} THEN {left} ELSE {right} END"

    def linear(self, slope: float, centre: float, gap: float = 0.0, known: float = 0.0) -> str:
        """(value − centre)·slope + known, and ``gap`` where it is missing."""
        return self._times(f"({self.value} - {literal(centre)})", slope, gap, known)

    def square(self, slope: float, centre: float, gap: float = 0.0, known: float = 0.0) -> str:
        """(value − centre)²·slope + known, and ``gap`` where it is missing."""
        return self._times(f"POWER({self.value} - {literal(centre)}, 2e0)", slope, gap, known)

    def _times(self, value: str, slope: float, gap: float, known: float) -> str:
        rest = f" + {literal(known)}" if known else ""
        return f"COALESCE({value} * {literal(slope)}{rest}, {literal(gap)})"


class Raw(Feature):
    """A column as it is; its value is NULL where it is not finite."""

    def __init__(self, column: str, may_be_infinite: bool) -> None:
        limits = f"{literal(-_LARGEST)} AND {literal(_LARGEST)}"
        finite = f"CASE WHEN {column} BETWEEN {limits} THEN {column} END"
        super().__init__(finite if may_be_infinite else column)
        self.column = column

    def split(self, threshold: float, left: str, right: str, gap_left: bool) -> str:
        """Compare in a way in which NULL, NaN (in some engines the largest) and infinity are gaps."""
        at = literal(threshold)
        if gap_left:
            found = f"{self.column} > {at} AND {self.column} <= {literal(_LARGEST)}"
            return f"CASE WHEN {found} THEN {right} ELSE {left} END"
        found = f"{self.column} <= {at} AND {self.column} >= {literal(-_LARGEST)}"
        return f"CASE WHEN {found} THEN {left} ELSE {right} END"


class Scaled(Feature):
    """A column whose gaps are filled, standardised, in the precision that trees split by."""

    def __init__(self, value: str, raw: Raw, fill: float, scale: Callable[[float], float]) -> None:
        super().__init__(value)
        self.raw, self.fill, self.scale = raw, fill, scale

    def split(self, threshold: float, left: str, right: str, gap_left: bool) -> str:  # noqa: ARG002
        """Compare the column itself with the largest number that is standardised to the threshold."""
        at = _last_at_most(self.scale, threshold)
        return self.raw.split(at, left, right, self.fill <= at)


class Flag(Feature):
    """One of two numbers, by a condition that is never NULL."""

    def __init__(self, condition: str, true: float = 1.0, false: float = 0.0) -> None:
        super().__init__(_case(condition, literal(true), literal(false)))
        self.condition, self.numbers = condition, (true, false)

    def split(self, threshold: float, left: str, right: str, gap_left: bool) -> str:  # noqa: ARG002
        """One of both by the condition, or the same for all rows."""
        sides = [left if number <= threshold else right for number in self.numbers]
        return sides[0] if sides[0] == sides[1] else _case(self.condition, *sides)

    def linear(self, slope: float, centre: float, gap: float = 0.0, known: float = 0.0) -> str:  # noqa: ARG002
        """A line through both numbers."""
        values = (literal((number - centre) * slope + known) for number in self.numbers)
        return _case(self.condition, *values)

    def square(self, slope: float, centre: float, gap: float = 0.0, known: float = 0.0) -> str:  # noqa: ARG002
        """A parabola at both numbers."""
        values = (literal((number - centre) ** 2 * slope + known) for number in self.numbers)
        return _case(self.condition, *values)


def _case(condition: str, true: str, false: str) -> str:
    return f"CASE WHEN {condition} THEN {true} ELSE {false} END"


@dataclass(frozen=True)
class Category:
    """A column of text; levels that are not on the list are one level together."""

    text: str
    levels: Sequence[str] | None
    string: Callable[[str], str]

    def weights(self, weight_of: Mapping[str, float]) -> str:
        """A number for each level, 0 for those that have none."""
        other = 0.0 if self.levels is None else weight_of.get(RARE, 0.0)
        known = weight_of if self.levels is None else self.levels
        found = {level: weight_of.get(level, 0.0) for level in known}
        whens = [
            f"WHEN {self.string(level)} THEN {literal(weight)}"
            for level, weight in found.items()
            if weight != other
        ]
        if not whens:
            return literal(other)
        return f"CASE {self.text} {' '.join(whens)} ELSE {literal(other)} END"

    def among(self, texts: Sequence[str]) -> str:
        """Whether the text is one of these."""
        return f"{self.text} IN ({', '.join(map(self.string, texts))})"

    def is_level(self, level: str) -> str:
        """Whether the level is this one."""
        if self.levels is not None and level == RARE:
            return f"NOT {self.among(self.levels)}" if self.levels else "1 = 1"
        return self.among([level])


def _last_at_most(scale: Callable[[float], float], threshold: float) -> float:
    """The largest double that an increasing function takes to a threshold at most."""
    low, high = -_LARGEST, _LARGEST
    with np.errstate(over="ignore"):
        if scale(high) <= threshold:
            return high
        if scale(low) > threshold:
            return low
        # doubles in their order are integers in theirs
        a, b = _place(low), _place(high)
        while b - a > 1:
            middle = (a + b) // 2
            a, b = (middle, b) if scale(_double(middle)) <= threshold else (a, middle)
    return _double(a)


def _place(value: float) -> int:
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _double(place: int) -> float:
    found = float(np.int64(abs(place)).view(np.float64))
    return found if place >= 0 else -found


def _check_characters(text: Any) -> None:
    if "\0" in text:
        raise ValueError(f"SQL has no way to write the NUL character, which {text!r} holds.")
