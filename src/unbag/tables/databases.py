"""Databases: files of SQLite and DuckDB, and what SQLAlchemy connects to; all of them only read."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from unbag._optional import optional
from unbag._text import listing
from unbag.tables.files import TableError, TableFile, TableURL, check_distinct
from unbag.tables.formats import BATCH, Options, Source, arrow_frames

# What DuckDB may take of the memory; what needs more goes to a file meanwhile.
_MEMORY = "1GB"

# The names that a query gives, and a function that gives its rows.
_Result = tuple[list[str], Callable[[int | None, list[str]], Iterator[Any]]]


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
                batches = found.to_arrow_reader(rows or BATCH)
                return arrow_frames(batches.schema, batches, rows, columns)

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
    if len(tables) == 1:
        quoted = tables[0].replace('"', '""')
        return f'SELECT * FROM "{quoted}"'
    if not tables:
        raise TableError(file, "has no tables")
    raise TableError(
        file,
        f"has {len(tables)} tables ({listing(tables)}): say which rows to read by a query, such as "
        f"SELECT * FROM {tables[0]}",
    )


def _fetched(found: Any, names: list[str], rows: int | None, columns: list[str]) -> Iterator[Any]:
    import pandas as pd

    held = []
    while some := found.fetchmany(rows or BATCH):
        held += some
        if rows is not None:
            yield pd.DataFrame.from_records(held, columns=names)[columns]
            held = []
    if rows is None:
        yield pd.DataFrame.from_records(held, columns=names)[columns]


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
