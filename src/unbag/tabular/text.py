"""Tables as text: CSV and TSV, compressed or not."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from unbag.tabular.file import SEPARATORS, TableError, TableFile, check_distinct

_BLOCK = 1 << 20
_LONGEST_ROW = 1 << 26


def text_frames(
    table: TableFile, rows: int | None, columns: list[str], text: Iterable[str]
) -> Iterator[Any]:
    """Frames of so many rows each, or one of all; columns in ``text`` are read as written."""
    import pandas as pd

    with table.text() as file:
        found = pd.read_csv(
            file,
            sep=SEPARATORS[table.format],
            usecols=columns,
            dtype=dict.fromkeys(text, str),
            chunksize=rows,
            low_memory=False,
        )
        yield from [found] if rows is None else found


def check_text(table: TableFile) -> list[str]:
    """Make sure that the file is UTF-8 and its rows are as long as the header; give the header."""
    separator = ord(SEPARATORS[table.format])
    decoder = codecs.getincrementaldecoder("utf-8")()
    header: list[str] = []
    offset, line, rest, even = 0, 1, b"", True
    with table.open() as stream:
        while block := stream.read(_BLOCK):
            pending = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                start = offset - len(pending)
                raise _not_text(table, pending + block, error.start, start, line) from None
            if (place := block.find(b"\0")) >= 0:
                raise _not_text(table, block, place, offset, line)
            if not offset:
                header = _header(table)
            if even:
                rest += block if offset else block.removeprefix(codecs.BOM_UTF8)
                end = _even_rows(rest, separator, len(header))
                rest = rest[end:]
                even = end >= 0 and len(rest) < _LONGEST_ROW
            offset, line = offset + len(block), line + block.count(b"\n")
        if decoder.getstate()[0]:
            raise TableError(f"{table} ends within a character, on line {line}: it is cut short")
    if not header:
        raise TableError(f"{table} is empty")
    if not even or _even_rows(rest + b"\n", separator, len(header)) < len(rest):
        _look_closer(table, len(header))
    return header


def _not_text(table: TableFile, block: bytes, place: int, offset: int, line: int) -> TableError:
    """Say where the first byte is that no UTF-8 text has."""
    line += block.count(b"\n", 0, place)
    return TableError(
        f"{table} is not UTF-8 text: 0x{block[place]:02x} at byte {offset + place}, on line "
        f"{line}; save it with the encoding UTF-8"
    )


def _header(table: TableFile) -> list[str]:
    """Read the names of the columns as pandas does."""
    with table.text() as file:
        rows = csv.reader(file, delimiter=SEPARATORS[table.format])
        names = next((row for row in rows if not _is_blank(row)), [])
    check_distinct(table, names)
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


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


def _look_closer(table: TableFile, n_fields: int) -> None:
    """Go through the rows one by one, and name the first that has another length."""
    with table.text() as file:
        rows = csv.reader(file, delimiter=SEPARATORS[table.format])
        first = 1
        for row in rows:
            last = rows.line_num
            if len(row) != n_fields and not _is_blank(row):
                where = f"line {first}" if last == first else f"the row on lines {first} to {last}"
                hint = "" if last == first else " (is a quote left open?)"
                raise TableError(
                    f"{table}: {where} has {len(row)} fields{hint}, and the header has {n_fields}"
                )
            first = last + 1
