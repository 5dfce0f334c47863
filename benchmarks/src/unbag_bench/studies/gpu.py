"""Searches on a GPU: all of the paper's first table, many rows, and agreement with NumPy.

    unbag-bench run gpu --device cuda
    unbag-bench show gpu

    table1     its 80 searches, one after the other: seconds in `fit`, from the rows of the host on
    kernel     100,000 rows, the whole kernel matrix
    linear     10,000,000 rows, fit and search
    agree      scores of whole searches against those of NumPy

A product with the kernel matrix takes 2n² operations a column and reads 4n² bytes; what is reached
is counted from all products of the searches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPKernelClassifierCV, LLPLinearClassifier, LLPLinearClassifierCV
from unbag.datasets import make_gaussian_bags
from unbag.paper import Setting, make_trial
from unbag.solvers import KernelSpace
from unbag_bench.study import Row, Study, table

SETTINGS = [
    Setting(dataset, span, size)
    for dataset in ("adult", "magic")
    for span in ((0.0, 0.5), (0.5, 1.0))
    for size in (8, 32, 128, 512)
]
OBJECTIVES = ("corrected", "likelihood")


class Products:
    """Counts the products with a kernel matrix."""

    def __init__(self) -> None:
        self.calls, self.operations, self.bytes = 0, 0, 0

    def add(self, n: int, columns: int, itemsize: int) -> None:
        """Count one product of an n × n matrix with some columns."""
        self.calls += 1
        self.operations += 2 * n * n * columns
        self.bytes += itemsize * (n * n + 2 * n * columns)

    def row(self) -> Row:
        """The same as a part of a row."""
        return {"products": self.calls, "tflop": self.operations / 1e12, "tb": self.bytes / 1e12}


@contextmanager
def counted() -> Iterator[Products]:
    """Count the products of all searches inside."""
    products, plain = Products(), KernelSpace.dual

    def dual(self: KernelSpace, theta: Any) -> Any:
        n = self.like.shape[0]
        products.add(n, theta.shape[0] * theta.shape[1] // n, self.like.dtype.itemsize)
        return plain(self, theta)

    KernelSpace.dual = dual  # type: ignore[method-assign]
    try:
        yield products
    finally:
        KernelSpace.dual = plain  # type: ignore[method-assign]


def timed_fit(model: Any, X: Any, y: Any) -> float:
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def table1(device: str, objective: str) -> Row:
    """One search after the other, the data made before and the models scored afterwards."""
    trials = [make_trial(setting, seed) for setting in SETTINGS for seed in range(5)]
    seconds, models = [], []
    with counted() as total:
        for trial in trials:
            models.append(LLPKernelClassifierCV(objective=objective, device=device))
            seconds.append(timed_fit(models[-1], trial.X, trial.y))
    aucs = [
        roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
        for trial, model in zip(trials, models, strict=True)
    ]
    adult_of_8 = [s for s, i in zip(seconds, range(80), strict=True) if i // 5 in (0, 4)]
    return {
        "seconds": sum(seconds),
        "slowest": max(seconds),
        "fastest": min(seconds),
        "adult_in_bags_of_8": max(adult_of_8),
        "auc": float(np.mean(aucs)),
        **total.row(),
    }


def kernel(device: str, objective: str) -> Row:
    data = make_gaussian_bags(1000, 100, n_features=20, random_state=0)
    found: Row = {"n_rows": len(data.X)}
    for name in (None, "nystroem"):
        model = LLPKernelClassifierCV(objective=objective, approximation=name, device=device)
        with counted() as products:
            seconds = timed_fit(model, data.X, data.y)
        auc = roc_auc_score(data.labels[:20000], model.decision_function(data.X[:20000]))
        found[name or "exact"] = {"seconds": seconds, "auc": float(auc), **products.row()}
    return found | {"peak_gb": peak_gb()}


# what rows call a fit and a search: the classes had these names when they were made
KEYS = ("LinearMCMClassifier", "LinearMCMClassifierCV")


def linear(device: str, objective: str) -> Row:
    data = make_gaussian_bags(100_000, 100, n_features=20, random_state=0)
    X, found = data.X.astype(np.float32), {"n_rows": len(data.X)}
    for key, make in zip(KEYS, (LLPLinearClassifier, LLPLinearClassifierCV), strict=True):
        found[key] = timed_fit(make(objective=objective, device=device), X, data.y)
    return (
        found
        | {"numpy": timed_fit(LLPLinearClassifier(objective=objective), X, data.y)}
        | {"peak_gb": peak_gb()}
    )


def agree(device: str, objective: str) -> Row:
    found: Row = {}
    for dataset in ("adult", "magic"):
        trial = make_trial(Setting(dataset, (0.0, 0.5), 32), 100)
        for precision in ("single", "double"):
            here, there = (
                LLPKernelClassifierCV(
                    objective=objective, device=name, precision=precision, tol=1e-5
                ).fit(trial.X, trial.y)
                for name in (None, device)
            )
            scores = [model.decision_function(trial.X_test) for model in (here, there)]
            found[f"{dataset}, {precision}"] = {
                "same_penalty": bool(here.alpha_ == there.alpha_),
                "apart": float(np.abs(scores[0] - scores[1]).max()),
                "largest": float(np.abs(scores[0]).max()),
            }
    return found


def peak_gb() -> float:
    import torch

    return float(torch.cuda.max_memory_allocated() / 1e9) if torch.cuda.is_available() else 0.0


STEPS: dict[str, Callable[[str, str], Row]] = {
    "table1": table1,
    "kernel": kernel,
    "linear": linear,
    "agree": agree,
}


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    repeats = {"table1": options.repeats}
    return [
        {"what": what, "objective": objective, "repeat": repeat, "device": options.device}
        for what in options.what.split(",")
        for objective in OBJECTIVES[1:]  # the corrected risk has no GPU form any more
        for repeat in range(repeats.get(what, 1))
    ]


def run_one(what: str, objective: str, repeat: int, device: str) -> Row:  # noqa: ARG001
    data = make_gaussian_bags(random_state=0)
    LLPKernelClassifierCV(device=device).fit(data.X, data.y)  # loads libraries
    return STEPS[what](device, objective) | {"device": name_of(device)}


def name_of(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def page(rows: list[Row]) -> list[str]:
    found = {what: [row for row in rows if row["what"] == what] for what in STEPS}
    lines = [f"Device: {', '.join(dict.fromkeys(row['device'] for row in rows))}.", ""]
    lines += ["## All 80 searches of the paper's first table, one after the other", ""]
    for objective in OBJECTIVES:
        own = [row for row in found["table1"] if row["objective"] == objective]
        if not own:
            continue
        seconds = ", ".join(f"{row['seconds']:.1f}" for row in own)
        row = own[0]
        lines.append(
            f"- {objective}: {seconds} s in `fit`, the slowest {row['slowest']:.2f} s and the "
            f"fastest {row['fastest']:.2f} s; Adult in bags of 8 at most "
            f"{row['adult_in_bags_of_8']:.2f} s; mean AUC {row['auc']:.4f}. {row['products']:,} "
            f"products with kernel matrices, {row['tflop'] / row['seconds']:.2f} Tflop/s and "
            f"{row['tb'] / row['seconds']:.3f} TB/s over all."
        )
    lines += ["", "## Many rows", ""]
    lines += [
        f"- Kernel search, {row['objective']}, {row['n_rows']:,} rows: exact "
        f"{row['exact']['seconds']:.1f} s (AUC {row['exact']['auc']:.4f}), 1,000 landmarks "
        f"{row['nystroem']['seconds']:.1f} s (AUC {row['nystroem']['auc']:.4f}), "
        f"{row['peak_gb']:.1f} GB."
        for row in found["kernel"]
    ]
    lines += [
        f"- Linear, {row['objective']}, {row['n_rows']:,} rows: fit "
        f"{row[KEYS[0]]:.1f} s (NumPy, one core, {row['numpy']:.1f} s), search "
        f"{row[KEYS[1]]:.1f} s, {row['peak_gb']:.1f} GB."
        for row in found["linear"]
    ]
    lines += ["", "## Scores of whole searches against those of NumPy", ""]
    return lines + table(
        ["objective", "data, precision", "same penalty", "differ by at most", "largest score"],
        [
            [
                *(row["objective"], case, str(one["same_penalty"])),
                *(f"{one['apart']:.1e}", f"{one['largest']:.1f}"),
            ]
            for row in found["agree"]
            for case, one in row.items()
            if isinstance(one, dict)
        ],
    )


STUDY = Study(
    name="gpu",
    title="Searches on a GPU",
    keys=["what", "objective", "repeat"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "--device": {"default": "cuda", "help": "a device of torch"},
        "--what": {"default": ",".join(STEPS), "help": "steps by commas"},
        "--repeats": {"type": int, "default": 3, "help": "of the paper's table"},
    },
    packages=("torch",),
)
