"""What to minimise, at which class shares and with which kernel: paired differences of test AUC.

    python benchmarks/objectives.py run --device cuda --seeds 100-103 -o rows.jsonl
    python benchmarks/objectives.py show rows.jsonl -o results/objectives.md

Trials have seeds that no table of the reproduction uses. Every variant chooses its penalty by its
own corrected risk of out-of-fold scores; labels score the choices, and make none. A table shows
the mean over trials of the test AUC of a variant less that of another on the same trial, with its
standard error and the number of trials.
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

from unbag import KernelMCMClassifierCV
from unbag.bags import check_bag_target
from unbag.paper.trials import Setting, make_trial
from unbag.provenance import provenance_line

# Settings of the classifier, by name; "mu" multiplies the usual weight of the likelihood, and
# "width" the usual gamma.
VARIANTS: dict[str, dict[str, Any]] = {
    "R, equal shares": {"objective": "corrected", "training_prior": "same"},
    "R": {"objective": "corrected"},
    "R + μL, equal shares": {"objective": "combined", "training_prior": "same"},
    "R + μL": {"objective": "combined"},
    "R + 0.3 μL": {"objective": "combined", "mu": 0.3},
    "R + 0.1 μL": {"objective": "combined", "mu": 0.1},
    "auto": {},
    "auto, γ/2": {"width": 0.5},
    "auto, γ/4": {"width": 0.25},
    "auto, 2μ": {"mu": 2.0},
    "auto, γ/2, 2μ": {"width": 0.5, "mu": 2.0},
}

# What is compared with what.
COMPARISONS = {
    "R, equal shares": ["R", "R + μL, equal shares", "R + μL"],
    "R": ["R + μL", "R + 0.3 μL", "R + 0.1 μL"],
    "auto": ["auto, γ/2", "auto, γ/4", "auto, 2μ", "auto, γ/2, 2μ"],
}


def settings() -> list[Setting]:
    """Both tables, and shuffled bags."""
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


def make_model(X: Any, y: Any, device: str | None, options: dict[str, Any]) -> Any:
    """Turn a variant into a classifier for some data."""
    options = dict(options)
    mu, width = options.pop("mu", None), options.pop("width", 1.0)
    gamma = width / (X.shape[1] * X.var())
    model = KernelMCMClassifierCV(gamma=gamma, device=device, **options)
    if mu is not None:
        bags = check_bag_target(y)
        usual = model._likelihood_weight(bags, np.ones(bags.n_bags, dtype=bool))
        model.set_params(likelihood_weight=mu * usual)
    return model


def try_all(setting: Setting, seed: int, device: str | None) -> list[dict[str, Any]]:
    """One row for each variant."""
    trial = make_trial(setting, seed)
    rows = []
    for name, options in VARIANTS.items():
        model = make_model(trial.X, trial.y, device, options)
        start = time.perf_counter()
        model.fit(trial.X, trial.y)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
        rows.append(
            {
                "table": setting.table,
                "dataset": setting.dataset,
                "low": setting.proportions[0],
                "sampling": setting.sampling,
                "size": setting.bag_size,
                "seed": seed,
                "variant": name,
                "auc": float(auc),
                "seconds": round(seconds, 2),
                "made": provenance_line(),
            }
        )
    return rows


def trial_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two rows comparable."""
    return tuple(row[name] for name in ("table", "dataset", "low", "sampling", "size", "seed"))


def group_of(row: dict[str, Any]) -> tuple[str, int]:
    """Settings that are alike: few bags, shuffled bags or the paper's, and their size."""
    kind = "shuffled" if row["sampling"] == "iid" else f"table {row['table']}"
    return kind, row["size"]


def show(rows: list[dict[str, Any]]) -> str:
    """Tables of paired differences."""
    found = {(trial_of(row), row["variant"]): row for row in rows}
    lines = []
    for base, others in COMPARISONS.items():
        lines += [f"## Test AUC less that of: {base}", ""]
        groups = sorted({group_of(row) for row in rows if row["variant"] == base})
        lines += ["| | " + " | ".join(f"{kind}, {size}" for kind, size in groups) + " |"]
        lines += ["| --- |" + " --- |" * len(groups)]
        for other in others:
            gains: dict[Any, list[float]] = defaultdict(list)
            for (trial, variant), row in found.items():
                if variant == base and (trial, other) in found:
                    gains[group_of(row)].append(found[trial, other]["auc"] - row["auc"])
            lines.append(f"| {other} | " + " | ".join(cell(gains[g]) for g in groups) + " |")
        lines.append("")
    return "\n".join(lines)


def cell(gains: list[float]) -> str:
    """Mean, standard error and number."""
    if len(gains) < 2:
        return ""
    return f"{np.mean(gains):+.4f} ± {np.std(gains, ddof=1) / len(gains) ** 0.5:.4f} ({len(gains)})"


def main() -> None:
    """Run trials or show rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("run")
    run.add_argument("--device")
    run.add_argument("--seeds", default="100-103")
    run.add_argument("-o", "--output", type=Path, required=True)
    tables = commands.add_parser("show")
    tables.add_argument("rows", type=Path, nargs="+")
    tables.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.command == "show":
        rows = [json.loads(line) for path in options.rows for line in path.open()]
        made = sorted({row["made"] for row in rows if "made" in row})
        head = ["# Objectives, class shares and kernels", "", __doc__ or "", *made, ""]
        text = "\n".join(head) + "\n" + show(rows)
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
