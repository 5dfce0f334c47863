"""Time and memory of `LLPClassifier` against rows, bags and columns, with labels beside it.

Every case is measured in processes of its own, one after the other and each with one thread. Times
are processor seconds, which a busy machine changes least. Memory is the peak of the resident set
in each phase, the data and some 190 MB of libraries included (from /proc, so on Linux only). X is
in single precision and made block by block in place.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target
from unbag_bench.study import Row, Study, table

ALPHA, BLOCK = 1e-3, 2**16

MODELS: dict[str, Callable[[int], Any]] = {
    "mixed": lambda _: LLPClassifier(kernel=None),
    "kernel": lambda _: LLPClassifier(),
    "labels": lambda n: LogisticRegression(C=1 / (2 * ALPHA * n), class_weight="balanced"),
}


@dataclass(frozen=True)
class Case:
    """What one process measures."""

    model: str
    n_rows: int
    n_bags: int
    n_columns: int = 20


class Phases:
    """Processor seconds and peak memory in MB of named phases."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Measure some work."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
        begin = time.process_time()
        result = work()
        self.found[name] = {"seconds": time.process_time() - begin, "peak": _peak()}
        return result


def _peak() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1e3
    raise OSError("The system does not report the peak of the memory.")


def make_rows(case: Case) -> tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.int64]]:
    """Rows, labels and bags: half of the columns, whose scales differ, separate the classes."""
    rng, n, p = np.random.default_rng(0), case.n_rows, case.n_columns
    bag = np.arange(n) // (n // case.n_bags)
    share = rng.uniform(size=case.n_bags)
    labels, X = np.empty(n, dtype=np.int8), np.empty((n, p), dtype=np.float32)
    scale = np.logspace(0, -1, p, dtype=np.float32)
    for start in range(0, n, BLOCK):
        here = slice(start, min(start + BLOCK, n))
        labels[here] = rng.uniform(size=here.stop - start) < share[bag[here]]
        rng.standard_normal(out=X[here], dtype=np.float32)
        # the same separation for any number of columns
        X[here, ::2] += (1.8 * p**-0.5 * (labels[here] - 0.5))[:, None]
        X[here] *= scale
    return X, labels, bag


def measure(case: Case) -> dict[str, Any]:
    """Measure one case, here and now."""
    phases = Phases()
    X, labels, bag = phases.run("data", lambda: make_rows(case))
    y = labels
    if case.model != "labels":
        counts = np.bincount(bag, labels, case.n_bags).astype(int)
        y = phases.run("bag_target", lambda: bag_target(bag, counts=counts[bag]))
    model = MODELS[case.model](case.n_rows)
    phases.run("fit", lambda: model.fit(X, y))
    some = slice(None, None, max(1, case.n_rows // 100_000))
    return {
        "n_iter": int(np.max(model.n_iter_)),
        "auc": float(roc_auc_score(labels[some], model.decision_function(X[some]))),
        **phases.found,
    }


def in_own_process(**case: Any) -> Row:
    """Measure one case in a process with one thread."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(case)],
        env={**os.environ, **threads},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Row = json.loads(done.stdout)
    return found


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Cases by rows, then by bags and by columns."""
    cases = [Case(model, n, n // 100) for n in options.sizes for model in ("mixed", "labels")]
    cases += [Case("mixed", 1_000_000, n_bags) for n_bags in options.bags]
    cases += [Case("mixed", 100_000, 1_000, p) for p in options.columns]
    cases += [Case("kernel", n, n // 100) for n in options.kernel]
    return [asdict(case) for case in dict.fromkeys(cases)]


def page(rows: list[Row]) -> list[str]:
    """One table of all fits, with the ratio to labels where these were fitted as well."""
    labels = {row["n_rows"]: row["fit"]["seconds"] for row in rows if row["model"] == "labels"}
    lines = []
    for row in sorted(
        (row for row in rows if row["model"] != "labels"),
        key=lambda row: (row["model"] == "kernel", row["n_columns"], row["n_rows"], row["n_bags"]),
    ):
        seconds, n = row["fit"]["seconds"], row["n_rows"]
        plain = row["model"] == "mixed" and row["n_columns"] == 20 and n == 100 * row["n_bags"]
        lines.append(
            [
                "kernel" if row["model"] == "kernel" else "linear",
                f"{n:,}",
                f"{row['n_bags']:,}",
                f"{row['n_columns']}",
                f"{seconds:.2f}",
                f"{row['n_iter']}",
                f"{1e9 * seconds / n / row['n_iter']:,.0f}",
                f"{seconds / labels[n]:.1f}" if plain else "",
                f"{row['data']['peak']:,.0f}",
                f"{row['fit']['peak']:,.0f}",
                f"{row['auc']:.4f}",
            ]
        )
    header = ["terms", "rows", "bags", "columns", "fit (s)", "iterations"]
    header += ["ns per row and iteration", "ratio to LogisticRegression on labels"]
    header += ["peak of data (MB)", "peak of fit (MB)", "AUC"]
    return [
        "Processor seconds of one thread, float32 X, every case in a process of its own, once. Peaks",
        "are those of the resident set, with about 190 MB of Python and libraries. Fits choose their",
        f"variances; `LogisticRegression` (lbfgs, labels of all rows) has one penalty of {ALPHA:g}.",
        "",
        *table(header, lines),
    ]


STUDY = Study(
    name="scaling",
    title="Rows, bags, columns and memory",
    keys=["model", "n_rows", "n_bags", "n_columns"],
    tasks=tasks,
    measure=in_own_process,
    page=page,
    options={
        "--sizes": {"type": int, "nargs": "*", "default": [10**k for k in range(4, 8)]},
        "--bags": {"type": int, "nargs": "*", "default": [100, 10_000, 250_000]},
        "--columns": {"type": int, "nargs": "*", "default": [5, 20, 80]},
        "--kernel": {"type": int, "nargs": "*", "default": [10_000]},
    },
)

if __name__ == "__main__":
    print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))
