"""``unbag-bench reproduce``: run what is missing of a suite, and write its page."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from unbag._files import write_whole
from unbag._progress import progress_bar
from unbag.paper.rows import Row, load_rows
from unbag_bench.suites.page import page_lines
from unbag_bench.suites.runner import pending_suite_tasks, run_suite_tasks
from unbag_bench.suites.tasks import SUITES, make_suite_tasks

_EXAMPLES = """examples:
  unbag-bench reproduce --suite landscape --methods linear --trials 30 -o landscape
  unbag-bench reproduce --suite tables --data benchmarks/data --quick
  unbag-bench reproduce --suite images --data benchmarks/data --device cuda --jobs 1
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a suite to a parser."""
    parser.description = "Finished trials are kept in the output folder and not run again."
    parser.epilog, parser.formatter_class = _EXAMPLES, argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add(
        "--suite",
        required=True,
        choices=list(SUITES),
        help="52 bag sets of Adult beside published results; natural bags; tables in bags of "
        "every kind; images, for networks",
    )
    add("--methods", help="names, by commas (default: those of the suite)")
    add("--sets", help="names of sets, by commas, such as votes,flights (default: all)")
    add("--kinds", help="kinds of bags, by commas, such as simple,hard (default: all)")
    add("--trials", type=int, default=5, help="trials of each set, seeds 0, 1, ...")
    add("--quick", action="store_true", help="one trial of some of the sets")
    add("--tables-only", action="store_true", help="run nothing, show what the folder holds")
    add("--jobs", type=int, default=2, help="trials side by side")
    add("--device", help="a device of torch for the methods that can use one, such as cuda")
    add("--data", type=Path, help="folder that unbag-bench fetch filled")
    add("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that runs the trials")
    add("-o", "--output", type=Path, default=Path("unbag-reproduce"), help="folder of the results")


def run(options: argparse.Namespace) -> None:
    """Run what is missing of a suite, and print its page."""
    from unbag_bench.suites.figures import draw_figure

    tasks = make_suite_tasks(
        options.suite,
        methods=_names(options.methods),
        kinds=_names(options.kinds),
        names=_names(options.sets),
        seeds=range(1 if options.quick else options.trials),
        short=options.quick,
    )
    path = options.output / "rows.jsonl"
    left = [] if options.tables_only else pending_suite_tasks(tasks, path)
    if any("network" in task.method for task in left):
        import torch  # noqa: F401 (before the first trial, not after the last of other methods)
    if not options.tables_only and len(left) < len(tasks):
        done = len(tasks) - len(left)
        print(f"{done} of {len(tasks)} trials were done before.", file=sys.stderr)
    jobs = options.jobs if options.dask is None else -1
    # machines of a cluster may not see the folder
    keeps = SUITES[options.suite].draws and options.dask is None
    bags = options.output / "bags" if keeps else None
    with _cluster(options.dask):
        runs = run_suite_tasks(
            left, path, jobs, options.data, options.device, bags, options.command
        )
        bar = progress_bar(runs, verbose=left, total=len(left), unit="trial", smoothing=0.1)
        for row in bar:
            bar.write(f"{row['name']} {row['method']}: {_outcome(row)}", file=sys.stderr)
    rows = load_rows(path)
    if not rows:
        raise ValueError(f"{options.output} holds no finished trial")
    page = "\n".join(page_lines(rows, "ranks.png")) + "\n"
    write_whole(options.output / "page.md", page)
    draw_figure(rows, options.output / "ranks.png")
    print(page)
    print(f"Rows, {'bags, ' * keeps}page and figure: {options.output}")


def _outcome(row: Row) -> str:
    refused = row.get("skipped") or row.get("failed")
    return refused or f"accuracy {row['accuracy']:.4f}, AUC {row['auc']:.4f}"


def _cluster(address: str | None) -> AbstractContextManager[Any]:
    if address is None:
        return nullcontext()
    from unbag_bench.suites.cluster import on_cluster

    return on_cluster(address)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")
