"""Dask with two workers against one process, and what a pass over the data costs besides.

python benchmarks/dask_fit.py                              # 1,000,000 and 10,000,000 rows × 20
python benchmarks/dask_fit.py --overhead                   # passes over next to no data
"""

from __future__ import annotations

import argparse
import os
import time

import dask
import dask.array as da
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

from unbag import LinearMCMClassifier, bag_target
from unbag._provenance import provenance_line
from unbag.distributed import DistributedClassifier
from unbag.distributed.risk import DistributedRisk

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
    estimator = LinearMCMClassifier()
    for _ in range(repeats):
        with Clock([os.getpid()]) as clock:
            one = estimator.fit(X_local, y_local)
        local.append(clock)
        with Clock([os.getpid(), *workers]) as clock:
            many = DistributedClassifier(estimator).fit(X, y).to_local()
        spread.append(clock)
    difference = np.abs(one.coef_ - many.coef_).max()
    wall = [min(c.wall for c in clocks) for clocks in (local, spread)]
    processor = [min(c.processor for c in clocks) for clocks in (local, spread)]
    print(
        f"| {n_rows:,} | {n_partitions} | {one.n_iter_} | {wall[0]:.2f} | {wall[1]:.2f} | "
        f"{wall[1] / wall[0]:.2f} | {processor[0]:.2f} | {processor[1]:.2f} | "
        f"{processor[1] / processor[0]:.2f} | {difference:.0e} | {memory(workers):.1f} |",
        flush=True,
    )


def overhead(n_partitions, repeats=20):
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
    estimator = LinearMCMClassifier(1e-9, tol=1e-12, max_iter=repeats)
    try:
        with np.errstate(all="ignore"):
            DistributedClassifier(estimator, persist=True).fit(X, y)
    except Warning:
        pass
    finally:
        DistributedRisk.value_and_gradient = evaluate
    print(f"| {n_partitions} | {1e3 * np.median(seconds):.0f} | {1e3 * np.min(seconds):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--overhead", action="store_true")
    options = parser.parse_args()
    print(f"{provenance_line()}, dask {dask.__version__}\n")
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="4GB"
    )
    with cluster, Client(cluster) as client, threadpool_limits(1):
        if options.overhead:
            print("| partitions | median (ms) | least (ms) |\n| --- | --- | --- |")
            for n_partitions in (2, 8, 32, 128):
                overhead(n_partitions)
            return
        print(
            "| rows | partitions | iterations | one process (s) | two workers (s) | ratio | "
            "one process (CPU s) | driver and workers (CPU s) | ratio | largest difference of "
            "coefficients | workers (GB) |\n" + "| --- " * 11 + "|"
        )
        for n_rows in options.rows:
            compare(client, n_rows, options.partitions, options.repeats)


if __name__ == "__main__":
    main()
