"""Tables in several files, one below the other: all in a folder, or all that a pattern names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from unbag._text import listing
from unbag.tables.file import Source, TableError, TableFile, name_parts


@dataclass(frozen=True)
class Parts:
    """Files with the same columns, in the order of their names.

    A folder called ``month=05`` gives each row below it the value 05 in a column ``month``.
    """

    names: list[str]
    parts: list[Source]
    added: list[dict[str, str]]

    def frames(self, rows: int | None, columns: list[str], as_written: set[str]) -> Iterator[Any]:
        """Frames of so many rows each, or one of each file."""
        import pandas as pd

        held: list[Any] = []
        n_held = 0
        for part, added in zip(self.parts, self.added, strict=True):
            own = [name for name in columns if name not in added]
            for frame in part.frames(rows, own, as_written & set(own)):
                whole = frame.assign(**{n: added[n] for n in columns if n in added})[columns]
                if rows is None:
                    yield whole
                    continue
                held.append(whole)
                n_held += len(whole)
                while n_held >= rows:
                    whole = pd.concat(held, ignore_index=True)
                    yield whole.iloc[:rows]
                    held, n_held = [whole.iloc[rows:]], n_held - rows
        held = [frame for frame in held if len(frame)]
        if held:
            yield pd.concat(held, ignore_index=True)


def find_parts(place: Path) -> list[Path] | None:
    """List the files of a folder or of a pattern; None if it is neither."""
    if place.is_dir():
        found = [path for path in place.rglob("*") if _is_part(path, place)]
        if not found:
            raise IsADirectoryError(f"{TableFile(place, '')} is a folder without a table in it")
    elif has_magic(str(place)) and not place.exists():
        names = glob(str(place), recursive=True)  # noqa: PTH207 (it may start anywhere)
        found = [Path(name) for name in names]
        found = [path for path in found if path.is_file()]
        if not found:
            raise FileNotFoundError(f"there is no file {TableFile(place, '')}")
    else:
        return None
    return sorted(found, key=_natural)


def open_parts(paths: list[Path], root: Path, opened: list[tuple[TableFile, Source]]) -> Parts:
    """Put opened files one below the other; they must have the same columns."""
    parts = [source for _, source in opened]
    first = set(parts[0].names)
    for path, part in zip(paths, parts, strict=True):
        if set(part.names) != first:
            odd = listing(map(repr, sorted(first ^ set(part.names))))
            raise TableError(path, f"has other columns than {paths[0]}: {odd} in one of them only")
    added = [_added(path, root) for path in paths]
    more = [name for name in added[0] if name not in first]
    if any(set(one) != set(added[0]) for one in added) or len(more) < len(added[0]):
        raise TableError(root, "has folders like month=05 for some of its rows or columns only")
    return Parts([*parts[0].names, *more], parts, added)


def _is_part(path: Path, root: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    return path.is_file() and not hidden and bool(name_parts(path)[0]) and path.suffix != ".txt"


def _added(path: Path, root: Path) -> dict[str, str]:
    folders = path.relative_to(root).parts[:-1] if root.is_dir() else ()
    pairs = (folder.partition("=") for folder in folders)
    return {name: value for name, equal, value in pairs if equal}


def _natural(path: Path) -> list[Any]:
    """Order part-2 before part-10."""
    return [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(path))]
