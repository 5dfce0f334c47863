"""``unbag predict``: scores of new instances, for tables of any size."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from unbag._text import counted
from unbag.cli.loading import add_model, class_names, open_model
from unbag.cli.options import (
    FORMATS,
    add_json,
    add_quiet,
    add_reading,
    by_commas,
    table_place,
    whole_number,
)
from unbag.cli.output import need, safe, say, show_json
from unbag.cli.parser import add_parser
from unbag.tabular import open_table, write_table
from unbag.tabular.file import TableError, TableFile
from unbag.tabular.kinds import Kind
from unbag.tabular.pipeline import split_pipeline
from unbag.tabular.schema import SchemaReport
from unbag.tabular.writing import as_text

_EXAMPLES = """examples:
  unbag predict model.unbag new.parquet -o scores.parquet
  unbag predict model.unbag new.csv.gz -o scores.csv --keep visit_id,region
  unbag predict model.unbag new.csv -o - | head       CSV on the terminal

exit code: 0 done, 1 data or files at fault, 2 called wrongly, 130 interrupted
"""


def add_command(commands: Any) -> None:
    """Add ``unbag predict``."""
    parser = add_parser(
        commands,
        "predict",
        "MODEL INSTANCES -o SCORES [options]",
        description="Classify the rows of a table, chunk by chunk, so that it can be of any size. "
        "Columns may come in\nany order and are checked against those of the training data. "
        "Written are the columns that name\nthe bag, if there are any, and\n\n"
        "  class        1 for positive, 0 for negative; of more than two classes, the name\n"
        "  score        above 0 for positive; of more than two classes, one column each\n"
        "  probability  of the positive class, if both classes were equally frequent; only where "
        "the model\n               gives one; of more than two classes, one column each",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add = parser.add_argument
    add("instances", metavar="INSTANCES", type=table_place, help=f"rows to classify: {FORMATS}")
    add(
        "-o",
        "--output",
        required=True,
        metavar="SCORES",
        help="table to write, in the format that its name says; - for CSV on stdout",
    )
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep",
        type=by_commas,
        default=[],
        metavar="COLUMN[,COLUMN]",
        help="columns of INSTANCES to write as well, such as an id",
    )
    kept.add_argument("--all-columns", action="store_true", help="write all columns as well")
    add("--chunk-rows", type=whole_number(1), default=100_000, metavar="N", help="rows at a time")
    add_reading(parser, aggregates=False)
    add_json(parser)
    add_quiet(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Load, check, score and write chunk by chunk."""
    if options.output == "-" and options.json:
        options.parser.error("--json and '-o -' would both write to stdout")
    need("pandas", "skops", extra="files")

    model, schema, found = open_model(options)
    how = {"encoding": options.encoding, "missing": options.missing}
    table = open_table(options.instances, query=options.query, tell=say, **how)
    table.need(schema.names, "that the model needs")
    table.need(options.keep, "to keep")
    keys = [name for name in schema.keys if name in table.names]
    kept = table.names if options.all_columns else list(dict.fromkeys([*keys, *options.keep]))
    scorer = _Scorer(model, class_names(found, model.classes_))
    taken = [name for name in scorer.columns if name in kept]
    if taken:
        raise TableError(
            options.instances,
            f"has a column {taken[0]!r} to keep, and the scores have one of that name; rename it, "
            "or leave it out",
            column=taken[0],
        )
    wanted = list(dict.fromkeys([*kept, *schema.names]))
    kinds = schema.kinds
    if table.file.is_text and _to_text(options.output):
        # what goes from text to text stays as it is written, and is read once
        as_written: dict[str, Kind] = dict.fromkeys(kept, "category")
        kinds = as_written | kinds
    chunks = table.chunks(options.chunk_rows, wanted, kinds)
    reports: list[SchemaReport] = [SchemaReport()]
    bar = tqdm(unit=" rows", unit_scale=True, disable=options.quiet)

    def scored() -> Iterator[Any]:
        for chunk in chunks:
            X, report = schema.check(chunk)
            reports[0] += report
            yield chunk[kept].assign(**scorer.score(X))
            bar.update(len(chunk))

    with bar:
        n_rows = _write(scored(), options.output)
    say(*reports[0].differences)
    if options.output != "-":
        say(f"{counted(n_rows, 'row')} written to {options.output}")
    if options.json:
        report = reports[0]
        unseen = {
            name: {"rows": count, "examples": report.examples[name]}
            for name, count in report.unseen.items()
        }
        found_missing = dict(report.missing)
        show_json(
            {"output": options.output, "rows": n_rows, "unseen": unseen}
            | {"missing": found_missing}
        )
    return 0


class _Scorer:
    """Class, score and probability of each row, as columns."""

    def __init__(self, model: Any, names: list[Any]) -> None:
        # so that features are made once, and not for each of the three
        self._features, self._model = split_pipeline(model)
        self._names = names
        self._has = {
            "score": hasattr(self._model, "decision_function"),
            "probability": hasattr(self._model, "predict_proba"),
        }
        self.columns = ["class"]
        for what, has in self._has.items():
            self.columns += self._columns(what) if has else []

    def _columns(self, what: str) -> list[str]:
        return [what] if len(self._names) == 2 else [f"{what}_{name}" for name in self._names]

    def score(self, X: Any) -> dict[str, Any]:
        X = X if self._features is None else self._features.transform(X)
        places = np.searchsorted(self._model.classes_, self._model.predict(X))
        found = {"class": np.array(self._names)[places]}
        if self._has["score"]:
            found |= self._split("score", self._model.decision_function(X))
        if self._has["probability"]:
            chances = self._model.predict_proba(X)
            two = len(self._names) == 2
            found |= self._split("probability", chances[:, 1] if two else chances)
        return found

    def _split(self, what: str, values: Any) -> dict[str, Any]:
        columns = values.T if values.ndim == 2 else [values]
        return dict(zip(self._columns(what), columns, strict=True))


def _to_text(output: str) -> bool:
    return output == "-" or TableFile.find(output, to_write=True).is_text


def _write(frames: Iterator[Any], output: str) -> int:
    if output != "-":
        return write_table(frames, output)
    n_rows = 0
    for frame in frames:
        text = as_text(frame, header=not n_rows)
        sys.stdout.write(safe(text) if _on_terminal() else text)
        n_rows += len(frame)
    return n_rows


def _on_terminal() -> bool:
    """Whether names are shown, which must not be obeyed; a pipe or file gets them as they are."""
    return sys.stdout.isatty()
