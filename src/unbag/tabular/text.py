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
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from unbag.tabular.file import SEPARATORS, TableError, TableFile, check_distinct

_BLOCK = 1 << 16
_LONGEST_ROW = 1 << 26


def text_names(table: TableFile) -> list[str]:
    """Read the names of the columns as pandas does, and nothing else."""
    with _open(table) as file:
        rows = csv.reader(file, delimiter=SEPARATORS[table.format])
        names = next((row for row in rows if not _is_blank(row)), [])
    if not names:
        raise TableError(table, "is empty")
    check_distinct(table, names)
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


def text_frames(
    table: TableFile, names: list[str], rows: int | None, columns: list[str], text: Iterable[str]
) -> Iterator[Any]:
    """Frames of so many rows each, or one of all; columns in ``text`` are read as written."""
    import pandas as pd

    with _open(table, len(names)) as file:
        found = pd.read_csv(
            file,
            sep=SEPARATORS[table.format],
            usecols=columns,
            dtype=dict.fromkeys(text, str),
            chunksize=rows,
            low_memory=False,
        )
        yield from [found] if rows is None else found


def _open(table: TableFile, n_fields: int | None = None) -> io.TextIOWrapper:
    """Open a file as text, without its byte order mark, to be checked as it is read."""
    checked = io.BufferedReader(_Checked(table, n_fields))
    return io.TextIOWrapper(checked, encoding="utf-8-sig", newline="")


class _Checked(io.RawIOBase):
    """The bytes of a file, of which none is given before it is found to be sound.

    They must be UTF-8, without the byte 0, and their rows must have ``n_fields`` fields, if that
    is given.
    """

    def __init__(self, table: TableFile, n_fields: int | None) -> None:
        self._table, self._stream, self._n_fields = table, table.open(), n_fields
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._offset, self._n_lines = 0, 0  # bytes and line ends that were given
        self._rest, self._first_line = b"", 1  # the row that is not complete yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(min(len(buffer), _BLOCK))
        self._check_bytes(block)
        if self._n_fields is not None:
            self._check_rows(block, self._n_fields)
        self._offset += len(block)
        self._n_lines += block.count(b"\n")
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check_bytes(self, block: bytes) -> None:
        pending = self._decoder.getstate()[0]
        try:
            self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            if not block:
                line = self._n_lines + 1
                problem = f"ends within a character, on line {line}: it is cut short"
                raise TableError(self._table, problem) from None
            raise self._not_text(pending + block, error.start, len(pending)) from None
        if (place := block.find(b"\0")) >= 0:
            raise self._not_text(block, place, 0)

    def _not_text(self, block: bytes, place: int, n_before: int) -> TableError:
        """Say where the first byte is that no UTF-8 text has."""
        line = self._n_lines + block.count(b"\n", 0, place) + 1
        return TableError(
            self._table,
            f"is not UTF-8 text: 0x{block[place]:02x} at byte {self._offset - n_before + place}, "
            f"on line {line}; save it with the encoding UTF-8",
        )

    def _check_rows(self, block: bytes, n_fields: int) -> None:
        """Look at the rows that this block completes; an empty one is the end."""
        self._rest += block if self._offset else block.removeprefix(codecs.BOM_UTF8)
        data = self._rest if block else self._rest + b"\n"
        length = _even_rows(data, ord(SEPARATORS[self._table.format]), n_fields)
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
        rows = csv.reader([*lines, "\n"], delimiter=SEPARATORS[self._table.format])
        n_passed = 0
        for row in rows:
            if rows.line_num > len(lines) and not is_end:
                break
            n_read = min(rows.line_num, len(lines))
            if len(row) != n_fields and not _is_blank(row):
                first, last = self._first_line + n_passed, self._first_line + n_read - 1
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                problem = f"has {len(row)} fields{hint}, and the header has {n_fields}"
                raise TableError(self._table, problem, line=where)
            n_passed = n_read
        return len("".join(lines[:n_passed]).encode()), n_passed


def _is_blank(row: list[str]) -> bool:
    """Whether pandas skips a line: it is empty, or of spaces only; an empty quote is a field."""
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))


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
