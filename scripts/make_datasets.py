"""Rebuild the data files shipped in ``unbag.datasets`` from the original UCI files.

    python scripts/make_datasets.py FOLDER

``FOLDER`` holds ``adult.data``, ``adult.test`` and ``magic04.data`` as the UCI Machine Learning
Repository gives them. The same originals give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
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


def main() -> None:
    """Write every shipped file and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder with the original UCI files")
    parser.add_argument("--to", type=Path, default=DESTINATION, help="where to write them")
    arguments = parser.parse_args()
    for original, (shipped, columns) in SHIPPED.items():
        with (arguments.folder / original).open(encoding="ascii") as lines:
            text = clean(lines, columns)
        packed = lzma.compress(text.encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
        (arguments.to / shipped).write_bytes(packed)
        print(f"{shipped}: {len(packed):,} bytes")


if __name__ == "__main__":
    main()
