"""The mixed model on real rows, against the default models of commit 206f41b.

The cells of the paper's tables, random bags of the same sizes, and natural bags; the rows of the
landscape are those of the study of that name. A row is one model on one set. Rows of the earlier
defaults, on the same rows, bags and splits, are those of results/reproduce and, for natural bags
and the landscape, in results/mixed_model/earlier.jsonl.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from unbag import LLPClassifier
from unbag.paper import Setting, make_trial
from unbag.paper.rows import Row, load_rows
from unbag_bench.study import Study, plus_minus, results_folder, table
from unbag_bench.suites import count_target, natural_frame

METHODS = ("linear", "kernel")
SUITES = ("paper", "shuffled", "natural")
NATURAL_FRAMES = ("votes", "demographics", "flights", "stops")
_SHARE = 0.75


def settings(suite: str) -> dict[str, Setting]:
    """Cells of the paper's tables by name, or those of random bags."""
    found = {}
    for data in ("adult", "magic"):
        for number in (1, 2):
            for size in (8, 32, 128, 512):
                for low in (0.0, 0.5) if suite == "paper" else (0.0,):
                    sampling: Any = "paper" if suite == "paper" else "iid"
                    setting = Setting(data, (low, low + 0.5), size, number, sampling)
                    found[f"{data} {number} {low} {size}"] = setting
    return found


def measure_one(suite: str, name: str, seed: int, method: str) -> Row:
    """Fit one model to one set."""
    if suite in ("paper", "shuffled"):
        trial = make_trial(settings(suite)[name], seed)
        data: Any = (trial.X, trial.y, trial.X_test, trial.labels_test)
    else:
        frame, labels, bag = natural_frame(name)
        picked = np.random.default_rng(seed).random(len(labels)) < _SHARE
        y = count_target(bag[picked], labels[picked])
        data = (frame[picked], y, frame[~picked], labels[~picked])
    return fit_and_measure(LLPClassifier(kernel="auto" if method == "kernel" else None), *data)


def fit_and_measure(model: Any, X: Any, y: Any, X_test: Any, labels_test: Any) -> Row:
    """AUC, log-loss and accuracy of fresh rows, and core-seconds of the fit."""
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    scores = model.decision_function(X_test)
    return {
        "auc": float(roc_auc_score(labels_test, scores)),
        "log_loss": float(log_loss(labels_test, expit(scores))),
        "accuracy": float(np.mean((scores > 0) == labels_test)),
        "seconds": round(wall, 2),
        "core_seconds": round(cpu, 2),
        "dispersion": round(float(model.dispersion_), 3),
        "bag_effect": round(float(model.bag_effect_), 4),
        "deviations": {term.term: round(term.standard_deviation, 3) for term in model.terms_},
        "converged": bool(model.converged_),
    }


def earlier_rows() -> dict[tuple[str, str, int], Row]:
    """Rows of the earlier defaults by suite, name and seed."""
    found: dict[tuple[str, str, int], Row] = {}
    by_cell = {
        (s.dataset, s.table, s.sampling, s.proportions[0], s.bag_size): (suite, name)
        for suite in ("paper", "shuffled")
        for name, s in settings(suite).items()
    }
    for row in load_rows(results_folder() / "reproduce" / "rows.jsonl"):
        cell = tuple(row.get(k) for k in ("dataset", "table", "sampling", "low", "bag_size"))
        if row["method"] == "likelihood" and not row["standardize_all"] and cell in by_cell:
            found[(*by_cell[cell], row["seed"])] = row
    for row in load_rows(results_folder() / "mixed_model" / "earlier.jsonl"):
        found[row["suite"], row["name"], row["seed"]] = row
    return found


def landscape_rows() -> list[Row]:
    """Rows of the model without a kernel in the study of the landscape."""
    rows = load_rows(results_folder() / "landscape" / "rows.jsonl")
    return [
        row | {"method": "linear"}
        for row in rows
        if (row["suite"], row["method"]) == ("landscape", "mixed-linear")
    ]


def page(rows: list[Row]) -> list[str]:
    earlier = earlier_rows()
    cells: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in [*rows, *landscape_rows()]:
        cells[row["suite"], row["name"], row["method"]].append(row)
    lines: list[list[str]] = []
    gains: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (suite, name, method), of_cell in sorted(cells.items()):
        measure = "accuracy" if suite == "landscape" else "auc"
        pairs = [
            (row[measure], earlier[suite, name, row["seed"]][measure])
            for row in of_cell
            if (suite, name, row["seed"]) in earlier
        ]
        gain = [new - old for new, old in pairs]
        gains[suite, method] += gain
        if suite == "landscape":
            continue
        values = (np.mean([row[k] for row in of_cell]) for k in ("auc", "log_loss", "accuracy"))
        lines.append(
            [
                f"{suite}: {name}",
                method,
                str(len(of_cell)),
                *(f"{value:.4f}" for value in values),
                f"{np.mean([row['core_seconds'] for row in of_cell]):.2f}",
                plus_minus(gain) if gain else "",
            ]
        )
    found = [
        "Gain: AUC less that of the earlier default, the kernel model in paper's and random bags and",
        "the linear one in natural bags; in the landscape, accuracy less that of the linear one.",
        "",
    ]
    for (suite, method), gain in sorted(gains.items()):
        if gain:
            found.append(f"- {suite}, {method}: {plus_minus(gain)} over {len(gain)} sets")
    names = ["set", "method", "draws", "AUC", "log-loss", "accuracy", "core-seconds", "gain"]
    return [*found, "", *table(names, lines)]


def _names(suite: str, every: int) -> list[str]:
    return list((NATURAL_FRAMES if suite == "natural" else tuple(settings(suite)))[::every])


STUDY = Study(
    name="mixed_model",
    title="The mixed model on real rows",
    keys=["suite", "name", "seed", "method"],
    tasks=lambda options: [
        {"suite": suite, "name": name, "seed": seed, "method": method}
        for seed in range(options.seeds)
        for suite in (options.suites or SUITES)
        for name in _names(suite, options.every)
        for method in (options.methods or METHODS)
    ],
    measure=measure_one,
    page=page,
    options={
        "--seeds": {"type": int, "default": 1, "help": "draws or splits of each set"},
        "--suites": {"nargs": "*", "choices": SUITES, "help": "all by default"},
        "--methods": {"nargs": "*", "choices": METHODS, "help": "both by default"},
        "--every": {"type": int, "default": 1, "help": "only every n-th set of a suite"},
    },
)
