"""Readers of tables that are not text: Parquet, Arrow, workbooks, several files, and databases, all only read."""

from __future__ import annotations

import io
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from unbag._optional import optional
from unbag._text import listing
from unbag.tables.column_types import without_texts
from unbag.tables.files import (
    Options,
    Source,
    TableError,
    TableFile,
    TableURL,
    check_distinct,
    check_unpacked,
    import_pyarrow,
    may_be_part,
)

_BATCH = 1 << 16
# What DuckDB may take of the memory; what needs more goes to a file meanwhile.
_MEMORY = "1GB"

# The names that a query gives, and a function that gives its rows.
_Result = tuple[list[str], Callable[[int | None, list[str]], Iterator[Any]]]


def open_arrow(file: TableFile, _: Options) -> Source:
    """Open a Parquet or Arrow file; every column keeps the type it has there."""
    with ExitStack() as stack:
        names = _arrow_batches(file, stack)[0].names
    names = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
    if not names:
        raise TableError(file, "has no columns")
    check_distinct(file, names)

    def frames(rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        with ExitStack() as stack:
            schema, batches = _arrow_batches(file, stack)
            yield from _arrow_frames(schema, batches(rows or _BATCH, columns), rows, columns)

    return Source(names, frames)


def _arrow_batches(table: TableFile, stack: ExitStack) -> tuple[Any, Callable[..., Iterator[Any]]]:
    """Return the schema, and a function that gives batches of some columns."""
    pa = import_pyarrow()
    if table.member:
        with table.open() as stream:
            file = stack.enter_context(pa.BufferReader(stream.read()))
    else:
        file = stack.enter_context(pa.OSFile(str(table.path)))
    start, size = file.read(6), file.size()
    mark = b"PAR1" if table.format == "parquet" else b"ARROW1"
    file.seek(max(size - len(mark), 0))
    if start.startswith(mark) and (size < 2 * len(mark) or file.read() != mark):
        raise ValueError("the file is cut short or damaged at its end")
    file.seek(0)
    if table.format == "parquet":
        # pre_buffer would keep what was read in memory
        opened = import_pyarrow("pyarrow.parquet").ParquetFile(file, pre_buffer=False)
        parquet = stack.enter_context(opened)
        return parquet.schema_arrow, lambda rows, names: parquet.iter_batches(rows, columns=names)
    if start.startswith(mark):
        reader = stack.enter_context(pa.ipc.open_file(file))
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        reader = batches = stack.enter_context(pa.ipc.open_stream(file))

    def checked(batch: Any) -> Any:
        batch.validate(full=True)  # or Arrow follows offsets that point outside the file
        return batch

    return reader.schema, lambda _, names: (checked(batch.select(names)) for batch in batches)


def _arrow_frames(
    schema: Any, batches: Iterable[Any], rows: int | None, columns: list[str]
) -> Iterator[Any]:
    """Give data frames of so many rows each, or one of all, from batches of any size."""
    pa = import_pyarrow()

    def frame(table: Any) -> Any:
        # column by column, each freed once converted: the table is never in memory twice
        made = table.to_pandas(split_blocks=True, self_destruct=True)
        return made if set(columns) <= set(made.columns) else made.reset_index()

    held: list[Any] = []
    n_held = 0
    for batch in batches:
        held.append(batch.select(columns))
        n_held += len(batch)
        while rows is not None and n_held >= rows:
            whole = pa.Table.from_batches(held, held[0].schema)
            yield frame(whole.slice(0, rows))
            held, n_held = whole.slice(rows).to_batches(), n_held - rows
    kept = pa.schema([schema.field(name) for name in columns], schema.metadata)
    whole = pa.Table.from_batches(held) if held else kept.empty_table()
    held.clear()
    yield frame(whole)


def open_workbook(file: TableFile, options: Options) -> Source:
    """Read a sheet of a workbook into memory: the one that the query names, or the first."""
    import pandas as pd

    fastexcel = optional("fastexcel", "a workbook", "excel")
    with file.open() as stream:
        content = stream.read()
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_unpacked(file, archive.infolist())
    try:
        book = fastexcel.read_excel(content)
        sheets, name = book.sheet_names, options.query
        if name is not None and name not in sheets:
            raise TableError(file, f"has no sheet {name!r}; it has {listing(map(repr, sheets))}")
        chosen = sheets[0] if name is None else name
        header = book.load_sheet(chosen, n_rows=1, header_row=None, dtypes="string").to_pandas()
        # types from all rows: what does not fit a type found in a sample becomes missing
        rows = book.load_sheet(chosen, schema_sample_rows=None).to_pandas()
    except fastexcel.FastExcelError as error:
        reason = str(error).splitlines()[0].removeprefix("calamine error: ")
        raise TableError(file, f"cannot be read as a workbook: {reason}") from None
    if name is None and len(sheets) > 1:
        others = listing(map(repr, sheets[1:]))
        options.on_message(
            f"{file} is read from its first sheet, {chosen!r}; it also has {others}."
        )
    if not len(header):
        raise TableError(file, f"has nothing in its sheet {chosen!r}")
    names = [str(n) for n in header.iloc[0].dropna()]
    if len(names) == 1 and rows.notna().any().sum() > 1:
        advice = "take it out, so that the sheet begins with their names"
        raise TableError(file, f"has a title, {names[0]!r}, above its columns; {advice}")
    check_distinct(file, names)
    rows = rows.rename(columns=lambda n: n.replace("__UNNAMED__", "Unnamed: "))
    # a cell that was once touched makes a column without a name
    empty = rows.columns[rows.isna().all()]
    rows = rows.drop(columns=[name for name in empty if name.startswith("Unnamed: ")])
    cleaned = without_texts(rows, options.na_values)
    for name, values in cleaned.items():
        numbers = pd.to_numeric(values, errors="coerce")
        holds_more = (numbers.isna() & values.notna()).any()
        rows[name] = values if holds_more else numbers
    for name, values in rows.select_dtypes("float64").items():
        if (values == values.round()).all() and (values.abs() < 2**53).all():
            rows[name] = values.astype(np.int64)

    def frames(n_rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        step = n_rows or max(len(rows), 1)
        for start in range(0, len(rows), step):
            yield rows.iloc[start : start + step][columns].copy()

    return Source(list(rows.columns), frames)


# --- several files ------------------------------------------------------------------------------


def find_parts(path: Path) -> list[Path] | None:
    """List the tables in a folder, or of a pattern, part-2 before part-10; None if it is neither."""
    if path.is_dir():
        found = [p for p in path.rglob("*") if p.is_file() and may_be_part(p.relative_to(path))]
        if not found:
            raise IsADirectoryError(f"{TableFile(path, '')} is a folder without a table in it")
    elif has_magic(str(path)) and not path.exists():
        names = glob(str(path), recursive=True)  # noqa: PTH207 (it may start anywhere)
        found = [p for p in map(Path, names) if p.is_file()]
        if not found:
            raise FileNotFoundError(f"there is no file {TableFile(path, '')}")
    else:
        return None
    return sorted(
        found, key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(p))]
    )


