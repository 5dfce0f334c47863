r"""Tables as text: CSV and TSV, compressed or not.

The bytes of a file are checked on their way to pandas, which is lenient: it fills short rows up,
takes a column too many for an index, and says of a wrong byte neither where it is nor what to do.

``pyarrow.csv`` is no substitute. Of 3,000 awkward texts it took 125 that are refused here: a quote
left open (``a\n"``), the byte 0 (``b\n\x0022``), two columns of one name, bytes that are not
UTF-8, of which it makes a column of bytes; and it made rows of lines of spaces. Where it refuses it
names a row but no line, and of a file in chunks it knows the types of the first chunk only.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from unbag.tables.decoding import Tell, Utf8Bytes
from unbag.tables.dialect import Dialect, find_codes, find_dialect, is_blank
from unbag.tables.file import SEPARATORS, TableError, TableFile, check_distinct

_BLOCK = 1 << 16
_LONGEST_ROW = 1 << 26
_SAMPLE = 1 << 15


@dataclass(frozen=True)
class TextTable:
    """A CSV or TSV file, and how it is written."""

    file: TableFile
    names: list[str]
    dialect: Dialect
    encoding: str
    tell: Tell
    missing: tuple[str, ...]
    codes: frozenset[str]  # columns of digits with leading zeros, as far as some rows show

    def frames(self, rows: int | None, columns: list[str], as_written: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of all."""
        import pandas as pd

        checked = _Checked(self.file, self.encoding, self.tell)
        checked.expect(len(self.names), self.dialect.separator)
        with checked.as_text(newline="") as file:
            found = pd.read_csv(
                file,
                sep=self.dialect.separator,
                decimal=self.dialect.decimal,
                thousands=self.dialect.thousands,
                usecols=columns,
                dtype=dict.fromkeys(as_written | (self.codes & set(columns)), str),
                na_values=list(self.missing),
                chunksize=rows,
                low_memory=False,
            )
            yield from [found] if rows is None else found


def open_text(file: TableFile, encoding: str, tell: Tell, missing: tuple[str, ...]) -> TextTable:
    """Read the names of the columns as pandas does, and find how the table is written."""
    usual = SEPARATORS[file.format]
    with _Checked(file, encoding, tell).as_text(newline="") as lines:
        some, more = _some_lines(lines)
        dialect = find_dialect(some, usual)
        rows = csv.reader(chain(some, more), delimiter=dialect.separator)
        names = next((row for row in rows if not is_blank(row)), [])
    if not names:
        raise TableError(file, "is empty")
    check_distinct(file, names)
    if told := dialect.told(usual):
        tell(f"{file} is read with {told}.")
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    codes = frozenset(names[i] for i in find_codes(some, dialect))
    return TextTable(file, names, dialect, encoding, tell, missing, codes)


def _some_lines(lines: io.TextIOWrapper) -> tuple[list[str], Iterator[str]]:
    """Some complete lines, one at least, to tell the dialect by, and those behind them."""
    some: list[str] = []
    n_read = 0
    for line in lines:
        n_read += len(line)
        if some and n_read > _SAMPLE:
            return some, chain([line], lines)
        some.append(line)
    return some, iter(())


class _Checked(Utf8Bytes):
    """The bytes of a file, of which none is given before it is found to be sound.

    They must be without the byte 0, and rows must have as many fields as are expected.
    """

    def __init__(self, table: TableFile, encoding: str, tell: Tell) -> None:
        super().__init__(table, encoding, tell)
        self._n_given, self._lines_given = 0, 0
        self._n_fields: int | None = None
        self._separator = ""
        self._rest, self._first_line = b"", 1  # the row that is not complete yet

    def expect(self, n_fields: int, separator: str) -> None:
        """Have rows checked for the number of their fields."""
        self._n_fields, self._separator = n_fields, separator

    def next_block(self, size: int) -> bytes:
        block = super().next_block(min(size, _BLOCK))
        if (place := block.find(b"\0")) >= 0:
            line = self._lines_given + block.count(b"\n", 0, place) + 1
            raise TableError(
                self._table,
                f"is not UTF-8 text: 0x00 at byte {self._n_given + place}, on line {line}; save it "
                "with the encoding UTF-8",
            )
        if self._n_fields is not None:
            self._check_rows(block, self._n_fields)
        self._n_given += len(block)
        self._lines_given += block.count(b"\n")
        return block

    def _check_rows(self, block: bytes, n_fields: int) -> None:
        """Look at the rows that this block completes; an empty one is the end."""
        self._rest += block if self._n_given else block.removeprefix(codecs.BOM_UTF8)
        data = self._rest if block else self._rest + b"\n"
        length = _even_rows(data, ord(self._separator), n_fields)
        n_lines = data.count(b"\n", 0, max(length, 0))
        if length < 0 or (not block and length < len(data)):
            length, n_lines = self._look_closer(n_fields, is_end=not block)
        self._rest, self._first_line = self._rest[length:], self._first_line + n_lines
        if len(self._rest) > _LONGEST_ROW:
            where, size = f"the row on line {self._first_line}", f"{_LONGEST_ROW >> 20} MB"
            problem = f"is longer than {size} (is a quote left open?)"
            raise TableError(self._table, problem, line=where)

    def _look_closer(self, n_fields: int, is_end: bool) -> tuple[int, int]:
        """Go through rows one by one, and name the first of another length; count those passed.

        Gives the number of their bytes and of their lines.
        """
        data = self._rest
        if not is_end:  # to the last line that is complete; behind a \r may come a \n
            data = data[: max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1]
        lines = list(io.StringIO(data.decode(), newline=""))
        # a line more, which is part of the last row if that is open
        rows = csv.reader([*lines, "\n"], delimiter=self._separator)
        n_passed = 0
        for row in rows:
            if rows.line_num > len(lines) and not is_end:
                break
            n_read = min(rows.line_num, len(lines))
            if len(row) != n_fields and not is_blank(row):
                first, last = self._first_line + n_passed, self._first_line + n_read - 1
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                title = "; if that is a title, take it out" if n_fields == 1 else ""
                problem = f"has {len(row)} fields{hint}, and the header has {n_fields}{title}"
                raise TableError(self._table, problem, line=where)
            n_passed = n_read
        return len("".join(lines[:n_passed]).encode()), n_passed


def _even_rows(data: bytes, separator: int, n_fields: int) -> int:
    """Length of the whole rows that data starts with; −1 if they are not plainly all alike.

    A separator or line end counts unless an odd number of quotes stands before it. That is right
    as long as quotes open at the start of a field only, which is checked.
    """
    if data.count(b"\r", 0, max(len(data) - 1, 0)) != data.count(b"\r\n"):
        return -1
    symbols = np.frombuffer(data, np.uint8)
    quote = symbols == ord('"')
    outside = ~np.logical_xor.accumulate(quote)
    opening = np.flatnonzero(quote)[::2]
    before = symbols[opening[opening > 0] - 1]
    if not np.isin(before, [separator, *b'\r\n"']).all():
        return -1
    ends = np.flatnonzero((symbols == ord("\n")) & outside)
    if not len(ends):
        return 0
    separators = np.flatnonzero((symbols == separator) & outside)
    n_separators = np.diff(np.searchsorted(separators, ends), prepend=0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    blank = (lengths == 0) | ((lengths == 1) & (symbols[starts] == ord("\r")))
    return -1 if (n_separators[~blank] != n_fields - 1).any() else int(ends[-1]) + 1
