"""Test AUC of the kernel classifier in all cells of the paper's tables, and in shuffled bags.

    python benchmarks/defaults.py run --seeds 100-104 --jobs 2 -o results/defaults/rows.jsonl
    python benchmarks/defaults.py show results/defaults/rows.jsonl -o results/defaults.md

Trials have seeds that no table of the reproduction uses. A row is one search:
`KernelMCMClassifierCV` with its default objective, or with the one given. `--tag` names the
version, so that rows of an earlier one can stand beside: the same command, run there. The page
compares each with the first, cell by cell: means over trials, and paired differences with their
standard errors. Labels of test rows score, and choose nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from unbag import KernelMCMClassifierCV
from unbag._provenance import provenance_line
from unbag.paper.trials import Setting, make_trial

Row = dict[str, Any]


def settings() -> list[Setting]:
    """28 distinct cells of both tables (bags of 512 are the same in both), and shuffled bags."""
    sizes = {1: (8, 32, 128, 512), 2: (8, 32, 128)}
    found = [
        Setting(dataset, span, size, table)
        for table in (1, 2)
        for dataset in ("magic", "adult")
        for span in ((0.0, 0.5), (0.5, 1.0))
        for size in sizes[table]
    ]
    shuffled = [
        Setting(dataset, (0.0, 1.0), size, 1, "iid")
        for dataset in ("magic", "adult")
        for size in (8, 32, 128)
    ]
    return found + shuffled


def run_one(setting: Setting, seed: int, tag: str, objective: str, device: str | None) -> Row:
    trial = make_trial(setting, seed)
    model = KernelMCMClassifierCV(objective=objective, device=device)
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(trial.X, trial.y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    auc = roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
    return {
        "table": setting.table,
        "dataset": setting.dataset,
        "low": setting.proportions[0],
        "sampling": setting.sampling,
        "size": setting.bag_size,
        "seed": seed,
        "method": tag,
        "objective": model.objective_,
        "alpha": model.alpha_,
        "auc": float(auc),
        "seconds": round(seconds, 2),
        "core_seconds": round(cpu, 2),
        "device": device or "cpu",
        "command": "python " + " ".join(sys.argv),
        "made": provenance_line(),
    }


def cell_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "dataset", "low", "sampling", "size"))


def name_of(cell: tuple[Any, ...]) -> str:
    table, dataset, low, sampling, size = cell
    kind = "shuffled" if sampling == "iid" else f"table {table}, [{low:g}, {low + 0.5:g}]"
    return f"{dataset}, {kind}, {size}"


def run(options: argparse.Namespace) -> None:
    done = set()
    if options.output.exists():
        rows = [json.loads(line) for line in options.output.read_text().splitlines()]
        done = {(cell_of(row), row["seed"], row["method"]) for row in rows}
    first, last = map(int, options.seeds.split("-"))
    tasks = []
    for seed in range(first, last + 1):
        for s in settings():
            cell = (s.table, s.dataset, s.proportions[0], s.sampling, s.bag_size)
            wanted = options.sizes is None or str(s.bag_size) in options.sizes.split(",")
            if wanted and (cell, seed, options.tag) not in done:
                tasks.append(
                    delayed(run_one)(s, seed, options.tag, options.objective, options.device)
                )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with options.output.open("a") as file:
        for row in Parallel(options.jobs, return_as="generator_unordered")(tasks):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                name_of(cell_of(row)), row["seed"], row["method"], f"{row['auc']:.4f}", flush=True
            )


def show(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    auc: dict[Any, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        auc[cell_of(row)][row["method"]][row["seed"]] = row["auc"]
    first, others = methods[0], methods[1:]
    lines = [
        "# The default objective in the cells of the paper's tables",
        "",
        *dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows),
        "",
        "Mean test AUC over the trials, and the paired difference of the first method to each of",
        "the others with its standard error.",
        "",
        "| cell | trials | "
        + " | ".join(methods)
        + " | "
        + " | ".join(f"{first} − {other}" for other in others)
        + " |",
        "| --- " * (2 + len(methods) + len(others)) + "|",
    ]
    wins: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell, by_method in auc.items():
        own = by_method[first]
        parts = []
        for other in others:
            seeds = sorted(set(own) & set(by_method[other]))
            gain = np.array([own[s] - by_method[other][s] for s in seeds])
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            parts.append(f"{gain.mean():+.4f} ± {error:.4f}" if len(gain) else "–")
            if len(gain):
                wins[other].append((float(gain.mean()), float(error)))
        means = [f"{np.mean(list(by_method[m].values())):.4f}" for m in methods]
        lines.append(f"| {name_of(cell)} | {len(own)} | " + " | ".join(means + parts) + " |")
    lines.append("")
    for other, gains in wins.items():
        mean = np.array([gain for gain, _ in gains])
        error = np.array([e for _, e in gains])
        lines.append(
            f"{first} against {other}: at or above in {int((mean >= 0).sum())} of {len(mean)} "
            f"cells, more than one standard error below in {int((mean < -error).sum())}, mean "
            f"difference {mean.mean():+.4f}."
        )
    options.output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[-len(wins) - 1 :]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--seeds", default="100-104")
    runner.add_argument("--sizes", help="bag sizes, with commas between; all by default")
    runner.add_argument("--objective", default="auto")
    runner.add_argument("--tag", default="likelihood")
    runner.add_argument("--device")
    runner.add_argument("--jobs", type=int, default=1)
    runner.add_argument("-o", "--output", type=Path, required=True)
    runner.set_defaults(call=run)
    shower = commands.add_parser("show")
    shower.add_argument("rows", type=Path)
    shower.add_argument("-o", "--output", type=Path, required=True)
    shower.set_defaults(call=show)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
