"""Chunks of a table, written into one file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from math import isfinite
from pathlib import Path
from typing import IO, Any

from unbag._files import whole_file
from unbag.tables.files import (
    COMPRESSED,
    SEPARATORS,
    TableError,
    TableFile,
    check_distinct,
    import_pyarrow,
    named,
)

# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(frames: Iterable[Any], path: str | Path) -> int:
    """Write pandas DataFrames into one file, and return the number of rows.

    The file appears when all is written. If anything fails before, what was there stays as it was
    and nothing is left over. The first frame sets columns and types; an index is not written.

    Parameters
    ----------
    frames : iterable of pandas DataFrame
        The chunks, all with the same columns.
    path : str or Path
        The file to write; the end of its name says in which of the formats above.

    Returns
    -------
    int
        Number of rows written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from unbag.tables import open_table, write_table
    >>> with TemporaryDirectory() as folder:
    ...     n_rows = write_table([pd.DataFrame({"age": [31, 64]})], f"{folder}/people.csv")
    ...     people = open_table(f"{folder}/people.csv").read()
    >>> n_rows, people["age"].tolist()
    (2, [31, 64])
    """
    table = TableFile.find(path, to_write=True)
    n_rows, names, add = 0, None, None
    with whole_file(table.path) as file, ExitStack() as stack:
        # what fails in the caller's own frames is not reworded
        for frame in frames:
            with named(table, "written"):
                if names is None or add is None:
                    names = list(frame.columns)
                    check_distinct(table, names)
                    add = _writer(table, file, frame, stack)
                elif list(frame.columns) != names:
                    problem = f"a chunk behind row {n_rows} has other columns than the first"
                    raise TableError(table, f"cannot be written: {problem}")
                add(frame)
            n_rows += len(frame)
        if names is None:
            raise TableError(table, "cannot be written: there is not a single chunk")
        with named(table, "written"):
            stack.close()
    return n_rows


def as_text(frame: Any, separator: str = ",", header: bool = True) -> str:
    """Write a frame as the lines of a text table."""
    options = {"sep": separator, "index": False, "header": header, "lineterminator": "\n"}
    text: str = frame.to_csv(None, **options)
    lone = len(frame.columns) == 1 and any(other in text for other in ";\t|,")
    if "\r" in text or lone:
        # A carriage return is not quoted by itself before Python 3.13, and read as the end of a
        # line; what stands in every row of a lone column would be taken for a separator.
        text = frame.to_csv(None, **options, quoting=csv.QUOTE_NONNUMERIC)
    return text


def without_formulas(frame: Any) -> Any:
    """Put an apostrophe before texts that a spreadsheet would take for formulas: =1+1, but not -5."""
    is_text = [str(dtype) in ("object", "str", "category") for dtype in frame.dtypes]
    changed = {name: frame[name].map(_no_formula) for name in frame.columns[is_text]}
    return frame.assign(**changed).rename(columns=_no_formula)


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    with suppress(ValueError):
        return value if isfinite(float(value)) else f"'{value}"
    return f"'{value}"


def _writer(
    table: TableFile, file: IO[bytes], first: Any, stack: ExitStack
) -> Callable[[Any], None]:
    """A function that writes one more frame below the others."""
    if table.format in (*SEPARATORS, "json"):
        stream: Any = file
        if table.compression == ".zst":
            stream = stack.enter_context(import_pyarrow().CompressedOutputStream(file, "zstd"))
        elif table.compression:
            stream = stack.enter_context(COMPRESSED[table.compression](file, "wb"))
        return _text_writer(table, stream)
    pa = import_pyarrow()
    schema = pa.Table.from_pandas(first, preserve_index=False).schema
    if table.format == "parquet":
        writer = stack.enter_context(import_pyarrow("pyarrow.parquet").ParquetWriter(file, schema))
    else:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        writer = stack.enter_context(pa.ipc.new_file(file, schema, options=options))
    return lambda frame: writer.write_table(
        pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    )


def _text_writer(table: TableFile, stream: Any) -> Callable[[Any], None]:
    if table.format == "json":
        options = {"orient": "records", "lines": True, "date_format": "iso", "force_ascii": False}
        return lambda frame: stream.write(frame.to_json(**options, double_precision=15).encode())
    header = iter([True])
    separator = SEPARATORS[table.format]
    return lambda frame: stream.write(as_text(frame, separator, next(header, False)).encode())
