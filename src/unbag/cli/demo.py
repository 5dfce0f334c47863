"""``unbag demo``: the paper's setting on a shipped data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from unbag._files import check_place
from unbag.cli.options import file_place, page_place
from unbag.cli.output import need, show
from unbag.cli.parser import add_parser

_EXAMPLES = """examples:
  unbag demo                                  the paper's setting on the MAGIC data set
  unbag demo --dataset adult --bag-size 512   larger bags, other data
"""


def add_command(commands: Any) -> None:
    """Add ``unbag demo``."""
    demo = add_parser(
        commands,
        "demo",
        "[options]",
        description="Train from proportions on a shipped data set, and compare what is estimated "
        "without labels with\nthe truth.",
        epilog=_EXAMPLES,
    )
    add = demo.add_argument
    add("--dataset", choices=["magic", "adult"], default="magic", help="data set")
    add("--bag-size", type=int, default=128, metavar="N", help="instances in each bag")
    add(
        "--proportions",
        type=float,
        nargs=2,
        default=[0.0, 0.5],
        metavar=("LOW", "HIGH"),
        help="range from which the bags' proportions are drawn",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of the random bags")
    picture, page = Path("unbag-demo.png"), Path("unbag-demo.html")
    add(
        "-o",
        "--output",
        type=file_place,
        default=picture,
        metavar="PICTURE",
        help="picture to write",
    )
    add("--report", type=page_place, default=page, metavar="PAGE", help="page that explains it")
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fit, print the table, draw."""
    need("pandas", "matplotlib", extra="demo")
    for path in (options.output, options.report):
        check_place(path)
    from unbag.paper import Setting
    from unbag.paper.demo import draw_demo, run_demo

    low, high = options.proportions
    setting = Setting(options.dataset, (low, high), options.bag_size)
    print(
        f"{setting.dataset.upper()}: {setting.n_bags} bags of {setting.bag_size} instances, "
        f"proportions drawn from [{low:g}, {high:g}]."
    )
    print("The classifier sees instances and bag proportions, and no label.", flush=True)
    result = run_demo(setting, options.seed, verbose=1)
    print(f"\nFitted 5 folds and 11 penalties in {result.seconds:.1f} s; ", end="")
    print(f"chosen penalty {result.model.alpha_:.2g}.\n")
    head = ("", "from bags alone", "true, same scores", "true, new instances")
    print(f"{head[0]:26}{head[1]:>17}{head[2]:>20}{head[3]:>21}")
    for name, estimate, truth, new in result.table():
        print(f"{name:26}{estimate:17.3f}{truth:20.3f}{new:21.3f}")
    draw_demo(result, options.output)
    show(f"\nPicture: {options.output}")
    result.write_report(options.report)
    show(f"Page:    {options.report}")
    return 0
