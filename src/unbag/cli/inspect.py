"""``unbag inspect``: what bags are worth before any fit, or what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._text import counted, sentence, table_lines
from unbag.bags.inconsistencies import Inconsistency
from unbag.cli.data import join_files, match_files, naming
from unbag.cli.options import add_columns, add_json, table_place
from unbag.cli.output import need, say, show_result
from unbag.cli.parser import add_parser
from unbag.tables.files import is_table_name
from unbag.tables.inspection import column_lines, inspect_bags
from unbag.tables.persistence import describe_model

# Inconsistencies that are printed; --json has all of them.
_MOST_SHOWN = 20
_EXAMPLES = """examples:
  unbag inspect visits.parquet regions.csv --bag region --positives conversions
  unbag inspect visits.parquet regions.csv --bag region --positives conversions --json
  unbag inspect model.unbag
"""


def add_command(commands: Any) -> None:
    """Add ``unbag inspect``."""
    parser = add_parser(
        commands,
        "inspect",
        "ROWS BAGS --bag COLUMN\n"
        "                     (--positives COLUMN | --proportion COLUMN) [options]\n"
        "       unbag inspect MODEL [--json]",
        description="Check two tables before fitting: inconsistencies, effective sample size, tests of the\n"
        "assumptions, bag effects. Or describe a model file, without loading the model.",
        epilog=_EXAMPLES,
        exit_code="0 success, 1 inconsistencies found, or bad input, 2 usage error",
    )
    add = parser.add_argument
    words = "one row per individual; or a model file"
    add("instances", metavar="ROWS|MODEL", type=table_place, help=words)
    words = "one row per bag"
    add("aggregates", metavar="BAGS", type=table_place, nargs="?", help=words)
    add_columns(parser, required=False)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Inspect two tables, or a model file."""
    known = options.positives or options.proportion
    if options.aggregates is None:
        if options.bag or known:
            options.parser.error("two tables are needed: ROWS and BAGS")
        return _inspect_model(options)
    if not options.bag or not known:
        options.parser.error("two tables need --bag, and --positives or --proportion")
    need("pandas", extra="files")
    return _inspect_tables(options)


def _inspect_tables(options: argparse.Namespace) -> int:
    tables, _ = match_files(options)
    found = tables.inconsistencies(options.unmatched)
    if found:
        more = len(found) - _MOST_SHOWN
        rest = [f"and {counted(more, 'more place')}"] if more > 0 else []
        lines = [*table_lines(Inconsistency._fields, found[:_MOST_SHOWN]), *rest]
        record = {"inconsistencies": [one._asdict() for one in found]}
        show_result(options, "\n".join(lines), record)
        places = counted(len(found), "place")
        say(f"{options.aggregates} is inconsistent with {options.instances} in {places}.")
    # what is inconsistent is refused here, as in a fit, with what would help
    data = join_files(options, tables)
    with naming(options):
        seen = inspect_bags(data.X, data.y)
    columns = data.schema.to_dict()["columns"]
    size = seen.information
    counts = f"{counted(size.n_instances, 'row')} in {counted(size.n_bags, 'bag')}"
    lines = [f"{counts}; the tables are consistent.", "", *column_lines(columns), "", *seen.lines()]
    record = {"columns": columns, "inconsistencies": [], **seen.record()}
    show_result(options, "\n".join(lines), record)
    return 0


def _inspect_model(options: argparse.Namespace) -> int:
    if is_table_name(options.instances):
        options.parser.error("a table of rows needs one of bags: BAGS")
    about = describe_model(options.instances)
    metadata, schema = about["metadata"], about["schema"] or {}
    written = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [f"{metadata.get('model', 'A model')}, written {about['created']} by {written}."]
    if "n_instances" in metadata:
        lines.append(
            f"Fitted to {counted(metadata['n_instances'], 'row')} in "
            f"{counted(metadata['n_bags'], 'bag')}."
        )
    if metadata.get("training"):
        lines.append(sentence(metadata["training"]["summary"]))
    given = [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in metadata.get("fitted_with", {}).items()
        if value not in (None, [], {}) and value is not False
    ]
    lines += ["", *table_lines(("option", "value"), given)] if given else []
    if schema.get("columns"):
        lines += ["", f"Bags by: {', '.join(schema['keys']) or '-'}"]
        lines += column_lines(schema["columns"])
    estimates = (metadata.get("evaluation") or {}).get("estimates", {})
    if estimates:
        rows = [
            (name, *(f"{e[key]:.4f}" for key in ("value", "low", "high")))
            for name, e in estimates.items()
        ]
        lines += ["", "Estimated without labels, on held-out bags:"]
        lines += table_lines(("measure", "estimate", "low", "high"), rows)
    show_result(options, "\n".join(lines), about)
    return 0
