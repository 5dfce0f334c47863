"""Where a table is: a file, a member of an archive, standard input, or the URL of a database."""

from __future__ import annotations

import bz2
import codecs
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
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

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
_BLOCK = 1 << 20

# An archive that unpacks to more than so many bytes, and so many times its size, is not a table.
_UNPACKED = 200_000_000
_MOST_TIMES = 200

# The longer marks first: that of UTF-32 starts like that of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class TableError(ValueError):
    """A table on disk is not as it should be: which, why, and where in it."""

    def __init__(
        self, table: object, problem: str, *, column: str | None = None, line: str | None = None
    ) -> None:
        super().__init__(f"{table}: {line} {problem}" if line else f"{table} {problem}")
        self.table, self.problem, self.column, self.line = table, problem, column, line


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
            endings = ".csv, .tsv, .jsonl, .parquet, .arrow, .feather"
            endings = f"{endings} or .ipc" if to_write else f"{endings}, .ipc, .xlsx, .zip, .sqlite"
            raise TableError(
                table,
                f"cannot be {'written' if to_write else 'read'} as a table: its name must end "
                f"in {endings}{'' if to_write else ' or .duckdb'} (.csv.gz and the like will do).",
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
        names = [name for name in archive.namelist() if _is_member(Path(name))]
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


def _is_member(path: Path) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
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


def decoded(table: TableFile, encoding: str, on_message: Callable[[str], object]) -> Iterator[str]:
    """Give the text of a file in blocks, without its byte order mark.

    A byte order mark, or zeros between letters, decide on UTF-16 or UTF-32. Otherwise text is
    UTF-8, unless its first character beyond ASCII is not: then all is read as ``encoding``.
    """
    with table.open() as stream:
        block = stream.read(_BLOCK)
        found = next((e for mark, e in _BYTE_ORDER_MARKS.items() if block.startswith(mark)), "")
        for other, first in {"utf-16-le": 1, "utf-16-be": 0}.items():
            if not found and len(block) > 3 and not any(block[first:16:2]):
                found = other
        if found:
            on_message(f"{table} is read as {found} text, since it is not UTF-8.")
        decoder: Any = codecs.getincrementaldecoder(found or "utf-8")()
        may_switch = not found and codecs.lookup(encoding).name != "utf-8"
        n_bytes, n_lines = 0, 0
        while True:
            data = decoder.getstate()[0] + block
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                if may_switch and block and data[: error.start].isascii():
                    found, may_switch, block = encoding, False, data
                    decoder = codecs.getincrementaldecoder(encoding)()
                    on_message(f"{table} is read as {encoding} text, since it is not UTF-8.")
                    continue
                line = n_lines + data.count(b"\n", 0, error.start) + 1
                if not block:
                    problem = f"ends within a character, on line {line}: it is cut short"
                    raise TableError(table, problem) from None
                default = encoding if codecs.lookup(encoding).name == "utf-8" else "UTF-8"
                byte, place = data[error.start], n_bytes + error.start
                raise _undecodable(table, byte, found or default, place, line) from None
            may_switch = may_switch and text.isascii()
            if (place := text.find("\0")) >= 0:
                line = n_lines + text.count("\n", 0, place) + 1
                place = n_bytes + len(text[:place].encode())
                raise _undecodable(table, 0, "UTF-8", place, line)
            yield text if n_bytes else text.removeprefix("\ufeff")
            n_bytes += len(data) - len(decoder.getstate()[0])
            n_lines += text.count("\n")
            if not block:
                return
            block = stream.read(_BLOCK)


def _undecodable(table: TableFile, byte: int, name: str, place: int, line: int) -> TableError:
    advice = "save it with the encoding UTF-8"
    advice = advice if name == "UTF-8" else f"{advice}, or say which it has (--encoding)"
    problem = f"is not {name} text: 0x{byte:02x} at byte {place}, on line {line}; {advice}"
    return TableError(table, problem)


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
        raise TableError(table, f"has more than one column {twice[0]!r}{hint}", column=twice[0])


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, which reads Parquet, Arrow and zstd, or name what to install."""
    return optional(module, "this file", "files")
