"""A table on disk: what its name says, and how errors name it."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from unbag._files import check_place
from unbag._optional import optional
from unbag.tables.kinds import ColumnError

SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys([".arrow", ".feather", ".ipc"], "arrow")
_FORMATS |= dict.fromkeys([".jsonl", ".ndjson", ".json"], "json")
_FORMATS |= dict.fromkeys([".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"], "excel")
_FORMATS |= dict.fromkeys([".sqlite", ".sqlite3", ".db"], "sqlite")
_FORMATS |= dict.fromkeys([".duckdb", ".ddb"], "duckdb")
_WRITTEN = ("csv", "tsv", "json", "parquet", "arrow")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_FAR = ("http", "https", "ftp", "ftps", "sftp", "s3", "gs", "gcs", "az", "abfs", "hdfs")
STANDARD_INPUT = "-"


class TableError(ValueError):
    """A table on disk is not as it should be: which, why, and where in it."""

    def __init__(
        self, table: object, problem: str, *, column: str | None = None, line: str | None = None
    ) -> None:
        super().__init__(f"{table}: {line} {problem}" if line else f"{table} {problem}")
        self.table, self.problem, self.column, self.line = table, problem, column, line


class Source(Protocol):
    """An opened table, whatever its format: its columns, and its rows when asked for."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        ...  # pragma: no cover

    def frames(self, rows: int | None, columns: list[str], as_written: set[str]) -> Iterator[Any]:
        """Give frames of so many rows each; or all rows, in one frame for each file of several.

        Text in the columns ``as_written`` is not to be taken for numbers.
        """
        ...  # pragma: no cover


class TableURL:
    """Where a database is; written out, it keeps its password to itself.

    Examples
    --------
    >>> from unbag.tables.file import TableURL
    >>> print(TableURL("postgresql://ann:secret@host/visits"))
    postgresql://ann:***@host/visits
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", self.url)

    __repr__ = __str__


def as_place(name: str | Path | TableURL) -> Path | TableURL:
    """Read where a table is: a file, or a database by its URL."""
    if isinstance(name, TableURL | Path):
        return name
    if not re.match(r"[A-Za-z][\w+.-]+://", name):
        return Path(name)
    place = TableURL(name)
    scheme = name.partition("://")[0].lower()
    if scheme == "file":
        raise TableError(place, "is an address: give the path of the file instead")
    if scheme in _FAR:
        raise TableError(
            place, "is not on this machine: download it first, and give the name of the file"
        )
    return place


@dataclass(frozen=True)
class TableFile:
    """A file, and what the end of its name says about it."""

    path: Path
    format: str
    compression: str = ""
    # opens what is no file of its own: a member of an archive, standard input
    content: Callable[[], IO[bytes]] | None = None
    shown: str = ""

    @classmethod
    def find(cls, path: str | Path, to_write: bool = False) -> TableFile:
        """Read the name, and make sure that there is something to read or a place to write."""
        path = Path(path)
        form, compression = name_parts(path)
        table = cls(path, form, compression)
        if path.is_dir():
            raise IsADirectoryError(f"{table} is a folder, not a table")
        if not form or (to_write and form not in _WRITTEN):
            written = ".csv, .tsv, .jsonl, .parquet, .arrow, .feather or .ipc"
            more = ".csv, .tsv, .jsonl, .parquet, .arrow, .feather, .ipc, .xlsx, .zip, .sqlite"
            raise TableError(
                table,
                f"is no table that can be {'written' if to_write else 'read'}: its name must end "
                f"in {written if to_write else f'{more} or .duckdb'} (.csv.gz and the like will "
                "do).",
            )
        if compression and form not in (*SEPARATORS, "json"):
            raise TableError(
                table, f"is compressed twice: {form} compresses itself, leave out {compression}."
            )
        if to_write:
            check_place(path)
        elif not path.is_file():
            raise OSError(f"there is no file {table}")
        return table

    def __str__(self) -> str:
        name = self.shown or str(self.path)
        return name if name.isprintable() else repr(name)

    @property
    def is_text(self) -> bool:
        """Whether it is CSV or TSV."""
        return self.format in SEPARATORS

    def open(self) -> IO[bytes]:
        """Open the file for reading, without its compression."""
        place: Any = self.path if self.content is None else self.content()
        if self.compression == ".zst":
            pa = import_pyarrow()
            place = pa.OSFile(str(place)) if self.content is None else pa.PythonFile(place)
            return pa.CompressedInputStream(place, "zstd")
        openers: dict[str, Callable[..., Any]]
        openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        if self.compression:
            return openers[self.compression](place, "rb")
        opened: IO[bytes] = place.open("rb") if self.content is None else place
        return opened

    def member(self, name: str, content: Callable[[], IO[bytes]]) -> TableFile:
        """Describe a table inside of this file."""
        form, compression = name_parts(Path(name))
        return TableFile(self.path, form, compression, content, f"{name} in {self}")


def name_parts(path: Path) -> tuple[str, str]:
    """Read from the end of a name the format, or nothing, and the compression, or nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
    form = _FORMATS.get(suffixes[-1], "") if suffixes else ""
    return ("zip" if suffixes[-1:] == [".zip"] else form), compression


def is_table_name(place: Path | TableURL) -> bool:
    """Whether a name is that of a table, as far as a name can tell."""
    if isinstance(place, TableURL):
        return True
    return str(place) == STANDARD_INPUT or bool(name_parts(place)[0])


@contextmanager
def named(table: TableFile, done: str = "read") -> Iterator[None]:
    """Put the file's name into the words of whatever library stumbles over it."""
    damaged = (EOFError, zlib.error, lzma.LZMAError, csv.Error, zipfile.BadZipFile, RuntimeError)
    clumsy = (KeyError, TypeError, IndexError, OverflowError, NotImplementedError)
    try:
        yield
    except (TableError, ModuleNotFoundError):
        raise
    except ColumnError as error:
        raise ValueError(f"{table}: {error.in_file()}") from None
    except (ValueError, OSError, MemoryError, *damaged, *clumsy) as error:
        words = str(error).strip() or type(error).__name__
        reason = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words.splitlines()[0])
        kept = (OSError, MemoryError)
        told = next((kind for kind in kept if isinstance(error, kind)), ValueError)
        what = f"{table.format}{table.compression}"
        raise told(f"{table} cannot be {done} as {what}: {reason}") from None


def check_distinct(table: object, names: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        hint = " (is the line with the names of columns missing?)" if _is_number(twice[0]) else ""
        raise TableError(table, f"has more than one column {twice[0]!r}{hint}", column=twice[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import what reads Parquet, Arrow and zstd, or say what to install."""
    return optional(module, "this file", "files")
