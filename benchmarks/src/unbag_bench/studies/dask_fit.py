"""Dask with two workers against one process: seconds, memory of workers and of the driver.

Rows × 20 in bags of 100 are kept by the workers beforehand, whole bags in each partition or every bag
spread over all of them, and in memory for the one process.
"""

from __future__ import annotations

import os
import resource
import time

import dask
import dask.array as da
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

from unbag import LLPClassifier, bag_target
from unbag.distributed import DistributedClassifier
from unbag.evaluation import evaluate
from unbag_bench.study import Row, Study, table

BAG_SIZE, N_FEATURES, N_PARTITIONS = 100, 20, 20


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


def spread(number, n_rows):
    """Rows of one partition, some of every bag."""
    parts = [block(other, n_rows) for other in range(N_PARTITIONS)]
    rows = slice(number, None, N_PARTITIONS)
    return tuple(np.concatenate([part[i][rows] for part in parts]) for i in (0, 1))


def collections(n_rows, layout):
    """Rows kept by the workers, in X and y of Dask."""
    size, make = n_rows // N_PARTITIONS, block if layout == "whole" else spread
    blocks = [dask.delayed(make)(number, size) for number in range(N_PARTITIONS)]
    dtype = block(0, BAG_SIZE)[1].dtype
    X = da.concatenate([da.from_delayed(b[0], (size, N_FEATURES), dtype=float) for b in blocks])
    y = da.concatenate([da.from_delayed(b[1], (size,), dtype=dtype) for b in blocks])
    X, y = dask.persist(X, y)
    wait([X, y])
    return X, y


def peak():
    """Largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def held():
    """Memory of this process, in GB."""
    return psutil.Process(os.getpid()).memory_info().rss / 1e9


def measure(rows: int, layout: str) -> Row:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="4GB"
    )
    estimator = LLPClassifier(kernel=None)
    with cluster, Client(cluster) as client, threadpool_limits(1):
        X, y = collections(rows, layout)
        before = max(client.run(held).values())
        start = time.perf_counter()
        model = DistributedClassifier(estimator).fit(X, y)
        seconds, driver = time.perf_counter() - start, peak()
        start = time.perf_counter()
        found = evaluate(*dask.compute(y, model.decision_function(X)), n_resamples=100)
        evaluated = time.perf_counter() - start
        worker = max(client.run(peak).values())
        X_local, y_local = dask.compute(X, y)
    start = time.perf_counter()
    local = estimator.fit(X_local, y_local)
    return {
        "seconds": seconds,
        "one_process": time.perf_counter() - start,
        "evaluation": evaluated,
        "iterations": local.n_iter_,
        "difference": float(np.abs(local.coef_ - model.to_local().coef_).max()),
        "roc_auc": found["roc_auc"].value,
        "worker_before": before,
        "worker_peak": worker,
        "driver_peak": driver,
        "dask": dask.__version__,
    }


def page(rows: list[Row]) -> list[str]:
    lines = [
        [
            f"{row['rows']:,}",
            row["layout"],
            str(row["iterations"]),
            f"{row['seconds']:.1f}",
            f"{row['one_process']:.1f}",
            f"{row['evaluation']:.1f}",
            f"{row['difference']:.0e}",
            f"{row['worker_before']:.2f}",
            f"{row['worker_peak']:.2f}",
            f"{row['driver_peak']:.2f}",
        ]
        for row in rows
    ]
    header = ["rows", "bags", "iterations", "two workers (s)", "one process (s)", "evaluation (s)"]
    header += ["largest difference of coefficients", "a worker with its rows (GB)"]
    header += ["its peak (GB)", "driver's peak in the fit (GB)"]
    return [
        f"Two workers of one thread each, Dask {rows[0]['dask']}, mixed model without a kernel. Bags "
        "are whole in every partition, or spread over all.",
        "",
        *table(header, lines),
    ]


STUDY = Study(
    name="dask_fit",
    title="Dask against one process",
    keys=["rows", "layout"],
    tasks=lambda options: [
        {"rows": n, "layout": layout} for n in options.rows for layout in ("whole", "spread")
    ],
    measure=measure,
    page=page,
    options={"--rows": {"type": int, "nargs": "*", "default": [1_000_000, 10_000_000]}},
)
