"""Processor seconds of the default search against those of the corrected risk's, cell by cell.

Cells are those of `defaults`: both tables of the paper, and shuffled bags. Both searches of a cell
run one after the other in one process and on one core, with the same folds and penalties, so that
their ratio means something on a machine that is not quiet. No label is looked at.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from threadpoolctl import threadpool_limits

from defaults import cell_of, name_of, settings
from study import Row, Study, seeds_of, table
from unbag import KernelMCMClassifierCV
from unbag.paper.trials import Setting, make_trial

OBJECTIVES = ("corrected", "likelihood")


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"cell": name_of(cell_of(setting)), "seed": seed, "setting": setting}
        for seed in seeds_of(options.seeds)
        for setting in settings()
    ]


def run_one(seed: int, setting: Setting, **_: Any) -> Row:
    trial = make_trial(setting, seed)
    row: Row = {"rows": len(trial.X)}
    with threadpool_limits(1):
        for objective in OBJECTIVES:
            start = time.process_time()
            KernelMCMClassifierCV(objective=objective).fit(trial.X, trial.y)
            row[objective] = round(time.process_time() - start, 3)
    return row


def page(rows: list[Row]) -> list[str]:
    lines = [
        [
            row["cell"],
            str(row["seed"]),
            f"{row['rows']:,}",
            *(f"{row[objective]:.2f}" for objective in OBJECTIVES),
            f"{ratio(row):.2f}",
        ]
        for row in rows
    ]
    within = sum(ratio(row) <= 2 for row in rows)
    return [
        "Processor seconds of a whole search (5 folds, 11 penalties) by the corrected risk and by",
        "the likelihood of the counts, the default.",
        "",
        *table(["cell", "seed", "rows", "corrected (s)", "default (s)", "ratio"], lines),
        "",
        f"{within} of {len(rows)} within twice the time, from {min(map(ratio, rows)):.2f} to "
        f"{max(map(ratio, rows)):.2f} times.",
    ]


def ratio(row: Row) -> float:
    return float(row["likelihood"] / row["corrected"])


STUDY = Study(
    name="search_ratio",
    title="The default search against that of the corrected risk",
    keys=["cell", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--seeds": {"default": "100-100", "help": "first and last"}},
)

if __name__ == "__main__":
    STUDY.main()