def open_parts(paths: list[Path], root: Path, sources: Sequence[Source]) -> Source:
    """Concatenate files with the same columns; folders like month=05 give a column more."""
    first = set(sources[0].names)
    for path, source in zip(paths, sources, strict=True):
        if set(source.names) != first:
            odd = listing(map(repr, sorted(first ^ set(source.names))))
            raise TableError(path, f"has other columns than {paths[0]}: {odd} in one of them only")
    added = [_folder_values(path, root) for path in paths]
    more = [name for name in added[0] if name not in first]
    if any(set(one) != set(added[0]) for one in added) or len(more) < len(added[0]):
        raise TableError(root, "has folders like month=05 for some of its rows or columns only")

    def frames(rows: int | None, columns: list[str], as_text: set[str]) -> Iterator[Any]:
        own = [name for name in columns if name in first]
        for source, values in zip(sources, added, strict=True):
            for frame in source.frames(rows, own, as_text & first):
                yield frame.assign(**{n: values[n] for n in columns if n in values})[columns]

    return Source([*sources[0].names, *more], frames)


def _folder_values(path: Path, root: Path) -> dict[str, str]:
    folders = path.relative_to(root).parts[:-1] if root.is_dir() else ()
    pairs = (folder.partition("=") for folder in folders)
    return {name: value for name, equal, value in pairs if equal}


# --- databases ----------------------------------------------------------------------------------


def open_sqlite(file: TableFile, options: Options) -> Source:
    """Open an SQLite file, which no query can change."""
    with file.open() as stream:
        start = stream.read(16)
    if start[8:12] == b"DUCK":  # .db is the end of either
        return open_duckdb(file, options)
    if not start.startswith(b"SQLite format 3"):
        raise TableError(file, "is not an SQLite database")
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
    allowed |= {sqlite3.SQLITE_RECURSIVE}

    @contextmanager
    def run(query: str) -> Iterator[_Result]:
        location = f"{file.path.absolute().as_uri()}?mode=ro"
        with (
            _database_errors(file, sqlite3.Error),
            closing(sqlite3.connect(location, uri=True)) as connection,
        ):
            # no query attaches another file
            connection.set_authorizer(lambda action, *_: 0 if action in allowed else 1)
            found = connection.execute(query)
            names = [column[0] for column in found.description or ()]
            yield names, lambda rows, columns: _fetched(found, names, rows, columns)

    return _open_database(
        file, run, options, "select name from sqlite_master where type in ('table', 'view')"
    )


