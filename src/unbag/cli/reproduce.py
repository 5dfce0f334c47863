"""``unbag reproduce``: the paper's experiments, ours beside theirs, and suites of many bags."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbag._files import write_whole
from unbag._progress import progress_bar
from unbag.cli.options import file_place
from unbag.cli.output import need, say, show
from unbag.cli.parser import add_parser

if TYPE_CHECKING:
    from unbag.paper.runner import Task

_EXAMPLES = """examples:
  unbag reproduce --quick                     a small part of the paper's tables, in minutes
  unbag reproduce --table 1 --methods lmmcm,invcal --datasets magic --jobs 2
  unbag reproduce --suite landscape --methods linear --trials 30 -o landscape
  unbag reproduce --suite tables --data benchmarks/data --quick
  unbag reproduce --suite images --data benchmarks/data --device cuda --jobs 1
"""

# Options of the paper's tables alone.
_PAPER = {
    "table": "1",
    "datasets": "adult,magic",
    "ranges": "0-0.5,0.5-1",
    "bag_sizes": "8,32,128,512",
    "bags": "paper",
    "standardize_all": False,
}
_PAPER_METHODS = "lmmcm-paper,lmmcm,likelihood,soft-label,labels"

# Options of the other suites alone.
_OTHERS = {"sets": None, "kinds": None, "data": None, "dask": None}


def add_command(commands: Any) -> None:
    """Add ``unbag reproduce``."""
    reproduce = add_parser(
        commands,
        "reproduce",
        "[options]",
        description="Finished trials are kept in the output folder and not run again.",
        epilog=_EXAMPLES,
    )
    add = reproduce.add_argument
    add(
        "--suite",
        choices=["paper", "landscape", "natural", "tables", "images"],
        default="paper",
        help="the paper's tables; 52 bag sets of Adult beside published results; bags that the "
        "world made; tables in bags of every kind; images, for networks",
    )
    add("--methods", help=f"names, by commas (default: those of the suite; {_PAPER_METHODS})")
    add("--trials", type=int, default=5, help="trials of each cell or set, seeds 0, 1, ...")
    add("--quick", action="store_true", help="MAGIC, bags of 32 and 512, two trials; or some sets")
    add("--tables-only", action="store_true", help="run nothing, show what the folder holds")
    add("--jobs", type=int, default=2, help="trials side by side")
    add("--device", help="a device of torch for the methods that can use one, such as cuda")
    add(
        "-o",
        "--output",
        type=file_place,
        default=Path("unbag-reproduce"),
        help="folder of the results",
    )
    paper = reproduce.add_argument_group("the paper's tables").add_argument
    paper("--table", default=_PAPER["table"], help="1 (instances fixed), 2 (bags fixed) or 1,2")
    paper("--datasets", default=_PAPER["datasets"], help="adult, magic or both")
    paper("--ranges", default=_PAPER["ranges"], help="ranges of the proportions")
    paper("--bag-sizes", default=_PAPER["bag_sizes"], help="instances in each bag")
    paper(
        "--bags",
        choices=["paper", "iid"],
        default=_PAPER["bags"],
        help="iid: rows shuffled at random",
    )
    paper("--standardize-all", action="store_true", help="standardise one-hot columns as well")
    others = reproduce.add_argument_group("the other suites").add_argument
    others("--sets", help="names of sets, by commas, such as votes,flights (default: all)")
    others("--kinds", help="kinds of bags, by commas, such as simple,hard (default: all)")
    others(
        "--data", type=file_place, help="folder that benchmarks/fetch.py and image_data.py filled"
    )
    others("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that runs the trials")
    reproduce.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run what is missing, and print the tables."""
    foreign, of = (
        (_OTHERS, "the other suites") if options.suite == "paper" else (_PAPER, "--suite paper")
    )
    for name, usual in foreign.items():
        if getattr(options, name) != usual:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} is an option of {of}, not of --suite {options.suite}")
    need("pandas", "matplotlib", extra="demo")
    return run_paper(options) if options.suite == "paper" else run_suite(options)


