"""Linear models on real bags: votes by state, flights by day, traffic stops by neighbourhood.

Data are those that `fetch` gets. Three quarters of the rows of every bag train, the others test;
labels of these score, and choose nothing. Features are what `unbag.tables.features` makes of the
columns: numbers standardised, everything else one-hot. A row is one model: the default, the default
without effects of bags, the default with one-hot columns standardised as well, so that rare
categories are not shrunk more than others, the corrected risk, and, as a ceiling, logistic
regression on the labels. *Held out* is the least loss of held-out bags over the penalties.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import LLPLinearClassifierCV
from unbag.paper import LMMCMClassifierCV
from unbag.tables.features import make_features
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import count_target, natural_frame

TASKS = ("votes", "demographics", "flights", "stops")
METHODS: dict[str, Any] = {
    "default": LLPLinearClassifierCV,
    "no bag effect": lambda: LLPLinearClassifierCV(bag_effect=0),
    "all standardised": lambda: make_pipeline(
        StandardScaler(with_mean=False), LLPLinearClassifierCV()
    ),
    "corrected": lambda: LMMCMClassifierCV(kernel="linear"),
}
SCALINGS = ("default", "all standardised")


def split(frame: pd.DataFrame, labels: Any, bag: Any, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Features and labels to train and to test on, and the target of the former."""
    train = np.random.default_rng(seed).random(len(labels)) < 0.75
    features = make_features()
    X, X_test = features.fit_transform(frame[train]), features.transform(frame[~train])
    return X, labels[train], count_target(bag[train], labels[train]), X_test, labels[~train]


def run_one(task: str, seed: int) -> list[Row]:
    """One row for every model."""
    X, labels_train, y, X_test, labels_test = split(*natural_frame(task), seed)
    rows = []
    for name in ("labels", *METHODS):
        start = time.process_time()
        if name == "labels":
            model = LogisticRegression(max_iter=1000).fit(X, labels_train)
        else:
            model = METHODS[name]().fit(X, y)
        last = model[-1] if isinstance(model, Pipeline) else model
        row = {
            "method": name,
            "auc": float(roc_auc_score(labels_test, model.decision_function(X_test))),
            "accuracy": float(np.mean(model.predict(X_test) == labels_test)),
            "alpha": getattr(last, "alpha_", None),
            "bag_effect": getattr(last, "bag_effect_", None),
            "held_out": held_out(last),
            "core_seconds": round(time.process_time() - start, 1),
        }
        rows.append(row)
    return rows


def held_out(model: Any) -> float | None:
    """Least loss of held-out bags, of a model that looked for its penalty."""
    risks = getattr(model, "selection_risks_", None)
    return None if risks is None else float(np.atleast_2d(risks).sum(axis=0).min())


def page(rows: list[Row]) -> list[str]:
    names = ("labels", *METHODS)
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
    keys=["task", "seed"],
    tasks=lambda options: [
        {"task": task, "seed": seed} for task in TASKS for seed in range(options.seeds)
    ],
    measure=run_one,
    page=page,
    options={"--seeds": {"type": int, "default": 3, "help": "splits of the rows"}},
)
