"""``unbag sample-labels``: which rows to label, as a file to fill in."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from unbag._text import counted
from unbag.cli.data import naming, read_bags
from unbag.cli.labels import LABEL, ROW, WEIGHT
from unbag.cli.models import add_model, class_names, open_model
from unbag.cli.options import (
    add_escape_formulas,
    add_keep,
    add_seed,
    add_tables,
    file_place,
    whole_number,
)
from unbag.cli.output import need, say
from unbag.cli.parser import add_parser
from unbag.evaluation import sample_rows_to_label
from unbag.model_selection.fitted import decision_scores
from unbag.tables import write_table
from unbag.tables.files import TableError
from unbag.tables.writing import without_formulas

_EXAMPLES = """examples:
  unbag sample-labels model.unbag may.csv regions.csv --bag region --positives yes -o to-label.csv
  unbag evaluate   model.unbag may.csv regions.csv --bag region --positives yes \\
                   --labels to-label.csv
"""


def add_command(commands: Any) -> None:
    """Add ``unbag sample-labels``."""
    parser = add_parser(
        commands,
        "sample-labels",
        "MODEL ROWS BAGS --bag COLUMN\n"
        "                           (--positives COLUMN | --proportion COLUMN) -o TABLE [options]",
        description="Sample rows of new bags whose labels are informative about the accuracy of a model, "
        "as a table\nto fill in: the column 'label' is empty. 'row' counts the rows of ROWS from 1; 'weight' "
        "says how many\nrows each stands for, and must not change. unbag evaluate --labels takes the table.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add_tables(parser, features=False)
    add = parser.add_argument
    add(
        "--rows",
        type=whole_number(1),
        default=200,
        metavar="N",
        help="how many rows to label",
    )
    add_keep(parser)
    add("-o", "--output", required=True, type=file_place, metavar="TABLE", help="table to write")
    add_escape_formulas(parser)
    add_seed(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Load, read, score, choose, write."""
    need("pandas", "skops", extra="files")

    model, schema, found = open_model(options)
    taken = [name for name in (ROW, WEIGHT, LABEL) if name in (*options.bag, *options.keep)]
    if taken:
        raise TableError(
            options.instances,
            f"has a column {taken[0]!r} to keep, and the table has one of that name; rename it, or "
            "leave it out",
            column=taken[0],
        )
    data = read_bags(options, schema, keep=dict.fromkeys(options.keep), why="to keep")
    say(*data.report.differences)
    n = min(options.rows, len(data.y))
    with naming(options):
        places, weights = sample_rows_to_label(
            n, data.y, decision_scores(model, data.X), random_state=options.seed
        )
    rows = places if data.rows is None else data.rows[places]
    table = data.kept.iloc[rows].reset_index(drop=True)
    table.insert(0, ROW, rows + 1)
    table = table.assign(**{WEIGHT: weights, LABEL: np.full(n, "", dtype=object)})
    write_table([without_formulas(table) if options.escape_formulas else table], options.output)
    names = ", ".join(map(str, class_names(found, model.classes_)))
    say(
        f"{counted(n, 'row')} written to {options.output}: fill in column {LABEL!r} ({names}), "
        f"then use unbag evaluate --labels {options.output}"
    )
    return 0
