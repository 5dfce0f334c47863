"""Whether learners are to be mixed where rows of few bags seem to keep their odds.

Tables of two classes, rows of which are dealt out to ten to thirty bags by the cluster that they
are in, without and with effects of the bags, as in `effect_rule`. Where the linear model's held-out
bags say that rows keep their odds, the mixture of linear models, kernels and trees is trained as
well. Labels of test rows score, and choose nothing.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np

from unbag import LLPEnsembleClassifier, LLPLinearClassifierCV, check_bag_target
from unbag.evaluation.bag_effects import effect_of_scores
from unbag_bench.studies.dispersion import (
    FEWEST_MIXED,
    KINDS,
    LEARNERS,
    WITH_EFFECTS,
    scores_of,
    split,
)
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, count_target, load_table

N_BAGS, N_ROWS = (10, 15, 20, 30), 12_000
DEALT = ("cluster", WITH_EFFECTS)
MEASURES = ("accuracy", "auc", "log_loss", "brier")


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    cells = product(seeds_of(options.seeds), N_BAGS, DEALT, TABLES)
    return [{"table": t, "kind": k, "bags": n, "seed": s} for s, n, k, t in cells]


def run_one(table: str, kind: str, bags: int, seed: int) -> Row:
    X, labels = load_table(table)
    rng = np.random.default_rng([seed, bags, (*KINDS, WITH_EFFECTS).index(kind)])
    rows, bag, test = split(X, labels, kind, bags, rng, N_ROWS)
    y = count_target(bag, labels[rows])
    known = check_bag_target(y)
    linear = LLPLinearClassifierCV(class_prior="empirical").fit(X[rows], y)
    told = effect_of_scores(known, linear.out_of_fold_scores_, linear.class_prior_)
    row: Row = {"n_bags": known.n_bags, "n_rows": len(rows), "world": told.world}
    if told.world == "odds" and known.n_bags >= FEWEST_MIXED:
        mixed = LLPEnsembleClassifier(list(LEARNERS), n_jobs=1).fit(X[rows], y)
        row["linear"] = scores_of(linear.decision_function(X[test]), labels[test])
        row["mixed"] = scores_of(mixed.decision_function(X[test]), labels[test])
        row["weights"] = {one["learner"]: one["weight"] for one in mixed.leaderboard_}
    return row


def page(rows: list[Row]) -> list[str]:
    told = [row for row in rows if "mixed" in row]
    groups: dict[str, list[Row]] = {
        f"{n} bags": [row for row in told if row["bags"] == n] for n in N_BAGS
    }
    groups |= {f"dealt out by {k}": [row for row in told if row["kind"] == k] for k in DEALT}
    groups["all"] = told
    lines = [
        [name, str(len(own)), *(plus_minus(gaps(own, of)) for of in MEASURES)]
        for name, own in groups.items()
        if own
    ]
    weights = {name: np.mean([row["weights"][name] for row in told]) for name in LEARNERS}
    return [
        f"In {len(told)} of {len(rows)} draws rows were told to keep their odds. The mixture less "
        "the linear model there, with standard errors over sets; less is better of the last two.",
        "",
        *table(["sets", "n", *MEASURES], lines),
        "",
        "Mean weights: " + ", ".join(f"{name} {w:.2f}" for name, w in weights.items()) + ".",
    ]


def gaps(rows: list[Row], measure: str) -> list[float]:
    return [row["mixed"][measure] - row["linear"][measure] for row in rows]


STUDY = Study(
    name="mixing_odds",
    title="Are learners to be mixed where few bags differ in who is in them?",
    keys=["table", "kind", "bags", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--seeds": {"default": "820-822", "help": "such as 820-822"}},
)

if __name__ == "__main__":
    STUDY.main()
