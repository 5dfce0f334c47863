"""``unbag sample-labels``: which rows to label, as a file to fill in."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from unbag._text import counted
from unbag.cli.data import check_names, naming
from unbag.cli.labels import LABEL, ROW, WEIGHT
from unbag.cli.models import add_model_command, open_with_tables
from unbag.cli.options import (
    add_escape_formulas,
    add_keep,
    add_output,
    add_seed,
    whole_number,
)
from unbag.cli.output import say
from unbag.evaluation import sample_rows_to_label
from unbag.model_selection.fitted import decision_scores
from unbag.tables import write_table
from unbag.tables.writing import without_formulas

_EXAMPLES = """examples:
  unbag sample-labels model.unbag may.csv regions.csv --bag region --positives yes -o to-label.csv
  unbag evaluate   model.unbag may.csv regions.csv --bag region --positives yes \\
                   --labels to-label.csv
"""


def add_command(commands: Any) -> None:
    """Add ``unbag sample-labels``."""
    parser = add_model_command(
        commands,
        "sample-labels",
        "-o TABLE [options]",
        description="Choose rows of new bags whose labels are informative about the accuracy of a model, "
        "and write them\nto a table. Fill in its column 'label' and give the table to unbag evaluate "
        "--labels. 'row' counts the\nrows of ROWS from 1; 'weight' says how many rows each stands for. "
        "Do not change these two.",
        epilog=_EXAMPLES,
    )
    words = "number of rows to label"
    parser.add_argument("--rows", type=whole_number(1), default=200, metavar="N", help=words)
    add_keep(parser)
    add_output(parser, "TABLE", "table to write", required=True)
    add_escape_formulas(parser)
    add_seed(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Load, read, score, choose, write."""
    check_names(options.instances, (ROW, WEIGHT, LABEL), (*options.bag, *options.keep))
    keep = dict.fromkeys(options.keep)
    model, _, data, names = open_with_tables(options, keep, "to keep")
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
    say(
        f"{counted(n, 'row')} written to {options.output}: fill in column {LABEL!r} "
        f"({', '.join(map(str, names))}), then use unbag evaluate --labels {options.output}"
    )
    return 0
