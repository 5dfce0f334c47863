"""Sheets of workbooks: Excel and OpenDocument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbag._optional import optional
from unbag._text import listing
from unbag.tables.decoding import Tell
from unbag.tables.file import TableError, TableFile, check_distinct
from unbag.tables.kinds import without_texts

# What pandas calls the columns of text tables that have none.
_NO_NAME = "Unnamed: "


@dataclass(frozen=True)
class Sheet:
    """One sheet, which is in memory: workbooks cannot be read in pieces."""

    names: list[str]
    rows: Any

    def frames(self, rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of all."""
        step = rows or max(len(self.rows), 1)
        for start in range(0, len(self.rows), step):
            yield self.rows.iloc[start : start + step][columns].copy()


def open_excel(
    file: TableFile, name: str | None, tell: Tell, missing: tuple[str, ...] = ()
) -> Sheet:
    """Read a sheet: that of this name, or the first."""
    fastexcel = optional("fastexcel", "a workbook", "excel")
    with file.open() as stream:
        content = stream.read()
    try:
        book = fastexcel.read_excel(content)
        sheets = book.sheet_names
        if name is not None and name not in sheets:
            raise TableError(file, f"has no sheet {name!r}; it has {listing(map(repr, sheets))}")
        chosen = sheets[0] if name is None else name
        header = book.load_sheet(chosen, n_rows=1, header_row=None, dtypes="string").to_pandas()
        # types are those of all rows: beyond a sample, what does not fit would become a gap
        rows = book.load_sheet(chosen, schema_sample_rows=None).to_pandas()
    except fastexcel.FastExcelError as error:
        reason = str(error).splitlines()[0].removeprefix("calamine error: ")
        raise TableError(file, f"cannot be read as a workbook: {reason}") from None
    if name is None and len(sheets) > 1:
        others = listing(map(repr, sheets[1:]))
        tell(f"{file} is read from its first sheet, {chosen!r}; there are also {others}.")
    if not len(header):
        raise TableError(file, f"has nothing in its sheet {chosen!r}")
    names = [str(n) for n in header.iloc[0].dropna()]
    if len(names) == 1 and rows.notna().any().sum() > 1:
        raise TableError(
            file,
            f"has a title, {names[0]!r}, above its columns; take it out, so that the sheet begins "
            "with their names",
        )
    check_distinct(file, names)
    rows = rows.rename(columns=_name_of)
    # a cell that was once touched makes a column without a name
    rows = rows[[n for n in rows.columns if not n.startswith(_NO_NAME) or rows[n].notna().any()]]
    # a column is text to the reader if some of it is
    numbers = {n: _numbers(values) for n, values in without_texts(rows, missing).items()}
    rows = rows.assign(**numbers)
    return Sheet(list(rows.columns), rows.assign(**_whole(rows)))


def _name_of(column: str) -> str:
    return column.replace("__UNNAMED__", _NO_NAME)


def _numbers(values: Any) -> Any:
    """A column as numbers, if that is all it holds."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    return values if (numbers.isna() & values.notna()).any() else numbers


def _whole(rows: Any) -> dict[str, Any]:
    """Columns of whole numbers without gaps, which a workbook cannot tell from others."""
    floats = rows.select_dtypes("float64")
    return {
        name: values.astype(np.int64)
        for name, values in floats.items()
        if np.isfinite(values).all() and (values == values.round()).all() and _is_exact(values)
    }


def _is_exact(values: Any) -> bool:
    return bool((values.abs() < 2**53).all())
