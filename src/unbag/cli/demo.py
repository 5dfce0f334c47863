"""``unbag demo``: the default model on totals of regions, beside the labels that it did not see."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag._files import check_place
from unbag.cli.options import file_place, page_place
from unbag.cli.output import need, show
from unbag.cli.parser import add_parser

if TYPE_CHECKING:
    from unbag.cli.demonstration import Demonstration, Uncertain

_EXAMPLES = """examples:
  unbag demo                                  half a minute; writes a picture and a page
  unbag demo -o demo.svg --report demo.html   under other names
"""


def add_command(commands: Any) -> None:
    """Add ``unbag demo``."""
    demo = add_parser(
        commands,
        "demo",
        "[options]",
        description="Train from the totals of 120 regions on a shipped data set, and compare with "
        "the labels\nthat were hidden.",
        epilog=_EXAMPLES,
    )
    add = demo.add_argument
    add(
        "-o",
        "--output",
        type=file_place,
        default=Path("unbag-demo.png"),
        metavar="PICTURE",
        help="picture to write",
    )
    add(
        "--report",
        type=page_place,
        default=Path("unbag-demo.html"),
        metavar="PAGE",
        help="page that explains the model",
    )
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Learn, compare, show a case that stays uncertain, and write picture and page."""
    need("pandas", "matplotlib", extra="demo")
    for path in (options.output, options.report):
        check_place(path)
    from unbag.cli import demonstration

    result = demonstration.demonstrate()
    _show_result(result)
    _show_uncertain(demonstration.demonstrate_uncertainty())
    result.draw(options.output)
    result.write_report(options.report, options.command)
    show(f"\nPicture: {options.output}\nPage:    {options.report}")
    return 0


def _show_result(result: Demonstration) -> None:
    visits, evaluation = result.visits, result.evaluation
    n_rows, n_regions = len(visits.frame), len(visits.regions)
    show(
        f"A shop knows {n_rows:,} visitors of May one by one, but not who of them bought.\n"
        f"Of each of {n_regions} regions it knows how many did:\n"
    )
    show(f"{visits.frame.head(3).to_string(index=False)}\n")
    show(f"{visits.regions.head(3).to_string(index=False)}\n")
    show(
        f"Trained on {n_regions} totals in {result.seconds:.1f} s, without the label of any visitor. "
        f"On {len(result.labels_new):,} new\nvisitors of June, whose labels only this demo knows:\n"
    )
    show(f"{'':42}{'AUC':>7}{'log-loss':>11}   (lower is better)")
    for name, auc, loss in result.contenders:
        show(f"{name:42}{auc:7.3f}" + (f"{loss:11.3f}" if loss is not None else ""))
    estimate = evaluation["roc_auc"]
    truth = next(c.roc_auc for c in result.contenders if c.name.startswith("unbag"))
    show(
        f"\nHow good is it, from totals alone? {evaluation.verdict.lead}\n"
        f"Estimated AUC {estimate.value:.3f} (95% interval {estimate.low:.3f} to "
        f"{estimate.high:.3f}); true AUC {truth:.3f}."
    )


def _show_uncertain(case: Uncertain) -> None:
    evaluation, n_days, truth = case
    estimate = evaluation["roc_auc"]
    show(
        "\nTotals are not always enough. Late flights per day, without the delay at departure:\n"
        f"{evaluation.verdict.lead}\n"
        f"Estimated AUC from {n_days} days: anything from {estimate.low:.2f} to {estimate.high:.2f}; "
        f"true AUC {truth:.2f}.\n"
        "A few hundred labels settle it: unbag sample-labels."
    )
