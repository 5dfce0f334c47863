"""Tables that are text: encoding, separators and decimals are found out, and every row is checked."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from unbag._text import shown_value
from unbag.tables.files import SEPARATORS, Options, Source, TableError, TableFile, check_distinct

_BLOCK = 1 << 20
_LONGEST_ROW = 1 << 26
_SAMPLE = 1 << 15
# The longer marks first: that of UTF-32 starts like that of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_THOUSANDS = {",": "commas", ".": "points", "'": "apostrophes", " ": "spaces"}


def open_text(file: TableFile, options: Options) -> Source:
    """Open a CSV or TSV file, and infer its dialect from the first lines."""
    usual = SEPARATORS[file.format]
    blocks = _decoded(file, options.encoding, options.on_message)
    start = next(blocks, "")
    while "\n" not in start.lstrip() and "\r" not in start.lstrip() and (more := next(blocks, "")):
        start += more
    blocks.close()  # type: ignore[attr-defined]
    lines = io.StringIO(start, newline="").readlines()
    ends = np.cumsum([len(line) for line in lines])
    sample = lines[: max(1, int(np.searchsorted(ends, _SAMPLE)))]
    while len(sample) > 2 and "".join(sample).count('"') % 2:
        sample.pop()  # of a row that goes on
    dialect = _find_dialect(sample, usual)
    rows = csv.reader(lines, delimiter=dialect.separator)
    names = next((row for row in rows if not _is_blank(row)), [])
    if not names:
        raise TableError(file, "is empty")
    check_distinct(file, names)
    if unusual := dialect.describe(usual):
        options.on_message(f"{file} is read with {unusual}.")
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    codes = {names[i] for i in dialect.codes if i < len(names)}

    def frames(rows: int | None, columns: list[str], as_text: set[str]) -> Iterator[Any]:
        import pandas as pd

        text = _decoded(file, options.encoding, options.on_message)
        newline = "\n" if "\n" in start else "\r"
        with closing(text):  # type: ignore[type-var]
            found = pd.read_csv(
                CheckedRows(file, text, dialect.separator, newline, len(names)),  # type: ignore[call-overload]
                sep=dialect.separator,
                decimal=dialect.decimal,
                thousands=dialect.thousands,
                usecols=columns,
                dtype=dict.fromkeys(as_text | (codes & set(columns)), str),
                na_values=list(options.na_values),
                chunksize=rows,
                low_memory=False,
            )
            yield from [found] if rows is None else found

    return Source(names, frames)


class CheckedRows:
    """Text for pandas, of which all rows have as many fields as the header.

    pandas fills short rows up and takes a field too many for an index, without a word.
    """

    def __init__(
        self, file: TableFile, blocks: Iterator[str], separator: str, newline: str, n_fields: int
    ) -> None:
        self._file, self._blocks, self._n_fields = file, blocks, n_fields
        self._separator, self._newline = separator, newline
        self._rest, self._n_lines = "", 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.read, "")

    def read(self, _size: int = -1) -> str:
        """Return the next whole rows, however many characters that is."""
        for block in self._blocks:
            self._rest += block
            given = self._checked(self._rest[: self._rest.rfind(self._newline) + 1], is_end=False)
            if len(self._rest) > _LONGEST_ROW:
                where, size = f"the row on line {self._n_lines + 1}", f"{_LONGEST_ROW >> 20} MB"
                problem = f"is longer than {size} (is a quote left open?)"
                raise TableError(self._file, problem, line=where)
            if given:
                return given
        return self._checked(self._rest, is_end=True)

    def _checked(self, text: str, is_end: bool) -> str:
        """Return the rows that end within the text; the others are kept."""
        if not self._is_even(text):
            text = self._check_each(text, is_end)
        self._rest = self._rest[len(text) :]
        self._n_lines += text.count(self._newline)
        return text

    def _is_even(self, text: str) -> bool:
        """Whether rows are plainly complete and alike, of which most files consist."""
        outside = text.split('"')[::2]
        if '"' in text:
            before = (self._separator, "\n", "\r")
            if text.count('"') % 2 or not all(not t or t.endswith(before) for t in outside[:-1]):
                return False
        lines = "".join(outside).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        counts = {line.count(self._separator) for line in lines if line}
        return counts <= {self._n_fields - 1}

    def _check_each(self, text: str, is_end: bool) -> str:
        """Check row by row, name the first of another length, and return those that are whole."""
        lines = io.StringIO(text, newline="").readlines()
        # one line more, which is part of the last row if a quote is open there
        rows = csv.reader([*lines, "\n"], delimiter=self._separator)
        n_passed, n_before = 0, self._n_lines
        for row in rows:
            if rows.line_num > len(lines) and not is_end:
                break
            n_read = min(rows.line_num, len(lines))
            if len(row) != self._n_fields and not _is_blank(row):
                first, last = n_before + n_passed + 1, n_before + n_read
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                title = "; if that is a title, take it out" if self._n_fields == 1 else ""
                problem = f"has {len(row)} fields{hint}, and the header has {self._n_fields}{title}"
                raise TableError(self._file, problem, line=where)
            n_passed = n_read
        return "".join(lines[:n_passed])


# --- JSON ---------------------------------------------------------------------------------------


def open_json(file: TableFile, options: Options) -> Source:
    """Open one JSON object on each line, or a list of them; a key may lack in some rows."""
    names: dict[str, None] = {}
    for row in _json_rows(file, options):
        if not row.keys() <= names.keys():
            names.update(dict.fromkeys(row))
    if not names:
        raise TableError(file, "is empty")

    def frames(rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        import pandas as pd

        found = _json_rows(file, options)
        while some := list(islice(found, rows)):
            yield pd.DataFrame({n: [row.get(n) for row in some] for n in columns}, columns=columns)

    return Source(list(names), frames)


def _json_rows(file: TableFile, options: Options) -> Iterator[dict[str, Any]]:
    blocks = _decoded(file, options.encoding, options.on_message)
    start = next(blocks, "")
    if start.lstrip().startswith("["):
        values = _parsed(file, start + "".join(blocks), "the list")
        yield from (_row(file, value, f"entry {i}") for i, value in enumerate(values, 1))
        return
    number, rest = 0, ""
    for block in chain([start], blocks, ["\n"]):
        *lines, rest = (rest + block).split("\n")
        for number, line in enumerate(lines, number + 1):  # noqa: B020
            if line.strip():
                yield _row(file, _parsed(file, line, f"line {number}"), f"line {number}")


def _parsed(file: TableFile, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TableError(file, f"is not JSON: {error}", line=where) from None


def _row(file: TableFile, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = f"holds {shown_value(value)}, and not an object of column names and values"
        raise TableError(file, problem, line=where)
    nested = next((n for n, v in value.items() if isinstance(v, list | dict)), None)
    if nested is not None:
        problem = f"has a list or an object in column {nested!r}, which is not a single value"
        raise TableError(file, problem, line=where)
    return value


# --- encoding -----------------------------------------------------------------------------------


def _decoded(table: TableFile, encoding: str, on_message: Callable[[str], object]) -> Iterator[str]:
    """Give the text of a file in blocks, without its byte order mark.

    A byte order mark, or zeros between letters, decide on UTF-16 or UTF-32. Otherwise text is
    UTF-8, unless its first character beyond ASCII is not: then all is read as ``encoding``.
    """
    with table.open() as stream:
        block = stream.read(_BLOCK)
        found = next((e for mark, e in _BYTE_ORDER_MARKS.items() if block.startswith(mark)), "")
        for other, first in {"utf-16-le": 1, "utf-16-be": 0}.items():
            if not found and len(block) > 3 and not any(block[first:16:2]):
                found = other
        if found:
            on_message(f"{table} is read as {found} text, since it is not UTF-8.")
        decoder: Any = codecs.getincrementaldecoder(found or "utf-8")()
        may_switch = not found and codecs.lookup(encoding).name != "utf-8"
        n_bytes, n_lines = 0, 0
        while True:
            data = decoder.getstate()[0] + block
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                if may_switch and block and data[: error.start].isascii():
                    found, may_switch, block = encoding, False, data
                    decoder = codecs.getincrementaldecoder(encoding)()
                    on_message(f"{table} is read as {encoding} text, since it is not UTF-8.")
                    continue
                line = n_lines + data.count(b"\n", 0, error.start) + 1
                if not block:
                    problem = f"ends within a character, on line {line}: it is cut short"
                    raise TableError(table, problem) from None
                default = encoding if codecs.lookup(encoding).name == "utf-8" else "UTF-8"
                byte, place = data[error.start], n_bytes + error.start
                raise _undecodable(table, byte, found or default, place, line) from None
            may_switch = may_switch and text.isascii()
            if (place := text.find("\0")) >= 0:
                line = n_lines + text.count("\n", 0, place) + 1
                place = n_bytes + len(text[:place].encode())
                raise _undecodable(table, 0, "UTF-8", place, line)
            yield text if n_bytes else text.removeprefix("\ufeff")
            n_bytes += len(data) - len(decoder.getstate()[0])
            n_lines += text.count("\n")
            if not block:
                return
            block = stream.read(_BLOCK)


def _undecodable(table: TableFile, byte: int, name: str, place: int, line: int) -> TableError:
    advice = "save it with the encoding UTF-8"
    advice = advice if name == "UTF-8" else f"{advice}, or say which it has (--encoding)"
    problem = f"is not {name} text: 0x{byte:02x} at byte {place}, on line {line}; {advice}"
    return TableError(table, problem)


# --- dialect ------------------------------------------------------------------------------------


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


def _find_dialect(lines: Sequence[str], usual: str) -> Dialect:
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


def _is_blank(row: list[str]) -> bool:
    """Whether pandas skips a row: it is empty, or has spaces only; an empty quote is a field."""
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if not _is_blank(row)]
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
