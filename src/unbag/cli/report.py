"""``unbag report``: a page on how good a classifier is, from two tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from unbag._files import check_place
from unbag.cli.data import read_bags
from unbag.cli.options import add_fitting, add_quiet, add_tables
from unbag.cli.output import need, say, show
from unbag.cli.parser import add_parser
from unbag.reports import fit_report
from unbag.tabular.pipeline import make_model

_EXAMPLES = """examples:
  unbag report people.csv results.csv --bag district --positives yes_votes
  unbag report people.csv results.csv --bag district --proportion yes_share --noise 0.01 \\
      --title "The vote of 2024" -o vote.html

'unbag fit --report' writes the same page, and keeps the model.

exit code: 0 done, 1 data or files at fault, 2 called wrongly, 130 interrupted
"""


def add_command(commands: Any) -> None:
    """Add ``unbag report``."""
    parser = add_parser(
        commands,
        "report",
        "INSTANCES AGGREGATES --bag COLUMN\n"
        "                    (--positives COLUMN | --proportion COLUMN) [options]",
        description="Nothing but proportions is needed: every figure is estimated without labels.",
        epilog=_EXAMPLES,
    )
    add_tables(parser)
    add_fitting(parser)
    add = parser.add_argument
    add("--title", help="heading of the page")
    default = Path("unbag-report.html")
    add("-o", "--output", type=Path, default=default, metavar="PAGE", help="page to write")
    add_quiet(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Fit, and write the page."""
    if options.folds < 2:
        options.parser.error("argument --folds: a report needs at least 2")
    need("pandas", "matplotlib", extra="report")
    if options.model == "boosted":
        need("lightgbm", extra="boosting")
    check_place(options.output)

    data = read_bags(options)
    report = fit_report(
        make_model(data.X, data.y, model=options.model, random_state=options.seed, tell=say),
        data.X,
        data.y,
        cv=options.folds,
        title=options.title,
        path=options.output,
        random_state=options.seed,
        verbose=0 if options.quiet else 1,
    )
    show(f"{report}\n\nPage: {options.output}")
    return 0