def open_duckdb(file: TableFile, options: Options) -> Source:
    """Open a DuckDB file, which no query can change, and from which none reads other files."""
    duckdb = optional("duckdb", "a DuckDB file", "databases")
    closed = {"enable_external_access": "false", "memory_limit": _MEMORY}
    closed["lock_configuration"] = "true"

    @contextmanager
    def relation(query: str) -> Iterator[Any]:
        with (
            _database_errors(file, duckdb.Error),
            closing(duckdb.connect(str(file.path), True, closed)) as connection,
        ):
            yield connection.sql(query)

    @contextmanager
    def run(query: str) -> Iterator[_Result]:
        with relation(query) as found:
            names = [] if found is None else found.columns

            def frames(rows: int | None, columns: list[str]) -> Iterator[Any]:
                batches = found.to_arrow_reader(rows or _BATCH)
                return _arrow_frames(batches.schema, batches, rows, columns)

            yield names, frames

    tables = "select table_name from information_schema.tables"
    return _open_database(file, run, options, tables, relation)


def open_url(location: TableURL, options: Options) -> tuple[TableFile, Source]:
    """Open a database that SQLAlchemy knows; what a query changes there is rolled back."""
    sqlalchemy = optional("sqlalchemy", "a database by its URL", "databases")
    file = TableFile(Path(), "database", shown=str(location))
    try:
        engine = sqlalchemy.create_engine(location.url, poolclass=sqlalchemy.pool.NullPool)
    except sqlalchemy.exc.NoSuchModuleError:
        kind, _, path = location.url.partition(":///")
        hint = f"; its path alone, {path}, will do" if kind == "duckdb" and path else ""
        kind = kind.partition(":")[0]
        problem = f"needs a driver that brings {kind!r} to SQLAlchemy, and none is installed{hint}"
        raise TableError(file, problem) from None
    except (sqlalchemy.exc.ArgumentError, ImportError) as error:
        raise _refused(file, error) from None
    path = engine.url.database or ""
    if engine.dialect.name == "sqlite" and path and not Path(path.split("?")[0]).is_file():
        raise OSError(f"there is no file {path}")  # connecting would make one

    @contextmanager
    def run(query: str) -> Iterator[_Result]:
        with _database_errors(file, sqlalchemy.exc.SQLAlchemyError), engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # its driver begins no transaction that could be rolled back for WITH ... DELETE
                connection.exec_driver_sql("PRAGMA query_only = ON")
            streamed = connection.execution_options(stream_results=True)
            found = streamed.exec_driver_sql(query)
            names = list(found.keys()) if found.returns_rows else []
            yield names, lambda rows, columns: _fetched(found, names, rows, columns)

    if options.query is not None:
        return file, _open_database(file, run, options)
    with _database_errors(file, (sqlalchemy.exc.SQLAlchemyError, ImportError)):
        found = sqlalchemy.inspect(engine)
        tables = [*found.get_table_names(), *found.get_view_names()]
    return file, _open_database(file, run, options, tables)


def _open_database(
    file: TableFile,
    run: Callable[[str], AbstractContextManager[_Result]],
    options: Options,
    tables: str | list[str] = "",
    lazy: Callable[[str], AbstractContextManager[Any]] | None = None,
) -> Source:
    """Open the answer to the query, or the only one of the tables (or of those that a query finds)."""
    query = options.query
    if query is None:
        if isinstance(tables, str):
            with run(tables) as (names, found):
                tables = [name for frame in found(None, names) for name in frame[names[0]]]
        query = _only_table(file, sorted(tables))
    # some databases would do at once, and for good, what another statement says
    if not re.match(r"(--.*\n|\s|\()*(select|with|values|from)\b", query, re.IGNORECASE):
        whole = f", such as SELECT * FROM {query}" if query.isidentifier() else ""
        raise TableError(file, f"is only read: the query must be a SELECT{whole}")
    with run(query) as (names, _):
        if not names:
            raise TableError(file, "gives no rows to this query: it must be a SELECT")
    check_distinct(file, names)

    def frames(rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        with run(query) as (_names, found):
            yield from found(rows, columns)

    return Source(names, frames, None if lazy is None else partial(lazy, query))


def _only_table(file: TableFile, tables: list[str]) -> str:
    """Return the query for all rows of the only table."""
    if not tables:
        raise TableError(file, "has no tables")
    if len(tables) > 1:
        raise TableError(
            file,
            f"has {len(tables)} tables ({listing(tables)}): say which rows to read by a query, such "
            f"as SELECT * FROM {tables[0]}",
        )
    quoted = tables[0].replace('"', '""')
    return f'SELECT * FROM "{quoted}"'


def _fetched(found: Any, names: list[str], rows: int | None, columns: list[str]) -> Iterator[Any]:
    import pandas as pd

    while some := found.fetchall() if rows is None else found.fetchmany(rows):
        yield pd.DataFrame.from_records(some, columns=names)[columns]


@contextmanager
def _database_errors(file: TableFile, kinds: Any) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        raise _refused(file, getattr(error, "orig", None) or error) from None


def _refused(file: TableFile, error: BaseException) -> TableError:
    if isinstance(error, ImportError) and error.name:
        return TableError(file, f"cannot be read without its driver: install {error.name}")
    reason = " ".join((str(error) or type(error).__name__).split())
    return TableError(file, f"cannot be read as {file.format}: {reason}")
