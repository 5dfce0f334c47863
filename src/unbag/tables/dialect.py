"""What stands between the fields of a text table, and before decimals."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CANDIDATES = (",", ";", "\t", "|")
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_THOUSANDS = {",": "commas", ".": "points", "'": "apostrophes", " ": "blanks"}
_WITH_COMMA, _WITH_POINT = (re.compile(rf"\s*[-+]?\d*{c}\d+\s*") for c in (",", r"\."))


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Attributes
    ----------
    separator : str
        What stands between fields.
    decimal : str
        What stands before decimals.
    thousands : str or None
        What stands between thousands.
    """

    separator: str
    decimal: str = "."
    thousands: str | None = None

    def told(self, usual: str) -> str:
        """Say what is unusual; nothing if nothing is."""
        fields = "" if self.separator == usual else f"{_WORDS[self.separator]} between fields"
        decimals = "decimal commas" if self.decimal == "," else ""
        thousands = f"{_THOUSANDS[self.thousands]} between thousands" if self.thousands else ""
        return " and ".join(filter(None, (fields, decimals, thousands)))


def find_dialect(lines: Sequence[str], usual: str) -> Dialect:
    r"""Tell from some lines how a table is written.

    The usual separator wins wherever it gives rows of one length; one that does not, or is nowhere
    to be seen, gives way to another that does. Semicolons go with decimal commas, unless numbers
    show decimal points.

    Examples
    --------
    >>> from unbag.tables.dialect import find_dialect
    >>> find_dialect(["name;height\n", "Ann;1,71\n"], ",")
    Dialect(separator=';', decimal=',', thousands=None)
    """
    for separator in (usual, *_CANDIDATES):
        rows = list(_rows(lines, separator))
        if rows and len(rows[0]) > 1 and len(set(map(len, rows))) == 1:
            decimal = _decimal(rows[1:], separator)
            return Dialect(separator, decimal, _thousands(rows[1:], decimal))
    return Dialect(usual)


def find_codes(lines: Sequence[str], dialect: Dialect) -> list[int]:
    r"""Find columns of digits of which some start with a zero, such as postcodes: by position.

    Examples
    --------
    >>> from unbag.tables.dialect import Dialect, find_codes
    >>> find_codes(["postcode,age\n", "01069,31\n", "80331,7\n"], Dialect(","))
    [0]
    """
    rows = list(_rows(lines, dialect.separator))[1:]
    columns = ([field.strip() for field in column] for column in zip(*rows, strict=False))
    return [i for i, column in enumerate(columns) if _are_codes(list(filter(None, column)))]


def _are_codes(fields: list[str]) -> bool:
    padded = any(field[0] == "0" and len(field) > 1 for field in fields)
    return padded and all(field.isascii() and field.isdigit() for field in fields)


def is_blank(row: list[str]) -> bool:
    """Whether pandas skips a line: it is empty, or of spaces only; an empty quote is a field."""
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from (row for row in csv.reader(lines, delimiter=separator) if not is_blank(row))
    except csv.Error:
        yield []


def _decimal(rows: list[list[str]], separator: str) -> str:
    if separator == ",":
        return "."
    commas, points = (
        [field for row in rows for field in row if pattern.fullmatch(field)]
        for pattern in (_WITH_COMMA, _WITH_POINT)
    )
    if (
        commas
        and points
        and (grouped := _are_grouped(commas, ",", ".")) != _are_grouped(points, ".", ",")
    ):
        return "." if grouped else ","
    if separator == ";":
        return "." if points and not commas else ","
    return "," if commas and not points else "."


def _thousands(rows: list[list[str]], decimal: str) -> str | None:
    """What stands between thousands wherever it stands in a number, and stands there at all."""
    for mark in _THOUSANDS:
        if mark == decimal:
            continue
        number = re.compile(rf"[-+]?\d[\d{re.escape(mark)}]*(?:{re.escape(decimal)}\d+)?")
        fields = (field.strip() for row in rows for field in row if mark in field)
        found = [field for field in fields if mark in field and number.fullmatch(field)]
        if found and _are_grouped(found, mark, decimal):
            return mark
    return None


def _are_grouped(numbers: list[str], mark: str, decimal: str) -> bool:
    """Whether all have three digits behind every mark, and no zero in front."""
    digits = rf"[-+]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d+)?"
    return all(re.fullmatch(digits, number.strip()) for number in numbers)
