"""What to minimise and how to choose the penalty: trials of seeds that no table uses.

    python benchmarks/objectives.py run --device cuda --seeds 100-104 -o rows.jsonl
    python benchmarks/objectives.py show rows.jsonl -o results/objectives.md

`run` fits every objective for every penalty and keeps, for each penalty, the test AUC and what
several criteria say of the out-of-fold scores. `show` compares the criteria: labels score the
choices, and make none.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import KernelMCMClassifierCV, metrics
from unbag.baselines import SoftLabelClassifierCV
from unbag.likelihood import CountLikelihood
from unbag.losses import get_loss
from unbag.model_selection import check_cv, cut_by_folds
from unbag.models.search import search
from unbag.paper.trials import Setting, make_trial
from unbag.provenance import provenance_line
from unbag.risk import CorrectedRisk

ALPHAS = 10.0 ** (-np.arange(13) / 2)
RANGES = ((0.0, 0.5), (0.5, 1.0))
CRITERIA = {
    "corrected risk": lambda row: np.array(row["risk"]),
    "likelihood": lambda row: np.array(row["lik"]),
    "label-free AUC": lambda row: -np.array(row["free"]),
    "in hindsight": lambda row: -np.array(row["auc"]),
}


def settings() -> list[Setting]:
    """Both tables, and shuffled bags."""
    sizes = {1: (8, 32, 128, 512), 2: (8, 32, 128)}
    found = [
        Setting(dataset, span, size, table)
        for table in (1, 2)
        for dataset in ("magic", "adult")
        for span in RANGES
        for size in sizes[table]
    ]
    shuffled = [
        Setting(dataset, (0.0, 1.0), size, 1, "iid")
        for dataset in ("magic", "adult")
        for size in (8, 32, 128)
    ]
    return found + shuffled


def models(device: str | None) -> dict[str, Any]:
    """Objectives by name; μ is the weight of the likelihood."""
    kernel = {"device": device}
    soft = SoftLabelClassifierCV()
    soft.device = device
    return {
        "corrected": KernelMCMClassifierCV(objective="corrected", **kernel),
        "likelihood": KernelMCMClassifierCV(objective="likelihood", **kernel),
        "combined-auto": KernelMCMClassifierCV(objective="combined", **kernel),
        **{
            f"combined-{mu:g}": KernelMCMClassifierCV(
                objective="combined", likelihood_weight=mu, **kernel
            )
            for mu in (3.0, 10.0, 30.0, 100.0)
        },
        "soft-None": soft,
    }


def try_all(setting: Setting, seed: int, device: str | None) -> list[dict[str, Any]]:
    """One row for each objective: what every penalty gives on a trial."""
    trial = make_trial(setting, seed)
    rows = []
    for name, model in models(device).items():
        start = time.perf_counter()
        X, bags = model._check_Xy(trial.X, trial.y)
        training = model._training(bags)
        bags, held = cut_by_folds(bags, check_cv(5, X, trial.y))
        found = search(model._make_space(X, 1), bags, held, ALPHAS, "pooled", training)
        seconds = time.perf_counter() - start
        theta = found.fits.theta.astype(float)
        scores = model._kernel.expand(trial.X_test, X, theta)
        held_out = np.stack([found.held_out.of_penalty(p) for p in range(len(ALPHAS))])
        first = np.zeros(len(ALPHAS), dtype=np.intp)
        weights = metrics.sample.make_sample(trial.y, trial.labels).weights
        risk = CorrectedRisk(weights, bags, get_loss("logistic", 2), np.array([0.5, 0.5]))
        counts = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
        rows.append(
            {
                "table": setting.table,
                "dataset": setting.dataset,
                "low": setting.proportions[0],
                "sampling": setting.sampling,
                "size": setting.bag_size,
                "seed": seed,
                "variant": name,
                "seconds": round(seconds, 2),
                "made": provenance_line(),
                "auc": [float(roc_auc_score(trial.labels_test, s)) for s in scores],
                "lik": counts.value(held_out, first).tolist(),
                "risk": risk.value(held_out, first).tolist(),
                "free": [metrics.roc_auc_score(trial.y, s[0]) for s in held_out],
            }
        )
    return rows


def group_of(row: dict[str, Any]) -> tuple[str, int]:
    """Settings that are alike: few bags, shuffled bags or the paper's, and their size."""
    kind = "shuffled" if row["sampling"] == "iid" else f"table {row['table']}"
    return kind, row["size"]


def show(rows: list[dict[str, Any]]) -> str:
    """Tables of mean test AUC, by objective and by criterion."""
    chosen: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        auc = np.array(row["auc"])[:11]
        for name, criterion in CRITERIA.items():
            chosen[group_of(row)][row["variant"], name].append(auc[criterion(row)[:11].argmin()])
    groups = sorted(chosen)
    made = sorted({row.get("made", "on a machine that these rows do not name") for row in rows})
    lines = ["# Objectives and criteria", "", __doc__ or "", "Rows made: " + "; ".join(made), ""]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        here = [g for g in groups if (variant, "likelihood") in chosen[g]]
        lines += [
            f"## {variant}",
            "",
            "| penalty chosen by | "
            + " | ".join(
                f"{kind}, {size} ({len(chosen[kind, size][variant, 'likelihood'])})"
                for kind, size in here
            )
            + " |",
            "| --- |" + " --- |" * len(here),
        ]
        for name in CRITERIA:
            means = [np.mean(chosen[g][variant, name]) for g in here]
            lines.append(f"| {name} | " + " | ".join(f"{m:.4f}" for m in means) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run trials or show rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("run")
    run.add_argument("--device")
    run.add_argument("--seeds", default="100-104")
    run.add_argument("-o", "--output", type=Path, required=True)
    tables = commands.add_parser("show")
    tables.add_argument("rows", type=Path, nargs="+")
    tables.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.command == "show":
        rows = [json.loads(line) for path in options.rows for line in path.open()]
        text = show(rows)
        print(text)
        if options.output:
            options.output.write_text(text, encoding="utf-8")
        return
    first, last = map(int, options.seeds.split("-"))
    with options.output.open("a") as file:
        for seed in range(first, last + 1):
            for setting in settings():
                for row in try_all(setting, seed, options.device):
                    file.write(json.dumps(row) + "\n")
                file.flush()
                print(seed, setting, flush=True)


if __name__ == "__main__":
    main()
