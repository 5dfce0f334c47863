"""Few large bags a batch: the likelihood of counts as it is, and given what they sum to.

A network of the library (`LLPNeuralClassifier`, two hidden layers) learns images of 14 × 14 pixels
in random bags. A batch holds two bags, or a few more. It stops by held-out bags, or learns
from all of them for a number of epochs; test labels score, and choose nothing.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from statistics import fmean, stdev
from typing import Any

import numpy as np

from unbag import bag_target
from unbag.models import LLPNeuralClassifier
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import IMAGES, data_folder, load_images

METHODS = {
    "proportions": {"objective": "proportion"},
    "counts": {"objective": "likelihood", "condition_on_total": False},
    "counts, given their sum": {"objective": "likelihood", "condition_on_total": True},
}
NETWORK: dict[str, Any] = {"hidden": (128, 64), "ema_decay": 0.99}
CLASSES = 10
COLUMNS = ["images", "bags of", "rows a batch", "held out", "method", "seeds", "epochs"]
COLUMNS += ["core-seconds", "test accuracy", "least to most", "less that of proportions"]


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"dataset": options.dataset, "bag_size": size, "method": method, "seed": seed}
        | {"lr": options.lr, "epochs": options.epochs, "held_out": options.held_out}
        | {"batch_rows": options.batch_rows}
        for seed in options.seeds
        for size in options.sizes
        for method in METHODS
    ]


def run_one(
    dataset: str,
    bag_size: int,
    method: str,
    seed: int,
    lr: float,
    epochs: int,
    held_out: float,
    batch_rows: int,
) -> Row:
    X, labels, test, test_labels = load(dataset)
    n_bags = len(labels) // bag_size
    rows = np.random.default_rng([seed, bag_size]).permutation(len(labels))[: n_bags * bag_size]
    bag = np.repeat(np.arange(n_bags), bag_size)
    counts = np.zeros((n_bags, CLASSES), dtype=int)
    np.add.at(counts, (bag, labels[rows]), 1)
    model = LLPNeuralClassifier(
        **NETWORK,
        **METHODS[method],
        class_prior="empirical",
        batch_size=batch_rows,
        lr=lr,
        max_epochs=epochs,
        validation_fraction=held_out,
        random_state=seed,
    )
    start = time.process_time()
    model.fit(X[rows], bag_target(bag, counts=counts[bag]))
    return {
        "n_bags": n_bags,
        "accuracy": round(float((model.predict(test) == test_labels).mean()), 4),
        "epochs_done": model.n_iter_,
        "core_seconds": round(time.process_time() - start, 1),
    }


@cache
def load(dataset: str) -> tuple[Any, Any, Any, Any]:
    """Pixels, four of which are made one, and labels: to learn from, and to test on."""
    images, labels = load_images(dataset, data_folder())
    small = images[:, 0].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    X, n = small.reshape(len(small), -1) / 255, IMAGES[dataset]
    return X[:n], labels[:n], X[n:], labels[n:]


def page(rows: list[Row]) -> list[str]:
    kinds = sorted({kind(row) for row in rows}, reverse=True)
    return [
        "Test accuracy, mean of the seeds and what they range over.",
        "",
        *table(COLUMNS, [cells(rows, one, method) for one in kinds for method in METHODS]),
    ]


def kind(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset", "bag_size", "batch_rows", "held_out"))


def cells(rows: list[Row], one: tuple[Any, ...], method: str) -> list[str]:
    dataset, bag_size, batch_rows, held_out = one
    own, shares = (
        {row["seed"]: row for row in rows if kind(row) == one and row["method"] == name}
        for name in (method, "proportions")
    )
    found, epochs, seconds = (
        [row[name] for row in own.values()] for name in ("accuracy", "epochs_done", "core_seconds")
    )
    gaps = [row["accuracy"] - shares[seed]["accuracy"] for seed, row in own.items()]
    return [
        dataset,
        f"{bag_size:,}",
        f"{batch_rows:,}",
        f"{held_out:.0%}",
        method,
        str(len(own)),
        " to ".join(dict.fromkeys(str(end) for end in (min(epochs), max(epochs)))),
        f"{min(seconds):.0f} to {max(seconds):.0f}",
        f"{fmean(found):.4f}",
        f"{min(found):.4f} to {max(found):.4f}",
        "–" if method == "proportions" else gap(gaps),
    ]


def gap(values: list[float]) -> str:
    error = f" ± {stdev(values) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
    return f"{fmean(values):+.4f}{error}"


STUDY = Study(
    name="given_total",
    title="Networks with a few large bags per batch",
    keys=["dataset", "bag_size", "method", "seed", "lr", "epochs", "held_out", "batch_rows"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "dataset": {"choices": ["mnist", "fashion"]},
        "--sizes": {"type": int, "nargs": "+", "default": [1024]},
        "--seeds": {"type": int, "nargs": "+", "default": [0, 1, 2]},
        "--lr": {"type": float, "default": 2e-3},
        "--epochs": {"type": int, "default": 100},
        "--batch-rows": {"type": int, "default": 2048},
        "--held-out": {"type": float, "default": 0.2, "help": "share of the bags to stop by"},
    },
    packages=["torch"],
)
