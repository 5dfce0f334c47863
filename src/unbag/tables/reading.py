"""Tables on disk, opened once, and read whole or in chunks with types inferred or given."""

from __future__ import annotations

import codecs
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from unbag._text import listing, plural, shown_value
from unbag.tables.column_types import ColumnType, cast, dtypes_of, without_texts
from unbag.tables.files import (
    STANDARD_INPUT,
    Options,
    Source,
    TableError,
    TableFile,
    TableURL,
    as_location,
    find_member,
    named,
    standard_input,
)
from unbag.tables.formats import (
    find_parts,
    open_arrow,
    open_duckdb,
    open_parts,
    open_sqlite,
    open_url,
    open_workbook,
)
from unbag.tables.text_formats import open_json, open_text

_OPENERS: dict[str, Callable[[TableFile, Options], Source]] = {
    "csv": open_text,
    "tsv": open_text,
    "json": open_json,
    "parquet": open_arrow,
    "arrow": open_arrow,
    "excel": open_workbook,
    "sqlite": open_sqlite,
    "duckdb": open_duckdb,
}
_WITH_QUERY = ("sqlite", "duckdb", "database", "excel")
# The type of a column that holds text in some rows and something else in others.
_AS_TEXT = "str"


def open_table(
    path: str | Path | TableURL,
    *,
    query: str | None = None,
    encoding: str = "cp1252",
    na_values: Sequence[str] = (),
    on_message: Callable[[str], object] | None = None,
) -> Table:
    """Open a table: its columns are known at once, its rows are read on demand.

    Parameters
    ----------
    path : str or Path
        A file of one of the formats above; a folder or a pattern such as ``"visits/*.parquet"``,
        for files one below the other; ``"-"`` for standard input; or the SQLAlchemy URL of a
        database.
    query : str, optional
        Of a database, the SQL query whose answer is the table; of a workbook, the name of a sheet.
        By default, the only table of a database, and the first sheet.
    encoding : str, default="cp1252"
        What text is written in that is not UTF-8, and has no byte order mark to say so.
    na_values : sequence of str, default=()
        Texts that stand for missing values, in addition to those that pandas knows (an empty
        field, NA, nan, null and the like).
    on_message : callable, optional
        Called with a sentence on what was inferred about the file, such as its encoding.

    Returns
    -------
    Table
        With the columns' ``names``; ``read(columns, types)`` gives all rows as a DataFrame of pandas,
        ``chunks(rows, columns, types)`` some at a time.

    Raises
    ------
    ValueError, OSError
        With one sentence that names the file and, where there is one, the line at fault: wrong
        encoding, rows of another length than the header, two columns of one name, no rows. What
        is wrong with rows is raised when they are read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from unbag.tables import open_table, write_table
    >>> people = pd.DataFrame({"age": [31, 64, 47], "colour": ["red", None, "blue"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_table([people], Path(folder) / "people.csv.gz")
    ...     table = open_table(Path(folder) / "people.csv.gz")
    ...     ages = table.read(columns=["age"])["age"].tolist()
    ...     colours = [chunk["colour"].tolist() for chunk in table.chunks(rows=2)]
    >>> written, table.names, ages
    (3, ['age', 'colour'], [31, 64, 47])
    >>> colours
    [['red', nan], ['blue']]
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ValueError(f"there is no encoding {encoding!r}") from None
    options = Options(query, encoding, tuple(na_values), _once(on_message))
    file, source = _open(as_location(path), options)
    if query is not None and file.format not in _WITH_QUERY:
        raise TableError(file, "is neither a database nor a workbook, so it takes no query")
    return Table(file, source, tuple(na_values))


def _open(location: Path | TableURL, options: Options) -> tuple[TableFile, Source]:
    if isinstance(location, TableURL):
        return open_url(location, options)
    if str(location) == STANDARD_INPUT:
        return _open_file(standard_input(), options)
    paths = find_parts(location)
    if paths is None:
        return _open_file(TableFile.find(location), options)
    files, sources = zip(
        *(_open_file(TableFile.find(path), options) for path in paths), strict=True
    )
    return TableFile(location, files[0].format), open_parts(paths, location, sources)


def _open_file(file: TableFile, options: Options) -> tuple[TableFile, Source]:
    with named(file):
        if file.path.stat().st_size == 0:
            raise TableError(file, "is empty")
        if file.format == "zip":
            file = find_member(file)
    with named(file):
        return file, _OPENERS[file.format](file, options)


def _once(on_message: Callable[[str], object] | None) -> Callable[[str], object]:
    """Pass each message on once, however often the file is read."""
    given: set[str] = set()

    def pass_on(text: str) -> None:
        if on_message is not None and text not in given:
            given.add(text)
            on_message(text)

    return pass_on


@dataclass(frozen=True)
class Table:
    """A table on disk, made by `open_table`: its file, what reads it, texts for missing values."""

    file: TableFile
    source: Source
    na_values: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.source.names

    def need(self, columns: Sequence[str], why: str = "") -> None:
        """Make sure that there are these columns; ``why`` ends the error if one is missing."""
        known = set(self.names)
        absent = [name for name in columns if name not in known]
        if absent:
            problem = f"has no {plural(len(absent), 'column')} {listing(map(shown_value, absent))}"
            raise TableError(self.file, f"{problem} {why}".strip())

    @contextmanager
    def lazy(
        self, columns: Sequence[str], types: Mapping[str, ColumnType] | None = None
    ) -> Iterator[nw.LazyFrame[Any]]:
        """The rows as a lazy frame, of the engine that holds them where there is one.

        It is open within the ``with`` block only.
        """
        if self.source.lazy is None:
            yield nw.from_native(self.read(columns, types)).lazy()
            return
        self.need(columns)
        text = [name for name, kind in (types or {}).items() if kind == "category"]
        with named(self.file), self.source.lazy() as rows:
            found = nw.from_native(rows).select(*columns)
            text = [name for name in text if name in columns]
            yield found.with_columns(nw.col(*text).cast(nw.String())) if text else found

    def read(
        self, columns: Sequence[str] | None = None, types: Mapping[str, ColumnType] | None = None
    ) -> Any:
        """Read the rows as a pandas DataFrame: these columns, in this order, or all.

        ``types`` say what some columns hold (`unbag.tables.column_types`): categories are read as they
        are written, leading zeros included, and dates in CSV and TSV are text without them.
        """
        import pandas as pd

        wanted = self._wanted(columns)
        dtypes = {n: t for n, t in dtypes_of(types or {}).items() if n in set(wanted)}
        with named(self.file):
            frames = list(self._frames(None, wanted, dtypes))
            if len(frames) > 1:  # of several files, whose columns get types that hold them all
                found = _infer_types(frame.drop(columns=list(dtypes)) for frame in frames)
                dtypes = found | dtypes
                if any(isinstance(dtype, str) and dtype == _AS_TEXT for dtype in found.values()):
                    # what is text in one file is to be read as written in all
                    frames = list(self._frames(None, wanted, dtypes))
            frames = [frame.assign(**cast(frame, dtypes)) for frame in frames]
        return frames[0] if len(frames) == 1 else pd.concat(frames)

    def chunks(
        self,
        rows: int = 100_000,
        columns: Sequence[str] | None = None,
        types: Mapping[str, ColumnType] | None = None,
    ) -> Iterator[Any]:
        """Read the rows in chunks of this many or fewer, which need not fit into memory together.

        The types are the same in all chunks. Those that ``types`` does not give are inferred by
        reading these columns once, chunk by chunk, before the first chunk is given. The index counts
        on from chunk to chunk.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}.")
        return self._chunks(rows, self._wanted(columns), dtypes_of(types or {}))

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of columns, such as [{columns!r}].")
        self.need(columns or ())
        return self.names if columns is None else list(dict.fromkeys(columns))

    def _chunks(self, rows: int, columns: list[str], types: dict[str, Any]) -> Iterator[Any]:
        with named(self.file):
            unknown = [name for name in columns if name not in types]
            if unknown:
                types |= _infer_types(self._frames(rows, unknown, {}))
            types = {name: types[name] for name in columns}
            frames = self._frames(rows, columns, types)
        while True:
            # The user's own errors happen between two chunks.
            with named(self.file):
                frame = next(frames, None)
                if frame is None:
                    return
                frame = frame.assign(**cast(frame, types))
            yield frame

    def _frames(
        self, rows: int | None, columns: list[str], types: Mapping[str, Any]
    ) -> Iterator[Any]:
        """Give the table in frames of so many rows, or in one piece."""
        as_written = {name for name, dtype in types.items() if str(dtype) == "str"}
        start = 0
        for frame in self.source.frames(rows, columns, as_written):
            if not len(frame):
                continue
            frame.index = range(start, start + len(frame))
            start += len(frame)
            frame = frame if list(frame.columns) == columns else frame[columns]
            yield _tidy(frame.assign(**without_texts(frame, self.na_values)))
        if not start:
            raise TableError(self.file, "has columns and no rows")


