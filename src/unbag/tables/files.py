"""Where a table is: a file, a member of an archive, standard input, or the URL of a database."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from unbag._files import check_place
from unbag._optional import optional
from unbag._text import listing, without_passwords
from unbag.tables.column_types import ColumnError

SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys([".arrow", ".feather", ".ipc"], "arrow")
_FORMATS |= dict.fromkeys([".jsonl", ".ndjson", ".json"], "json")
_FORMATS |= dict.fromkeys([".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"], "excel")
_FORMATS |= dict.fromkeys([".sqlite", ".sqlite3", ".db"], "sqlite")
_FORMATS |= {".duckdb": "duckdb", ".ddb": "duckdb", ".zip": "zip"}
_WRITTEN = ("csv", "tsv", "json", "parquet", "arrow")
COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_REMOTE = ("http", "https", "ftp", "ftps", "sftp", "s3", "gs", "gcs", "az", "abfs", "hdfs")
STANDARD_INPUT = "-"

# The first bytes of a stream without a name.
_STARTS = {
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\xfd7zXZ\0": ".csv.xz",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"SQLite format 3": ".sqlite",
    b"PK\x03\x04": ".zip",
}
# An archive that unpacks to more than so many bytes, and so many times its size, is not a table.
_UNPACKED = 200_000_000
_MOST_TIMES = 200


class TableError(ValueError):
    """A table on disk is not as it should be: which, why, and on which line."""

    def __init__(self, table: object, problem: str, *, line: str | None = None) -> None:
        super().__init__(f"{table}: {line} {problem}" if line else f"{table} {problem}")


class TableURL:
    """The URL of a database; its text leaves the password out."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return without_passwords(self.url)

    __repr__ = __str__


def as_location(name: str | Path | TableURL) -> Path | TableURL:
    """Return the path of a file, or the URL of a database."""
    if isinstance(name, TableURL | Path):
        return name
    if not re.match(r"[A-Za-z][\w+.-]+://", name):
        return Path(name)
    url, scheme = TableURL(name), name.partition("://")[0].lower()
    if scheme == "file":
        raise TableError(url, "is an address: give the path of the file instead")
    if scheme in _REMOTE:
        raise TableError(
            url, "is not on this machine: download it first, and give the name of the file"
        )
    return url


class Source(NamedTuple):
    """An opened table."""

    names: list[str]
    frames: Callable[[int | None, list[str], set[str]], Iterator[Any]]
    # of a table in an engine that narwhals knows: opens it as a lazy frame
    lazy: Callable[[], AbstractContextManager[Any]] | None = None


@dataclass(frozen=True)
class Options:
    """How tables are read; see `unbag.tables.open_table`."""

    query: str | None
    encoding: str
    na_values: tuple[str, ...]
    on_message: Callable[[str], object]


