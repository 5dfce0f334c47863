"""Time and memory of the linear model against rows and bags, beside scikit-learn with labels.

    python benchmarks/scaling.py rows              # 10⁴ to 10⁷ rows × 20, bags of 100
    python benchmarks/scaling.py bags              # 4·10⁶ rows in 10² to 10⁶ bags
    python benchmarks/scaling.py search            # 5 folds and 11 penalties at 10⁶ rows
    python benchmarks/scaling.py search --rows 10000000                 # takes five minutes

Every line is measured in processes of its own, one after the other and each with one thread. Times
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

from unbag import LinearMCMClassifier, LinearMCMClassifierCV, bag_target, check_bag_target
from unbag._provenance import provenance_line

ALPHA, N_FEATURES, BLOCK = 1e-3, 20, 2**16


@dataclass(frozen=True)
class Case:
    """What one process measures."""

    model: str
    n_rows: int
    n_bags: int
    scattered: bool = False
    repeats: int = 1
    max_iter: int = 1000


class Phases:
    """Processor and wall-clock seconds, and peak memory in MB, of named phases."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def run(self, name: str, work: Callable[[], Any], repeats: int = 1) -> Any:
        """Measure some work; of repeats the fastest counts."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
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
    raise OSError("The system does not tell the peak of the memory.")


def make_rows(case: Case) -> tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.int64]]:
    """Rows, labels and bags: half of the columns, whose scales differ, tell the classes apart."""
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
        "fit": LinearMCMClassifier(ALPHA, max_iter=case.max_iter),
        "search": LinearMCMClassifierCV(max_iter=case.max_iter),
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
    make = from_bags if case.model in ("fit", "search") else from_labels
    model, X, labels = make(case, phases)
    some = slice(None, None, max(1, case.n_rows // 100_000))
    return {
        "n_iter": int(np.max(model.n_iter_)),
        "auc": float(roc_auc_score(labels[some], model.decision_function(X[some]))),
        **phases.found,
    }


def in_own_process(case: Case) -> dict[str, Any]:
    """Measure one case in a process with one thread."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, "case", json.dumps(asdict(case))],
        env={**os.environ, **threads},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def print_table(lines: list[dict[str, str]]) -> None:
    for cells in (lines[0].keys(), ["---"] * len(lines[0]), *(line.values() for line in lines)):
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


def of_target(found: dict[str, Any]) -> dict[str, str]:
    """Say what the target takes of the time, and each phase of the memory."""
    seconds = {name: found[name]["seconds"] for name in ("bag_target", "check_bag_target", "fit")}
    return {
        "bag_target (s)": f"{seconds['bag_target']:.2f}",
        "check_bag_target, a part of fit (s)": f"{seconds['check_bag_target']:.2f}",
        "fit (s)": f"{seconds['fit']:.2f}",
        **{
            f"peak of {name} (MB)": f"{found[name]['peak']:,.0f}"
            for name in ("data", "bag_target", "check_bag_target", "fit")
        },
    }


def rows(sizes: list[int]) -> None:
    """Time and memory against the number of rows."""
    times, targets = [], []
    for n in sizes:
        repeats = 3 if n <= 100_000 else 2 if n <= 1_000_000 else 1
        ours, logistic, sgd = (
            in_own_process(Case(model, n, n // 100, repeats=repeats))
            for model in ("fit", "logistic", "sgd")
        )
        seconds, with_labels, by_steps = (f["fit"]["seconds"] for f in (ours, logistic, sgd))
        line = {
            "rows": f"{n:,}",
            "fit (s)": f"{seconds:.3f}",
            "iterations": f"{ours['n_iter']}",
            "rows per second": f"{n / seconds:,.0f}",
            "ns per row and iteration": f"{1e9 * seconds / n / ours['n_iter']:.0f}",
            "LogisticRegression (s)": f"{with_labels:.3f}",
            "its iterations": f"{logistic['n_iter']}",
            "ratio": f"{seconds / with_labels:.2f}",
            "SGDClassifier (s)": f"{by_steps:.3f}",
            "its epochs": f"{sgd['n_iter']}",
            "ratio to it": f"{seconds / by_steps:.2f}",
            "AUC": f"{ours['auc']:.4f}",
            "AUC with labels": f"{logistic['auc']:.4f}",
        }
        times.append(line)
        peak = {"peak of LogisticRegression (MB)": f"{logistic['fit']['peak']:,.0f}"}
        targets.append({"rows": f"{n:,}", **of_target(ours), **peak})
        print(line, file=sys.stderr, flush=True)
    print_table(times)
    print_table(targets)


def bags(n_rows: int, numbers: list[int]) -> None:
    """Time and memory against the number of bags."""
    lines = []
    for n_bags in numbers:
        for scattered in (False, True):
            found = in_own_process(Case("fit", n_rows, n_bags, scattered))
            seconds = found["fit"]["seconds"]
            line = {
                "bags": f"{n_bags:,}",
                "rows lie": "scattered" if scattered else "bag by bag",
                "rows per second": f"{n_rows / seconds:,.0f}",
                "iterations": f"{found['n_iter']}",
                "ns per row and iteration": f"{1e9 * seconds / n_rows / found['n_iter']:.0f}",
                **of_target(found),
                "AUC": f"{found['auc']:.4f}",
            }
            lines.append(line)
            print(line, file=sys.stderr, flush=True)
    print_table(lines)


def search(n_rows: int, max_iter: int) -> None:
    """Time and memory of a search over folds and penalties."""
    one, many = (
        in_own_process(Case(model, n_rows, n_rows // 100, max_iter=max_iter))
        for model in ("fit", "search")
    )
    seconds, found = one["fit"]["seconds"], many["fit"]
    line = {
        "rows": f"{n_rows:,}",
        "search (s)": f"{found['seconds']:.1f}",
        "wall clock (s)": f"{found['wall']:.1f}",
        "peak (MB)": f"{found['peak']:,.0f}",
        "one fit (s)": f"{seconds:.2f}",
        "its peak (MB)": f"{one['fit']['peak']:,.0f}",
        "ratio of times": f"{found['seconds'] / seconds:.0f}",
    }
    print_table([line])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kind = kinds.add_parser("rows")
    kind.add_argument("--sizes", type=int, nargs="+", default=[10**k for k in range(4, 8)])
    kind = kinds.add_parser("bags")
    kind.add_argument("--rows", type=int, default=4_000_000)
    kind.add_argument("--numbers", type=int, nargs="+", default=[10**k for k in range(2, 7)])
    kind = kinds.add_parser("search")
    kind.add_argument("--rows", type=int, default=1_000_000)
    kind.add_argument("--max-iter", type=int, default=1000, help="few are enough to see the memory")
    kinds.add_parser("case").add_argument("case", type=json.loads)
    options = parser.parse_args()
    if options.kind == "case":
        print(json.dumps(measure(Case(**options.case))))
        return
    print(f"{provenance_line()}\n", flush=True)
    if options.kind == "rows":
        rows(options.sizes)
    elif options.kind == "bags":
        bags(options.rows, options.numbers)
    else:
        search(options.rows, options.max_iter)


if __name__ == "__main__":
    main()