def run_suite(options: argparse.Namespace) -> int:
    """Run what is missing of a suite, and print its page."""
    from unbag.paper.rows import load_rows
    from unbag_bench.suites.figures import draw_figure
    from unbag_bench.suites.page import page_lines
    from unbag_bench.suites.runner import pending_suite_tasks, run_suite_tasks
    from unbag_bench.suites.tasks import SUITES, make_suite_tasks

    tasks = make_suite_tasks(
        options.suite,
        methods=_names(options.methods),
        kinds=_names(options.kinds),
        names=_names(options.sets),
        seeds=range(1 if options.quick else options.trials),
        short=options.quick,
    )
    if any("network" in task.method for task in tasks) and not options.tables_only:
        need("torch", extra="torch")
    path = options.output / "rows.jsonl"
    left = [] if options.tables_only else pending_suite_tasks(tasks, path)
    if not options.tables_only and len(left) < len(tasks):
        say(f"{len(tasks) - len(left)} of {len(tasks)} trials were done before.")
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
    # files first: who reads what is printed may stop after some lines
    write_whole(options.output / "page.md", page)
    draw_figure(rows, options.output / "ranks.png")
    print(page)
    show(f"Rows, {'bags, ' * keeps}page and figure: {options.output}")
    return 0


def _outcome(row: dict[str, Any]) -> str:
    refused = row.get("skipped") or row.get("failed")
    return refused or f"accuracy {row['accuracy']:.4f}, AUC {row['auc']:.4f}"


def _cluster(address: str | None) -> AbstractContextManager[Any]:
    if address is None:
        return nullcontext()
    from unbag.distributed.tasks import on_cluster

    return on_cluster(address)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def run_paper(options: argparse.Namespace) -> int:
    """Run what is missing of the paper's tables, and print them."""
    from unbag.paper.runner import pending, read_rows, run_tasks
    from unbag.paper.tables import comparisons, draw_auc_figure, markdown_tables, rows_as_csv

    tasks = paper_tasks(options)
    left = [] if options.tables_only else pending(tasks, options.output)
    if not options.tables_only and len(left) < len(tasks):
        say(f"{len(tasks) - len(left)} of {len(tasks)} trials were done before.")
    runs = run_tasks(left, options.output, options.jobs, options.device, options.command)
    bar = progress_bar(runs, verbose=left, total=len(left), unit="trial", smoothing=0.1)
    for row in bar:
        bar.write(f"{row['dataset']} {row['method']}: AUC {row['auc']:.4f}", file=sys.stderr)
    rows = read_rows(options.output)
    if not rows:
        raise ValueError(f"{options.output} holds no finished trial")
    report = "\n".join([markdown_tables(rows), *(f"- {s}" for s in comparisons(rows)), ""])
    write_whole(options.output / "tables.md", report)
    write_whole(options.output / "rows.csv", rows_as_csv(rows))
    draw_auc_figure(rows, options.output / "auc.png")
    print(report)
    show(f"Rows, tables and figure: {options.output}")
    return 0


def paper_tasks(options: argparse.Namespace) -> list[Task]:
    """Trials of the paper's tables that are asked for."""
    from unbag.paper.runner import make_tasks

    quick = options.quick
    return make_tasks(
        tables=_numbers(options.table, "--table"),
        datasets=["magic"] if quick else options.datasets.split(","),
        ranges=_ranges(options.ranges),
        bag_sizes=[32, 512] if quick else _numbers(options.bag_sizes, "--bag-sizes"),
        methods=(options.methods or _PAPER_METHODS).split(","),
        trials=2 if quick else options.trials,
        sampling=options.bags,
        standardize_all=options.standardize_all,
    )


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers by commas, not {text!r}") from None


def _ranges(text: str) -> list[tuple[float, float]]:
    try:
        pairs = [part.split("-") for part in text.split(",")]
        return [(float(low), float(high)) for low, high in pairs]
    except ValueError:
        raise ValueError(f"--ranges takes ranges such as 0-0.5,0.5-1, not {text!r}") from None
