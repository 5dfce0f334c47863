"""``unbag groups``: shares of the classes in groups of rows, by a saved model."""

from __future__ import annotations

import argparse
import textwrap
from itertools import product
from typing import Any

from unbag._text import WIDTH, counted, listing
from unbag.cli.data import add_model_command, naming, open_with_tables
from unbag.cli.options import add_shared, by_commas
from unbag.cli.output import records, save_page, show_result
from unbag.inference import group_estimates, group_sensitivity
from unbag.inference.grouped_rows import read_groups_by
from unbag.reports.groups import groups_page
from unbag.tables.column_types import ColumnType

# Groups that make a table one can read.
_MOST_GROUPS = 50

_EXAMPLES = """examples:
  unbag fit    voters.csv results.csv --bag precinct --positives ann,bob,cy -o votes.unbag
  unbag groups votes.unbag voters.csv results.csv --bag precinct --positives ann,bob,cy \\
               --by race --contrast black-white --class ann --report race.html
"""


def add_command(commands: Any) -> None:
    """Add ``unbag groups``."""
    parser = add_model_command(
        commands,
        "groups",
        "(--by COLUMN | --margins COLUMN,COLUMN)",
        members=True,
        description="Estimate the share of each class in groups of rows, with intervals from the posterior of the\n"
        "model, and bounds that hold without a model. ROWS and BAGS are those of unbag fit.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    words = "columns of ROWS that make groups; not with --margins, which are the groups"
    add("--by", type=by_commas, metavar="COLUMN[,COLUMN]", help=words)
    words = (
        "two groups to compare, with the strength of an unobserved contextual effect that would "
        "overturn the difference; repeat for more"
    )
    add("--contrast", action="append", default=[], metavar="GROUP-GROUP", help=words)
    words = "class to compare, if there are more than two"
    add("--class", dest="of", metavar="CLASS", help=words)
    add_shared(parser, "--report", "--json")


def run(options: argparse.Namespace) -> int:
    """Load, read, draw, compare."""
    if bool(options.by) == bool(options.margins):
        options.parser.error("give either --by or --margins, which name the groups")
    options.by = options.by or ["group"]
    keep: dict[str, ColumnType | None] = dict.fromkeys(options.by, "category")
    model, _, data, _ = open_with_tables(options, keep, "to make groups by")
    kept = data.kept if data.rows is None else data.kept.iloc[data.rows]
    groups, code = read_groups_by(kept, options.by, len(kept))
    if len(groups) > _MOST_GROUPS:
        raise ValueError(
            f"--by {','.join(options.by)} would make {counted(len(groups), 'group')}, and more than "
            f"{_MOST_GROUPS} are too many for a table; give a column with fewer values"
        )
    by, pairs = groups[code], [_pair(text, groups.tolist(), options) for text in options.contrast]
    with naming(options):
        estimates = group_estimates(model, data.X, data.y, by, random_state=0)
        compared = [
            (
                estimates.contrast(*pair, of=options.of),
                group_sensitivity(model, data.X, data.y, by, *pair, of=options.of, random_state=0),
            )
            for pair in pairs
        ]
    if options.report is not None:
        title = f"Shares by {', '.join(options.by)}"
        about = {"title": title, "command": options.command}
        save_page(groups_page(estimates, compared, model=model, **about), options)
    said = (
        "\n".join(textwrap.fill(part, WIDTH) for part in (str(one), limit.summary))
        for one, limit in compared
    )
    text = "\n\n".join([str(estimates), *said])
    record = {
        "groups": estimates.table.to_dict("records"),
        "bags": estimates.bags.to_dict("records"),
        "polarisation": records(estimates.polarisation()),
        "contrasts": [vars(one) for one, _ in compared],
        "sensitivity": [
            vars(one) | {"effects": [vars(effect) for effect in one.effects]} for _, one in compared
        ],
        "notes": estimates.notes,
    }
    show_result(options, text, record)
    return 0


def _pair(text: str, groups: list[str], options: argparse.Namespace) -> tuple[str, str]:
    """The two groups of a contrast, whose names may hold hyphens."""
    for first, second in product(groups, repeat=2):
        if f"{first}-{second}" == text:
            return first, second
    options.parser.error(
        f"--contrast {text!r} does not name two groups; there are {listing(groups)}"
    )
    raise AssertionError
