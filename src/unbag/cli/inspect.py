"""``unbag inspect``: what bags are worth before any fit, or what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._text import counted, sentence, table_lines
from unbag.bags.inconsistencies import Inconsistency
from unbag.cli.data import join_files, match_files, naming
from unbag.cli.options import add_columns, add_json, table_place
from unbag.cli.output import need, say, show, show_json
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
        description="Before fitting: inconsistencies between the two tables, effective sample size, a "
        "test of label\nshift, and bag effects. For a model file: what it was fitted to and its "
        "accuracy, without loading\nthe model.",
        epilog=_EXAMPLES,
        exit_code="0 success, 1 inconsistencies found, or bad input, 2 usage error",
    )
    add = parser.add_argument
    model = "ROWS|MODEL"
    add("instances", metavar=model, type=table_place, help="one row per instance; or a model")
    add("aggregates", metavar="BAGS", type=table_place, nargs="?", help="one row per bag")
    add_columns(parser, required=False)
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


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
        if options.json:
            show_json({"inconsistencies": [one._asdict() for one in found]})
        else:
            more = len(found) - _MOST_SHOWN
            rest = [f"and {counted(more, 'more place')}"] if more > 0 else []
            show("\n".join([*table_lines(Inconsistency._fields, found[:_MOST_SHOWN]), *rest]))
        places = counted(len(found), "place")
        say(f"{options.aggregates} is inconsistent with {options.instances} in {places}.")
    # what is inconsistent is refused here, as in a fit, with what would help
    data = join_files(options, tables)
    with naming(options):
        seen = inspect_bags(data.X, data.y)
    columns = data.schema.to_dict()["columns"]
    if options.json:
        show_json({"columns": columns, "inconsistencies": [], **seen.record()})
        return 0
    size = seen.information
    counts = f"{counted(size.n_instances, 'instance')} in {counted(size.n_bags, 'bag')}"
    head = f"{counts}; the tables are consistent."
    show("\n".join([head, "", *column_lines(columns), "", *seen.lines()]))
    return 0


def _inspect_model(options: argparse.Namespace) -> int:
    if is_table_name(options.instances):
        options.parser.error("a table of rows needs one of bags: BAGS")
    about = describe_model(options.instances)
    if options.json:
        show_json(about)
        return 0
    metadata, schema = about["metadata"], about["schema"] or {}
    written = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [f"{metadata.get('model', 'A model')}, written {about['created']} by {written}."]
    if "n_instances" in metadata:
        lines.append(
            f"Fitted to {counted(metadata['n_instances'], 'instance')} in "
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
    show("\n".join(lines))
    return 0
