"""Whether effects of bags that the rows do not explain are worth training with.

The linear model without effects and, where an effect is there beyond doubt, with it, on real bags
and on the published bag sets, in other splits than those on which the rule was found (splits 0
and 1 of the latter, seeds 500 to 502 of the former). And on tables in large bags, as in
`dispersion`, dealt out by clusters of rows, with or without their class, or with effects of the
bags. Test labels score only.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPLinearClassifierCV, check_bag_target
from unbag.evaluation.bag_effects import FEW_BAGS, effect_of_scores
from unbag_bench.studies.dispersion import KINDS, WITH_EFFECTS, split
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import (
    LANDSCAPE,
    NATURAL,
    TABLES,
    load_landscape,
    load_natural,
    load_table,
    split_bags,
)
from unbag_bench.suites.draws import count_target
from unbag_bench.suites.landscape import kind_of, split_rows

N_BAGS, N_ROWS = (5, 10, 20, 30, 60, 120), 8_000
DEALT = (*KINDS, WITH_EFFECTS)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    natural = [("natural", name, s) for s in seeds_of(options.seeds) for name in NATURAL]
    published = [("landscape", name, s) for s in seeds_of(options.splits) for name in LANDSCAPE]
    dealt = [
        ("tables", f"{name}, {kind}, {n_bags}", s)
        for s in seeds_of(options.draws)
        for n_bags, kind, name in product(N_BAGS, (*KINDS[1:3], WITH_EFFECTS), TABLES)
    ]
    found = natural + published + dealt
    return [{"suite": suite, "name": name, "seed": s} for suite, name, s in found]


def load(suite: str, name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    if suite == "natural":
        return split_bags(*load_natural(name), n_rows=20_000, seed=seed)
    if suite == "tables":
        of, kind, n_bags = name.split(", ")
        X, labels = load_table(of)
        rng = np.random.default_rng([seed, int(n_bags), DEALT.index(kind)])
        rows, bag, test = split(X, labels, kind, int(n_bags), rng, N_ROWS)
        return X[rows], count_target(bag, labels[rows]), X[test], labels[test]
    X, labels, bag = load_landscape(name)
    train, test = split_rows(seed)
    return X[train], count_target(bag[train], labels[train]), X[test], labels[test]


def run_one(suite: str, name: str, seed: int) -> Row:
    X, y, X_test, labels_test = load(suite, name, seed)

    def scores_of(model: Any) -> Row:
        area = roc_auc_score(labels_test, model.decision_function(X_test))
        return {
            "auc": float(area),
            "accuracy": float(np.mean(model.predict(X_test) == labels_test)),
        }

    model = LLPLinearClassifierCV(bag_effect=0, class_prior="empirical").fit(X, y)
    found = effect_of_scores(check_bag_target(y), model.out_of_fold_scores_, model.class_prior_)
    row: Row = {"n_bags": len(np.unique(y["bag"])), "variance": found.variance, "low": found.low}
    row |= {"slope": found.slope, "slope_error": found.slope_error}
    row["slope_of_looks"] = found.slope_of_looks
    row["without"] = scores_of(model)
    if found.present:
        given = LLPLinearClassifierCV(bag_effect=found.variance, class_prior="empirical")
        row["with"] = scores_of(given.fit(X, y))
    return row


def page(rows: list[Row]) -> list[str]:
    both = [row for row in rows if "with" in row]
    suites = {
        "natural": [row for row in both if row["suite"] == "natural"],
        "landscape": [row for row in both if row["suite"] == "landscape"],
        "tables, few bags": [row for row in both if is_dealt(row) and row["n_bags"] <= FEW_BAGS],
        "tables, more bags": [row for row in both if is_dealt(row) and row["n_bags"] > FEW_BAGS],
    }
    lines = [
        [name, "yes" if odds else "no", str(len(own)), *_gains(own)]
        for name, of_suite in suites.items()
        for odds in (True, False)
        if (own := [row for row in of_suite if keeps_odds(row) == odds])
    ]
    kinds = sorted({kind_of(r["name"]) for r in rows if r["suite"] == "landscape"})
    return [
        "Linear models with the estimated effect of bags less those without, where it is there "
        "beyond doubt: means over sets and splits, with standard errors. Rows seem to keep their "
        "odds where the slope of the bags lies below the line between the two worlds by a "
        f"standard error. Few bags are up to {FEW_BAGS}.",
        "",
        *table(["sets", "rows seem to keep their odds", "n", "AUC", "accuracy"], lines),
        "",
        f"In {len(rows) - len(both)} of {len(rows)} draws no effect is there beyond doubt. Kinds "
        f"of published bag sets: {', '.join(kinds)}.",
        "",
        "Tables where rows seem to keep their odds, by what rows were dealt out by. With effects: "
        "by cluster, and by an effect of the bag on the log-odds of all its rows.",
        "",
        *table(["dealt out by", "bags", "n", "AUC", "accuracy"], _by_kind(both)),
    ]


def is_dealt(row: Row) -> bool:
    return bool(row["suite"] == "tables")


def keeps_odds(row: Row) -> bool:
    return bool(row["slope"] + row["slope_error"] < np.sqrt(row["slope_of_looks"]))


def _by_kind(rows: list[Row]) -> list[list[str]]:
    lines = []
    for kind, n_bags in product(("all", *KINDS[1:3], WITH_EFFECTS), N_BAGS):
        end = f", {n_bags}" if kind == "all" else f", {kind}, {n_bags}"
        own = [
            row for row in rows if is_dealt(row) and keeps_odds(row) and row["name"].endswith(end)
        ]
        if len(own) > 1:
            lines.append([kind, str(n_bags), str(len(own)), *_gains(own)])
    return lines


def _gains(rows: list[Row]) -> list[str]:
    found = []
    for measure in ("auc", "accuracy"):
        gain = np.array([row["with"][measure] - row["without"][measure] for row in rows])
        found.append(plus_minus(gain))
    return found


STUDY = Study(
    name="effect_rule",
    title="Are effects of bags worth training with?",
    keys=["suite", "name", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "510-512", "help": "of real bags, such as 510-512"},
        "--draws": {"default": "720-723", "help": "of tables, such as 720-723"},
        "--splits": {"default": "2-2", "help": "of the published bag sets, such as 2-4"},
    },
)

if __name__ == "__main__":
    STUDY.main()
