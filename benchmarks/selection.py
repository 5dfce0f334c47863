"""How to choose a penalty without labels: regret of several criteria against the best in hindsight.

    python benchmarks/fetch.py
    python benchmarks/selection.py run --seeds 100-101 -o results/selection/rows.jsonl
    python benchmarks/selection.py show results/selection/rows.jsonl -o results/selection.md

A row is one search of a linear model or a kernel model (300 landmarks) by the likelihood of counts,
on 3,072 rows of a table that `fetch` made, in bags of one kind and size: the test AUC of every
penalty, and what each criterion says of it on bags held out. Labels of test rows score, and choose
nothing. Regret is the AUC of the choice less that of the best penalty, which test rows chose: no
rule that does not see them can have none.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from bag_data import TABLES, draw_bags, load_table
from unbag import KernelMCMClassifierCV, LinearMCMClassifierCV, metrics
from unbag._provenance import provenance_line
from unbag.models.local import LocalBackend
from unbag.models.minimising import make_goal
from unbag.models.training import search
from unbag.objectives.corrected_risk import CorrectedRisk
from unbag.objectives.losses import get_loss
from unbag.weights.decontamination import decontamination_weights

ALPHAS = 10.0 ** -np.arange(0, 6.5, 0.5)
KINDS, SIZES, N_ROWS = ("low", "shuffled", "clustered"), (8, 32, 128), 3072

MODELS: dict[str, Any] = {
    "linear": lambda: LinearMCMClassifierCV(ALPHAS, bag_effect=0),
    "kernel": lambda: KernelMCMClassifierCV(
        ALPHAS, bag_effect=0, approximation="nystroem", n_components=300
    ),
}

# What decides, by the criteria of a row.
RULES = {
    "counts (G)": ("counts",),
    "rows (F)": ("rows",),
    "ranks of G and F": ("counts", "rows"),
    "corrected risk": ("corrected",),
    "label-free AUC": ("auc",),
    "ranks of G, F and AUC": ("counts", "rows", "auc"),
}


def try_one(name: str, kind: Any, size: int, model: str, seed: int) -> dict[str, Any] | None:
    """One row; None where there are too few bags for five folds."""
    X, y, X_test, labels_test = draw_bags(*load_table(name), kind, size, N_ROWS, seed)
    if len(np.unique(y["bag"])) < 5:
        return None
    estimator = MODELS[model]()
    X, bags = estimator._check_Xy(X, y)
    goal = make_goal(estimator, bags)
    space, basis = estimator._make_functions().space(X, 1, goal.free_intercept)
    nobody = np.zeros((0, bags.n_bags), dtype=bool)
    whole = LocalBackend(space, X, y, bags, nobody, estimator.tol, estimator.max_iter, 0)
    backend = whole.folded(5)
    found, bags = search(backend, goal, ALPHAS, "pooled"), backend.bags
    aucs = []
    for theta in found.fits.theta:
        estimator._store(basis, theta, 1)
        aucs.append(float(roc_auc_score(labels_test, estimator.decision_function(X_test))))
    scores = [found.solved.out_of_fold_scores(p) for p in range(len(ALPHAS))]
    scores = np.stack(scores)[:, None]
    risk = CorrectedRisk(
        decontamination_weights(bags), bags.membership, get_loss("logistic"), goal.class_prior
    )
    corrected = risk.value(scores, np.zeros(len(ALPHAS), dtype=np.intp))
    return {
        "table": name,
        "kind": kind,
        "size": size,
        "model": model,
        "seed": seed,
        "test_auc": aucs,
        "counts": found.risks[0].tolist(),
        "rows": found.risks[1].tolist(),
        "corrected": corrected.tolist(),
        "auc": [-metrics.roc_auc_score(y, row[0]) for row in scores],
        "command": "python " + " ".join(sys.argv),
        "made": provenance_line(),
    }


def run(options: argparse.Namespace) -> None:
    done = set()
    if options.output.exists():
        rows = [json.loads(line) for line in options.output.read_text().splitlines()]
        done = {tuple(row[k] for k in ("table", "kind", "size", "model", "seed")) for row in rows}
    first, last = map(int, options.seeds.split("-"))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    tasks = [
        (name, kind, size, model, seed)
        for seed in range(first, last + 1)
        for name in TABLES
        for kind in KINDS
        for size in SIZES
        for model in MODELS
    ]
    jobs = (delayed(try_one)(*task) for task in tasks if task not in done)
    with options.output.open("a") as file:
        for row in Parallel(options.jobs, return_as="generator_unordered")(jobs):
            if row is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()


def chosen(row: dict[str, Any], rule: str) -> float:
    """Test AUC of what a rule chooses; of equals the strongest penalty."""
    ranks = [rankdata(row[name], method="min") for name in RULES[rule]]
    return float(row["test_auc"][int(np.argmin(np.sum(ranks, axis=0)))])


def show(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    groups = {"all": rows}
    for key in ("model", "kind"):
        for value in dict.fromkeys(row[key] for row in rows):
            groups[f"{key}: {value}"] = [row for row in rows if row[key] == value]
    groups["best AUC above .65, not large and shuffled"] = [
        row
        for row in rows
        if max(row["test_auc"]) > 0.65 and (row["kind"] != "shuffled" or row["size"] <= 8)
    ]
    lines = [
        "# Choosing a penalty without labels",
        "",
        *dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows),
        "",
        "Mean regret in test AUC, and behind it the paired difference to the choice by G alone,",
        "with its standard error over sets.",
        "",
        "| sets | number | " + " | ".join(RULES) + " |",
        "| --- " * (2 + len(RULES)) + "|",
    ]
    for name, group in groups.items():
        cells = []
        for rule in RULES:
            auc = np.array([chosen(row, rule) for row in group])
            best = np.array([max(row["test_auc"]) for row in group])
            gain = auc - np.array([chosen(row, "counts (G)") for row in group])
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            cells.append(f"{(auc - best).mean():.4f} ({gain.mean():+.4f} ± {error:.4f})")
        lines.append(f"| {name} | {len(group)} | " + " | ".join(cells) + " |")
    options.output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--seeds", default="100-101")
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
