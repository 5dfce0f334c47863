"""``unbag monitor``: whether a saved model still holds when new totals arrive."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._text import listing
from unbag.cli.data import BagData, add_model_command, naming, open_with_tables, warn_of_known_bags
from unbag.cli.options import add_shared, positive_number
from unbag.cli.output import records, say, show_result
from unbag.cli.parser import EXIT_CODE
from unbag.evaluation.drift import MonitoringReference
from unbag.evaluation.monitoring import MonitoringResult, monitor
from unbag.tables.persistence import ModelFile

_OF_CLASSES = (
    *("expected", "observed", "ratio", "ratio_error", "totals_p"),
    *("slope_ratio", "slope_ratio_error"),
)
_OF_CHANGES = ("slope_p", "chi_square", "degrees", "scatter_p")
EXIT_CODES = {"ok": 0, "prior_shift": 3, "degraded": 4}

_EXAMPLES = """examples:
  unbag monitor model.unbag may.parquet may-regions.csv --bag region --positives conversions
  unbag monitor model.unbag may.parquet may-regions.csv --bag region --positives conversions \\
                --json > may.json || echo "look at may.json"
"""


def add_command(commands: Any) -> None:
    """Add ``unbag monitor``."""
    parser = add_model_command(
        commands,
        "monitor",
        description="Compare a saved model with the totals of new bags: whether its probabilities add up to the\n"
        "counts, up to random variation, noise and bag effects, and whether rows have changed.",
        epilog=_EXAMPLES,
        exit_code="0 ok, 3 prior shift (recalibrate: unbag predict --class-prior), 4 degraded "
        f"(train again),\n{EXIT_CODE.removeprefix('0 success, ')}",
    )
    add, words = parser.add_argument, "relative difference of totals that does not matter"
    add("--tolerance", type=positive_number, default=0.05, metavar="PROPORTION", help=words)
    add_shared(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Load, read, compare with the training bags, report."""
    model, found, data, names = open_with_tables(options)
    reference = _reference(options, found)
    warn_of_known_bags(found, data)
    before = (found.metadata.get("fitted_with") or {}).get("bag")
    if before and before != options.bag:
        say(
            f"The training bags were by {listing(before)}, and these are by {listing(options.bag)}:"
            " bags of another kind may differ in other ways, even if the model holds."
        )
    with naming(options):
        result = monitor(
            model,
            data.X,
            data.y,
            reference=reference,
            tolerance=options.tolerance,
            class_names=names if len(names) > 2 else None,
        )
    show_result(options, str(result), _record(result, data))
    return EXIT_CODES[result.verdict]


def _reference(options: argparse.Namespace, found: ModelFile) -> MonitoringReference:
    kept = found.metadata.get("reference")
    if kept is None and (found.metadata.get("fitted_with") or {}).get("grouping"):
        raise ValueError(
            f"{options.model} is a model of several groupings, of which no bag could be held out "
            "to compare new ones with: estimate its accuracy on new bags by unbag evaluate, or fit "
            "a model without --grouping"
        )
    if kept is None:
        raise ValueError(
            f"{options.model} has no summary of its training bags to compare new ones with, since "
            "it was fitted to fewer than five bags, or without folds: use unbag fit again"
        )
    return MonitoringReference.from_dict(kept)


def _record(result: MonitoringResult, data: BagData) -> dict[str, Any]:
    """The numbers, for JSON."""
    return {
        "verdict": result.verdict,
        "exit_code": EXIT_CODES[result.verdict],
        "alarms": result.alarms,
        "class_prior": result.class_prior,
        "classes": [
            {"class": one.name}
            | {name: getattr(one, name) for name in _OF_CLASSES}
            | {name: getattr(one.change, name) for name in _OF_CHANGES}
            | {"stability_index": one.rows.index, "stability_p": one.rows.p_value}
            for one in result.classes
        ],
        "rows_changed": result.rows_changed,
        "out_of_range": result.out_of_range.shares,
        "unseen_categories": data.report.unseen,
        "new_gaps": data.report.missing,
        "bags": records(result.bags),
    }
