"""What commands have in common: the options that say what two tables hold, and how to help."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from unbag._files import check_place
from unbag.bags.joining import check_ignore
from unbag.cli.output import need
from unbag.tables.column_types import ColumnType
from unbag.tables.files import STANDARD_INPUT, TableURL, as_location
from unbag.tables.formats import find_parts

FORMATS = (
    ".csv, .tsv, .jsonl (also .gz, .bz2, .xz, .zst, .zip), .parquet, .arrow, .feather, .xlsx, "
    ".sqlite, .duckdb; a folder or pattern of such; a database as an SQLAlchemy URL; - for stdin"
)
_NAMES, _COLUMN = "COLUMN[,COLUMN]", "COLUMN"


def add_tables(
    parser: argparse.ArgumentParser, *, features: bool = True, members: bool = False
) -> None:
    """Add the two tables, and the options that describe their columns."""
    add = parser.add_argument
    add("instances", metavar="ROWS", type=table_place, help=f"one row per individual: {FORMATS}")
    add("aggregates", metavar="BAGS", type=table_place, help="one row per bag, likewise")
    add_columns(parser, features=features, members=members)


def add_columns(
    parser: argparse.ArgumentParser,
    *,
    required: bool = True,
    features: bool = True,
    members: bool = False,
) -> None:
    """Add the options that describe the columns of two tables.

    ``features`` for a fit; ``members`` for what may have groups in place of rows, or hidden counts.
    """
    group = parser.add_argument_group("columns")
    add = group.add_argument
    words = "column that names the bag, in both tables; with several, each combination is a bag"
    add("--bag", type=by_commas, required=required, metavar=_NAMES, help=words)
    known = group.add_mutually_exclusive_group(required=required)
    words = (
        "column of BAGS with the number of positives; with more than two classes, one column each"
    )
    known.add_argument("--positives", type=by_commas, metavar=_NAMES, help=words)
    words = "column of BAGS with the proportion of positives, 0 to 1; with more classes, one column each"
    known.add_argument("--proportion", type=by_commas, metavar=_NAMES, help=words)
    add("--percent", action="store_true", help="--proportion and its noise are in percent")
    words = (
        "column of BAGS with the size of each bag; if a bag has fewer rows, these are taken as a "
        "random sample of it"
    )
    add("--bag-size", metavar=_COLUMN, help=words)
    words = "standard deviation of the noise in --positives or --proportion"
    add("--noise", type=number_or_name, metavar="COLUMN|NUMBER", help=words)
    parser.set_defaults(**NOT_GIVEN)
    if features or members:
        words = (
            "counts that an empty cell, * or 'suppressed' may stand for, such as 1-9, or unknown; "
            "cells such as <10 or 10-19 need no option"
        )
        add("--hidden", metavar="SET", help=words)
        words = (
            "columns of ROWS with the size of each group, if you have group sizes per bag instead of "
            "individuals; BAGS may be the same file"
        )
        add("--margins", type=by_commas, metavar=_NAMES, help=words)
        words = "column of ROWS: how many identical rows each row stands for"
        add("--multiplicity", metavar=_COLUMN, help=words)
    if features:
        words = (
            "group identical rows first, in the database if ROWS is a DuckDB file; if there are too "
            "many, whole bags are sampled"
        )
        add("--group-rows", action="store_true", help=words)
        words = "with --group-rows: bins per numeric column (default: 256, or fewer)"
        add("--bins", type=whole_number(2), metavar="N", help=words)
        words = (
            "column of ROWS with the labels of some rows, empty for the others: 0, 1, ..., or names "
            "of class columns"
        )
        add("--labels", dest="label_column", metavar=_COLUMN, help=words)
        words = "columns of ROWS that are not features"
        add("--exclude", type=by_commas, default=[], metavar=_NAMES, help=words)
    words = (
        "corrects inferred types: number, category, boolean or time; a category keeps leading zeros"
    )
    add("--types", type=_types, default={}, metavar="COLUMN=TYPE[,...]", help=words)
    words = "refuse bags that only one of the tables has, or leave them out"
    add("--unmatched", choices=["error", "drop"], default="error", help=words)
    words = "differences between keys to ignore: case, whitespace, leading-zeros, date-format, time"
    add("--ignore", type=_differences, metavar="DIFFERENCE[,...]", help=words)
    add_reading(parser)


# What commands that lack an option of `add_columns` have in its place.
NOT_GIVEN = dict.fromkeys(("label_column", "hidden", "margins", "multiplicity", "bins")) | {
    "group_rows": False
}


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how tables are read."""
    add = parser.add_argument_group("reading").add_argument
    words = "query for ROWS if it is a database; the sheet if it is a workbook"
    add("--query", metavar="SQL|SHEET", help=words)
    add("--bags-query", metavar="SQL|SHEET", help="the same for BAGS")
    words = "encoding of text that is not UTF-8 or UTF-16"
    add("--encoding", default="cp1252", metavar="NAME", help=words)
    words = "text that stands for a missing value, such as '?', in addition to empty cells and NA"
    add("--na-values", type=by_commas, default=[], metavar="TEXT[,TEXT]", help=words)


