"""Tables, read whole or in chunks, with types inferred or given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbag.tabular.arrow import arrow_frames, arrow_names
from unbag.tabular.file import SEPARATORS, TableError, TableFile, named
from unbag.tabular.schema import Kind, convert, shown_value
from unbag.tabular.text import check_text, text_frames

_KINDS: dict[str, Kind] = {
    "float64": "number",
    "boolean": "boolean",
    "datetime64[us]": "time",
    "str": "category",
}


def column_names(path: str | Path) -> list[str]:
    """Names of the columns of a table, whose rows are checked but not kept.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.

    Returns
    -------
    list of str
    """
    table = TableFile.find(path)
    with named(table):
        return _check(table, None)


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Any:
    """Read a table as a pandas DataFrame, with types inferred or given.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.
    columns : sequence of str, optional
        The columns to read, in the order wanted; all of them by default.
    dtypes : mapping of str to type, optional
        Types of some or all columns; see `read_chunks`.

    Returns
    -------
    pandas DataFrame
        With at least one row. Dates in CSV and TSV stay text, unless ``dtypes`` says otherwise.

    Raises
    ------
    ValueError, OSError
        With one sentence that names the file and, where there is one, the line at fault: wrong
        encoding, rows of another length than the header, two columns of one name, no rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tabular import read_table, write_table
    >>> people = pd.DataFrame({"age": [31, 64], "colour": ["red", None]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_table([people], Path(folder) / "people.csv.gz")
    ...     again = read_table(Path(folder) / "people.csv.gz", columns=["colour", "age"])
    >>> written, list(again), again["age"].tolist()
    (2, ['colour', 'age'], [31, 64])
    """
    table = TableFile.find(path)
    with named(table):
        wanted = _check(table, columns)
        given = {name: dtype for name, dtype in (dtypes or {}).items() if name in wanted}
        frame = next(_frames(table, None, wanted, _as_text(given)))
        return frame.assign(**_cast(frame, given)) if given else frame


def read_chunks(
    path: str | Path,
    *,
    rows: int = 100_000,
    columns: Sequence[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Read a table in chunks, so that it never has to fit into memory.

    The types are the same in all chunks. Where ``dtypes`` does not give them, they are found by
    going through those columns once before the first chunk is given, again chunk by chunk. The
    lines of a text file are checked before the first chunk as well.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above.
    rows : int
        Rows in each chunk; only the last may have fewer.
    columns : sequence of str, optional
        The columns to read, in the order wanted; all of them by default.
    dtypes : mapping of str to type, optional
        Types of some or all columns, such as `unbag.tabular.schema.Schema.dtypes`. Columns of type
        ``"str"`` are read as they are written, with leading zeros and all.

    Yields
    ------
    pandas DataFrame
        The next rows; the index counts on from chunk to chunk.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tabular import read_chunks, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "numbers.parquet"
    ...     written = write_table([pd.DataFrame({"x": range(5)})], path)
    ...     [chunk["x"].tolist() for chunk in read_chunks(path, rows=2)]
    [[0, 1], [2, 3], [4]]
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}.")
    return _chunks(TableFile.find(path), rows, columns, dict(dtypes or {}))


def _check(table: TableFile, columns: Sequence[str] | None) -> list[str]:
    """Look for what would go wrong later; give the names of the columns to be read."""
    if table.path.stat().st_size == 0:
        raise TableError(f"{table} is empty")
    present = check_text(table) if table.format in SEPARATORS else arrow_names(table)
    if isinstance(columns, str):
        raise TableError(f"columns must be a list of columns, such as [{columns!r}].")
    known = set(present)
    absent = [name for name in columns or () if name not in known]
    if absent:
        raise TableError(f"{table} has no column {shown_value(absent[0])}")
    return present if columns is None else list(dict.fromkeys(columns))


def _frames(
    table: TableFile, rows: int | None, columns: list[str], text: Iterable[str]
) -> Iterator[Any]:
    """Give the table in frames of so many rows, or in one piece."""
    source = text_frames if table.format in SEPARATORS else arrow_frames
    start = 0
    for frame in source(table, rows, columns, text):
        if not len(frame):
            continue
        frame.index = range(start, start + len(frame))
        start += len(frame)
        yield _tidy(frame if list(frame.columns) == columns else frame[columns])
    if not start:
        raise TableError(f"{table} has columns and no rows")


def _chunks(
    table: TableFile, rows: int, columns: Sequence[str] | None, dtypes: dict[str, Any]
) -> Iterator[Any]:
    import pandas as pd

    with named(table):
        wanted = _check(table, columns)
        unknown = [name for name in wanted if name not in dtypes]
        if unknown:
            dtypes = dtypes | _infer_types(_frames(table, rows, unknown, ()))
        dtypes = {name: dtypes[name] for name in wanted}
        frames = _frames(table, rows, wanted, _as_text(dtypes))
    while True:
        # The user's own errors happen between two chunks, and keep their words.
        with named(table):
            frame = next(frames, None)
            if frame is None:
                return
            frame = pd.DataFrame(_cast(frame, dtypes), index=frame.index)
        yield frame


def _infer_types(frames: Iterator[Any]) -> dict[str, Any]:
    """One type for each column that holds the values of all chunks."""
    types: dict[str, Any] = {}
    for frame in frames:
        empty = frame.isna().all()
        for name in frame.columns:
            dtype = None if empty[name] else frame[name].dtype
            types[name] = _common(types[name], dtype) if name in types else dtype
    return {name: "float64" if dtype is None else dtype for name, dtype in types.items()}


def _common(first: Any, second: Any) -> Any:
    """A type for the values of both; None is the type of a chunk that has none."""
    import pandas as pd

    if first is None or second is None:
        other = second if first is None else first
        kind = getattr(other, "kind", "") if isinstance(other, np.dtype) else ""
        return {"b": "boolean", "i": "float64", "u": "float64"}.get(kind, other)
    if first == second:
        return first
    if {str(first), str(second)} == {"bool", "boolean"}:
        return "boolean"
    numeric = [isinstance(d, np.dtype) and d.kind in "iuf" for d in (first, second)]
    if all(numeric):
        return np.result_type(first, second)
    if isinstance(first, pd.CategoricalDtype) and isinstance(second, pd.CategoricalDtype):
        return pd.CategoricalDtype(first.categories.union(second.categories, sort=False))
    return "str"


def _tidy(frame: Any) -> Any:
    """Give truth values with gaps, which pandas reads as objects, a type of their own."""
    import pandas as pd

    mixed = [name for name, dtype in frame.dtypes.items() if dtype == np.dtype(object)]
    found = [n for n in mixed if pd.api.types.infer_dtype(frame[n], skipna=True) == "boolean"]
    return frame.astype(dict.fromkeys(found, "boolean")) if found else frame


def _as_text(dtypes: Mapping[str, Any]) -> set[str]:
    """Columns that are to be read as they are written."""
    return {name for name, dtype in dtypes.items() if str(dtype) == "str"}


def _cast(frame: Any, dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """Give the columns that have a type here, in that type."""
    import pandas as pd

    columns = {}
    for name, dtype in dtypes.items():
        values, kind = frame[name], _KINDS.get(str(dtype))
        as_wanted = kind == "category" and isinstance(values.dtype, pd.StringDtype)
        if not as_wanted and values.dtype != dtype:
            values = convert(values, kind) if kind else values.astype(dtype)
        columns[name] = values
    return columns
