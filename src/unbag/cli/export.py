"""``unbag export``: a model file as an ONNX graph or as SQL, to be run elsewhere."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from unbag._files import check_place, write_whole
from unbag.cli.data import add_model, class_names, open_model
from unbag.cli.options import add_output, add_shared
from unbag.cli.output import need, safe, say, show_json, show_result
from unbag.cli.parser import add_parser
from unbag.tables.scoring import Rule, rule_of
from unbag.tables.sql_export import select_statement, to_sql
from unbag.tables.sql_expressions import DIALECTS

_EXAMPLES = """examples:
  unbag export model.unbag -o model.onnx
  unbag export model.unbag -o model.onnx --json       names and types of inputs and outputs
  unbag export model.unbag --sql duckdb --table visits -o score.sql
  duckdb warehouse.duckdb < score.sql
"""


def add_command(commands: Any) -> None:
    """Add ``unbag export``."""
    parser = add_parser(
        commands,
        "export",
        "MODEL (-o FILE | --sql DIALECT [-o FILE]) [options]",
        description="Write a model and its features as ONNX, which runs without Python, or as SQL, which "
        "scores rows\nin a database. In ONNX every column is an input of shape (rows, 1):\n\n"
        "  numbers      double, NaN if missing\n"
        "  true, false  double, 1 and 0\n"
        "  times        double, seconds since 1970 (UTC)\n"
        "  the rest     text, empty if missing\n\n"
        "Outputs are class, score and probability, as of unbag predict; probability has a column for "
        "each\nclass. In SQL, columns have the types of the training table; the output is an expression "
        "for the\nprobability, or one for each of several classes.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add = parser.add_argument
    add_output(parser, "FILE", "file to write; without one, SQL is printed")
    add("--sql", choices=DIALECTS, metavar="DIALECT", help=f"write SQL: {', '.join(DIALECTS)}")
    add("--table", metavar="NAME", help="with --sql: write a query for all rows of this table")
    words = "with --sql: log-odds instead of probabilities, for engines without EXP"
    add("--log-odds", action="store_true", help=words)
    add_shared(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Load, convert and write."""
    if options.sql is None and options.output is None:
        options.parser.error("give -o FILE for ONNX, or --sql DIALECT")
    if options.sql is None and (options.table is not None or options.log_odds):
        options.parser.error("--table and --log-odds go with --sql")
    if options.output is not None:
        check_place(options.output)
    if options.sql is None:
        need("onnx", extra="export")
    model, schema, found = open_model(options)
    about: dict[str, Any] = {"schema": schema, "class_names": class_names(found, model.classes_)}
    rule = rule_of(found, None, about["class_names"])
    if options.sql is None:
        _write_onnx(options, model, 0.0 if rule is None else rule.score_threshold, about)
    else:
        _write_sql(options, model, rule, about)
    return 0


def _write_onnx(
    options: argparse.Namespace, model: Any, score_threshold: float, about: dict[str, Any]
) -> None:
    from unbag.tables.onnx_export import export_onnx, read_signature

    path = export_onnx(model, options.output, score_threshold=score_threshold, **about)
    signature = read_signature(path)
    lines = [f"{path} has these inputs and outputs:"]
    for what, variables in signature.items():
        lines += [f"  {what[:-1]:6}  {v['type']:6}  {v['name']}" for v in variables]
    show_result(options, "\n".join(lines), {"output": str(path), **signature})


def _write_sql(
    options: argparse.Namespace, model: Any, rule: Rule | None, about: dict[str, Any]
) -> None:
    output = "score" if options.log_odds else "probability"
    columns = to_sql(model, options.sql, output=output, **about)
    if options.table is not None:
        text = select_statement(columns, options.sql, options.table) + ";"
    else:
        text = ",\n".join(columns.values())
    if rule is not None:
        say(f"Class: {rule}.")
    if options.output is not None:
        write_whole(options.output, f"{text}\n")
    if options.json:
        show_json({"output": options.output, "dialect": options.sql, "columns": columns})
    elif options.output is None:
        # to a pipe or file as it is: an escaped name would be another one
        print(safe(text) if sys.stdout.isatty() else text)
    else:
        say(f"SQL: {options.output}")
