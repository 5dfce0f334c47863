"""``unbag predict``: scores of new instances, for tables of any size."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from unbag._progress import progress_bar
from unbag._text import counted, sentence
from unbag.cli.data import (
    BagData,
    add_model,
    check_names,
    class_names,
    open_instances,
    open_model,
    read_bags,
)
from unbag.cli.options import (
    FORMATS,
    NOT_GIVEN,
    add_output,
    add_reading,
    add_shared,
    file_place,
    proportion,
    table_place,
    whole_number,
)
from unbag.cli.output import safe, say, show_json
from unbag.cli.parser import add_parser
from unbag.evaluation.drift import OutOfRange
from unbag.tables import write_table
from unbag.tables.column_types import ColumnType
from unbag.tables.files import STANDARD_INPUT, TableFile
from unbag.tables.persistence import ModelFile
from unbag.tables.schema import Schema, SchemaReport
from unbag.tables.scoring import Scorer, rule_of
from unbag.tables.writing import as_text, without_formulas

_EXAMPLES = """examples:
  unbag predict model.unbag new.parquet -o scores.parquet
  unbag predict model.unbag new.csv.gz -o scores.csv --keep visit_id,region
  unbag predict model.unbag new.csv -o - | head       CSV on the terminal
"""


def add_command(commands: Any) -> None:
    """Add ``unbag predict``."""
    parser = add_parser(
        commands,
        "predict",
        "MODEL ROWS -o SCORES [options]",
        description="Score the rows of a table of any size, in chunks. Columns may come in any order and "
        "are checked\nagainst those of training. The output has the columns that name the bag, if there "
        "are any, and\n\n"
        "  class        1 for positive, 0 for negative, by the threshold of unbag fit, or --threshold\n"
        "  score        log-odds in the population of the training bags\n"
        "  probability  of the positive class, in that population or that of --class-prior\n\n"
        "With more than two classes, class is a name, and score and probability have a column each.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add = parser.add_argument
    add("instances", metavar="ROWS", type=table_place, help=f"rows to score: {FORMATS}")
    words = "table to write; its ending names the format; - for CSV on stdout"
    add_output(parser, "SCORES", words, required=True, type=_output)
    add_shared(parser, "--keep")
    words = (
        "proportion of positives in the population where you use the model, if it differs from that "
        "of the training bags; with more than two classes, all proportions, separated by commas"
    )
    add("--class-prior", type=_shares, metavar="P", help=words)
    words = "probability above which a row is positive, instead of the threshold of unbag fit"
    add("--threshold", type=proportion, metavar="P", help=words)
    words = (
        "table of bags with known totals, with the column names and the noise given to unbag fit: the "
        "probabilities of a bag then add up to its total; all rows are read at once"
    )
    add("--bag-totals", type=table_place, metavar="BAGS", help=words)
    words = (
        "bags that ROWS or --bag-totals lack: refuse them, leave them out, or keep their rows with "
        "the probabilities of the model alone"
    )
    add("--unmatched", choices=["error", "drop", "keep"], help=words)
    add("--chunk-rows", type=whole_number(1), default=100_000, metavar="N", help="rows at a time")
    add_reading(parser)
    add_shared(parser, "--escape-formulas", "--json")


def run(options: argparse.Namespace) -> int:
    """Load, check, score and write chunk by chunk."""
    _check_options(options)
    model, schema, found = open_model(options)
    table = open_instances(options)
    table.need(schema.names, "that the model needs")
    table.need(options.keep, "to keep")
    keys = [name for name in schema.keys if name in table.names]
    kept = list(dict.fromkeys([*keys, *options.keep]))
    names = class_names(found, model.classes_)
    scorer = Scorer(model, names, options.class_prior, rule_of(found, options.threshold, names))
    check_names(options.instances, scorer.columns, kept)
    reports: list[SchemaReport] = []
    strays = OutOfRange((found.metadata.get("reference") or {}).get("columns", {}))

    def chunks() -> Iterator[Any]:
        kinds = schema.kinds
        if table.file.is_text and _to_text(options.output):
            # what goes from text to text stays as it is written, and is read once
            as_written: dict[str, ColumnType] = dict.fromkeys(kept, "category")
            kinds = as_written | kinds
        wanted = list(dict.fromkeys([*kept, *schema.names]))
        for chunk in table.chunks(options.chunk_rows, wanted, kinds):
            X, report = schema.check(chunk)
            reports.append(report)
            strays.add(X)
            yield chunk[kept].assign(**scorer.score(X))

    def known_bags() -> Iterator[Any]:
        data = _read_known_bags(options, schema, found, kept)
        reports.append(data.report)
        strays.add(data.X)
        table = data.kept[kept]
        rows = table if data.rows is None else table.iloc[data.rows]
        scored = rows.assign(**scorer.score(data.X, data.y))
        if data.others is not None:
            strays.add(data.others)
            import pandas as pd

            rest = table.drop(index=rows.index).assign(**scorer.score(data.others))
            scored = pd.concat([scored, rest]).sort_index()
        yield scored

    with progress_bar(unit=" rows", unit_scale=True) as bar:
        n_rows = 0

        def counting(frames: Iterator[Any]) -> Iterator[Any]:
            nonlocal n_rows
            for frame in frames:
                yield without_formulas(frame) if options.escape_formulas else frame
                n_rows += len(frame)
                bar.update(len(frame))

        _write(counting(chunks() if options.bag_totals is None else known_bags()), options.output)
    report = sum(reports, SchemaReport())
    say(*report.differences, *map(sentence, strays.words), *scorer.remarks)
    if options.output != "-":
        say(f"{counted(n_rows, 'row')} written to {options.output}")
    if options.json:
        unseen = {
            name: {"rows": count, "examples": report.examples[name]}
            for name, count in report.unseen.items()
        }
        show_json(
            {
                "output": options.output,
                "rows": n_rows,
                "unseen": unseen,
                "missing": dict(report.missing),
                "rule": None if scorer.rule is None else asdict(scorer.rule),
                "outside_of_training": strays.shares,
            }
        )
    return 0


def _check_options(options: argparse.Namespace) -> None:
    refuse = options.parser.error
    if options.output == "-" and options.json:
        refuse("--json and '-o -' would both write to stdout")
    if options.bag_totals is None:
        if options.bags_query or options.unmatched:
            refuse("--bags-query and --unmatched need --bag-totals")
    elif options.class_prior is not None:
        refuse("--bag-totals gives the class prior of every bag: leave --class-prior out")
    elif str(options.instances) == STANDARD_INPUT:
        refuse("--bag-totals reads ROWS twice, which - does not allow")


def _read_known_bags(
    options: argparse.Namespace, schema: Schema, found: ModelFile, kept: list[str]
) -> BagData:
    """Read all rows with the counts of their bags, by the columns given to the fit."""
    fitted = found.metadata.get("fitted_with")
    needed = ("bag", "positives", "proportion", "bag_size", "noise", "exclude", "types", "percent")
    if not fitted or not {*needed, "ignore", "hidden"} <= fitted.keys() or not fitted["bag"]:
        raise ValueError(
            f"{options.model} does not say what columns its bags had; --bag-totals is for models "
            "of unbag fit"
        )
    how = ("query", "bags_query", "encoding", "na_values", "parser")
    now = {name: getattr(options, name) for name in how}
    now |= {"instances": options.instances, "aggregates": options.bag_totals, "label_column": None}
    if options.unmatched is not None:
        now["unmatched"] = options.unmatched
    both = argparse.Namespace(**NOT_GIVEN | fitted | now, may_keep=True)
    return read_bags(both, schema, keep=dict.fromkeys(kept), why="to keep")


def _output(text: str) -> str:
    return str(file_place(text))


def _shares(text: str) -> list[float]:
    return [proportion(part) for part in text.split(",")]


def _to_text(output: str) -> bool:
    return output == "-" or TableFile.find(output, to_write=True).is_text


def _write(frames: Iterator[Any], output: str) -> None:
    if output != "-":
        write_table(frames, output)
        return
    for number, frame in enumerate(frames):
        text = as_text(frame, header=not number)
        if _on_terminal():
            sys.stdout.write(safe(text))
        else:  # UTF-8 and "\n", whatever the console takes
            sys.stdout.buffer.write(text.encode())


def _on_terminal() -> bool:
    """Whether names are shown, whose control characters must not act; pipes get them as they are."""
    return sys.stdout.isatty()
