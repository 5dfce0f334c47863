"""``unbag evaluate``: accuracy of a saved model on new bags."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from typing import Any

from unbag._text import WIDTH
from unbag.cli.data import naming, read_bags
from unbag.cli.labels import read_row_labels
from unbag.cli.models import (
    add_model,
    check_classes,
    class_names,
    evaluation_record,
    open_model,
    warn_of_known_bags,
)
from unbag.cli.options import add_json, add_page, add_seed, add_tables, check_page, file_place
from unbag.cli.output import need, say, show, show_json
from unbag.cli.parser import add_parser
from unbag.evaluation import evaluate
from unbag.evaluation.drift import MonitoringReference
from unbag.evaluation.held_out import posterior_draws
from unbag.evaluation.measures import as_columns
from unbag.model_selection.fitted import decision_scores
from unbag.reports.report import make_report
from unbag.tables.column_types import ColumnType
from unbag.tables.pipeline import split_pipeline
from unbag.tables.scoring import rule_of

_EXAMPLES = """examples:
  unbag evaluate model.unbag may.parquet may-regions.csv --bag region --positives conversions
  unbag evaluate model.unbag may.parquet may-regions.csv --bag region --proportion rate --json
  unbag evaluate model.unbag may.parquet may-regions.csv --bag region --positives conversions \\
                 --labels to-label.csv                  some rows labelled: see unbag sample-labels
"""


def add_command(commands: Any) -> None:
    """Add ``unbag evaluate``."""
    parser = add_parser(
        commands,
        "evaluate",
        "MODEL ROWS BAGS --bag COLUMN\n"
        "                      (--positives COLUMN | --proportion COLUMN) [options]",
        description="Estimate the accuracy of a saved model on new bags without labels, after checks of "
        "the\nassumptions that this needs. The bags must differ from those of training (unbag fit "
        "evaluates its\nown model on held-out bags). With labels of some rows, drawn at random, no "
        "assumption is needed.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add_tables(parser, features=False)
    add_labels(parser)
    parser.add_argument(
        "--robustness",
        type=float,
        metavar="AUC",
        help="report how strong a confounder between bags must be for the AUC to fall below this",
    )
    add_page(parser)
    add_seed(parser)
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def add_labels(parser: argparse.ArgumentParser) -> None:
    """Add a table of labels."""
    parser.add_argument(
        "--labels",
        type=file_place,
        metavar="TABLE",
        help="labels of some rows, drawn at random: a filled-in table of unbag sample-labels, or any "
        "with columns row (1 for the first row of ROWS) and label",
    )
    parser.add_argument(
        "--row-key",
        metavar="COLUMN",
        help="column that names the rows, in ROWS and --labels, in place of row",
    )


def run(options: argparse.Namespace) -> int:
    """Load, read, score, estimate."""
    if options.row_key is not None and options.labels is None:
        options.parser.error("--row-key goes with --labels, whose rows it names")
    need("pandas", "skops", extra="files")
    check_page(options)

    model, schema, found = open_model(options)
    by_key = options.labels is not None and options.row_key is not None
    keep: dict[str, ColumnType | None] | None = {options.row_key: "category"} if by_key else None
    data = read_bags(options, schema, keep=keep, why="to find rows by")
    warn_of_known_bags(found, data)
    say(*data.report.differences)
    names = class_names(found, model.classes_)
    check_classes(options, data, len(names))
    columns = as_columns(decision_scores(model, data.X))
    rule = rule_of(found, None, names)
    threshold = 0.0 if rule is None else rule.score_threshold
    labels, weights = None, None
    if options.labels is not None:
        labels, weights = read_row_labels(options, data, names)
    features, _ = split_pipeline(model)
    kept = found.metadata.get("reference")
    probabilities = model.predict_proba(data.X) if hasattr(model, "predict_proba") else None
    draws = posterior_draws(model, data.X)
    with naming(options):
        evaluation = evaluate(
            data.y,
            columns,
            X=data.X if features is None else features.transform(data.X),
            feature_names=None if features is None else features.get_feature_names_out(),
            probabilities=probabilities,
            draws=draws,
            reference=None if kept is None else MonitoringReference.from_dict(kept),
            labels=labels,
            weights=weights,
            threshold=threshold,
            random_state=options.seed,
        )
    if options.report is not None:
        title = f"{options.model.name} on {options.instances}"
        make_report(model, evaluation, data.X, data.y, title=title, command=options.command).save(
            options.report
        )
        say(f"Page:  {options.report}")
    text, record = str(evaluation), evaluation_record(evaluation)
    if options.robustness is not None:
        with naming(options):
            robustness = evaluation.robustness_value(options.robustness)
        text = f"{text}\n\n{textwrap.fill(str(robustness), WIDTH)}"
        record["robustness"] = asdict(robustness)
    _show(options, text, record)
    return 0


def _show(options: argparse.Namespace, text: str, record: dict[str, Any]) -> None:
    if options.json:
        show_json(record)
    else:
        show(text)
