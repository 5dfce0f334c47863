"""Trees beside kernels on the labels of the same few rows: what bags have no part in.

Cells and seeds are those of table 2 in `boosted`, where trees from bags are behind the kernel. Each
model is trained on the labels of the very rows whose bags it learns from there. Labels of test rows
score, and choose nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np

from unbag import LLPBoostingClassifier, LLPKernelClassifierCV
from unbag.paper.rows import load_rows
from unbag.paper.trials import Setting, make_trial
from unbag_bench.studies.defaults import CELL, cell_of, cell_of_row, name_of, settings
from unbag_bench.study import Row, Study, fit_and_score, plus_minus, results_folder, seeds_of, table


def _retired() -> Any:
    raise ValueError("Trees always start from a linear function; rows of others are older.")


MODELS: dict[str, Any] = {
    "trees": lambda: LLPBoostingClassifier(n_jobs=1),
    "trees from nothing": _retired,
    "kernel": LLPKernelClassifierCV,
}


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {**dict(zip(CELL, cell_of(s), strict=True)), "seed": seed, "model": model, "setting": s}
        for seed, s, model in product(seeds_of(options.seeds), settings(), MODELS)
        if s.table == 2
    ]


def run_one(setting: Setting, seed: int, model: str, **_: Any) -> Row:
    trial = make_trial(setting, seed)
    found = fit_and_score(MODELS[model](), trial.X, trial.labels, trial.X_test, trial.labels_test)
    return {**found, "n_rows": len(trial.labels)}


def page(rows: list[Row]) -> list[str]:
    labels = _by_cell(rows, lambda row: row["model"])
    bags = _by_cell(
        [
            *load_rows(results_folder() / "boosted" / "rows.jsonl"),
            *load_rows(results_folder() / "defaults" / "rows.jsonl"),
        ],
        _name_from_bags,
    )
    lines, gains = [], defaultdict(list)
    for cell, found in labels.items():
        parts = []
        for name, of in (("trees", found), ("trees from nothing", found), ("trees", bags[cell])):
            gain = [of[name][seed] - of["kernel"][seed] for seed in sorted(found["kernel"])]
            gains[len(parts)].append(float(np.mean(gain)))
            parts.append(plus_minus(gain))
        auc = [f"{np.mean(list(found[name].values())):.4f}" for name in ("trees", "kernel")]
        lines.append([name_of(cell), str(len(found["kernel"])), *auc, *parts])
    means = list(map(plus_minus, gains.values()))
    above = [f"{sum(one > 0 for one in own)} of {len(own)}" for own in gains.values()]
    header = ["trees − kernel", "trees from nothing − kernel", "trees − kernel, from bags"]
    return [
        "Mean test AUC over the trials from labels, and paired differences with their standard",
        "errors: from labels, and last from the bags of the same rows.",
        "",
        *table(
            ["cell", "trials", "trees", "kernel", *header],
            [
                *lines,
                ["**mean**", "", "", "", *means],
                ["**above in**", "", "", "", *above],
            ],
        ),
    ]


def _name_from_bags(row: Row) -> str:
    if "start" in row:
        return {"linear": "trees", "zero": "trees from nothing"}[row["start"]]
    return "kernel" if row["method"] == "likelihood" else str(row["method"])


def _by_cell(rows: list[Row], name_of_row: Any) -> dict[Any, dict[Any, dict[int, float]]]:
    """AUC by cell, model and seed."""
    found: dict[Any, dict[Any, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        found[cell_of_row(row)][name_of_row(row)][row["seed"]] = row["auc"]
    return found


STUDY = Study(
    name="boosted_labels",
    title="Trees beside kernels on labels of the same few rows",
    keys=[*CELL, "seed", "model"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--seeds": {"default": "100-104", "help": "first and last"}},
    packages=["lightgbm"],
)
