"""Boosted trees on a million rows: time and memory beside LightGBM on their labels.

Each is grown in a process of its own, by one thread. The data are simulated: five columns are
shifted by the class and one is stretched, of twenty.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import lightgbm
import numpy as np

from unbag import LLPBoostingClassifier, bag_target
from unbag_bench.study import Row, Study, table

N_ROWS, N_COLUMNS, BAG_SIZE, ROUNDS = 1_000_000, 20, 50, 50
LABELS = "LightGBM, labels"
MIXED = "likelihood, rows mixed"
METHODS = (LABELS, "likelihood", "forward", MIXED)


def draw(mixed: bool) -> tuple[Any, Any, Any]:
    """Rows of two classes, their labels and their bags, which follow each other or are mixed."""
    rng = np.random.default_rng(0)
    n_bags = N_ROWS // BAG_SIZE
    bag = np.repeat(np.arange(n_bags), BAG_SIZE)
    if mixed:
        np.random.default_rng(1).shuffle(bag)
    share = rng.uniform(0, 0.5, n_bags)[bag]
    labels = (rng.random(N_ROWS) < share).astype(np.int64)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    X[:, :5] += labels[:, None]
    X[:, 5] *= 1 + labels
    return X, labels, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def grow(method: str) -> Row:
    X, labels, y = draw(method == MIXED)
    start, cpu = time.perf_counter(), time.process_time()
    if method == LABELS:
        parameters = {
            "objective": "binary",
            "num_leaves": 16,
            "learning_rate": 0.2,
            "num_threads": 1,
            "force_col_wise": True,
            "verbosity": -1,
        }
        lightgbm.train(parameters, lightgbm.Dataset(X, labels), ROUNDS)
    else:
        model = LLPBoostingClassifier(16, n_estimators=ROUNDS, learning_rate=0.2, cv=None)
        model.set_params(n_jobs=1).fit(X, y)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "core_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def grow_apart(method: str) -> Row:
    """Grow in a new process, whose peak of memory is that of this method."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(grow, method).result()


def page(rows: list[Row]) -> list[str]:
    (first,) = (row for row in rows if row["method"] == LABELS)
    lines = []
    for row in rows:
        name = LABELS if row is first else f"{row['method']}, bags of {BAG_SIZE}"
        cells = [name]
        for column, digits in (("core_seconds", 1), ("peak_mb", 0)):
            cells += [f"{row[column]:.{digits}f}", f"{row[column] / first[column]:.2f}"]
        lines.append(cells)
    return [
        f"{N_ROWS:,} rows of {N_COLUMNS} columns, {ROUNDS} rounds of 16 leaves, one thread.",
        "",
        *table(["what is grown on", "core-seconds", "ratio", "peak RSS, MB", "ratio"], lines),
    ]


STUDY = Study(
    name="boosted_large",
    title="Boosted trees on a million rows",
    keys=["method"],
    tasks=lambda _: [{"method": method} for method in METHODS],
    measure=grow_apart,
    page=page,
    packages=["lightgbm"],
)
