"""``unbag paper``: the experiments of Scott and Zhang, next to their published results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag._files import write_whole
from unbag._progress import progress_bar
from unbag.cli.options import add_output
from unbag.cli.output import need, say, show
from unbag.cli.parser import add_parser

if TYPE_CHECKING:
    from unbag.paper.experiments import Task

_EXAMPLES = """examples:
  unbag paper --quick                         a small part of the tables, in minutes
  unbag paper --table 1 --methods lmmcm,invcal --datasets magic --jobs 2
"""


def add_command(commands: Any) -> None:
    """Add ``unbag paper``."""
    paper = add_parser(
        commands,
        "paper",
        "[options]",
        description="Run the experiments of Scott and Zhang (2020). Finished trials are kept in the output "
        "folder and not\nrun again.",
        epilog=_EXAMPLES,
    )
    add = paper.add_argument
    methods = "lmmcm-paper,lmmcm,likelihood,labels"
    add("--methods", default=methods, help="names, separated by commas")
    add("--trials", type=int, default=5, help="trials of each setting, with seeds 0, 1, ...")
    add("--quick", action="store_true", help="MAGIC, bags of 32 and 512, two trials")
    add("--tables-only", action="store_true", help="run nothing; show the results in the folder")
    add("--jobs", type=int, default=2, help="trials in parallel")
    add_output(paper, "FOLDER", "folder of the results", default=Path("unbag-paper"))
    add("--table", default="1", help="1 (instances fixed), 2 (bags fixed) or 1,2")
    add("--datasets", default="adult,magic", help="adult, magic or both")
    add("--ranges", default="0-0.5,0.5-1", help="ranges of the proportions")
    add("--bag-sizes", default="8,32,128,512", help="rows in each bag")
    words = "as in the paper, or random bags (iid)"
    add("--bags", choices=["paper", "iid"], default="paper", help=words)
    add("--standardize-all", action="store_true", help="standardise one-hot columns as well")


def run(options: argparse.Namespace) -> int:
    """Run what is missing of the paper's tables, and print them."""
    need("pandas", extra="demo")
    from unbag.paper.experiments import pending, read_rows, run_tasks
    from unbag.paper.tables import comparisons, markdown_tables

    tasks = paper_tasks(options)
    left = [] if options.tables_only else pending(tasks, options.output)
    if not options.tables_only and len(left) < len(tasks):
        say(f"{len(tasks) - len(left)} of {len(tasks)} trials were done before.")
    runs = run_tasks(left, options.output, options.jobs, options.command)
    bar = progress_bar(runs, verbose=left, total=len(left), unit="trial", smoothing=0.1)
    for row in bar:
        bar.write(f"{row['dataset']} {row['method']}: AUC {row['auc']:.4f}", file=sys.stderr)
    rows = read_rows(options.output)
    if not rows:
        raise ValueError(f"{options.output} holds no finished trial")
    report = "\n".join([markdown_tables(rows), *(f"- {s}" for s in comparisons(rows)), ""])
    write_whole(options.output / "tables.md", report)
    print(report)
    show(f"Rows and tables: {options.output}")
    return 0


def paper_tasks(options: argparse.Namespace) -> list[Task]:
    """Trials of the paper's tables that the options select."""
    from unbag.paper.experiments import make_tasks

    quick = options.quick
    return make_tasks(
        tables=_numbers(options.table, "--table"),
        datasets=["magic"] if quick else options.datasets.split(","),
        ranges=_ranges(options.ranges),
        bag_sizes=[32, 512] if quick else _numbers(options.bag_sizes, "--bag-sizes"),
        methods=options.methods.split(","),
        trials=2 if quick else options.trials,
        sampling=options.bags,
        standardize_all=options.standardize_all,
    )


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes whole numbers separated by commas, not {text!r}"
        ) from None


def _ranges(text: str) -> list[tuple[float, float]]:
    try:
        pairs = [part.split("-") for part in text.split(",")]
        return [(float(low), float(high)) for low, high in pairs]
    except ValueError:
        raise ValueError(f"--ranges takes ranges such as 0-0.5,0.5-1, not {text!r}") from None
