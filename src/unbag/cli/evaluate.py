"""``unbag evaluate``: accuracy of a saved model on new bags."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from unbag._text import wrapped
from unbag.cli.data import (
    add_model_command,
    evaluation_record,
    naming,
    open_with_tables,
    warn_of_known_bags,
)
from unbag.cli.options import add_shared, file_place, proportion
from unbag.cli.output import save_page, show_result
from unbag.cli.sample_labels import RowLabels
from unbag.evaluation import evaluate
from unbag.evaluation.drift import MonitoringReference
from unbag.evaluation.held_out import posterior_draws
from unbag.evaluation.measures import as_columns
from unbag.model_selection.fitted import decision_scores
from unbag.reports.report import make_report
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
    parser = add_model_command(
        commands,
        "evaluate",
        description="Estimate the accuracy of a saved model on new bags, without labels, after checks of the\n"
        "assumptions. (unbag fit does this for the training bags, by cross-validation.) Labels of some\n"
        "rows, drawn at random, give estimates without an assumption.",
        epilog=_EXAMPLES,
    )
    words = (
        "labels of some rows, drawn at random: a filled-in table of unbag sample-labels, or any with "
        "a column label and a column row (1 for the first row of ROWS), or else one that names rows "
        "as ROWS does"
    )
    parser.add_argument("--labels", type=file_place, metavar="TABLE", help=words)
    words = (
        "report how strong a confounder between bags must be for the AUC, or the balanced accuracy "
        "of several classes, to fall below this"
    )
    parser.add_argument("--robustness", type=proportion, metavar="VALUE", help=words)
    add_shared(parser, "--report", "--json")


def run(options: argparse.Namespace) -> int:
    """Load, read, score, estimate."""
    known = None if options.labels is None else RowLabels(options)
    model, found, data, names = open_with_tables(
        options, None if known is None else known.keep, "to find rows by"
    )
    warn_of_known_bags(found, data)
    rule = rule_of(found, None, names)
    labels, weights = (None, None) if known is None else known.of_rows(data, names)
    features, _ = split_pipeline(model)
    kept = found.metadata.get("reference")
    with naming(options):
        evaluation = evaluate(
            data.y,
            as_columns(decision_scores(model, data.X)),
            X=data.X if features is None else features.transform(data.X),
            feature_names=None if features is None else features.get_feature_names_out(),
            probabilities=model.predict_proba(data.X) if hasattr(model, "predict_proba") else None,
            draws=posterior_draws(model, data.X),
            reference=None if kept is None else MonitoringReference.from_dict(kept),
            labels=labels,
            weights=weights,
            threshold=0.0 if rule is None else rule.score_threshold,
            random_state=0,
        )
    if options.report is not None:
        title = f"{options.model.name} on {options.instances}"
        about = {"title": title, "command": options.command}
        save_page(make_report(model, evaluation, data.X, data.y, **about), options)
    text, record = str(evaluation), evaluation_record(evaluation)
    if options.robustness is not None:
        with naming(options):
            robustness = evaluation.robustness_value(options.robustness)
        text = "\n".join([text, "", *wrapped(str(robustness))])
        record["robustness"] = asdict(robustness)
    show_result(options, text, record)
    return 0
