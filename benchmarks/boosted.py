"""Boosted trees from bags: accuracy in the cells of the paper's tables, time and memory.

    python benchmarks/boosted.py choices -o results/boosted/choices.jsonl
    python benchmarks/boosted.py run --seeds 100-104 -o results/boosted/rows.jsonl
    python benchmarks/boosted.py large -o results/boosted/large.jsonl
    python benchmarks/boosted.py show results/boosted -o results/boosted.md

``choices`` compares settings on other tables than those that are reported on; defaults come from
there. ``run`` has the cells and seeds of `defaults`, whose rows the page compares with. ``large``
grows trees on a million rows, and the same number by LightGBM on their labels, each in a process
of its own. Rows that are there are not made again. Labels of test rows score, and choose nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.metrics import roc_auc_score

from bag_data import draw_bags, load_table
from defaults import Row, cell_of, name_of, settings
from unbag import BoostedMCMClassifier, bag_target
from unbag._provenance import provenance_line
from unbag.paper.trials import make_trial

KERNEL_ROWS = Path("results/defaults/rows.jsonl")

# Settings that were compared; the first is the default.
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "refit on all bags": {"refit": True},
    "5 folds": {"cv": 5},
    "reg_lambda 1": {"reg_lambda": 1.0},
    "stumps": {"num_leaves": 2},
    "16 leaves": {"num_leaves": 16},
}
CHOICE_TABLES = ("flchain", "nass_cds", "wa_churn", "k401ksubs")
N_CHOICE = 2048
CHOICE_BAGS = (("low", 8), ("shuffled", 32), ("high", 128))

N_LARGE, D_LARGE, SIZE_LARGE, ROUNDS_LARGE = 1_000_000, 20, 50, 50


def versions() -> str:
    return f"{provenance_line()}, lightgbm {version('lightgbm')}"


def fitted(model: BoostedMCMClassifier, X: Any, y: Any, X_test: Any, labels_test: Any) -> Row:
    """Fit, and say what came of it."""
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "auc": float(roc_auc_score(labels_test, model.decision_function(X_test))),
        "num_leaves": model.num_leaves_,
        "rounds": model.n_estimators_,
        "bag_effect": model.bag_effect_,
        "n_rows": len(y),
        "seconds": round(seconds, 2),
        "core_seconds": round(cpu, 2),
        "command": "python " + " ".join(sys.argv),
        "made": versions(),
    }


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, rows: Iterator[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            print({k: v for k, v in row.items() if k not in ("command", "made")}, flush=True)


def run(options: argparse.Namespace) -> None:
    done = {(cell_of(row), row["seed"]) for row in read(options.output)}
    first, last = map(int, options.seeds.split("-"))

    def rows() -> Iterator[Row]:
        for seed in range(first, last + 1):
            # the quick ones first
            for s in sorted(settings(), key=lambda s: s.n_bags * s.bag_size):
                cell = (s.table, s.dataset, s.proportions[0], s.sampling, s.bag_size)
                wanted = options.sizes is None or str(s.bag_size) in options.sizes.split(",")
                if not wanted or (cell, seed) in done:
                    continue
                trial = make_trial(s, seed)
                model = BoostedMCMClassifier(n_jobs=1)
                row = fitted(model, trial.X, trial.y, trial.X_test, trial.labels_test)
                names = ("table", "dataset", "low", "sampling", "size")
                yield {**dict(zip(names, cell, strict=True)), "seed": seed, **row}

    write(options.output, rows())


def choices(options: argparse.Namespace) -> None:
    done = {(r["table"], r["kind"], r["size"], r["choice"]) for r in read(options.output)}

    def rows() -> Iterator[Row]:
        for kind, size in CHOICE_BAGS:
            for table in CHOICE_TABLES:
                data = draw_bags(*load_table(table), kind, size, N_CHOICE, seed=7)
                for name, changes in CHOICES.items():
                    if (table, kind, size, name) in done:
                        continue
                    row = fitted(BoostedMCMClassifier(**changes, n_jobs=1), *data)
                    yield {"table": table, "kind": kind, "size": size, "choice": name, **row}

    write(options.output, rows())


def large_data() -> tuple[Any, Any, Any]:
    """A million rows of two classes, and their bags."""
    rng = np.random.default_rng(0)
    n_bags = N_LARGE // SIZE_LARGE
    share = np.repeat(rng.uniform(0, 0.5, n_bags), SIZE_LARGE)
    labels = (rng.random(N_LARGE) < share).astype(np.int64)
    X = rng.normal(size=(N_LARGE, D_LARGE))
    X[:, :5] += labels[:, None]
    X[:, 5] *= 1 + labels
    bag = np.repeat(np.arange(n_bags), SIZE_LARGE)
    return X, labels, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def fit_large(method: str, queue: Any) -> None:
    X, labels, y = large_data()
    start, cpu = time.perf_counter(), time.process_time()
    if method == "LightGBM, labels":
        parameters = {
            "objective": "binary",
            "num_leaves": 16,
            "learning_rate": 0.2,
            "num_threads": 1,
            "force_col_wise": True,
            "verbosity": -1,
        }
        lightgbm.train(parameters, lightgbm.Dataset(X, labels), ROUNDS_LARGE)
    else:
        model = BoostedMCMClassifier(16, n_estimators=ROUNDS_LARGE, learning_rate=0.2, cv=None)
        model.set_params(objective=method, n_jobs=1).fit(X, y)
    queue.put(
        {
            "method": method,
            "seconds": round(time.perf_counter() - start, 1),
            "core_seconds": round(time.process_time() - cpu, 1),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "command": "python " + " ".join(sys.argv),
            "made": versions(),
        }
    )


def large(options: argparse.Namespace) -> None:
    def rows() -> Iterator[Row]:
        spawn = multiprocessing.get_context("spawn")
        for method in ("LightGBM, labels", "likelihood", "forward"):
            queue = spawn.Queue()
            process = spawn.Process(target=fit_large, args=(method, queue))
            process.start()
            yield queue.get()
            process.join()

    write(options.output, rows())


def show(options: argparse.Namespace) -> None:
    folder = options.folder
    lines = [
        "# Boosted trees from bags",
        "",
        *_cells(read(folder / "rows.jsonl"), read(KERNEL_ROWS)),
        *_large(read(folder / "large.jsonl")),
        *_choices(read(folder / "choices.jsonl")),
    ]
    options.output.write_text("\n".join(lines) + "\n")


def _made(rows: list[Row]) -> list[str]:
    return [*dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows), ""]


def _cells(rows: list[Row], kernel_rows: list[Row]) -> list[str]:
    kernel = {
        (cell_of(row), row["seed"]): row["auc"]
        for row in kernel_rows
        if row["method"] == "likelihood"
    }
    by_cell: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if (cell_of(row), row["seed"]) in kernel:
            by_cell[cell_of(row)].append(row)
    lines = [
        "## Beside the kernel default, in the cells of the paper's tables and in shuffled bags",
        "",
        *_made(rows),
        "Mean test AUC over the trials, and the paired difference with its standard error.",
        "",
        "| cell | trials | trees | kernel | trees − kernel | leaves | rounds | core-seconds |",
        "| --- " * 8 + "|",
    ]
    gains: dict[str, list[float]] = defaultdict(list)
    for cell, own in by_cell.items():
        gain = np.array([row["auc"] - kernel[cell, row["seed"]] for row in own])
        error = f" ± {gain.std(ddof=1) / np.sqrt(len(gain)):.4f}" if len(gain) > 1 else ""
        gains["shuffled" if cell[3] == "iid" else "the paper's"].append(float(gain.mean()))
        auc = np.mean([row["auc"] for row in own])
        parts = [
            name_of(cell),
            str(len(own)),
            f"{auc:.4f}",
            f"{auc - gain.mean():.4f}",
            f"{gain.mean():+.4f}{error}",
            *(" ".join(str(row[name]) for row in own) for name in ("num_leaves", "rounds")),
            f"{np.mean([row['core_seconds'] for row in own]):.1f}",
        ]
        lines.append(f"| {' | '.join(parts)} |")
    lines.append("")
    for kind, values in gains.items():
        lines.append(
            f"Cells with {kind} bags: trees above in {int(np.sum(np.array(values) > 0))} of "
            f"{len(values)}, mean difference {np.mean(values):+.4f}."
        )
    return [*lines, ""]


def _large(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    first = rows[0]
    lines = [
        f"## {N_LARGE:,} rows of {D_LARGE} columns, {ROUNDS_LARGE} rounds of 16 leaves, one thread",
        "",
        *_made(rows),
        "| what is grown on | core-seconds | ratio | peak RSS, MB | ratio |",
        "| --- " * 5 + "|",
    ]
    for row in rows:
        name = row["method"] if row is first else f"{row['method']}, bags of {SIZE_LARGE}"
        lines.append(
            f"| {name} | {row['core_seconds']:.1f} | "
            f"{row['core_seconds'] / first['core_seconds']:.2f} | {row['peak_mb']} | "
            f"{row['peak_mb'] / first['peak_mb']:.2f} |"
        )
    return [*lines, ""]


def _choices(rows: list[Row]) -> list[str]:
    auc: dict[str, dict[Any, float]] = defaultdict(dict)
    for row in rows:
        auc[row["choice"]][row["table"], row["kind"], row["size"]] = row["auc"]
    if not auc:
        return []
    lines = [
        "## What the defaults come from: other tables",
        "",
        *_made(rows),
        f"Test AUC less that of the default, with {N_CHOICE:,} rows to train on, in bags of",
        ", ".join(f"{kind} shares of {size}" for kind, size in CHOICE_BAGS)
        + f" rows from {', '.join(CHOICE_TABLES)}.",
        "",
        "| setting | cells | mean difference ± standard error | above the default in |",
        "| --- " * 4 + "|",
    ]
    base = auc["default"]
    for name, values in auc.items():
        shared = [cell for cell in values if cell in base]
        gain = np.array([values[cell] - base[cell] for cell in shared])
        if name == "default" or len(gain) < 2:
            continue
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        lines.append(
            f"| {name} | {len(gain)} | {gain.mean():+.4f} ± {error:.4f} | {int((gain > 0).sum())} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for call in (run, choices, large):
        command = commands.add_parser(call.__name__)
        command.add_argument("-o", "--output", type=Path, required=True)
        command.set_defaults(call=call)
        if call is run:
            command.add_argument("--seeds", default="100-104")
            command.add_argument("--sizes", help="bag sizes, with commas between; all by default")
    shower = commands.add_parser("show")
    shower.add_argument("folder", type=Path)
    shower.add_argument("-o", "--output", type=Path, required=True)
    shower.set_defaults(call=show)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
