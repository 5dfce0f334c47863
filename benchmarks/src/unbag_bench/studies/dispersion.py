"""How far few bags are to be believed on how loud a mixture should be.

Tables of two classes, all of whose rows to learn from are dealt out to a few large bags: by their
class, by the cluster that they are in, by both, or at random. Learners are trained once; the
mixture is then stretched by the likelihood of held-out counts as it is, by that over the dispersion
of the counts (learners weighed as before, or by it as well), or not at all. Stretching orders rows
as before, so that accuracy and chances are what there is to compare. Labels of test rows score, and
choose nothing. The rule was chosen on the tables that are marked so, with other seeds; those and
the rest are reported apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from unbag import LLPEnsembleClassifier
from unbag._outputs import by_instance, by_output
from unbag.evaluation.bag_effects import effect_of_scores, largest_dispersion
from unbag.models.mixing import fit_mixture
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import TABLES, count_target, load_table

KINDS = ("class", "cluster", "class and cluster", "random")
# By cluster, with an effect of the bag on the log-odds of all its rows: for `effect_rule`.
WITH_EFFECTS = "cluster with effects"
N_BAGS = (5, 10, 25)
N_ROWS, FEWEST_ROWS = 6_000, 20
LEARNERS, FEWEST_MIXED = ("linear", "kernel", "boosted"), 10
CHOSEN_ON = TABLES[::2]
# What the dispersion is taken to be: none, that of held-out bags, or so much that nothing is left.
RULES = {
    "as it is": lambda *_: 1.0,
    "over dispersion": largest_dispersion,
    "not at all": lambda *_: 1e7,
}
# Learners are weighed by likelihoods over the dispersion around the best of them as well.
WEIGHTS_TOO = "weights, too"
MEASURES = ("accuracy", "log_loss", "brier")


class Kept(LLPEnsembleClassifier):
    """Keeps what the mixture was made of."""

    def _keep(self, goal: Any, bags: Any, held: Any, found: Any, notes: Any, some: Any) -> None:
        self.made_of_ = goal, bags, found, some
        super()._keep(goal, bags, held, found, notes, some)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    kinds = options.kinds.split(",")
    cells = product(seeds_of(options.seeds), options.tables.split(","), kinds, N_BAGS)
    return [
        {"table": name, "kind": kind, "bags": n_bags, "seed": seed}
        for seed, name, kind, n_bags in cells
    ]


def deal(
    X: NDArray[Any], labels: NDArray[Any], kind: str, n_bags: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """The bag of each row: rows of a cell go to bags by shares that are drawn for it."""
    cell = np.zeros(len(labels), dtype=int)
    if "cluster" in kind:
        seed = int(rng.integers(2**31))
        cell = KMeans(5, n_init=1, max_iter=50, random_state=seed).fit(X).labels_
    effects = rng.choice([0.5, 1.0]) * rng.normal(size=n_bags) if kind == WITH_EFFECTS else None
    if "class" in kind:
        cell = 2 * cell + labels
    evenness, sizes = rng.choice([1.0, 3.0]), rng.dirichlet(np.full(n_bags, rng.choice([2, 1e6])))
    bag = np.empty(len(labels), dtype=np.intp)
    for number in np.unique(cell):
        own = np.flatnonzero(cell == number)
        shares = sizes if kind == "random" else rng.dirichlet(evenness * n_bags * sizes + 0.01)
        if effects is None:
            bag[own] = rng.choice(n_bags, len(own), p=shares)
            continue
        for label in (0, 1):
            moved = shares * np.exp(label * effects)
            of_class = own[labels[own] == label]
            bag[of_class] = rng.choice(n_bags, len(of_class), p=moved / moved.sum())
    return bag


def split(
    X: NDArray[Any],
    labels: NDArray[Any],
    kind: str,
    n_bags: int,
    rng: np.random.Generator,
    n_rows: int = N_ROWS,
    n_test: int | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on, the bag of each, and rows to test on: a quarter, or 2,000 if it is more."""
    order = rng.permutation(len(labels))
    n_test = n_test or max(2_000, len(labels) // 4)
    test, rows = order[:n_test], order[n_test:][:n_rows]
    bag = deal(X[rows], labels[rows], kind, n_bags, rng)
    enough = np.bincount(bag)[bag] >= FEWEST_ROWS
    return rows[enough], bag[enough], test


def run_one(table: str, kind: str, bags: int, seed: int) -> Row:
    X, labels = load_table(table)
    rng = np.random.default_rng([seed, bags, KINDS.index(kind)])
    rows, bag, test = split(X, labels, kind, bags, rng)
    learners = ["linear"] if len(np.unique(bag)) < FEWEST_MIXED else list(LEARNERS)
    model = Kept(learners, n_jobs=1).fit(X[rows], count_target(bag, labels[rows]))
    goal, known, found, some = model.made_of_
    held_out = [one.folds.held_out for one in found]
    mixtures = {}
    for rule, dispersion in RULES.items():
        with patch("unbag.models.mixing.largest_dispersion", dispersion):
            mixtures[rule] = fit_mixture(goal, known, held_out, model.temperature)
    best = held_out[int(np.argmin(mixtures["over dispersion"].losses))]
    warmer = model.temperature * largest_dispersion(known, best, goal.class_prior)
    mixtures[WEIGHTS_TOO] = fit_mixture(goal, known, held_out, warmer)
    seen = [by_output(one.model.decision_function(some)) for one in found]
    new = [by_output(one.model.decision_function(X[test])) for one in found]
    row: Row = {"n_bags": known.n_bags, "n_rows": len(rows), "learners": len(found)}
    for rule, mixture in mixtures.items():
        moved = mixture.at_shares(seen, known.class_shares, goal.class_prior)
        stretch = float(mixture.slopes.sum() / mixtures["not at all"].slopes.sum())
        row[rule] = scores_of(moved(new)[0], labels[test]) | {"stretch": stretch}
    linear = [one.name for one in found].index("linear")
    row["linear"] = scores_of(new[linear][0], labels[test])
    told = effect_of_scores(known, by_instance(held_out[linear]), goal.class_prior)
    return row | {"world": told.world}


def scores_of(odds: NDArray[Any], labels: NDArray[Any]) -> dict[str, float]:
    chances = expit(odds)
    return {
        "accuracy": float(accuracy_score(labels, odds > 0)),
        "log_loss": float(log_loss(labels, np.clip(chances, 1e-9, 1 - 1e-9))),
        "brier": float(brier_score_loss(labels, chances)),
        "auc": float(roc_auc_score(labels, odds)),
        "positive": float(np.mean(odds > 0)),
    }


def page(rows: list[Row]) -> list[str]:
    return [
        "Differences to the likelihood as it is, with standard errors over sets; less is better "
        "but for accuracy. Sets by the number of bags, then by what rows were dealt out by.",
        "",
        *differences(rows, "bags", lambda row: str(row["bags"])),
        "",
        *differences(rows, "dealt out by", lambda row: str(row["kind"])),
        "",
        "The mixture, stretched over dispersion, less the linear model alone, over all tables.",
        "",
        *leads(rows, "over dispersion", "linear"),
        "",
        "Learners weighed by likelihoods over the dispersion, too, less the mixture as above.",
        "",
        *leads(rows, WEIGHTS_TOO, "over dispersion"),
    ]


def leads(rows: list[Row], rule: str, other: str) -> list[str]:
    mixed = [row for row in rows if row["learners"] > 1]
    groups = {
        f"{number} bags": [row for row in mixed if row["bags"] == number] for number in N_BAGS
    }
    groups["rows are told to keep their odds"] = [r for r in mixed if r["world"] == "odds"]
    groups["classes are told to keep their look"] = [r for r in mixed if r["world"] == "looks"]
    groups["all"] = mixed
    lines = []
    for name, own in groups.items():
        gaps = [[row[rule][of] - row[other][of] for row in own] for of in (*MEASURES, "auc")]
        if own:
            lines.append([name, str(len(own)), *map(plus_minus, gaps)])
    return table(["sets", "n", *MEASURES, "auc"], lines)


def differences(rows: list[Row], heading: str, group_of: Callable[[Row], str]) -> list[str]:
    lines = []
    for chosen, name in ((True, "chosen on"), (False, "others")):
        tables = [row for row in rows if (row["table"] in CHOSEN_ON) == chosen]
        groups = dict.fromkeys(group_of(row) for row in tables)
        for group in (*groups, "all"):
            own = [row for row in tables if group in ("all", group_of(row))]
            for rule in ("over dispersion", "not at all"):
                gains = [
                    plus_minus([row[rule][of] - row["as it is"][of] for row in own])
                    for of in MEASURES
                ]
                stretch = f"{np.median([row[rule]['stretch'] for row in own]):.2f}"
                lines.append([name, group, str(len(own)), rule, *gains, stretch])
    return table(
        ["tables", heading, "n", "stretched by likelihood", *MEASURES, "median stretch"], lines
    )


STUDY = Study(
    name="dispersion",
    title="How loud a mixture of few bags should be",
    keys=["table", "kind", "bags", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "400-400", "help": "such as 400-402"},
        "--kinds": {"default": ",".join(KINDS), "help": "what rows are dealt out by, by commas"},
        "--tables": {"default": ",".join((*TABLES[1::2], *CHOSEN_ON)), "help": "tables by commas"},
    },
    packages=("lightgbm",),
)

if __name__ == "__main__":
    STUDY.main()
