"""How to choose a penalty without labels: regret of several criteria against the best in hindsight.

A row is one search of a linear model or a kernel model (300 landmarks) by the likelihood of counts,
on 3,072 rows of a table that `fetch` made, in bags of one kind and size: the test AUC of every
penalty, and what each criterion says of it on bags held out. Labels of test rows score, and choose
nothing. Regret is the AUC of the choice less that of the best penalty, which test rows chose: no
rule that does not see them can have none. How much of it is chance, halves of the test rows say:
the labels of one choose, those of the other score.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from unbag import LLPKernelClassifierCV, LLPLinearClassifierCV
from unbag import evaluation as metrics
from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.models.functions import Basis
from unbag.models.goals import Goal
from unbag.models.local import LocalBackend
from unbag.models.minimising import make_goal
from unbag.models.row_order import RowOrder
from unbag.models.training import TrainingResult, search
from unbag.observations.corrected_risk import CorrectedRisk
from unbag.observations.losses import get_loss
from unbag.weights.decontamination import decontamination_weights
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, draw_bags, load_table

ALPHAS = 10.0 ** -np.arange(0, 6.5, 0.5)
KINDS, SIZES, N_ROWS = ("low", "shuffled", "clustered"), (8, 32, 128), 3072

MODELS: dict[str, Any] = {
    "linear": lambda: LLPLinearClassifierCV(ALPHAS, bag_effect=0),
    "kernel": lambda: LLPKernelClassifierCV(
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


DEFAULT = "ranks of G and F"


class Searched(NamedTuple):
    """A search, and what it was made of; bags are as folds cut them."""

    found: TrainingResult
    goal: Goal
    bags: Bags
    basis: Basis


def search_all(estimator: Any, X: Any, y: Any, alphas: Floats, cv: int) -> Searched:
    """Search by an estimator's goal and functions, and keep every fit."""
    X, bags = estimator._check_Xy(X, y)
    goal = make_goal(estimator, bags)
    space, basis = estimator._make_functions().space(X, 1, goal.free_intercept)
    nobody = np.zeros((0, bags.n_bags), dtype=bool)
    solver = (estimator.tol, estimator.max_iter, 0)
    backend = LocalBackend(space, X, y, bags, nobody, *solver, RowOrder()).folded(cv)
    return Searched(search(backend, goal, alphas, "pooled"), goal, backend.bags, basis)


def try_one(table: str, kind: Any, size: int, model: str, seed: int) -> Row | list[Row]:
    """One row; none where there are too few bags for five folds."""
    X, y, X_test, labels_test = draw_bags(*load_table(table), kind, size, N_ROWS, seed)
    if len(np.unique(y["bag"])) < 5:
        return []
    estimator = MODELS[model]()
    searched = search_all(estimator, X, y, ALPHAS, 5)
    found, goal, bags = searched.found, searched.goal, searched.bags
    half = np.random.default_rng(seed).permutation(len(labels_test)) % 2
    aucs, in_halves = [], []
    for theta in found.fits.theta:
        estimator._store(searched.basis, theta, 1)
        on_test = estimator.decision_function(X_test)
        aucs.append(float(roc_auc_score(labels_test, on_test)))
        in_halves.append([auc_of(labels_test, on_test, half == h) for h in range(2)])
    scores = [found.solved.out_of_fold_scores(p) for p in range(len(ALPHAS))]
    scores = np.stack(scores)[:, None]
    risk = CorrectedRisk(
        decontamination_weights(bags), bags.membership, get_loss("logistic"), goal.class_prior
    )
    corrected = risk.value(scores, np.zeros(len(ALPHAS), dtype=np.intp))
    return {
        "n_test": len(labels_test),
        "test_auc": aucs,
        "half_auc": np.transpose(in_halves).tolist(),
        "counts": found.risks[0].tolist(),
        "rows": found.risks[1].tolist(),
        "corrected": corrected.tolist(),
        "auc": [-metrics.roc_auc_score(y, row[0]) for row in scores],
    }


def auc_of(labels: Any, scores: Any, some: Any) -> float:
    return float(roc_auc_score(labels[some], scores[some]))


def choice(row: Row, rule: str) -> int:
    """What a rule chooses; of equals the strongest penalty."""
    ranks = [rankdata(row[name], method="min") for name in RULES[rule]]
    return int(np.argmin(np.sum(ranks, axis=0)))


def chosen(row: Row, rule: str) -> float:
    """Test AUC of what a rule chooses."""
    return float(row["test_auc"][choice(row, rule)])


def lead_of_labels(row: Row, rule: str) -> float:
    """How far the choice by labels of half of the test rows is ahead on the other half."""
    halves = np.array(row["half_auc"])
    own = choice(row, rule)
    ahead = [other[one.argmax()] - other[own] for one, other in (halves, halves[::-1])]
    return float(np.mean(ahead))


def page(rows: list[Row]) -> list[str]:
    groups = {"all": rows}
    for key in ("model", "kind"):
        for value in dict.fromkeys(row[key] for row in rows):
            groups[f"{key}: {value}"] = [row for row in rows if row[key] == value]
    groups["best AUC above .65, not large and shuffled"] = [
        row
        for row in rows
        if max(row["test_auc"]) > 0.65 and (row["kind"] != "shuffled" or row["size"] <= 8)
    ]
    lines = []
    for name, group in groups.items():
        best = np.array([max(row["test_auc"]) for row in group])
        by_counts = np.array([chosen(row, "counts (G)") for row in group])
        cells = []
        for rule in RULES:
            auc = np.array([chosen(row, rule) for row in group])
            gain = auc - by_counts
            cells.append(f"{(auc - best).mean():.4f} ({plus_minus(gain)})")
        lines.append([name, str(len(group)), *cells])
    return [
        "Mean regret in test AUC, and behind it the paired difference to the choice by G alone,",
        "with its standard error over sets.",
        "",
        *table(["sets", "number", *RULES], lines),
        "",
        *page_of_halves([row for row in rows if "half_auc" in row]),
    ]


def page_of_halves(rows: list[Row]) -> list[str]:
    lines = []
    for kind in ("all", *KINDS):
        group = [row for row in rows if kind in ("all", row["kind"])]
        regret = [max(row["test_auc"]) - chosen(row, DEFAULT) for row in group]
        ahead = [lead_of_labels(row, DEFAULT) for row in group]
        n_labels = f"{np.median([row['n_test'] for row in group]) / 2:,.0f}"
        lines.append([kind, str(len(group)), n_labels, f"{np.mean(regret):.4f}", plus_minus(ahead)])
    return [
        "How far the best penalty in hindsight is ahead of the choice by ranks of G and F, and how",
        "far one that labels of half of the test rows choose is ahead on the other half. What",
        "the former has on the latter is chance: the best of thirteen, scored by what chose it.",
        "What the latter has, bags do not tell.",
        "",
        *table(["sets", "number", "labels", "best in hindsight", "chosen by labels"], lines),
    ]


KEYS = ("table", "kind", "size", "model", "seed")
STUDY = Study(
    name="selection",
    title="Choosing a penalty without labels",
    keys=KEYS,
    tasks=lambda options: [
        dict(zip(KEYS, (*task, seed), strict=True))
        for seed in seeds_of(options.seeds)
        for task in product(TABLES, KINDS, SIZES, options.models)
    ],
    measure=try_one,
    page=page,
    options={
        "--seeds": {"default": "100-101", "help": "first and last"},
        "--models": {"nargs": "+", "default": list(MODELS), "choices": list(MODELS)},
    },
)

if __name__ == "__main__":
    STUDY.main()
