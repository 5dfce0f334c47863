"""The command line: ``unbag``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unbag import __version__

# Rows up to which `unbag report` takes a kernel model by itself.
_MOST_FOR_KERNEL = 5000

_EXAMPLES = """examples:
  unbag demo                                  the paper's setting on the MAGIC data set
  unbag demo --dataset adult --bag-size 512   larger bags, other data
  unbag report people.csv results.csv --bag district --positives yes_votes
  unbag reproduce --quick                     a small part of the paper's tables, in minutes
  unbag reproduce --table 1 --methods lmmcm,invcal --datasets magic --jobs 2
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code (0 done, 1 failed, 2 called wrongly)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except (ValueError, MemoryError, ModuleNotFoundError, OSError) as error:
        print(f"unbag: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("unbag: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="unbag",
        description="Learn to classify single instances from the class proportions of bags.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_report(commands)
    _add_reproduce(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train from proportions on a shipped data set and compare with the hidden labels",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--dataset", choices=["magic", "adult"], default="magic", help="data set")
    demo.add_argument("--bag-size", type=int, default=128, help="instances in each bag")
    demo.add_argument(
        "--proportions",
        type=float,
        nargs=2,
        default=[0.0, 0.5],
        metavar=("LOW", "HIGH"),
        help="range from which the bags' proportions are drawn",
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of the random bags")
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("unbag-demo.png"), help="picture to write"
    )
    demo.add_argument(
        "--report", type=Path, default=Path("unbag-demo.html"), help="page that explains it"
    )
    demo.set_defaults(run=_demo)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="train from two tables, and write a page on how good the classifier is",
        description="Nothing but proportions is needed: every figure is estimated without labels.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = report.add_argument
    add("instances", type=Path, help="one row per instance: .csv, .tsv, .parquet or .feather")
    add("aggregates", type=Path, help="one row per bag")
    add("--bag", required=True, help="column with the bag, in both tables; several by commas")
    known = report.add_mutually_exclusive_group(required=True)
    known.add_argument("--positives", help="column of the aggregates: number of positives")
    known.add_argument("--proportion", help="column of the aggregates: share of positives")
    add("--size", help="column of the aggregates with the size of each bag, to be checked")
    add("--noise", help="standard deviation of the noise in the aggregates: column or number")
    add("--drop", default="", help="columns of the instances that are no features, by commas")
    add("--model", choices=["auto", "kernel", "linear"], default="auto", help="auto: by size")
    add("--folds", type=int, default=5, help="folds of bags for the evaluation")
    add("--title", help="heading of the page")
    add("-o", "--output", type=Path, default=Path("unbag-report.html"), help="page to write")
    report.set_defaults(run=_report)


def _add_reproduce(commands: Any) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        help="re-run the paper's experiments and print ours beside theirs",
        description="Finished trials are kept in the output folder and not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = reproduce.add_argument
    add("--table", default="1", help="1 (instances fixed), 2 (bags fixed) or 1,2")
    add(
        "--methods", default="lmmcm-paper,lmmcm,combined,soft-label,labels", help="names, by commas"
    )
    add("--datasets", default="adult,magic", help="adult, magic or both")
    add("--ranges", default="0-0.5,0.5-1", help="ranges of the proportions")
    add("--bag-sizes", default="8,32,128,512", help="instances in each bag")
    add("--trials", type=int, default=5, help="trials of each cell, seeds 0, 1, ...")
    add("--bags", choices=["paper", "iid"], default="paper", help="iid: rows shuffled at random")
    add("--standardize-all", action="store_true", help="standardise one-hot columns as well")
    add("--quick", action="store_true", help="MAGIC, bags of 32 and 512, two trials")
    add("--tables-only", action="store_true", help="run nothing, show what the folder holds")
    add("--jobs", type=int, default=2, help="trials side by side")
    add("--device", help="a device of torch for the methods that can use one, such as cuda")
    add("-o", "--output", type=Path, default=Path("unbag-reproduce"), help="folder of the results")
    reproduce.set_defaults(run=_reproduce)


def _need(*modules: str) -> None:
    """Say what to install if a module of the demo extra is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"this command needs {' and '.join(missing)}; install with: pip install 'unbag[demo]'"
        )


def _demo(options: argparse.Namespace) -> int:
    _need("pandas", "matplotlib")
    for path in (options.output, options.report):
        if not path.absolute().parent.is_dir():
            raise OSError(f"the folder of {str(path)!r} does not exist")
    from unbag.demo import draw_demo, run_demo
    from unbag.paper import Setting

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
    print(f"\nPicture: {options.output}", flush=True)
    result.write_report(options.report)
    print(f"Page:    {options.report}")
    return 0


def _report(options: argparse.Namespace) -> int:
    _need("pandas", "matplotlib")
    from sklearn.pipeline import make_pipeline

    from unbag import KernelMCMClassifierCV, LinearMCMClassifierCV, bags_from_frame
    from unbag.reports import fit_report
    from unbag.tables import make_features, read_table

    instances, aggregates = read_table(options.instances), read_table(options.aggregates)
    dropped = [name for name in options.drop.split(",") if name]
    absent = [name for name in dropped if name not in instances.columns]
    if absent:
        raise ValueError(f"{options.instances} has no column {absent[0]!r} to drop")
    X, y = bags_from_frame(
        instances.drop(columns=dropped),
        aggregates,
        on=options.bag.split(","),
        positives=options.positives,
        proportion=options.proportion,
        size=options.size,
        noise=_number_or_name(options.noise),
    )
    kernel = options.model == "kernel" or (options.model == "auto" and len(X) <= _MOST_FOR_KERNEL)
    model = KernelMCMClassifierCV() if kernel else LinearMCMClassifierCV()
    report = fit_report(
        make_pipeline(make_features(), model),
        X,
        y,
        cv=options.folds,
        title=options.title,
        path=options.output,
        verbose=1,
    )
    print(report)
    print(f"\nPage: {options.output}")
    return 0


def _number_or_name(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _reproduce(options: argparse.Namespace) -> int:
    _need("pandas", "matplotlib")
    from tqdm import tqdm

    from unbag.paper.runner import make_tasks, pack_rows, pending, read_rows, run_tasks
    from unbag.paper.tables import comparisons, draw_figure, markdown_tables, rows_as_csv

    quick = options.quick
    tasks = make_tasks(
        tables=_numbers(options.table, "--table"),
        datasets=["magic"] if quick else options.datasets.split(","),
        ranges=_ranges(options.ranges),
        bag_sizes=[32, 512] if quick else _numbers(options.bag_sizes, "--bag-sizes"),
        methods=options.methods.split(","),
        trials=2 if quick else options.trials,
        sampling=options.bags,
        standardize_all=options.standardize_all,
    )
    left = [] if options.tables_only else pending(tasks, options.output)
    if not options.tables_only and len(left) < len(tasks):
        print(f"{len(tasks) - len(left)} of {len(tasks)} trials were done before.", file=sys.stderr)
    runs = run_tasks(left, options.output, options.jobs, options.device)
    for row in tqdm(runs, total=len(left), unit="trial", smoothing=0.1, disable=not left):
        tqdm.write(f"{row['dataset']} {row['method']}: AUC {row['auc']:.4f}", file=sys.stderr)
    pack_rows(options.output)
    rows = read_rows(options.output)
    if not rows:
        raise ValueError(f"{options.output} holds no finished trial")
    report = "\n".join([markdown_tables(rows), *(f"- {s}" for s in comparisons(rows)), ""])
    print(report)
    (options.output / "tables.md").write_text(report, encoding="utf-8")
    (options.output / "rows.csv").write_text(rows_as_csv(rows), encoding="utf-8")
    draw_figure(rows, options.output / "auc.png")
    print(f"Rows, tables and figure: {options.output}")
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
