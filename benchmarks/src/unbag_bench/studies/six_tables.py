"""How accurate is a model trained on totals beside other ways to use them, and beside labels.

Six tables with mixed columns, at least 7,000 rows and no rare class: three that `unbag` ships and three
of ``unbag-bench fetch tables``. Up to 5,000 rows are in bags of 50, which are of two kinds: bags with
random proportions (label shift), and clusters of similar rows found by k-means (covariate shift). The
overall class prior is that of the table in both. A row of the study is one method on one draw, scored by
the labels of rows in no bag. Tables, bags and methods were fixed before anything was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from unbag import bag_target
from unbag._arrays import Floats, Ints
from unbag.datasets import load_adult, load_flights, load_magic
from unbag.models import LLPNeuralClassifier
from unbag.paper import ProportionRiskClassifier
from unbag.paper.rows import Row
from unbag.tables import make_classifier
from unbag_bench.study import Study, plus_minus, table
from unbag_bench.suites.files import encode, table_frame

TABLES = ("adult", "magic", "flights", "compas", "flchain", "wa_churn")
KINDS = ("random proportions", "clusters")
_BAG_SIZE, _MOST_ROWS, _N_TEST = 50, 5_000, 2_000
# The proportion of a bag is drawn from Beta(3q, 3(1 - q)), q the share of positives in the table.
_CONCENTRATION = 3.0
_CALIBRATION_BINS = 10


def _lightgbm() -> LGBMClassifier:
    return LGBMClassifier(random_state=0, n_jobs=1, verbose=-1)


# Method -> what the page calls it, its estimator, and what that learns from.
METHODS: dict[str, tuple[str, Callable[[], Any], str]] = {
    "soft labels": ("LightGBM, each row labelled with its bag's proportion", _lightgbm, "soft"),
    "dllp": ("DLLP, a network", lambda: LLPNeuralClassifier(objective="proportion"), "bags"),
    "epr": ("EPR, a kernel", ProportionRiskClassifier, "bags"),
    "unbag": ("unbag, default", make_classifier, "tables"),
    "ensemble": ("unbag, ensemble", lambda: make_classifier("ensemble"), "tables"),
    "logistic": (
        "logistic regression on all labels",
        lambda: LogisticRegression(max_iter=1000),
        "labels",
    ),
    "lightgbm": ("LightGBM on all labels", _lightgbm, "labels"),
}


def load(name: str) -> tuple[pd.DataFrame, Ints]:
    """Features and labels of a table."""
    if name == "flights":
        flights = load_flights()
        return flights.frame.drop(columns="date"), flights.target
    if name in ("adult", "magic"):
        data = load_adult("all") if name == "adult" else load_magic()
        return data.frame, data.target
    return table_frame(name)


def draw(X: Floats, labels: Ints, kind: str, seed: int) -> tuple[Ints, NDArray[Any], Ints]:
    """Rows to train on, the bag of each, and rows to test on."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    test, pool = order[:_N_TEST], order[_N_TEST:]
    n_bags = min(_MOST_ROWS, len(pool)) // _BAG_SIZE
    if kind == "clusters":
        pool = pool[: n_bags * _BAG_SIZE]
        clusters = MiniBatchKMeans(n_bags // 4, n_init=1, random_state=seed).fit_predict(X[pool])
        sorted_by_cluster = np.lexsort([rng.random(len(pool)), clusters])
        return pool[sorted_by_cluster], np.repeat(np.arange(n_bags), _BAG_SIZE), test
    q = labels.mean()
    proportions = rng.beta(_CONCENTRATION * q, _CONCENTRATION * (1 - q), n_bags)
    wanted = rng.binomial(_BAG_SIZE, proportions)
    rows = [list(pool[labels[pool] == c]) for c in (0, 1)]
    train, bag = [], []
    for number, count in enumerate(wanted):
        if count <= len(rows[1]) and _BAG_SIZE - count <= len(rows[0]):
            train += [rows[1].pop() for _ in range(count)]
            train += [rows[0].pop() for _ in range(_BAG_SIZE - count)]
            bag += [number] * _BAG_SIZE
    return np.array(train), np.array(bag), test


def measure_one(name: str, kind: str, seed: int, method: str) -> Row:
    """Fit one method to one draw of bags."""
    frame, labels = load(name)
    X = encode(frame)
    train, bag, test = draw(X, labels, kind, seed)
    _, make, learns_from = METHODS[method]
    model = make()
    y = bag_target(bag, counts=np.bincount(bag, labels[train])[bag])
    if learns_from == "tables":
        probability = model.fit(frame.iloc[train], y).predict_proba(frame.iloc[test])[:, 1]
    elif learns_from == "soft":
        known = np.asarray(y["proportion"])
        twice, target = np.concatenate([X[train]] * 2), np.repeat([1, 0], len(train))
        model.fit(twice, target, sample_weight=np.r_[known, 1 - known])
        probability = model.predict_proba(X[test])[:, 1]
    else:
        model.fit(X[train], labels[train] if learns_from == "labels" else y)
        probability = model.predict_proba(X[test])[:, 1]
    return {
        "n_bags": len(np.unique(bag)),
        "auc": float(roc_auc_score(labels[test], probability)),
        "log_loss": float(log_loss(labels[test], np.clip(probability, 1e-6, 1 - 1e-6))),
        "calibration_error": calibration_error(labels[test], probability),
    }


def calibration_error(labels: Ints, probability: Floats) -> float:
    """Mean distance of predicted and observed proportion, over ten bins of as many rows."""
    bins = np.array_split(np.argsort(probability, kind="stable"), _CALIBRATION_BINS)
    distances = [abs(probability[rows].mean() - labels[rows].mean()) for rows in bins]
    return float(np.mean(distances))


def page(rows: list[Row]) -> list[str]:
    """Means over all draws, then by kind of bags and by table."""
    return [
        "Means over tables and draws, with the standard error of the mean.",
        "",
        *summary(rows),
        "",
        "## AUC by kind of bags",
        "",
        *_by(rows, "kind", KINDS),
        "",
        "## AUC by table",
        "",
        *_by(rows, "name", TABLES),
    ]


def summary(rows: list[Row]) -> list[str]:
    """The table that the README shows."""
    lines = []
    for method, (title, *_) in METHODS.items():
        own = [row for row in rows if row["method"] == method]
        if own:
            error = np.mean([row["calibration_error"] for row in own])
            lines.append([title, plus_minus([r["auc"] for r in own], ".3f"), f"{error:.3f}"])
    return table(["method", "AUC", "calibration error"], lines)


def _by(rows: list[Row], key: str, values: tuple[str, ...]) -> list[str]:
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        cells[row["method"], row[key]].append(row["auc"])
    lines = [
        [title, *(f"{np.mean(cells[method, v]):.3f}" if cells[method, v] else "" for v in values)]
        for method, (title, *_) in METHODS.items()
    ]
    return table(["method", *values], lines)


STUDY = Study(
    name="six_tables",
    title="Six tables in two kinds of bags",
    keys=["name", "kind", "seed", "method"],
    tasks=lambda options: [
        {"name": name, "kind": kind, "seed": seed, "method": method}
        for seed in range(options.seeds)
        for name in TABLES
        for kind in KINDS
        for method in (options.methods or METHODS)
    ],
    measure=measure_one,
    page=page,
    options={
        "--seeds": {"type": int, "default": 1, "help": "draws of each kind"},
        "--methods": {"nargs": "*", "choices": list(METHODS), "help": "all by default"},
    },
    packages=("lightgbm",),
)
