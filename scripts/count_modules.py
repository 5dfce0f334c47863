"""Count the modules that `unbag fit` and an estimator's fit enter, and the functions they call.

A module counts as entered if one of its functions runs; importing it does not count.

    python scripts/count_modules.py [--list] [ESTIMATOR]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pandas as pd

import unbag
import unbag.cli.fit  # what runs on import does not count
from unbag.cli import main
from unbag.datasets import make_gaussian_bags

# The most modules that a command and an estimator should enter.
TARGETS = {"unbag fit": 80, "fit": 32}
_HOME = str(Path(unbag.__file__).parent)


@contextlib.contextmanager
def called() -> Iterator[set[CodeType]]:
    """Collect the functions of unbag that run, in all threads."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_HOME) and code.co_flags & 2:
            found.add(code)  # the flag tells functions from bodies of modules

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def write_tables(folder: Path) -> list[str]:
    """Write two small tables, and return the call of ``unbag fit`` for them."""
    data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    people = pd.DataFrame(data.X).rename(columns="x{}".format)
    people = people.assign(d=data.y["bag"], colour=np.where(data.X[:, 0] > 0, "red", "blue"))
    counts = pd.Series(data.labels).groupby(data.y["bag"]).sum()
    people.to_csv(folder / "people.csv", index=False)
    pd.DataFrame({"d": counts.index, "p": counts}).to_csv(folder / "results.csv", index=False)
    tables = [str(folder / name) for name in ("people.csv", "results.csv")]
    return ["fit", *tables, "--bag", "d", "--positives", "p", "-o", str(folder / "m.unbag")]


def run_command(arguments: list[str]) -> None:
    """Run a command without its output."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if main(arguments):
            raise RuntimeError("unbag fit failed")


def report(title: str, run: Callable[[], object], target: int, listed: bool) -> None:
    """Print the counts of one call."""
    with called() as found:
        run()
    modules = sorted({str(Path(code.co_filename).relative_to(_HOME)) for code in found})
    lines = sum(len((Path(_HOME) / name).read_text().splitlines()) for name in modules)
    print(
        f"{title}: {len(modules)} modules (target {target}) of {lines:,} lines, "
        f"{len(found)} functions"
    )
    for name in modules if listed else ():
        print(f"  {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("estimator", nargs="?", default="LLPClassifier")
    parser.add_argument("--list", action="store_true", help="print the names of the modules")
    options = parser.parse_args()
    data = make_gaussian_bags(n_bags=40, bag_size=30, random_state=0)
    estimator = getattr(unbag, options.estimator)()
    with tempfile.TemporaryDirectory() as folder:
        call = write_tables(Path(folder))
        report("unbag fit", lambda: run_command(call), TARGETS["unbag fit"], options.list)
    name = f"{options.estimator}.fit"
    report(name, lambda: estimator.fit(data.X, data.y), TARGETS["fit"], options.list)
