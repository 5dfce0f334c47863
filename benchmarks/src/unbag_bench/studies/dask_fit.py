"""Dask with two workers against one process.

Rows × 20 are kept by the workers beforehand, as they are in memory for the one process, which takes
turns with them; the best of each counts.
"""

from __future__ import annotations

import os
import time

import dask
import dask.array as da
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

from unbag import LLPLinearClassifier, bag_target
from unbag.distributed import DistributedClassifier
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
    estimator = LLPLinearClassifier()
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


def measure(rows: int, partitions: int, repeats: int) -> Row:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="4GB"
    )
    with cluster, Client(cluster) as client, threadpool_limits(1):
        found = compare(client, rows, partitions, repeats)
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
    ]
    header = ["rows", "partitions", "iterations", "one process (s)", "two workers (s)", "ratio"]
    header += ["one process (CPU s)", "driver and workers (CPU s)", "ratio"]
    header += ["largest difference of coefficients", "workers (GB)"]
    return [
        f"Two workers of one thread each, Dask {rows[0]['dask']}.",
        "",
        *table(header, fits),
    ]


STUDY = Study(
    name="dask_fit",
    title="Dask against one process",
    keys=["rows", "partitions"],
    tasks=lambda options: [
        {"rows": n, "partitions": 20, "repeats": options.repeats} for n in options.rows
    ],
    measure=measure,
    page=page,
    options={
        "--rows": {"type": int, "nargs": "*", "default": [1_000_000, 10_000_000]},
        "--repeats": {"type": int, "default": 3, "help": "fits of each, in turns"},
    },
)