def _infer_types(frames: Iterator[Any]) -> dict[str, Any]:
    """One type for each column that holds the values of all chunks."""
    types: dict[str, Any] = {}
    for frame in frames:
        empty = frame.isna().all()
        for name in frame.columns:
            dtype = None if empty[name] else _type_of(frame[name])
            types[name] = _common(types[name], dtype) if name in types else dtype
    return {name: "float64" if dtype is None else dtype for name, dtype in types.items()}


def _type_of(values: Any) -> Any:
    """The type of a column; text if it has text and numbers, as rows of several files may."""
    import pandas as pd

    if values.dtype != np.dtype(object):
        return values.dtype
    found = pd.api.types.infer_dtype(values, skipna=True)
    single = values.dropna().map(lambda v: isinstance(v, str | numbers.Real)).all()
    return _AS_TEXT if found.startswith("mixed") and single else values.dtype


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
    return _AS_TEXT


def _tidy(frame: Any) -> Any:
    """Give truth values with missing values, which pandas reads as objects, a type of their own."""
    import pandas as pd

    mixed = [name for name, dtype in frame.dtypes.items() if dtype == np.dtype(object)]
    found = [n for n in mixed if pd.api.types.infer_dtype(frame[n], skipna=True) == "boolean"]
    return frame.astype(dict.fromkeys(found, "boolean")) if found else frame
