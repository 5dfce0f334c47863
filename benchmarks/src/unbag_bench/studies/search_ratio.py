"""Processor seconds of the default search against those of the corrected risk's, cell by cell.

Cells are those of `defaults`: both tables of the paper, and shuffled bags. Both searches of a cell
run one after the other in one process and on one core, with the same folds and penalties, so that
their ratio means something on a machine that is not quiet. Where both together take less than a
second, they are repeated by turns, and the fastest of each counts. No label is looked at.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from threadpoolctl import threadpool_limits

from unbag import LLPKernelClassifierCV
from unbag.paper.trials import Setting, make_trial
from unbag_bench.studies.defaults import cell_of, name_of, settings
from unbag_bench.study import Row, Study, seeds_of, table

OBJECTIVES = ("corrected", "likelihood")

# Searches are repeated so often, unless both together take longer than so many seconds.
REPEATS, LONG = 5, 1.0


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"cell": name_of(cell_of(setting)), "seed": seed, "setting": setting}
        for seed in seeds_of(options.seeds)
        for setting in settings()
    ]


def run_one(seed: int, setting: Setting, **_: Any) -> Row:
    trial = make_trial(setting, seed)
    seconds: dict[str, list[float]] = {objective: [] for objective in OBJECTIVES}
    with threadpool_limits(1):
        for _ in range(REPEATS):
            for objective, found in seconds.items():
                start = time.process_time()
                LLPKernelClassifierCV(objective=objective).fit(trial.X, trial.y)
                found.append(time.process_time() - start)
            if sum(found[0] for found in seconds.values()) > LONG:
                break
    fastest = {objective: round(min(found), 3) for objective, found in seconds.items()}
    return {"rows": len(trial.X), "repeats": len(seconds["corrected"])} | fastest


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
        "the likelihood of the counts, the default. Where both together take less than a second,",
        f"each is the fastest of {REPEATS}.",
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
