"""Searches on a GPU: all of the paper's first table, and the exact kernel of many rows.

    python benchmarks/gpu.py table1 --device cuda      # 80 searches, one after the other
    python benchmarks/gpu.py table1 --jobs 4           # the same, four processes at a time
    python benchmarks/gpu.py large --device cuda       # n = 100,000, the whole kernel matrix
    python benchmarks/gpu.py linear --device cuda      # n = 10,000,000, the linear model
    python benchmarks/gpu.py agree --device cuda       # scores against those of NumPy
    python benchmarks/gpu.py nystroem --jobs 10        # 1,000 landmarks against the exact kernel

Seconds are those of `fit`: the rows to the device, the kernel matrix, the search over 5 folds and
11 penalties, the model back. A product with the kernel matrix takes 2n² operations a column and
reads 4n² bytes; what is reached is counted from all products of the searches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from unbag import (
    KernelMCMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifier,
    LinearMCMClassifierCV,
)
from unbag._provenance import provenance_line
from unbag.datasets import make_gaussian_bags
from unbag.paper import Setting, make_trial
from unbag.solvers import KernelSpace

SETTINGS = [
    Setting(dataset, span, size)
    for dataset in ("adult", "magic")
    for span in ((0.0, 0.5), (0.5, 1.0))
    for size in (8, 32, 128, 512)
]


class Products:
    """Counts the products with a kernel matrix."""

    def __init__(self) -> None:
        self.calls, self.operations, self.bytes = 0, 0, 0

    def add(self, n: int, columns: int, itemsize: int) -> None:
        """Count one product of an n × n matrix with some columns."""
        self.calls += 1
        self.operations += 2 * n * n * columns
        self.bytes += itemsize * (n * n + 2 * n * columns)

    def __str__(self) -> str:
        return (
            f"{self.calls:,} products, {self.operations / 1e12:.2f} Tflop, "
            f"{self.bytes / 1e12:.2f} TB"
        )


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


def make_trials(seeds: int) -> list[Any]:
    return [make_trial(setting, seed) for setting in SETTINGS for seed in range(seeds)]


def table1(device: str | None, objective: str, seeds: int) -> None:
    """One search after the other, the data made before and the models scored afterwards."""
    trials, seconds, models = make_trials(seeds), [], []
    warm_up(device)
    with counted() as total:
        for trial in trials:
            models.append(KernelMCMClassifierCV(objective=objective, device=device))
            seconds.append(timed_fit(models[-1], trial.X, trial.y))
    aucs = [
        roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
        for trial, model in zip(trials, models, strict=True)
    ]
    spent = sum(seconds)
    print(f"{len(seconds)} searches ({objective}) in {spent:.1f} s, mean AUC {np.mean(aucs):.4f}")
    print(f"slowest {max(seconds):.2f} s, fastest {min(seconds):.2f} s; {total}")
    print(f"reached: {total.operations / spent / 1e12:.1f} Tflop/s, ", end="")
    print(f"{total.bytes / spent / 1e12:.2f} TB/s of kernel matrix and columns", flush=True)


def table1_side_by_side(device: str | None, objective: str, seeds: int, jobs: int) -> None:
    """The time of all searches, the data made and the processes started before."""
    trials = make_trials(seeds)
    with Parallel(n_jobs=jobs) as parallel:
        parallel(delayed(warm_up)(device) for _ in range(4 * jobs))
        start = time.perf_counter()
        parallel(
            delayed(timed_fit)(
                KernelMCMClassifierCV(objective=objective, device=device), trial.X, trial.y
            )
            for trial in trials
        )
        spent = time.perf_counter() - start
    print(f"{len(trials)} searches ({objective}), {jobs} at a time, in {spent:.1f} s", flush=True)


def large(device: str | None, n: int) -> None:
    warm_up(device)
    data = make_gaussian_bags(
        n_bags=n // 100, bag_size=100, n_features=20, separation=2.0, random_state=0
    )
    model = KernelMCMClassifierCV(objective="corrected", approximation=None, device=device)
    with counted() as products:
        seconds = timed_fit(model, data.X, data.y)
    print(f"exact kernel, n = {n:,}: {seconds:.1f} s; {products}")
    print(f"reached: {products.operations / seconds / 1e12:.1f} Tflop/s")
    start = time.perf_counter()
    auc = roc_auc_score(data.labels[:20000], model.decision_function(data.X[:20000]))
    print(f"20,000 predictions in {time.perf_counter() - start:.1f} s, AUC {auc:.4f}")
    print_peak(device)
    start = time.perf_counter()
    by_landmarks = KernelMCMClassifierCV(
        objective="corrected", approximation="nystroem", device=device
    ).fit(data.X, data.y)
    spent = time.perf_counter() - start
    auc = roc_auc_score(data.labels[:20000], by_landmarks.decision_function(data.X[:20000]))
    print(f"Nyström, 1,000 landmarks: {spent:.1f} s, AUC {auc:.4f}", flush=True)


def linear(device: str | None, n: int) -> None:
    warm_up(device)
    data = make_gaussian_bags(
        n_bags=n // 100, bag_size=100, n_features=20, separation=2.0, random_state=0
    )
    X = data.X.astype(np.float32)
    for model in (LinearMCMClassifier(device=device), LinearMCMClassifierCV(device=device)):
        seconds = timed_fit(model, X, data.y)
        print(f"{type(model).__name__}, {n:,} x 20: {seconds:.1f} s, {model.n_iter_} iterations")
        print_peak(device)
    here = LinearMCMClassifier()
    seconds = timed_fit(here, X, data.y)
    there = LinearMCMClassifier(device=device).fit(X, data.y)
    apart = np.abs(here.decision_function(X[:20000]) - there.decision_function(X[:20000])).max()
    print(f"NumPy: {seconds:.1f} s; scores differ by at most {apart:.1e}", flush=True)


def print_peak(device: str | None) -> None:
    if device is not None and device.startswith("cuda"):
        import torch

        peak = torch.cuda.max_memory_allocated() / 1e9
        print(f"peak memory on the device: {peak:.1f} GB", flush=True)


def agree(device: str | None, precision: str) -> None:
    for dataset in ("adult", "magic"):
        trial = make_trial(Setting(dataset, (0.0, 0.5), 32), 100)
        for objective in ("corrected", "likelihood"):
            here, there = (
                KernelMCMClassifierCV(
                    objective=objective, device=name, precision=precision, tol=1e-5
                )
                for name in (None, device)
            )
            times = [timed_fit(model, trial.X, trial.y) for model in (here, there)]
            scores = [model.decision_function(trial.X_test) for model in (here, there)]
            apart = np.abs(scores[0] - scores[1]).max()
            print(
                f"{dataset}, {objective}, {precision} precision: "
                f"{times[0]:.1f} s by NumPy, {times[1]:.1f} s on {device}; "
                f"same penalty: {here.alpha_ == there.alpha_}; "
                f"scores from {scores[0].min():.1f} to {scores[0].max():.1f} differ by at most "
                f"{apart:.1e}",
                flush=True,
            )


def nystroem(device: str | None, seeds: int, jobs: int) -> None:
    """AUC with 1,000 landmarks less that with the exact kernel, on trials that no table uses."""
    for objective in ("corrected", "auto"):
        tasks = [(setting, seed) for setting in SETTINGS for seed in range(100, 100 + seeds)]
        found = Parallel(n_jobs=jobs)(
            delayed(_lost_by_landmarks)(setting, seed, objective, device) for setting, seed in tasks
        )
        for what, lost in zip(
            ("after a search", "at the same penalty"), np.transpose(found), strict=True
        ):
            within = np.count_nonzero(np.abs(lost) <= 0.002)
            print(
                f"{objective}, {what}: mean {lost.mean():+.5f}, from {lost.min():+.4f} to "
                f"{lost.max():+.4f}, within .002 in {within} of {len(lost)} trials",
                flush=True,
            )


def _lost_by_landmarks(
    setting: Setting, seed: int, objective: str, device: str | None
) -> tuple[float, float]:
    trial = make_trial(setting, seed)

    def auc(model: Any) -> float:
        model.fit(trial.X, trial.y)
        return roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))

    options: dict[str, Any] = {"objective": objective, "device": device}
    whole = KernelMCMClassifierCV(approximation=None, **options)
    exact = auc(whole)
    searched = auc(KernelMCMClassifierCV(approximation="nystroem", **options))
    alike = auc(KernelMCMClassifier(whole.alpha_, approximation="nystroem", **options))
    return searched - exact, alike - exact


def warm_up(device: str | None) -> None:
    """The first call on a device loads libraries."""
    data = make_gaussian_bags(random_state=0)
    KernelMCMClassifierCV(device=device).fit(data.X, data.y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["table1", "large", "linear", "agree", "nystroem"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--objective", default="corrected")
    parser.add_argument("--precision", default="single", choices=["single", "double"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    print(provenance_line(), flush=True)
    if options.what == "table1" and options.jobs > 1:
        table1_side_by_side(options.device, options.objective, options.seeds, options.jobs)
    elif options.what == "table1":
        table1(options.device, options.objective, options.seeds)
    elif options.what == "large":
        large(options.device, options.rows or 100_000)
    elif options.what == "linear":
        linear(options.device, options.rows or 10_000_000)
    elif options.what == "nystroem":
        nystroem(options.device, options.seeds, options.jobs)
    else:
        agree(options.device, options.precision)


if __name__ == "__main__":
    main()
