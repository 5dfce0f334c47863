"""``unbag example``: the tables of the tutorials, as files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import narwhals as nw

from unbag.cli.output import need, show
from unbag.cli.parser import add_parser
from unbag.datasets import load_flights, load_visits
from unbag.datasets.shipped import conversion_tables
from unbag.tables import write_table

_EXAMPLES = """examples:
  unbag example visits                        visitors of a shop, and purchases per region
  unbag example conversions --folder june     with noise, missing values and a misleading column
  unbag example flights                       flights of 2013, and the number of late ones per day
"""


def add_command(commands: Any) -> None:
    """Add ``unbag example``."""
    words = "Write the tables that the tutorials work on."
    example = add_parser(commands, "example", "NAME [options]", description=words, epilog=_EXAMPLES)
    example.add_argument("name", choices=list(_TABLES), metavar="NAME", help=" | ".join(_TABLES))
    words = "where to write (default: NAME)"
    example.add_argument("--folder", type=Path, metavar="FOLDER", help=words)


def run(options: argparse.Namespace) -> int:
    """Write one file for each table."""
    need("pandas", "pyarrow", extra="files")
    folder = options.folder or Path(options.name)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in _TABLES[options.name]().items():
        path = folder / name
        write_table([table], path)
        show(f"{path}: {len(nw.from_native(table)):,} rows")
    return 0


def _visits() -> dict[str, Any]:
    months = {month: load_visits(month) for month in ("may", "june")}
    rows = {f"{month}-visits.csv": visits.frame for month, visits in months.items()}
    return rows | {f"{month}-regions.csv": visits.regions for month, visits in months.items()}


def _conversions() -> dict[str, Any]:
    return {
        f"{month}-{name}.{'parquet' if name == 'visits' else 'csv'}": table
        for month in ("may", "june")
        for name, table in conversion_tables(month).items()
    }


def _flights() -> dict[str, Any]:
    flights = load_flights()
    return {"flights.csv": flights.frame, "days.csv": flights.days}


_TABLES = {"visits": _visits, "conversions": _conversions, "flights": _flights}
