"""Linear models on real bags: votes by state, flights by day, traffic stops by neighbourhood.

Data are those that `fetch` gets. Three quarters of the rows of every bag train, the others test;
labels of these score, and choose nothing. Features are what `unbag.tables.features` makes of the
columns: numbers standardised, everything else one-hot. A row is one model: the mixed model without
a kernel, the corrected risk, and, as a ceiling, logistic regression on the labels. "default", "no bag
effect" and "all standardised" are former models (commit 206f41b): the linear default, without bag
effects, and with one-hot columns standardised as well, so that rare categories are not shrunk more
than others. *Held out* is the least loss of held-out bags over the penalties.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier
from unbag.paper import LMMCMClassifierCV
from unbag.tables.features import make_features
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import count_target, natural_frame

TASKS = ("votes", "demographics", "flights", "stops")
METHODS: dict[str, Any] = {
    "labels": lambda: LogisticRegression(max_iter=1000),
    "mixed": lambda: LLPClassifier(kernel=None),
    "corrected": lambda: LMMCMClassifierCV(kernel="linear"),
}
SHOWN = ("labels", "default", "no bag effect", "all standardised", "corrected", "mixed")
SCALINGS = ("default", "all standardised")


def split(frame: pd.DataFrame, labels: Any, bag: Any, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Features and labels to train and to test on, and the target of the former."""
    train = np.random.default_rng(seed).random(len(labels)) < 0.75
    features = make_features()
    X, X_test = features.fit_transform(frame[train]), features.transform(frame[~train])
    return X, labels[train], count_target(bag[train], labels[train]), X_test, labels[~train]


def run_one(task: str, seed: int, method: str) -> Row:
    """Fit one model to one split."""
    X, labels_train, y, X_test, labels_test = split(*natural_frame(task), seed)
    start = time.process_time()
    model = METHODS[method]().fit(X, labels_train if method == "labels" else y)
    return {
        "auc": float(roc_auc_score(labels_test, model.decision_function(X_test))),
        "accuracy": float(np.mean(model.predict(X_test) == labels_test)),
        "core_seconds": round(time.process_time() - start, 1),
    }


def page(rows: list[Row]) -> list[str]:
    names = [name for name in SHOWN if name in {row["method"] for row in rows}]
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == task]
        groups = [[row for row in of_task if row["method"] == name] for name in names]
        cells = [means(group) for group in (*groups, chosen_scaling(of_task))]
        lines.append([task, str(len(groups[0])), *cells])
    return [
        "Test AUC and accuracy of linear models, means over splits of rows. The last column takes",
        "the default or all columns standardised, whichever loses less on held-out bags.",
        "",
        *table(["bags", "splits", *names, "scaling chosen"], lines),
        "",
        "Held-out bags prefer all columns standardised in " + ", ".join(preferred(rows)) + ".",
    ]


def means(rows: list[Row]) -> str:
    return ", ".join(f"{np.mean([row[k] for row in rows]):.3f}" for k in ("auc", "accuracy"))


def chosen_scaling(rows: list[Row]) -> list[Row]:
    """The row of every split whose scaling of one-hot columns loses less on held-out bags."""
    found: dict[int, Row] = {}
    for row in rows:
        if row["method"] in SCALINGS:
            other = found.get(row["seed"], row)
            found[row["seed"]] = min(other, row, key=lambda row: row["held_out"])
    return list(found.values())


def preferred(rows: list[Row]) -> list[str]:
    """In how many splits of each task standardised one-hot columns lose less on held-out bags."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        chosen = chosen_scaling([row for row in rows if row["task"] == task])
        won = sum(row["method"] == SCALINGS[1] for row in chosen)
        found.append(f"{won} of {len(chosen)} splits ({task})")
    return found


STUDY = Study(
    name="natural",
    title="Linear models on real bags",
    keys=["task", "seed", "method"],
    tasks=lambda options: [
        {"task": task, "seed": seed, "method": method}
        for task in TASKS
        for seed in range(options.seeds)
        for method in METHODS
    ],
    measure=run_one,
    page=page,
    options={"--seeds": {"type": int, "default": 3, "help": "splits of the rows"}},
)
