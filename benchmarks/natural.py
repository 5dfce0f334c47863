"""Linear models on real bags: votes by state, flights by day, traffic stops by neighbourhood.

    python benchmarks/fetch.py
    python benchmarks/natural.py -o results/natural/rows.jsonl

Three quarters of the rows of every bag train, the others test; labels of these score, and choose
nothing. Features are what `unbag.tabular.features` makes of the columns: numbers standardised,
everything else one-hot. A row is one model: the default, the default without effects of bags, the
corrected risk, and, as a ceiling, logistic regression on the labels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from bag_data import count_target, natural_frame
from unbag import LinearMCMClassifierCV
from unbag._provenance import provenance_line
from unbag.tabular.features import make_features

TASKS = ("votes", "demographics", "flights", "stops")
METHODS: dict[str, Any] = {
    "default": LinearMCMClassifierCV,
    "no bag effect": lambda: LinearMCMClassifierCV(bag_effect=0),
    "corrected": lambda: LinearMCMClassifierCV(objective="corrected"),
}


def split(frame: pd.DataFrame, labels: Any, bag: Any, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Features and labels to train and to test on, and the target of the former."""
    train = np.random.default_rng(seed).random(len(labels)) < 0.75
    features = make_features()
    X, X_test = features.fit_transform(frame[train]), features.transform(frame[~train])
    return X, labels[train], count_target(bag[train], labels[train]), X_test, labels[~train]


def run_one(task: str, seed: int) -> list[dict[str, Any]]:
    """One row for every model."""
    X, labels_train, y, X_test, labels_test = split(*natural_frame(task), seed)
    rows = []
    for name in ("labels", *METHODS):
        start = time.process_time()
        if name == "labels":
            model = LogisticRegression(max_iter=1000).fit(X, labels_train)
        else:
            model = METHODS[name]().fit(X, y)
        row = {
            "task": task,
            "seed": seed,
            "method": name,
            "auc": float(roc_auc_score(labels_test, model.decision_function(X_test))),
            "accuracy": float(np.mean(model.predict(X_test) == labels_test)),
            "alpha": getattr(model, "alpha_", None),
            "bag_effect": getattr(model, "bag_effect_", None),
            "core_seconds": round(time.process_time() - start, 1),
            "command": "python " + " ".join(sys.argv),
            "made": provenance_line(),
        }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    jobs = (delayed(run_one)(task, seed) for task in TASKS for seed in range(options.seeds))
    with options.output.open("w") as file:
        for rows in Parallel(options.jobs, return_as="generator")(jobs):
            for row in rows:
                file.write(json.dumps(row) + "\n")
                print(row["task"], row["seed"], row["method"], f"{row['auc']:.4f}", flush=True)
            file.flush()


if __name__ == "__main__":
    main()
