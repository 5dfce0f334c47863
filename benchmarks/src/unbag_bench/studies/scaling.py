"""Time and memory of the linear model against rows and bags, beside scikit-learn with labels.

Three parts: 10⁴ to 10⁷ rows in bags of 100; 4·10⁶ rows in 10² to 10⁶ bags; a search over 5 folds
and 11 penalties at 10⁶ rows. Ours minimise the corrected risk, or the likelihood of counts.

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
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.paper import LMMCMClassifier, LMMCMClassifierCV
from unbag_bench.study import Row, Study, table

ALPHA, N_FEATURES, BLOCK = 1e-3, 20, 2**16

# Models by the likelihood of counts, as the page calls them; the first has rows alone.
LIKELIHOODS = {"likelihood": "former, one penalty (commit 206f41b)", "mixed": "LLPClassifier"}


@dataclass(frozen=True)
class Case:
    """What one process measures."""

    model: str
    n_rows: int
    n_bags: int
    scattered: bool = False
    repeats: int = 1


class Phases:
    """Processor and wall-clock seconds, and peak memory in MB, of named phases."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def run(self, name: str, work: Callable[[], Any], repeats: int = 1) -> Any:
        """Measure some work; of repeats the fastest counts."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
        processor, wall = [], []
        for _ in range(repeats):
            begin = time.process_time(), time.perf_counter()
            result = work()
            processor.append(time.process_time() - begin[0])
            wall.append(time.perf_counter() - begin[1])
        self.found[name] = {"seconds": min(processor), "wall": min(wall), "peak": _peak()}
        return result


def _peak() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1e3
    raise OSError("The system does not report the peak of the memory.")


def make_rows(case: Case) -> tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.int64]]:
    """Rows, labels and bags: half of the columns, whose scales differ, separate the classes."""
    rng, n = np.random.default_rng(0), case.n_rows
    if case.scattered:
        bag = rng.integers(case.n_bags, size=n)
    else:
        bag = np.arange(n) // (n // case.n_bags)
    share = rng.uniform(size=case.n_bags)
    labels = np.empty(n, dtype=np.int8)
    X = np.empty((n, N_FEATURES), dtype=np.float32)
    scale = np.logspace(0, -1, N_FEATURES, dtype=np.float32)
    for start in range(0, n, BLOCK):
        here = slice(start, min(start + BLOCK, n))
        labels[here] = rng.uniform(size=here.stop - start) < share[bag[here]]
        rng.standard_normal(out=X[here], dtype=np.float32)
        X[here, ::2] += (0.4 * labels[here] - 0.2)[:, None]
        X[here] *= scale
    return X, labels, bag


def from_bags(case: Case, phases: Phases) -> Any:
    X, labels, y = target_of(case, phases)
    phases.run("check_bag_target", lambda: check_bag_target(y), case.repeats)
    kinds = {
        "fit": LMMCMClassifier(ALPHA, kernel="linear"),
        "mixed": LLPClassifier(kernel=None),
        "search": LMMCMClassifierCV(kernel="linear"),
    }
    return phases.run("fit", lambda: kinds[case.model].fit(X, y), case.repeats), X, labels


def target_of(case: Case, phases: Phases) -> Any:
    """Rows, labels and y, which is made from counts; no more than these stays in memory."""
    X, labels, bag = phases.run("data", lambda: make_rows(case))
    counts = np.bincount(bag, labels, case.n_bags).astype(int)
    given = dict(enumerate(counts.tolist()))
    y = phases.run("bag_target", lambda: bag_target(bag, counts=given), case.repeats)
    return X, labels, y


def from_labels(case: Case, phases: Phases) -> Any:
    X, labels, _ = phases.run("data", lambda: make_rows(case))
    kinds = {
        "logistic": LogisticRegression(
            C=1 / (2 * ALPHA * case.n_rows), class_weight="balanced", solver="lbfgs"
        ),
        "sgd": SGDClassifier("log_loss", alpha=2 * ALPHA, class_weight="balanced", random_state=0),
    }
    return phases.run("fit", lambda: kinds[case.model].fit(X, labels), case.repeats), X, labels


def measure(case: Case) -> dict[str, Any]:
    """Measure one case, here and now."""
    phases = Phases()
    make = from_labels if case.model in ("logistic", "sgd") else from_bags
    model, X, labels = make(case, phases)
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
    cases = []
    for n in options.sizes:
        repeats = 3 if n <= 100_000 else 2 if n <= 1_000_000 else 1
        models = ("fit", "logistic", "sgd", "mixed")
        cases += [Case(model, n, n // 100, repeats=repeats) for model in models]
    for n_bags in options.bags:
        cases += [Case("fit", 4_000_000, n_bags, scattered) for scattered in (False, True)]
    cases += [Case("search", n, n // 100) for n in options.searches]
    return [asdict(case) for case in cases]


def of_target(row: Row) -> list[str]:
    """What the target takes of the time, and each phase of the memory."""
    seconds = (row[name]["seconds"] for name in ("bag_target", "check_bag_target", "fit"))
    peaks = (row[name]["peak"] for name in ("data", "bag_target", "check_bag_target", "fit"))
    return [*(f"{s:.2f}" for s in seconds), *(f"{peak:,.0f}" for peak in peaks)]


OF_TARGET = [
    "bag_target (s)",
    "check_bag_target, a part of fit (s)",
    "fit (s)",
    "peak of data (MB)",
    "peak of bag_target (MB)",
    "peak of check_bag_target (MB)",
    "peak of fit (MB)",
]


def rates(row: Row) -> list[str]:
    """Rows per second, iterations, and nanoseconds of a row and iteration."""
    seconds, n, n_iter = row["fit"]["seconds"], row["n_rows"], row["n_iter"]
    return [f"{n / seconds:,.0f}", f"{n_iter}", f"{1e9 * seconds / n / n_iter:.0f}"]


RATES = ["rows per second", "iterations", "ns per row and iteration"]


def page_of_rows(rows: list[Row]) -> list[str]:
    """Time and memory against the number of rows."""
    times, targets, likelihoods = [], [], []
    sizes = dict.fromkeys(row["n_rows"] for row in rows if row["model"] == "logistic")
    for n in sizes:
        of = {row["model"]: row for row in rows if (row["n_rows"], row["n_bags"]) == (n, n // 100)}
        seconds = {model: row["fit"]["seconds"] for model, row in of.items()}
        ratio = {model: seconds["fit"] / own for model, own in seconds.items()}
        times.append(
            [
                f"{n:,}",
                f"{seconds['fit']:.3f}",
                *rates(of["fit"]),
                f"{seconds['logistic']:.3f}",
                f"{of['logistic']['n_iter']}",
                f"{ratio['logistic']:.2f}",
                f"{seconds['sgd']:.3f}",
                f"{of['sgd']['n_iter']}",
                f"{ratio['sgd']:.2f}",
                f"{of['fit']['auc']:.4f}",
                f"{of['logistic']['auc']:.4f}",
            ]
        )
        targets.append([f"{n:,}", *of_target(of["fit"]), f"{of['logistic']['fit']['peak']:,.0f}"])
        for model in (model for model in LIKELIHOODS if model in of):
            own = of[model]
            likelihoods.append(
                [
                    LIKELIHOODS[model],
                    f"{n:,}",
                    f"{seconds[model]:.3f}",
                    *rates(own),
                    f"{1 / ratio[model]:.2f}",
                    f"{own['fit']['peak']:,.0f}",
                    f"{own['auc']:.4f}",
                ]
            )
    theirs = ["LogisticRegression (s)", "its iterations", "ratio"]
    theirs += ["SGDClassifier (s)", "its epochs", "ratio to it", "AUC", "AUC with labels"]
    about = ["ratio to the corrected risk", "peak of fit (MB)", "AUC"]
    return [
        "Bags of 100, rows bag by bag; best of three up to 10⁵ rows, of two at 10⁶. By the",
        "corrected risk:",
        "",
        *table(["rows", "fit (s)", *RATES, *theirs], times),
        "",
        *table(["rows", *OF_TARGET, "peak of LogisticRegression (MB)"], targets),
        "",
        "By the likelihood of counts:",
        "",
        *table(["model", "rows", "fit (s)", *RATES, *about], likelihoods),
    ]


def page_of_bags(rows: list[Row]) -> list[str]:
    """Time and memory against the number of bags."""
    own = [row for row in rows if row["n_rows"] == 4_000_000]
    lines = [
        [
            f"{row['n_bags']:,}",
            "scattered" if row["scattered"] else "bag by bag",
            *rates(row),
            *of_target(row),
            f"{row['auc']:.4f}",
        ]
        for row in own
    ]
    return [
        "4,000,000 rows; *scattered*: each row in a bag drawn at random; one run each:",
        "",
        *table(["bags", "rows lie", *RATES, *OF_TARGET, "AUC"], lines),
    ]


def page_of_searches(rows: list[Row]) -> list[str]:
    """Time and memory of a search over folds and penalties."""
    lines = []
    for row in (row for row in rows if row["model"] == "search"):
        size = (row["n_rows"], row["n_bags"])
        (one,) = (r for r in rows if (r["n_rows"], r["n_bags"]) == size and r["model"] == "fit")
        found, single = row["fit"], one["fit"]
        lines.append(
            [
                f"{row['n_rows']:,}",
                f"{found['seconds']:.1f}",
                f"{found['peak']:,.0f}",
                f"{single['seconds']:.2f}",
                f"{single['peak']:,.0f}",
                f"{found['seconds'] / single['seconds']:.0f}",
            ]
        )
    header = ["rows", "search (s)", "peak (MB)", "one fit (s)", "its peak (MB)", "ratio of times"]
    return [
        '`LMMCMClassifierCV(kernel="linear")`: 5 folds, 11 penalties, so 66 fits:',
        "",
        *table(header, lines),
    ]


def page(rows: list[Row]) -> list[str]:
    return [
        f"Processor seconds of one thread, float32 X of {N_FEATURES} columns, every case in a",
        "process of its own; peaks are those of the resident set in each phase, with the data and",
        f"about 190 MB of Python and libraries. `unbag` at a penalty of {ALPHA:g} from bags, compared with",
        "`LogisticRegression` (lbfgs, the same penalty and balanced classes) and",
        '`SGDClassifier("log_loss")` with the label of every row, all with their default',
        "tolerances, which are not the same rule.",
        "",
        *page_of_rows(rows),
        "",
        *page_of_bags(rows),
        "",
        *page_of_searches(rows),
    ]


STUDY = Study(
    name="scaling",
    title="Rows, bags and memory of the linear model",
    keys=["model", "n_rows", "n_bags", "scattered"],
    tasks=tasks,
    measure=in_own_process,
    page=page,
    options={
        "--sizes": {"type": int, "nargs": "*", "default": [10**k for k in range(4, 8)]},
        "--bags": {"type": int, "nargs": "*", "default": [10**k for k in range(2, 7)]},
        "--searches": {"type": int, "nargs": "*", "default": [1_000_000]},
    },
)

if __name__ == "__main__":
    print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))
