"""What separates the fields of a text table, and its decimals and thousands."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_THOUSANDS = {",": "commas", ".": "points", "'": "apostrophes", " ": "spaces"}


class Dialect(NamedTuple):
    """How a text table is written."""

    separator: str
    decimal: str = "."
    thousands: str | None = None
    codes: tuple[int, ...] = ()

    def describe(self, usual: str) -> str:
        """Describe what is unusual; empty if nothing is."""
        fields = "" if self.separator == usual else f"{_SEPARATORS[self.separator]} between fields"
        decimals = "decimal commas" if self.decimal == "," else ""
        thousands = f"{_THOUSANDS[self.thousands]} between thousands" if self.thousands else ""
        return " and ".join(filter(None, (fields, decimals, thousands)))


def find_dialect(lines: Sequence[str], usual: str) -> Dialect:
    """Infer the dialect of a table from its first lines.

    The usual separator wins where it gives rows of one length; otherwise another that does.
    Semicolons go with decimal commas, unless numbers have decimal points.
    """
    for separator in (usual, *_SEPARATORS):
        rows = _rows(lines, separator)
        if rows and len(rows[0]) > 1 and len(set(map(len, rows))) == 1:
            decimal = _decimal(rows[1:], separator)
            return Dialect(separator, decimal, _thousands(rows[1:], decimal), _codes(rows))
    return Dialect(usual, codes=_codes(_rows(lines, usual)))


def is_blank(row: list[str]) -> bool:
    """Whether pandas skips a row: it is empty, or has spaces only; an empty quote is a field."""
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if not is_blank(row)]
    except csv.Error:
        return []


def _codes(rows: list[list[str]]) -> tuple[int, ...]:
    found = []
    for place, column in enumerate(zip(*rows[1:], strict=False)):
        fields = [field.strip() for field in column if field.strip()]
        padded = any(field[0] == "0" and len(field) > 1 for field in fields)
        if padded and all(field.isascii() and field.isdigit() for field in fields):
            found.append(place)
    return tuple(found)


def _decimal(rows: list[list[str]], separator: str) -> str:
    if separator == ",":
        return "."
    commas, points = (
        [field for row in rows for field in row if re.fullmatch(rf"\s*[-+]?\d*{c}\d+\s*", field)]
        for c in (",", r"\.")
    )
    if commas and points:
        grouped = _are_grouped(commas, ",", ".")
        if grouped != _are_grouped(points, ".", ","):
            return "." if grouped else ","
    if separator == ";":
        return "." if points and not commas else ","
    return "," if commas and not points else "."


def _thousands(rows: list[list[str]], decimal: str) -> str | None:
    """Return the mark that groups the digits of every number it stands in, if there is one."""
    for mark in _THOUSANDS:
        number = re.compile(rf"[-+]?\d[\d{re.escape(mark)}]*(?:{re.escape(decimal)}\d+)?")
        fields = (field.strip() for row in rows for field in row if mark in field)
        found = [field for field in fields if mark in field and number.fullmatch(field)]
        if mark != decimal and found and _are_grouped(found, mark, decimal):
            return mark
    return None


def _are_grouped(numbers: list[str], mark: str, decimal: str) -> bool:
    """Whether three digits follow every mark of all numbers, and none starts with zero."""
    digits = rf"[-+]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d+)?"
    return all(re.fullmatch(digits, number.strip()) for number in numbers)
