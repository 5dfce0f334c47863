"""``unbag sample-labels``: which rows to label, as a table to fill in; and that table, filled in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag._text import counted
from unbag.cli.data import BagData, add_model_command, check_names, naming, open_with_tables
from unbag.cli.options import add_output, add_shared, whole_number
from unbag.cli.output import say
from unbag.evaluation import sample_rows_to_label
from unbag.model_selection.fitted import decision_scores
from unbag.tables import open_table, write_table
from unbag.tables.column_types import ColumnType
from unbag.tables.files import TableError
from unbag.tables.writing import without_formulas

# Columns of the table.
ROW, WEIGHT, LABEL = "row", "weight", "label"

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
        "-o TABLE",
        description="Choose rows of new bags whose labels are informative about the accuracy of a model. Fill in\n"
        "the column 'label' of the table, and give it to unbag evaluate --labels. Do not change 'row',\n"
        "the number of the row from 1, and 'weight', the number of rows that it stands for.",
        epilog=_EXAMPLES,
    )
    words = "number of rows to label"
    parser.add_argument("--rows", type=whole_number(1), default=200, metavar="N", help=words)
    add_shared(parser, "--keep")
    add_output(parser, "TABLE", "table to write", required=True)
    add_shared(parser, "--escape-formulas", "--seed")


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


# --- the table filled in --------------------------------------------------------------------------


class RowLabels:
    """A table with labels of some rows, which it names by number or as the table of rows does."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._path = options, options.labels
        self._table = open_table(self._path, encoding=options.encoding, on_message=say)
        own = (ROW, WEIGHT, LABEL, *options.bag)
        keys = [name for name in self._table.names if name not in own]
        self._key = keys[0] if keys and ROW not in self._table.names else ROW
        self._table.need([self._key, LABEL])

    @property
    def keep(self) -> dict[str, ColumnType | None] | None:
        """Column to keep of the table of rows, for `read_bags`."""
        return None if self._key == ROW else {self._key: "category"}

    def of_rows(self, data: BagData, names: Sequence[Any]) -> tuple[Floats, Floats | None]:
        """Class number of every row of the data, NaN where unknown, and weights if there are any."""
        path, key = self._path, self._key
        table = self._table.read(types=dict.fromkeys({LABEL, key} - {ROW}, "category"))
        table = table[table[LABEL].notna() & (table[LABEL].astype(str) != "")]
        if not len(table):
            raise TableError(path, f"has no label filled in: column {LABEL!r} is empty")
        rows = self._row_numbers(table) if key == ROW else self._rows_by_key(table, data)
        values, times = np.unique(rows, return_counts=True)
        if (times > 1).any():
            raise TableError(path, f"has two labels for row {values[times > 1][0] + 1}")
        kept = np.arange(len(data.y)) if data.rows is None else data.rows
        places = np.minimum(np.searchsorted(kept, rows), len(kept) - 1)
        wrong = kept[places] != rows
        if wrong.any():
            raise ValueError(
                f"{path} has a label for row {rows[wrong][0] + 1}, which is not among the rows of the "
                "row table that have a bag"
            )
        labels, weights = np.full((2, len(data.y)), np.nan)
        labels[places] = self._class_numbers(table[LABEL], names)
        if WEIGHT not in self._table.names:
            return labels, None
        weights[places] = self._weights(table[WEIGHT])
        return labels, weights

    def _row_numbers(self, table: Any) -> Ints:
        """Positions from numbers that count rows from 1."""
        numbers = table[ROW].to_numpy()
        if numbers.dtype.kind not in "iu":
            raise ValueError(
                f"{self._path}: column {ROW!r} must hold row numbers, 1 for the first row"
            )
        found: Ints = numbers.astype(np.intp) - 1
        return found

    def _rows_by_key(self, table: Any, data: BagData) -> Ints:
        """Positions of the rows of the row table that have the same key."""
        key, row_table = self._key, self._options.instances
        known, wanted = data.kept.set_index(key).index.astype(str), table[key].astype(str)
        if not known.is_unique:
            raise ValueError(f"{row_table}: column {key!r} names some rows twice")
        rows: Ints = known.get_indexer(wanted)
        if (rows < 0).any():
            raise ValueError(
                f"{self._path} has a label for {key} {wanted[rows < 0].iloc[0]!r}, which is not a "
                f"row of {row_table}"
            )
        return rows

    def _class_numbers(self, labels: Any, names: Sequence[Any]) -> Floats:
        """Class numbers of labels that are class names."""
        numbers, text = {str(name): n for n, name in enumerate(names)}, labels.astype(str)
        # a column of whole numbers and missing values may be written with decimals
        found = text.map(numbers).fillna(text.str.removesuffix(".0").map(numbers))
        if found.isna().any():
            raise ValueError(
                f"{self._path} has the label {text[found.isna()].iloc[0]!r}, which is not a class; "
                f"the classes are {', '.join(numbers)}"
            )
        return found.to_numpy(dtype=float)

    def _weights(self, column: Any) -> Floats:
        import pandas as pd

        values: Floats = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(
                f"{self._path}: column {WEIGHT!r} must hold a positive number for each label"
            )
        return values
