"""Boosted trees compared with the kernel default, in the cells of the paper's tables and in random bags.

Cells and seeds are those of `defaults`, with whose rows the page compares. Labels of test rows
score, and choose nothing. `boosted_choices` has what the defaults of the trees come from, and
`boosted_large` time and memory for a million rows.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np

from unbag import LLPBoostingClassifier
from unbag.paper.rows import load_rows
from unbag.paper.trials import Setting, make_trial
from unbag_bench.studies.defaults import CELL, Cell, cell_of, cell_of_row, name_of, settings
from unbag_bench.study import Row, Study, fit_and_score, plus_minus, results_folder, seeds_of, table

KINDS = {
    "table 1": lambda cell: cell[0] == 1 and cell[3] != "iid",
    "table 2": lambda cell: cell[0] == 2,
    "both tables": lambda cell: cell[3] != "iid",
    "random bags": lambda cell: cell[3] == "iid",
}

# Up to which trees started from a linear function when rows were run; now they always do.
MOST_ROWS, MOST_LABELLED_ROWS = 4096, 128

SECTIONS = {
    True: f"The default: added to a linear function up to {MOST_ROWS:,} rows, or where bags are "
    f"worth up to {MOST_LABELLED_ROWS} labelled ones, else to nothing",
    False: "The other start, for comparison",
}


def default_start(sampling: str, size: int, n_rows: int) -> str:
    """What 'auto' takes: no cell is near the limit of what bags are worth."""
    shuffled_bags = n_rows / size if sampling == "iid" else np.inf
    few = n_rows <= MOST_ROWS or shuffled_bags <= MOST_LABELLED_ROWS
    return "linear" if few else "zero"


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {
            **dict(zip(CELL, cell_of(s), strict=True)),
            "seed": seed,
            "start": options.start or default_start(s.sampling, s.bag_size, s.n_bags * s.bag_size),
            "setting": s,
        }
        for seed in seeds_of(options.seeds)
        for s in sorted(settings(), key=lambda s: s.n_bags * s.bag_size)  # the quick ones first
        if options.sizes is None or str(s.bag_size) in options.sizes.split(",")
        if options.table is None or (s.table, s.sampling) == (options.table, "paper")
    ]


def run_one(setting: Setting, seed: int, start: str, **_: Any) -> Row:
    trial = make_trial(setting, seed)
    if start != "linear":
        raise ValueError("Trees always start from a linear function; rows of others are older.")
    model = LLPBoostingClassifier(n_jobs=1)
    return fit_trees(model, trial.X, trial.y, trial.X_test, trial.labels_test)


def fit_trees(model: LLPBoostingClassifier, X: Any, y: Any, X_test: Any, labels_test: Any) -> Row:
    """What came of a fit, and which trees it chose."""
    return {
        **fit_and_score(model, X, y, X_test, labels_test),
        "num_leaves": model.num_leaves_,
        "rounds": model.n_estimators_,
        "n_rows": len(y),
    }


def page(rows: list[Row]) -> list[str]:
    kernel = {
        (cell_of_row(row), row["seed"]): row["auc"]
        for row in load_rows(results_folder() / "defaults" / "rows.jsonl")
        if row["method"] == "likelihood"
    }
    found: dict[bool, dict[Any, list[Row]]] = {usual: defaultdict(list) for usual in SECTIONS}
    for row in rows:
        cell = cell_of_row(row)
        usual = row["start"] == default_start(row["sampling"], row["size"], row["n_rows"])
        found[usual][cell].append({**row, "gain": row["auc"] - kernel[cell, row["seed"]]})
    lines: list[str] = []
    for usual, by_cell in found.items():
        gains = {
            cell: float(np.mean([row["gain"] for row in own])) for cell, own in by_cell.items()
        }
        header = ["cell", "trials", "trees", "kernel", "trees − kernel", "leaves", "rounds"]
        cells = filter(by_cell.__contains__, map(cell_of, settings()))
        lines += [
            f"## {SECTIONS[usual]}",
            "",
            *table(
                ["cells", "trees above in", "trees − kernel"],
                [
                    _summary(name, [gain for cell, gain in gains.items() if belongs(cell)])
                    for name, belongs in KINDS.items()
                    if any(map(belongs, gains))
                ],
            ),
            "",
            *table([*header, "core-seconds"], [_line(cell, by_cell[cell]) for cell in cells]),
            "",
        ]
    return [
        "Mean test AUC over the trials, and the paired difference with its standard error; means",
        "over cells with their standard errors over cells.",
        "",
        *lines[:-1],
    ]


def _line(cell: Cell, own: list[Row]) -> list[str]:
    gain = [row["gain"] for row in own]
    auc = float(np.mean([row["auc"] for row in own]))
    return [
        name_of(cell),
        str(len(own)),
        f"{auc:.4f}",
        f"{auc - np.mean(gain):.4f}",
        plus_minus(gain),
        *(" ".join(str(row[name]) for row in own) for name in ("num_leaves", "rounds")),
        f"{np.mean([row['core_seconds'] for row in own]):.1f}",
    ]


def _summary(name: str, gains: list[float]) -> list[str]:
    above = sum(gain > 0 for gain in gains)
    return [name, f"{above} of {len(gains)}", plus_minus(gains)]


STUDY = Study(
    name="boosted",
    title="Boosted trees against the kernel model",
    keys=[*CELL, "seed", "start"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "100-104", "help": "first and last"},
        "--start": {"help": "what trees are added to; by default what 'auto' takes"},
        "--table": {"type": int, "help": "1 or 2; both, and random bags, by default"},
        "--sizes": {"help": "bag sizes, with commas between; all by default"},
    },
    packages=["lightgbm"],
)
