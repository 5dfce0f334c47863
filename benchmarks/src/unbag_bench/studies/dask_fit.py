"""Dask with two workers against one process, and what a pass over the data costs besides.

Rows × 20 are kept by the workers beforehand, as they are in memory for the one process, which takes
turns with them; the best of each counts. Overhead: passes over next to no data.
"""

from __future__ import annotations

import os
import time
import warnings

import dask
import dask.array as da
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster, wait
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from unbag import LLPLinearClassifier, bag_target
from unbag.distributed import DistributedClassifier
from unbag.distributed.risk import DistributedRisk
from unbag_bench.study import Row, Study, table

BAG_SIZE, N_FEATURES = 100, 20


def block(number, n_rows):
    """Rows of one partition, with bags of their own."""
    rng = np.random.default_rng(number)
    bag = np.arange(n_rows) // BAG_SIZE
    share = rng.uniform(0, 1, bag[-1] + 1)
    labels = rng.uniform(size=n_rows) < share[bag]
    X = rng.normal(size=(n_rows, N_FEATURES)) * np.logspace(0, -1, N_FEATURES)
    X[:, ::2] += 0.2 * (2 * labels - 1)[:, None]
    counts = np.bincount(bag, labels)
    return X, bag_target(bag + number * len(share), counts=counts[bag])


def collections(n_rows, n_partitions):
    """Rows kept by the workers, in X and y of Dask."""
    size = n_rows // n_partitions
    blocks = [dask.delayed(block)(number, size) for number in range(n_partitions)]
    dtype = block(0, BAG_SIZE)[1].dtype
    X = da.concatenate([da.from_delayed(b[0], (size, N_FEATURES), dtype=float) for b in blocks])
    y = da.concatenate([da.from_delayed(b[1], (size,), dtype=dtype) for b in blocks])
    X, y = dask.persist(X, y)
    wait([X, y])
    return X, y


class Clock:
    """Wall-clock and processor seconds, the latter of some processes together."""

    def __init__(self, processes):
        self._processes = [psutil.Process(number) for number in processes]

    def __enter__(self):
        self._start, self._before = time.perf_counter(), self._processor()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self._start
        self.processor = self._processor() - self._before

    def _processor(self):
        return sum(sum(p.cpu_times()[:2]) for p in self._processes)


def memory(processes):
    return sum(psutil.Process(number).memory_info().rss for number in processes) / 1e9


def compare(client, n_rows, n_partitions, repeats):
    """Fit the same rows both ways, in turns."""
    workers = list(client.run(os.getpid).values())
    X, y = collections(n_rows, n_partitions)
    parts = [block(number, n_rows // n_partitions) for number in range(n_partitions)]
    X_local, y_local = (np.concatenate(part) for part in zip(*parts, strict=True))
    del parts
    local, spread = [], []
    estimator = LLPLinearClassifier(objective="corrected")
    for _ in range(repeats):
        with Clock([os.getpid()]) as clock:
            one = estimator.fit(X_local, y_local)
        local.append(clock)
        with Clock([os.getpid(), *workers]) as clock:
            many = DistributedClassifier(estimator).fit(X, y).to_local()
        spread.append(clock)
    return {
        "iterations": int(one.n_iter_),
        "wall": [min(c.wall for c in clocks) for clocks in (local, spread)],
        "processor": [min(c.processor for c in clocks) for clocks in (local, spread)],
        "difference": float(np.abs(one.coef_ - many.coef_).max()),
        "memory": memory(workers),
    }


def overhead(n_partitions, repeats):
    """Seconds of one evaluation of the risk where there is next to nothing to sum."""
    X, y = collections(n_partitions * BAG_SIZE, n_partitions)
    seconds = []
    evaluate = DistributedRisk.value_and_gradient

    def timed(self, theta, problem):
        start = time.perf_counter()
        found = evaluate(self, theta, problem)
        seconds.append(time.perf_counter() - start)
        return found

    DistributedRisk.value_and_gradient = timed
    estimator = LLPLinearClassifier(1e-9, objective="corrected", tol=1e-12, max_iter=repeats)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # it is meant to stop at the limit of iterations
            warnings.simplefilter("ignore", ConvergenceWarning)
            DistributedClassifier(estimator, persist=True).fit(X, y)
    finally:
        DistributedRisk.value_and_gradient = evaluate
    return {"median": float(np.median(seconds)), "least": float(np.min(seconds))}


def measure(part: str, rows: int, partitions: int, repeats: int) -> Row:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="4GB"
    )
    with cluster, Client(cluster) as client, threadpool_limits(1):
        found = (
            overhead(partitions, 20)
            if part == "overhead"
            else compare(client, rows, partitions, repeats)
        )
    return {**found, "dask": dask.__version__}


def page(rows: list[Row]) -> list[str]:
    fits = [
        [
            f"{row['rows']:,}",
            str(row["partitions"]),
            str(row["iterations"]),
            *(f"{s:.2f}" for s in row["wall"]),
            f"{row['wall'][1] / row['wall'][0]:.2f}",
            *(f"{s:.2f}" for s in row["processor"]),
            f"{row['processor'][1] / row['processor'][0]:.2f}",
            f"{row['difference']:.0e}",
            f"{row['memory']:.1f}",
        ]
        for row in rows
        if row["part"] == "fit"
    ]
    passes = [
        [str(row["partitions"]), f"{1e3 * row['median']:.0f}", f"{1e3 * row['least']:.0f}"]
        for row in rows
        if row["part"] == "overhead"
    ]
    header = ["rows", "partitions", "iterations", "one process (s)", "two workers (s)", "ratio"]
    header += ["one process (CPU s)", "driver and workers (CPU s)", "ratio"]
    header += ["largest difference of coefficients", "workers (GB)"]
    return [
        f"Two workers of one thread each, Dask {rows[0]['dask']}.",
        "",
        *table(header, fits),
        "",
        "An evaluation of the risk with 100 rows in each partition:",
        "",
        *table(["partitions", "median (ms)", "least (ms)"], passes),
    ]


STUDY = Study(
    name="dask_fit",
    title="Dask against one process",
    keys=["part", "rows", "partitions"],
    tasks=lambda options: [
        *(
            {"part": "fit", "rows": n, "partitions": 20, "repeats": options.repeats}
            for n in options.rows
        ),
        *(
            {"part": "overhead", "rows": n * BAG_SIZE, "partitions": n, "repeats": 1}
            for n in (2, 8, 32, 128)
        ),
    ],
    measure=measure,
    page=page,
    options={
        "--rows": {"type": int, "nargs": "*", "default": [1_000_000, 10_000_000]},
        "--repeats": {"type": int, "default": 3, "help": "fits of each, in turns"},
    },
)
