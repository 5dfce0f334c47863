"""Tables that are no file of their own: in an archive, or on standard input."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import weakref
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

from unbag._text import listing
from unbag.tables.file import TableError, TableFile, name_parts, named

# Beyond this much, standard input goes to a file without a name while it is read.
_IN_MEMORY = 1 << 26
_STARTS = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
}


def find_member(file: TableFile) -> TableFile:
    """Find the one table in a zip archive."""
    with zipfile.ZipFile(file.path) as archive:
        names = [name for name in archive.namelist() if _is_table(name)]
    if len(names) != 1:
        found = f"{len(names)} tables ({listing(names)})" if names else "no table"
        raise TableError(file, f"has {found} in it, where one is needed")

    def content() -> IO[bytes]:
        # the file stays open as long as its member is
        with zipfile.ZipFile(file.path) as archive:
            return archive.open(names[0])

    found_file = file.member(names[0], content)
    if found_file.compression or found_file.format in ("zip", "sqlite", "duckdb"):
        raise TableError(found_file, "cannot be read from within an archive: unpack it first")
    return found_file


def _is_table(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    is_file = not name.endswith("/")
    return is_file and not hidden and bool(name_parts(Path(name))[0]) and path.suffix != ".txt"


def standard_input() -> TableFile:
    """Take what comes in, and see from its start what it is."""
    # closed with the table that it belongs to
    spool: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115

    def content() -> IO[bytes]:
        spool.seek(0)
        return io.BufferedReader(_Kept(spool))

    try:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        with content() as stream:
            compression = _compression(stream.read(8))
        file = TableFile(Path("-"), "csv", compression, content, "standard input")
        with named(file), file.open() as stream:
            start = stream.read(64)
        if not start:
            raise TableError(file, "is empty")
    except BaseException:
        spool.close()
        raise
    file = replace(file, format=_format(start))
    if file.format == "excel" and not compression and not _is_workbook(spool):
        spool.close()
        raise TableError(file, "is a zip archive: unpack it first, such as by unzip -p")
    weakref.finalize(file, spool.close)
    return file


def _compression(start: bytes) -> str:
    return next((name for mark, name in _STARTS.items() if start.startswith(mark)), "")


def _format(start: bytes) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if start.startswith(b"PK\x03\x04"):
        return "excel"
    return "json" if start.lstrip()[:1] in (b"{", b"[") else "csv"


def _is_workbook(file: IO[bytes]) -> bool:
    """Whether a zip archive is one of Excel or OpenDocument; one that is damaged may be."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return True
    return any(name.startswith("xl/") or name == "content.xml" for name in names)


class _Kept(io.RawIOBase):
    """A file to be read that stays open when this is closed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
