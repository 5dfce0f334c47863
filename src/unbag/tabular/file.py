"""A table on disk: what its name says, and how errors name it."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys([".arrow", ".feather", ".ipc"], "arrow")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


class TableError(ValueError):
    """A mistake that has its sentence already."""


@dataclass(frozen=True)
class TableFile:
    """A file, and what the end of its name says about it."""

    path: Path
    format: str
    compression: str

    @classmethod
    def find(cls, path: str | Path, to_write: bool = False) -> TableFile:
        """Read the name, and make sure that there is something to read or a place to write."""
        path = Path(path)
        suffixes = [suffix.lower() for suffix in path.suffixes]
        compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
        form = _FORMATS.get(suffixes[-1] if suffixes else "")
        table = cls(path, form or "", compression)
        if path.is_dir():
            raise OSError(f"{table} is a folder, not a table")
        if form is None:
            raise ValueError(
                f"{table} is no table that can be {'written' if to_write else 'read'}: its name "
                "must end in .csv, .tsv, .parquet, .arrow, .feather or .ipc (.csv.gz and the like "
                "will do)."
            )
        if compression and form not in SEPARATORS:
            raise ValueError(
                f"{table} is compressed twice: {form} compresses itself, leave out {compression}."
            )
        if to_write and not path.absolute().parent.is_dir():
            raise OSError(f"the folder of {table} does not exist")
        if not to_write and not path.is_file():
            raise OSError(f"there is no file {table}")
        return table

    def __str__(self) -> str:
        name = str(self.path)
        return name if name.isprintable() else repr(name)

    def open(self) -> IO[bytes]:
        """Open the file for reading, without its compression."""
        if self.compression == ".zst":
            pa = import_pyarrow()
            return pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
        openers: dict[str, Callable[..., Any]]
        openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        return openers.get(self.compression, open)(self.path, "rb")

    def text(self) -> io.TextIOWrapper:
        """Open the file as text, without its byte order mark."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="")


@contextmanager
def named(table: TableFile, done: str = "read") -> Iterator[None]:
    """Put the file's name into the words of whatever library stumbles over it."""
    damaged = (EOFError, zlib.error, lzma.LZMAError, csv.Error)
    clumsy = (KeyError, TypeError, IndexError, OverflowError, NotImplementedError)
    try:
        yield
    except TableError:
        raise
    except (ValueError, OSError, MemoryError, *damaged, *clumsy) as error:
        words = str(error).strip() or type(error).__name__
        reason = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words.splitlines()[0])
        kept = (OSError, MemoryError)
        told = next((kind for kind in kept if isinstance(error, kind)), ValueError)
        what = f"{table.format}{table.compression}"
        raise told(f"{table} cannot be {done} as {what}: {reason}") from None


def check_distinct(table: TableFile, names: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise TableError(f"{table} has more than one column {twice[0]!r}")


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import what reads Parquet, Arrow and zstd, or say what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this file needs pyarrow; install with: pip install pyarrow"
        ) from None
