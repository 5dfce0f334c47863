"""Tables in databases: SQLite, DuckDB, and whatever SQLAlchemy knows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbag._optional import optional
from unbag._text import listing
from unbag.tables.arrow import batched_frames
from unbag.tables.file import TableError, TableFile, TableURL, check_distinct

# What a function that runs a query gives: names, and something that gives frames of rows.
Answer = tuple[list[str], Callable[[int | None, list[str]], Iterator[Any]]]


@dataclass(frozen=True)
class Query:
    """A query, asked anew each time that its rows are wanted."""

    file: TableFile
    ask: Callable[[str], AbstractContextManager[Answer]]
    query: str
    names: list[str]

    def frames(self, rows: int | None, columns: list[str], _: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of all."""
        with self.ask(self.query) as (_names, frames):
            yield from frames(rows, columns)


def open_sqlite(file: TableFile, query: str | None) -> Query:
    """Open an SQLite file, which is not changed, whatever the query."""
    with file.open() as stream:
        start = stream.read(16)
    if start[8:12] == b"DUCK":  # .db is the end of either
        return open_duckdb(file, query)
    if not start.startswith(b"SQLite format 3"):
        raise TableError(file, "is no SQLite database")

    @contextmanager
    def ask(text: str) -> Iterator[Answer]:
        try:
            place = f"{file.path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(place, uri=True)) as connection:
                found = connection.execute(text)
                names = [column[0] for column in found.description or ()]
                yield names, lambda rows, columns: _fetched(found.fetchmany, names, rows, columns)
        except sqlite3.Error as error:
            raise _refused(file, error) from None

    known = "select name from sqlite_master where type in ('table', 'view') order by name"
    return _open(file, ask, query, known)


def open_duckdb(file: TableFile, query: str | None) -> Query:
    """Open a DuckDB file, which is not changed, whatever the query."""
    duckdb = optional("duckdb", "a DuckDB file", "databases")

    @contextmanager
    def ask(text: str) -> Iterator[Answer]:
        try:
            with closing(duckdb.connect(str(file.path), read_only=True)) as connection:
                found = connection.sql(text)
                names = [] if found is None else found.columns

                def frames(rows: int | None, columns: list[str]) -> Iterator[Any]:
                    batches = found.to_arrow_reader(rows or 1 << 16)
                    return batched_frames(batches.schema, batches, rows, columns)

                yield names, frames
        except duckdb.Error as error:
            raise _refused(file, error) from None

    known = "select table_name from information_schema.tables order by table_name"
    return _open(file, ask, query, known)


def open_url(place: TableURL, query: str | None) -> tuple[TableFile, Query]:
    """Open any database that SQLAlchemy knows; what a query changes there is taken back."""
    sqlalchemy = optional("sqlalchemy", "a database by its URL", "databases")
    file = TableFile(Path(), "database", shown=str(place))
    try:
        engine = sqlalchemy.create_engine(place.url, poolclass=sqlalchemy.pool.NullPool)
    except sqlalchemy.exc.NoSuchModuleError:
        kind, _, path = place.url.partition(":///")
        hint = f"; its path alone, {path}, will do" if kind == "duckdb" and path else ""
        raise TableError(
            file,
            f"needs a driver that brings {kind.partition(':')[0]!r} to SQLAlchemy, and none is "
            f"installed{hint}",
        ) from None
    except (sqlalchemy.exc.ArgumentError, ImportError) as error:
        raise _refused(file, error) from None
    path = engine.url.database or ""
    in_file = engine.dialect.name in ("sqlite", "duckdb") and path and not path.startswith("file:")
    if in_file and not Path(path).is_file():
        # connecting would make one
        raise OSError(f"there is no file {path}")

    @contextmanager
    def ask(text: str) -> Iterator[Answer]:
        try:
            with engine.connect() as connection:
                if engine.dialect.name == "sqlite":
                    # its driver begins no transaction, to be taken back, for WITH ... DELETE
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                streamed = connection.execution_options(stream_results=True)
                found = streamed.exec_driver_sql(text)
                names = list(found.keys()) if found.returns_rows else []
                yield names, lambda rows, columns: _fetched(found.fetchmany, names, rows, columns)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _refused(file, getattr(error, "orig", None) or error) from None

    def tables() -> list[str]:
        try:
            looked = sqlalchemy.inspect(engine)
            return sorted([*looked.get_table_names(), *looked.get_view_names()])
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            raise _refused(file, getattr(error, "orig", None) or error) from None

    return file, _asked(file, ask, query or _only(file, tables()))


def _open(file: TableFile, ask: Callable[[str], Any], query: str | None, known: str) -> Query:
    if query is None:
        with ask(known) as (names, frames):
            found = [name for frame in frames(None, names) for name in frame[names[0]]]
        query = _only(file, found)
    return _asked(file, ask, query)


def _asked(file: TableFile, ask: Callable[[str], Any], query: str) -> Query:
    # some databases would do at once, and for good, what another statement says
    if not re.match(r"(--.*\n|\s|\()*(select|with|values|from)\b", query, re.IGNORECASE):
        whole = f", such as SELECT * FROM {query}" if query.isidentifier() else ""
        raise TableError(file, f"is only read: the query must be a SELECT{whole}")
    with ask(query) as (names, _):
        if not names:
            raise TableError(file, "gives no rows to this query: it must be a SELECT")
    check_distinct(file, names)
    return Query(file, ask, query, names)


def _only(file: TableFile, tables: list[str]) -> str:
    """The query for all rows of the only table."""
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


def _fetched(
    fetch: Callable[[int], list[Any]], names: list[str], rows: int | None, columns: list[str]
) -> Iterator[Any]:
    import pandas as pd

    held: list[Any] = []
    while some := fetch(rows or 1 << 16):
        if rows is None:
            held += some
        else:
            yield pd.DataFrame.from_records(some, columns=names)[columns]
    if rows is None:
        yield pd.DataFrame.from_records(held, columns=names)[columns]


def _refused(file: TableFile, error: BaseException) -> TableError:
    if isinstance(error, ImportError) and error.name:
        return TableError(file, f"cannot be read without its driver: install {error.name}")
    reason = " ".join((str(error) or type(error).__name__).split())
    return TableError(file, f"cannot be read as {file.format}: {reason}")
