"""The mixture of learners beside each of them, and what its own folds say of it.

Tables of two classes in bags of four kinds, bags that the world made, and some of Franco's Adult
bags. One fit gives all: `LLPEnsembleClassifier` trains the learners on the same folds. Labels of test
rows score, and choose nothing. The temperature of the mixture was chosen on the tables that are
marked so, with other seeds; those and the rest are reported apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPEnsembleClassifier
from unbag.evaluation import evaluate_cv
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import (
    LANDSCAPE,
    NATURAL,
    TABLES,
    draw_bags,
    load_landscape,
    load_natural,
    load_table,
    split_bags,
)

KINDS = {"low": 32, "high": 128, "shuffled": 32, "clustered": 64}
LEARNERS = ("linear", "kernel", "boosted")
CHOSEN_ON = TABLES[::2]
N_ROWS = {"tables": 3072, "natural": 4000, "landscape": 4000}


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = [("tables", f"{name} {kind}") for name in TABLES for kind in KINDS]
    names += [("natural", name) for name in NATURAL]
    names += [("landscape", name) for name in LANDSCAPE[::4]]
    return [
        {"suite": suite, "name": name, "seed": seed}
        for seed in seeds_of(options.seeds)
        for suite, name in names
        if suite in options.suites.split(",")
    ]


def load(suite: str, name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    n_rows = N_ROWS[suite]
    if suite == "tables":
        of, kind = name.split()
        X, labels = load_table(of)
        return draw_bags(X, labels, kind, KINDS[kind], n_rows, seed=seed)  # type: ignore[arg-type]
    read: Callable[[str], Any] = load_natural if suite == "natural" else load_landscape
    return split_bags(*read(name), n_rows=n_rows, seed=seed)


def run_one(suite: str, name: str, seed: int) -> Row:
    X, y, X_test, labels_test = load(suite, name, seed)
    n_bags = len(np.unique(y["bag"]))
    row: Row = {"n_bags": n_bags, "n_rows": len(y)}
    if n_bags < 4:
        return row | {"skipped": "fewer than four bags"}
    start = time.process_time()
    model = LLPEnsembleClassifier(n_jobs=1).fit(X, y)
    row["fit_core_seconds"] = round(time.process_time() - start, 2)
    start = time.process_time()
    told = evaluate_cv(model, X, y)
    row["evaluation_core_seconds"] = round(time.process_time() - start, 2)
    names = [found["learner"] for found in model.leaderboard_ if found["loss"] is not None]
    fitted = dict(zip(names, model.estimators_, strict=True))
    scores = {learner: one.decision_function(X_test) for learner, one in fitted.items()}
    scores["auto"] = model.decision_function(X_test)
    row["auc"] = {who: float(roc_auc_score(labels_test, found)) for who, found in scores.items()}
    row["weights"] = {found["learner"]: found["weight"] for found in model.leaderboard_}
    area = told["roc_auc"]
    row["told"] = {"verdict": told.verdict.name, "auc": area.value, "low": area.low}
    row["told"]["high"] = area.high
    row["probability"] = float(model.predict_proba(X_test)[:, 1].mean())
    row["share"] = float(np.mean(labels_test))
    return row


def group_of(row: Row) -> str:
    if row["suite"] != "tables":
        return str(row["suite"])
    chosen = row["name"].split()[0] in CHOSEN_ON
    return "tables, chosen on" if chosen else "tables, others"


def page(rows: list[Row]) -> list[str]:
    rows = [row for row in rows if "auc" in row]
    groups = dict.fromkeys(group_of(row) for row in rows)
    lines = []
    for group in (*groups, "all but those chosen on"):
        own = [
            row
            for row in rows
            if group_of(row) == group or (group[:3] == "all" and group_of(row)[-2:] != "on")
        ]
        area = np.array([[row["auc"][who] for who in (*LEARNERS, "auto")] for row in own])
        regret = area[:, :3].max(axis=1) - area[:, 3]
        ahead = [plus_minus(area[:, 3] - one) for one in area[:, :3].T]
        held = np.mean(
            [row["told"]["low"] <= row["auc"]["auto"] <= row["told"]["high"] for row in own]
        )
        lines.append(
            [
                group,
                str(len(own)),
                *(f"{mean:.4f}" for mean in area.mean(axis=0)),
                *ahead,
                plus_minus(regret, ".4f"),
                f"{held:.2f}",
                f"{np.mean([r['fit_core_seconds'] for r in own]):.1f}",
                f"{np.mean([r['evaluation_core_seconds'] for r in own]):.1f}",
            ]
        )
    off = [abs(row["probability"] - row["share"]) for row in rows]
    return [
        "Test AUC, means over sets; differences of the mixture to each learner, with standard "
        "errors over sets; how far it stays behind the best learner in hindsight; how often the "
        "95% interval of its own folds holds the test AUC; core-seconds.",
        "",
        *table(
            [
                *("sets", "n", *LEARNERS, "auto", *(f"auto - {who}" for who in LEARNERS)),
                *("behind the best", "interval holds", "fit", "evaluation"),
            ],
            lines,
        ),
        "",
        f"Mean probability and share of positives among test rows differ by {np.median(off):.4f} "
        f"in the median set, and by {np.quantile(off, 0.9):.4f} at most in nine of ten.",
    ]


STUDY = Study(
    name="auto",
    title="The mixture of learners",
    keys=["suite", "name", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "400-400", "help": "such as 400-402"},
        "--suites": {"default": "tables,natural,landscape", "help": "suites by commas"},
    },
    packages=("lightgbm",),
)
