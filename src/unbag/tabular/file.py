"""A table on disk: what its name says, and how errors name it."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from unbag._files import check_place
from unbag._optional import optional
from unbag.tabular.kinds import ColumnError

SEPARATORS = {"csv": ",", "tsv": "\t"}
_FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys([".arrow", ".feather", ".ipc"], "arrow")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


class TableError(ValueError):
    """A table on disk is not as it should be: which, why, and where in it."""

    def __init__(
        self, table: object, problem: str, *, column: str | None = None, line: str | None = None
    ) -> None:
        super().__init__(f"{table}: {line} {problem}" if line else f"{table} {problem}")
        self.table, self.problem, self.column, self.line = table, problem, column, line


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
            raise IsADirectoryError(f"{table} is a folder, not a table")
        if form is None:
            raise TableError(
                table,
                f"is no table that can be {'written' if to_write else 'read'}: its name must end "
                "in .csv, .tsv, .parquet, .arrow, .feather or .ipc (.csv.gz and the like will do).",
            )
        if compression and form not in SEPARATORS:
            raise TableError(
                table, f"is compressed twice: {form} compresses itself, leave out {compression}."
            )
        if to_write:
            check_place(path)
        elif not path.is_file():
            raise OSError(f"there is no file {table}")
        return table

    def __str__(self) -> str:
        name = str(self.path)
        return name if name.isprintable() else repr(name)

    @property
    def is_text(self) -> bool:
        """Whether it is CSV or TSV."""
        return self.format in SEPARATORS

    def open(self) -> IO[bytes]:
        """Open the file for reading, without its compression."""
        if self.compression == ".zst":
            pa = import_pyarrow()
            return pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
        openers: dict[str, Callable[..., Any]]
        openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        return openers.get(self.compression, open)(self.path, "rb")


@contextmanager
def named(table: TableFile, done: str = "read") -> Iterator[None]:
    """Put the file's name into the words of whatever library stumbles over it."""
    damaged = (EOFError, zlib.error, lzma.LZMAError, csv.Error)
    clumsy = (KeyError, TypeError, IndexError, OverflowError, NotImplementedError)
    try:
        yield
    except TableError:
        raise
    except ColumnError as error:
        raise ValueError(f"{table}: {error}") from None
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
        raise TableError(table, f"has more than one column {twice[0]!r}", column=twice[0])


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import what reads Parquet, Arrow and zstd, or say what to install."""
    return optional(module, "this file", "files")
