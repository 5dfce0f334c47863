"""Count what the package exports, and the lines of each of its folders.

python scripts/count_names.py [--list]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import unbag

# The most names that users should have to know, and the most lines of a file.
MOST_NAMES, MOST_LINES = 120, 500
HOME = Path(unbag.__file__).parent


def exported() -> dict[int, str]:
    """Every object in some ``__all__``, once, by the shortest path that leads to it."""
    found: dict[int, str] = {}
    names = [m.name for m in walk_packages(unbag.__path__, "unbag.") if "__main__" not in m.name]
    for module in sorted(["unbag", *names], key=len):
        home = import_module(module)
        for name in getattr(home, "__all__", ()):
            found.setdefault(id(getattr(home, name)), f"{module}.{name}")
    return found


def lines_by_folder() -> Iterator[tuple[str, int, list[str]]]:
    """Folders with their lines, and their files that are too long."""
    for folder in sorted([HOME, *(p for p in HOME.iterdir() if (p / "__init__.py").exists())]):
        files = folder.glob("*.py") if folder == HOME else folder.rglob("*.py")
        lines = {path: len(path.read_text().splitlines()) for path in files}
        long = [f"{path.name} {n}" for path, n in lines.items() if n > MOST_LINES]
        yield folder.name, sum(lines.values()), long


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names")
    paths = exported()
    print(f"{len(paths)} exported names (at most {MOST_NAMES})")
    for path in sorted(paths.values()) if parser.parse_args().list else ():
        print(f"  {path}")
    total = 0
    for folder, n, long in lines_by_folder():
        total += n
        print(f"{folder:16}{n:7,}  {', '.join(long)}")
    print(f"{'all':16}{total:7,}")
