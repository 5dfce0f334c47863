"""Test AUC of default models in all cells of the paper's tables, and in random bags.

Trials have seeds that no table of the reproduction uses. A row is one fit of `LLPClassifier`;
`--tag` names the version, so that rows of an earlier one can stand beside: the same command, run
there. The page compares each with the first, cell by cell: means over trials, and paired differences
with their standard errors. Labels of test rows score, and choose nothing. Seeds 100 to 104 are the
trials that were planned; others, for single cells, stand below.

All stored rows are of former models: "likelihood" is the kernel default of commit 206f41b, whose
penalty was searched for, "ranks alone" the same without a prior on penalties of few bags.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np

from unbag import LLPClassifier
from unbag.paper.trials import Setting, make_trial
from unbag_bench.study import Row, Study, fit_and_score, plus_minus, seeds_of, standard_error, table

PLANNED = range(100, 105)
CELL = ("table", "dataset", "low", "sampling", "size")
Cell = tuple[Any, ...]


def settings() -> list[Setting]:
    """28 distinct cells of both tables (bags of 512 are the same in both), and random bags."""
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


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {
            **dict(zip(CELL, cell_of(s), strict=True)),
            "seed": seed,
            "method": options.tag,
            "setting": s,
        }
        for seed in seeds_of(options.seeds)
        for s in settings()
        if options.sizes is None or str(s.bag_size) in options.sizes.split(",")
        if options.cell in (None, name_of(cell_of(s)))
    ]


def cell_of(s: Setting) -> Cell:
    return s.table, s.dataset, s.proportions[0], s.sampling, s.bag_size


def cell_of_row(row: Row) -> Cell:
    return tuple(row[name] for name in CELL)


def run_one(setting: Setting, seed: int, **_: Any) -> Row:
    trial = make_trial(setting, seed)
    return fit_and_score(LLPClassifier(), trial.X, trial.y, trial.X_test, trial.labels_test)


def name_of(cell: Cell) -> str:
    table, dataset, low, sampling, size = cell
    kind = "shuffled" if sampling == "iid" else f"table {table}, [{low:g}, {low + 0.5:g}]"
    return f"{dataset}, {kind}, {size}"


def page(rows: list[Row]) -> list[str]:
    planned = [row for row in rows if row["seed"] in PLANNED]
    later = [row for row in rows if row["seed"] not in PLANNED]
    found = tables_of(planned)
    if later:
        found += ["", "Further trials of single cells:", "", *tables_of(later)]
    return found


def tables_of(rows: list[Row]) -> list[str]:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    auc: dict[Any, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        auc[cell_of_row(row)][row["method"]][row["seed"]] = row["auc"]
    first, others = methods[0], methods[1:]
    lines = []
    gains: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell, by_method in auc.items():
        own = by_method[first]
        parts = []
        for other in others:
            seeds = sorted(set(own) & set(by_method[other]))
            gain = [own[s] - by_method[other][s] for s in seeds]
            if gain:
                gains[other].append((float(np.mean(gain)), standard_error(gain)))
            parts.append(plus_minus(gain) if gain else "–")
        found = [list(by_method[method].values()) for method in methods]
        means = [f"{np.mean(values):.4f}" if values else "–" for values in found]
        lines.append([name_of(cell), str(len(own)), *means, *parts])
    differences = [f"{first} − {other}" for other in others]
    return [
        "Mean test AUC over the trials, and the paired difference of the first method to each of",
        "the others with its standard error.",
        "",
        *table(["cell", "trials", *methods, *differences], lines),
        "",
        *(_compared(first, other, *np.transpose(found)) for other, found in gains.items()),
    ]


def _compared(first: str, other: str, mean: Any, error: Any) -> str:
    return (
        f"{first} against {other}: at or above in {int((mean >= 0).sum())} of {len(mean)} "
        f"cells, more than one standard error below in {int((mean < -error).sum())}, mean "
        f"difference {mean.mean():+.4f}."
    )


STUDY = Study(
    name="defaults",
    title="Default models on Scott and Zhang's settings",
    keys=[*CELL, "seed", "method"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "100-104", "help": "first and last"},
        "--sizes": {"help": "bag sizes, with commas between; all by default"},
        "--cell": {"help": "one cell, by its name on the page; all by default"},
        "--tag": {"default": "mixed", "help": "name of the version"},
    },
)