def add_output(parser: Any, metavar: str, words: str, **how: Any) -> None:
    """Add the file that a command writes."""
    parser.add_argument("-o", "--output", metavar=metavar, help=words, **{"type": file_place} | how)


def add_shared(parser: Any, *names: str) -> None:
    """Add options that are the same in several commands."""
    shared: dict[str, dict[str, Any]] = {
        "--seed": {"type": whole_number(0), "default": 0, "metavar": "N", "help": "random seed"},
        "--json": {"action": "store_true", "help": "print one JSON object"},
        "--report": {"type": page_place, "metavar": "PAGE", "help": "write an HTML page"},
        "--keep": {
            "type": by_commas,
            "default": [],
            "metavar": _NAMES,
            "help": "columns of ROWS to copy to the output, such as an id",
        },
        "--escape-formulas": {
            "action": "store_true",
            "help": "put an apostrophe before text that a spreadsheet would run as a formula, such as =1+1",
        },
    }
    for name in names:
        parser.add_argument(name, **shared[name])


# Files that a command reads, and those that it writes, by the names of its arguments.
_READ = ("instances", "aggregates", "bag_totals", "labels", "model")
_WRITTEN = {"output": "-o", "report": "--report"}


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse to write over what is read, twice into one file, or a page that cannot be drawn."""
    given = vars(options)
    if given.get("report") is not None:
        check_place(options.report)
        need("matplotlib", extra="report")
    written = {
        option: Path(given[name])
        for name, option in _WRITTEN.items()
        if isinstance(given.get(name), str | Path) and str(given[name]) != STANDARD_INPUT
    }
    places = [given.get(name) for name in _READ]
    places += [place for _, place in given.get("grouping") or ()]
    for option, path in written.items():
        if path.is_file() and any(_holds(place, path) for place in places):
            options.parser.error(f"{option} {path} is read here: give another name to be written")
    names = [path.absolute() for path in written.values()]
    if len(set(names)) < len(names):
        options.parser.error(f"{' and '.join(written)} are one file: give two names")


def _holds(place: Any, path: Path) -> bool:
    """Whether a file is what is read at some place, or a part of it."""
    if not isinstance(place, Path):
        return False
    # what is wrong with a file is reported when it is read
    with suppress(OSError):
        return any(path.samefile(file) for file in find_parts(place) or [place])
    return False


def table_place(text: str) -> Path | TableURL:
    """Read where a table is."""
    try:
        return as_location(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_place(text: str) -> Path:
    """Read where a file is: on this machine, and not behind an address."""
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{TableURL(text)} is an address, and a file on this machine is needed"
        )
    return Path(text)


def page_place(text: str) -> Path:
    """Read where a page is to be written."""
    path = file_place(text)
    if path.suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"pages are HTML: {path} must end in .html")
    return path


def by_commas(text: str) -> list[str]:
    """Split names at commas."""
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"names separated by commas are needed, not {text!r}")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise argparse.ArgumentTypeError(f"{twice[0]!r} is named twice")
    return names


def _number(kind: type, holds: Callable[[Any], bool], words: str) -> Callable[[str], Any]:
    """Make a type of argument: a number of which something holds."""

    def read(text: str) -> Any:
        with suppress(ValueError):
            if holds(kind(text)):
                return kind(text)
        raise argparse.ArgumentTypeError(f"{words} is needed, not {text!r}")

    return read


def whole_number(least: int) -> Callable[[str], Any]:
    """Make a type of argument: a whole number that is large enough."""
    return _number(int, lambda number: number >= least, f"a whole number of at least {least}")


positive_number = _number(float, lambda number: 0 < number < math.inf, "a positive number")
proportion = _number(float, lambda number: 0 < number < 1, "a number between 0 and 1")


def one_or_all(names: list[str] | None) -> Any:
    """One column as its name, several as a list, as `unbag.bags_from_frame` takes them."""
    return names[0] if names is not None and len(names) == 1 else names


def number_or_name(text: str) -> str | float:
    """Read a number, or else a name."""
    try:
        return float(text)
    except ValueError:
        return text


def _differences(text: str) -> list[str]:
    try:
        return check_ignore([name.replace("-", "_") for name in by_commas(text)])
    except ValueError:
        known = "case, whitespace, leading-zeros, date-format, time"
        raise argparse.ArgumentTypeError(f"it takes {known}, not {text!r}") from None


def _types(text: str) -> dict[str, ColumnType]:
    kinds: dict[str, Any] = {}
    for part in by_commas(text):
        name, found, kind = part.rpartition("=")
        if not found or kind not in get_args(ColumnType):
            raise argparse.ArgumentTypeError(
                f"{part!r} is not of the form COLUMN=TYPE, where TYPE is one of "
                f"{', '.join(get_args(ColumnType))}"
            )
        if name in kinds:
            raise argparse.ArgumentTypeError(f"{name!r} has two types, {kinds[name]} and {kind}")
        kinds[name] = kind
    return kinds
