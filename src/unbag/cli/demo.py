"""``unbag demo``: the default model on regional totals, compared with hidden labels."""

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
  unbag demo                                  ten seconds; writes a picture and a page
  unbag demo -o demo.svg --report demo.html   under other names
"""


def add_command(commands: Any) -> None:
    """Add ``unbag demo``."""
    demo = add_parser(
        commands,
        "demo",
        "[options]",
        description="Train on the totals of 120 regions of a shipped data set, and compare with the "
        "labels\nthat were hidden.",
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
        help="report page to write",
    )
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train, compare, show an uncertain case, and write picture and page."""
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
        f"A shop knows {n_rows:,} visitors of May, but not who bought. For each of {n_regions} regions "
        "it knows\nhow many did:\n"
    )
    show(f"{visits.frame.head(3).to_string(index=False)}\n")
    show(f"{visits.regions.head(3).to_string(index=False)}\n")
    show(
        f"unbag trained on these {n_regions} totals in {result.seconds:.1f} s, without a label. On "
        f"{len(result.labels_new):,} new visitors of June,\nwhose labels only this demo knows, it comes "
        "close to training on all labels:\n"
    )
    show(f"{'':45}{'AUC':>7}{'log-loss':>11}   (lower is better)")
    for name, auc, loss in result.contenders:
        show(f"{name:45}{auc:7.3f}" + (f"{loss:11.3f}" if loss is not None else ""))
    estimate = evaluation["roc_auc"]
    truth = next(c.roc_auc for c in result.contenders if c.name.startswith("unbag"))
    show(
        f"\nHow accurate is it, judged by totals alone? {evaluation.verdict.lead}\n"
        f"Estimated AUC {estimate.value:.3f} (95% interval {estimate.low:.3f} to "
        f"{estimate.high:.3f}); true AUC {truth:.3f}."
    )


def _show_uncertain(case: Uncertain) -> None:
    evaluation, n_days, truth = case
    estimate = evaluation["roc_auc"]
    show(
        "\nTotals are not always enough. Late flights per day, without the departure delay:\n"
        f"{evaluation.verdict.lead}\n"
        f"Estimated AUC from {n_days} days: {estimate.low:.2f} to {estimate.high:.2f}; "
        f"true AUC {truth:.2f}.\n"
        "Labels of a few hundred flights would narrow the range: unbag sample-labels."
    )
