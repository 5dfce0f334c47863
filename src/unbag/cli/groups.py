"""``unbag groups``: shares of the classes in groups of rows, by a saved model."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._text import counted
from unbag.cli.data import naming, read_bags
from unbag.cli.models import add_model, check_classes, class_names, open_model
from unbag.cli.options import (
    add_json,
    add_page,
    add_seed,
    add_tables,
    by_commas,
    check_page,
    whole_number,
)
from unbag.cli.output import need, records, say, show, show_json
from unbag.cli.parser import add_parser
from unbag.inference import group_estimates, group_sensitivity
from unbag.reports.groups import groups_page

# Groups that make a table one can read.
_MOST_GROUPS = 50

_EXAMPLES = """examples:
  unbag fit    voters.csv results.csv --bag precinct --positives ann,bob,cy -o votes.unbag
  unbag groups votes.unbag voters.csv results.csv --bag precinct --positives ann,bob,cy \\
               --by race --contrast black-white --class ann --report race.html
"""


def add_command(commands: Any) -> None:
    """Add ``unbag groups``."""
    parser = add_parser(
        commands,
        "groups",
        "MODEL ROWS BAGS --bag COLUMN\n"
        "                    (--positives COLUMN | --proportion COLUMN)\n"
        "                    (--by COLUMN | --margins COLUMN,COLUMN) [options]",
        description="Estimate the share of each class in groups of rows, with intervals from the posterior of "
        "the\nmodel, and bounds that hold for any model. Give the rows and bags that the model was "
        "fitted to.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add_tables(parser, features=False, members=True)
    add = parser.add_argument
    add(
        "--by",
        type=by_commas,
        metavar="COLUMN[,COLUMN]",
        help="columns of ROWS that make groups; with --margins these are the groups",
    )
    add(
        "--contrast",
        action="append",
        default=[],
        metavar="GROUP-GROUP",
        help="two groups to compare, and how strong an unobserved contextual effect would overturn "
        "that; may be given several times",
    )
    add(
        "--class",
        dest="of",
        metavar="CLASS",
        help="class that contrasts are about, if more than two",
    )
    add("--draws", type=whole_number(10), default=200, metavar="N", help="draws from the posterior")
    add_page(parser)
    add_seed(parser)
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Load, read, draw, compare."""
    need("pandas", "skops", extra="files")
    check_page(options)
    if bool(options.by) == bool(options.margins):
        options.parser.error("give either --by or --margins, to say which the groups are")
    options.by = options.by or ["group"]
    model, schema, found = open_model(options)
    data = read_bags(
        options, schema, keep=dict.fromkeys(options.by, "category"), why="to make groups by"
    )
    say(*data.report.differences)
    check_classes(options, data, len(class_names(found, model.classes_)))
    kept = data.kept if data.rows is None else data.kept.iloc[data.rows]
    columns = [
        kept[name].astype(object).where(kept[name].notna(), "missing") for name in options.by
    ]
    by = [" ".join(map(str, values)) for values in zip(*columns, strict=True)]
    n_groups = len(set(by))
    if n_groups > _MOST_GROUPS:
        raise ValueError(
            f"--by {','.join(options.by)} would make {counted(n_groups, 'group')}, and more than "
            f"{_MOST_GROUPS} make no table; give a column of fewer values"
        )
    pairs = [_pair(text, set(by), options) for text in options.contrast]
    draws = {"n_draws": options.draws, "random_state": options.seed}
    with naming(options):
        estimates = group_estimates(model, data.X, data.y, by, **draws)
        contrasts = [estimates.contrast(*pair, of=options.of) for pair in pairs]
        limits = [
            group_sensitivity(
                model, data.X, data.y, by, *pair, of=options.of, random_state=options.seed
            )
            for pair in pairs
        ]
    if options.report is not None:
        title = f"Shares by {', '.join(options.by)}"
        about = {"title": title, "command": options.command}
        groups_page(estimates, limits, model=model, **about).save(options.report)
        say(f"Page:  {options.report}")
    if options.json:
        show_json(
            {
                "groups": estimates.table.to_dict("records"),
                "bags": estimates.bags.to_dict("records"),
                "polarisation": records(estimates.polarisation()),
                "contrasts": [vars(one) for one in contrasts],
                "sensitivity": [
                    vars(one) | {"effects": [vars(effect) for effect in one.effects]}
                    for one in limits
                ],
                "notes": estimates.notes,
            }
        )
        return 0
    show(str(estimates))
    for contrast, limit in zip(contrasts, limits, strict=True):
        show(f"\n{contrast}\n{limit.summary}")
    return 0


def _pair(text: str, groups: set[str], options: argparse.Namespace) -> tuple[str, str]:
    """The two groups of a contrast, whose names may hold hyphens."""
    parts = text.split("-")
    splits = (("-".join(parts[:k]), "-".join(parts[k:])) for k in range(1, len(parts)))
    for first, second in splits:
        if first in groups and second in groups:
            return first, second
    names = ", ".join(sorted(groups)[:5])
    options.parser.error(f"--contrast {text!r} names no two groups, such as {names}")
    raise AssertionError