@dataclass(frozen=True)
class TableFile:
    """A file, its format and its compression, as the end of its name gives them."""

    path: Path
    format: str
    compression: str = ""
    member: str = ""  # the name within a zip archive
    shown: str = ""  # how messages call it, if not by its path

    @classmethod
    def find(cls, path: str | Path, to_write: bool = False) -> TableFile:
        """Parse the name, and check that the file can be read or written."""
        path = Path(path)
        form, compression = name_parts(path)
        table = cls(path, form, compression)
        if path.is_dir():
            raise IsADirectoryError(f"{table} is a folder, not a table")
        if not form or (to_write and form not in _WRITTEN):
            done, more = "read", ", .ipc, .xlsx, .zip, .sqlite or .duckdb"
            if to_write:
                done, more = "written", " or .ipc"
            raise TableError(
                table,
                f"cannot be {done} as a table: its name must end in .csv, .tsv, .jsonl, .parquet, "
                f".arrow, .feather{more} (.csv.gz and the like will do).",
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
        """Open the file for reading, decompressed."""
        if self.member:
            with zipfile.ZipFile(self.path) as archive:
                check_unpacked(self, [archive.getinfo(self.member)])
                return archive.open(self.member)
        if self.compression == ".zst":
            pa = import_pyarrow()
            return pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
        opener = COMPRESSED.get(self.compression, open)
        return opener(self.path, "rb")


def name_parts(path: Path) -> tuple[str, str]:
    """Return the format and the compression that the end of a name gives, or empty strings."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes and (suffixes[-1] in COMPRESSED or suffixes[-1] == ".zst")
    compression = suffixes.pop() if packed else ""
    return _FORMATS.get(suffixes[-1], "") if suffixes else "", compression


def is_table_name(name: Path | TableURL) -> bool:
    """Whether a name is that of a table: a URL, standard input, or a known ending."""
    return isinstance(name, TableURL) or str(name) == STANDARD_INPUT or bool(name_parts(name)[0])


def find_member(file: TableFile) -> TableFile:
    """Return the one table in a zip archive."""
    with zipfile.ZipFile(file.path) as archive:
        names = [name for name in archive.namelist() if may_be_part(Path(name))]
    if len(names) != 1:
        found = f"{len(names)} tables ({listing(names)})" if names else "no table"
        raise TableError(file, f"has {found} in it, where one is needed")
    form, compression = name_parts(Path(names[0]))
    shown = f"{names[0]} in {file}"
    member = replace(file, format=form, compression=compression, member=names[0], shown=shown)
    if compression or form in ("zip", "sqlite", "duckdb"):
        raise TableError(member, "cannot be read from within an archive: unpack it first")
    return member


def check_unpacked(file: TableFile, parts: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse parts of an archive that take far more room than any table does when unpacked."""
    if unpacks_absurdly(parts):
        size, packed = _sizes(parts)
        raise TableError(
            file,
            f"would take {size:,} bytes unpacked, {size // max(packed, 1):,} times what it takes, "
            "which no table does: if you trust it, unpack it and save it as text",
        )


def unpacks_absurdly(parts: Sequence[zipfile.ZipInfo]) -> bool:
    """Whether parts of an archive take far more room when unpacked than any data do."""
    size, packed = _sizes(parts)
    return size > max(_UNPACKED, _MOST_TIMES * packed)


def _sizes(parts: Sequence[zipfile.ZipInfo]) -> tuple[int, int]:
    return sum(part.file_size for part in parts), sum(part.compress_size for part in parts)


def may_be_part(path: Path) -> bool:
    """Whether a file in a folder or an archive is a table by its name, and not hidden."""
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and bool(name_parts(path)[0]) and path.suffix != ".txt"


def standard_input() -> TableFile:
    """Copy standard input into a temporary file, which is deleted with what is returned."""
    descriptor, name = tempfile.mkstemp()
    file = TableFile(Path(name), "csv", shown="standard input")
    try:
        with os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        with file.open() as stream:
            start = stream.read(64)
        if not start:
            raise TableError(file, "is empty")
        ending = next((end for mark, end in _STARTS.items() if start.startswith(mark)), ".csv")
        if ending == ".zip":
            with named(replace(file, format="zip")), zipfile.ZipFile(name) as archive:
                inside = archive.namelist()
            is_book = any(n.startswith("xl/") or n == "content.xml" for n in inside)
            ending = ".xlsx" if is_book else ending
        form, compression = name_parts(Path(f"_{ending}"))
        file = replace(file, format=form, compression=compression)
        if form == "csv":
            with named(file), file.open() as stream:
                is_json = stream.read(64).lstrip()[:1] in (b"{", b"[")
            file = replace(file, format="json" if is_json else "csv")
    except BaseException:
        Path(name).unlink()
        raise
    weakref.finalize(file, Path(name).unlink, missing_ok=True)
    return find_member(file) if file.format == "zip" else file


@contextmanager
def named(table: TableFile, done: str = "read") -> Iterator[None]:
    """Turn the errors of other libraries into one sentence that names the file."""
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
        raised = next((kind for kind in kept if isinstance(error, kind)), ValueError)
        what = f"{table.format}{table.compression}"
        raise raised(f"{table} cannot be {done} as {what}: {reason}") from None


def check_distinct(table: object, names: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        is_number = re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", twice[0])
        hint = " (is the line with the names of columns missing?)" if is_number else ""
        raise TableError(table, f"has more than one column {twice[0]!r}{hint}")


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, which reads Parquet, Arrow and zstd, or name what to install."""
    return optional(module, "this file", "files")
