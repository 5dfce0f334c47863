"""Evaluation by the folds of a search, beside nested cross-validation and the truth.

Gaussian classes in few bags, with features that say something and many that do not, and with none
that do: where the choice of settings could flatter most. The truth is the AUC of the model on
20,000 new rows. A search among penalties, and boosted trees, whose rounds and leaves are chosen as
well.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPBoostingClassifier, LLPLinearClassifierCV, bag_target
from unbag.evaluation import cross_val_evaluate, evaluate_cv
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table

# Bags, rows of each, columns, and how far classes are apart in the first three of them.
SETTINGS = {
    "12 bags of 50, 10 columns": (12, 50, 10, 0.6),
    "40 bags of 50, 20 columns": (40, 50, 20, 0.6),
    "20 bags of 50, no signal": (20, 50, 5, 0.0),
}
LEARNERS: dict[str, Any] = {
    "linear": lambda: LLPLinearClassifierCV(store_folds=True, bag_effect=0),
    "boosted": lambda: LLPBoostingClassifier((2, 4), cv=5, store_folds=True, n_jobs=1),
}


def draw(rng: np.random.Generator, labels: Any, n_columns: int, apart: float) -> Any:
    X = rng.normal(size=(len(labels), n_columns))
    X[:, :3] += apart * labels[:, None]
    return X


def run_one(setting: str, learner: str, seed: int) -> Row:
    n_bags, size, n_columns, apart = SETTINGS[setting]
    rng = np.random.default_rng([seed, n_bags])
    bag = np.repeat(np.arange(n_bags), size)
    labels = (rng.random(len(bag)) < rng.uniform(0.1, 0.7, n_bags)[bag]).astype(int)
    X = draw(rng, labels, n_columns, apart)
    y = bag_target(bag, counts=np.bincount(bag, labels, n_bags).astype(int)[bag])
    start = time.process_time()
    model = LEARNERS[learner]().fit(X, y)
    own = evaluate_cv(model, X, y, n_resamples=400)["roc_auc"]
    middle = time.process_time()
    nested = cross_val_evaluate(LEARNERS[learner](), X, y, n_resamples=400)["roc_auc"]
    end = time.process_time()
    new = (rng.random(20_000) < 0.4).astype(int)
    truth = float(roc_auc_score(new, model.decision_function(draw(rng, new, n_columns, apart))))
    return {
        "truth": truth,
        "own": [own.value, own.low, own.high],
        "nested": [nested.value, nested.low, nested.high],
        "seconds": [round(middle - start, 3), round(end - middle, 3)],
    }


def page(rows: list[Row]) -> list[str]:
    lines = []
    for setting in SETTINGS:
        for learner in LEARNERS:
            own = [r for r in rows if (r["setting"], r["learner"]) == (setting, learner)]
            if not own:
                continue
            truth = np.array([row["truth"] for row in own])
            cells = []
            for way in ("own", "nested"):
                value, low, high = np.array([row[way] for row in own]).T
                held = np.mean((low <= truth) & (truth <= high))
                off = value - truth
                cells += [
                    plus_minus(off),
                    f"{held:.3f} ± {np.sqrt(held * (1 - held) / len(own)):.3f}",
                    f"{np.mean(high - low):.3f}",
                ]
            ratio = np.median([row["seconds"][1] / row["seconds"][0] for row in own])
            lines.append([setting, learner, str(len(own)), *cells, f"{ratio:.1f}"])
    heads = [
        f"{what}, {way}" for way in ("own folds", "nested") for what in ("error", "holds", "width")
    ]
    return [
        "AUC: mean error of the estimate, how often the 95% interval holds the truth, and its mean "
        "width; the last column is the time of nested evaluation over that of fit and evaluation "
        "by own folds.",
        "",
        *table(["bags", "learner", "draws", *heads, "times the time"], lines),
    ]


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"setting": setting, "learner": learner, "seed": seed}
        for learner in options.learners.split(",")
        for setting in SETTINGS
        for seed in seeds_of(options.seeds)
    ]


STUDY = Study(
    name="own_folds",
    title="Evaluation by the folds of the search",
    keys=["setting", "learner", "seed"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--seeds": {"default": "0-199", "help": "such as 0-199"},
        "--learners": {"default": "linear,boosted", "help": "learners by commas"},
    },
    packages=("lightgbm",),
)
