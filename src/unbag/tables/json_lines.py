"""Tables as JSON: an object on each line, or one list of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from unbag._text import shown_value
from unbag.tables.decoding import Tell, Utf8Bytes
from unbag.tables.file import TableError, TableFile

_NESTED = {list, dict}


@dataclass(frozen=True)
class JsonTable:
    """A file of JSON objects, each of which is a row; a key that one lacks is a missing value."""

    file: TableFile
    names: list[str]
    encoding: str
    tell: Tell

    def frames(self, rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of all."""
        import pandas as pd

        found = _objects(self.file, self.encoding, self.tell)
        while some := list(islice(found, rows)):
            yield pd.DataFrame({n: [row.get(n) for row in some] for n in columns}, columns=columns)


def open_json(file: TableFile, encoding: str, tell: Tell) -> JsonTable:
    """Find the names of the columns, for which all rows are looked at."""
    names: dict[str, None] = {}
    for row in _objects(file, encoding, tell):
        if not row.keys() <= names.keys():
            names.update(dict.fromkeys(row))
    if not names:
        raise TableError(file, "is empty")
    return JsonTable(file, list(names), encoding, tell)


def _objects(file: TableFile, encoding: str, tell: Tell) -> Iterator[dict[str, Any]]:
    """Rows of the file, one after the other."""
    with Utf8Bytes(file, encoding, tell).as_text() as text:
        for number, line in enumerate(text, 1):
            if number == 1 and line.lstrip().startswith("["):
                yield from _listed(file, line + text.read())
                return
            if line.strip():
                yield _object(file, _parsed(file, line, f"line {number}"), f"line {number}")


def _listed(file: TableFile, text: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(_parsed(file, text, "the list"), 1):
        yield _object(file, row, f"entry {number}")


def _parsed(file: TableFile, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TableError(file, f"is no JSON: {error}", line=where) from None


def _object(file: TableFile, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = f"holds {shown_value(value)}, and not an object of column names and values"
        raise TableError(file, problem, line=where)
    if not _NESTED.isdisjoint(map(type, value.values())):
        nested = next(name for name, v in value.items() if type(v) in _NESTED)
        problem = f"has a list or an object in column {nested!r}, which is no single value"
        raise TableError(file, problem, line=where, column=nested)
    return value
