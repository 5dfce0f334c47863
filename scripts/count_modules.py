"""Count the modules and functions that ``unbag fit`` and ``LLPClassifier.fit`` enter.

A module counts as entered if one of its functions runs; importing it does not count.

    python scripts/count_modules.py [--list]
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pandas as pd

import unbag
import unbag.cli.fit  # what runs on import does not count
from unbag.cli import main
from unbag.datasets import make_gaussian_bags

HOME = str(Path(unbag.__file__).parent)


def count(title: str, run: Callable[[], object], most: int, listed: bool) -> bool:
    """Print the counts of one call, and return whether they are within the aim."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # the flag tells functions from bodies of modules
        if event == "call" and code.co_filename.startswith(HOME) and code.co_flags & 2:
            found.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    modules = sorted({str(Path(code.co_filename).relative_to(HOME)) for code in found})
    print(f"{title}: {len(modules)} modules (at most {most}), {len(found)} functions")
    print(*(f"  {name}\n" for name in modules if listed), sep="", end="")
    return len(modules) <= most


def write_tables(folder: str) -> list[str]:
    """Write two small tables, and return the call of ``unbag fit`` for them."""
    data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    rows = pd.DataFrame(data.X).rename(columns="x{}".format)
    rows = rows.assign(day=data.y["bag"], colour=(data.X[:, 0] > 0).astype(str))
    bags = pd.Series(data.labels).groupby(data.y["bag"]).sum().rename("late")
    files = [f"{folder}/{name}" for name in ("rows.csv", "bags.csv", "model.unbag")]
    rows.to_csv(files[0], index=False)
    bags.to_csv(files[1], index_label="day")
    return ["fit", *files[:2], "--bag", "day", "--positives", "late", "-o", files[2]]


def run_quietly(call: list[str]) -> None:
    """Run a command without its output."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if main(call):
            raise RuntimeError("unbag fit failed")


if __name__ == "__main__":
    listed = "--list" in sys.argv[1:]
    data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    model = unbag.LLPClassifier()
    with tempfile.TemporaryDirectory() as folder:
        call = write_tables(folder)
        short = count("unbag fit", lambda: run_quietly(call), 80, listed)
    short &= count("LLPClassifier.fit", lambda: model.fit(data.X, data.y), 32, listed)
    sys.exit(not short)
