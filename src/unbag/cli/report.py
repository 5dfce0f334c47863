"""``unbag report``: a page on how good a classifier is, from two tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from unbag._files import check_place
from unbag.cli.data import read_bags
from unbag.cli.options import add_quiet, add_tables, page_place
from unbag.cli.output import need, say, show
from unbag.cli.parser import add_parser
from unbag.cli.training import add_fitting, check_fitting, train_pipeline

_EXAMPLES = """examples:
  unbag report people.csv results.csv --bag district --positives yes_votes
  unbag report people.csv results.csv --bag district --proportion yes_share --noise 0.01 \\
      --title "The vote of 2024" -o vote.html

'unbag fit --report' writes the same page, and keeps the model.
"""


def add_command(commands: Any) -> None:
    """Add ``unbag report``."""
    parser = add_parser(
        commands,
        "report",
        "ROWS BAGS --bag COLUMN\n"
        "                    (--positives COLUMN | --proportion COLUMN) [options]",
        description="Nothing but proportions is needed: every figure is estimated without labels.",
        epilog=_EXAMPLES,
    )
    add_tables(parser)
    add_fitting(parser)
    add = parser.add_argument
    add("--title", help="heading of the page")
    default = Path("unbag-report.html")
    add("-o", "--output", type=page_place, default=default, metavar="PAGE", help="page to write")
    add_quiet(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Fit, and write the page."""
    if not options.folds:
        options.parser.error("argument --folds: a report needs at least 2")
    check_fitting(options)
    need("pandas", "matplotlib", extra="report")
    check_place(options.output)

    data = read_bags(options)
    trained = train_pipeline(options, data)
    say(*trained.lines)
    report = trained.report(data, options, options.output)
    show(f"{report}\n\nPage: {options.output}")
    return 0
