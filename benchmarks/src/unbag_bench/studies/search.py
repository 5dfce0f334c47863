"""A whole search on MAGIC against the textbook version, and the peak of memory of one on Adult.

Both minimise the corrected risk on one core: 5 folds, 6 penalties, 6,144 instances in bags of 128
with proportions in [0, ½]. Processor seconds. Ours is timed with 11 penalties as well, and with the
default objective, on half of MAGIC in bags of 64 too.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from unbag import LLPKernelClassifierCV
from unbag.paper import LMMCMClassifierCV, Setting, make_trial
from unbag_bench.studies.textbook import ALPHAS, search
from unbag_bench.study import Row, Study, table

HALF = "3,072 rows in bags of 64"


def measure(dataset: str, seed: int) -> Row:
    trial = make_trial(Setting(dataset, (0.0, 0.5), 128), seed)
    half = half_of(make_trial(Setting(dataset, (0.0, 0.5), 64), seed))
    with threadpool_limits(1):
        if dataset == "adult":
            return memory(trial)
        return compare(trial) | {HALF: compare(half)}


def half_of(trial: Any) -> Any:
    """The first half of the bags of a trial."""
    bags = trial.y["bag"]
    kept = np.isin(bags, np.unique(bags)[: len(np.unique(bags)) // 2])
    return replace(trial, X=trial.X[kept], y=trial.y[kept])


def compare(trial: Any) -> Row:
    ours = LMMCMClassifierCV(alphas=ALPHAS)
    seconds = timed(lambda: ours.fit(trial.X, trial.y))[0]
    default = LLPKernelClassifierCV(alphas=ALPHAS)
    of_default = timed(lambda: default.fit(trial.X, trial.y))[0]
    fine = timed(lambda: LMMCMClassifierCV().fit(trial.X, trial.y))[0]
    taken, (scores, alpha, stopped) = timed(lambda: search(trial.X, trial.y, trial.X_test))
    return {
        "rows": len(trial.X),
        "seconds": seconds,
        "seconds of 11 penalties": fine,
        "default": {
            "seconds": of_default,
            "auc": float(roc_auc_score(trial.labels_test, default.decision_function(trial.X_test))),
        },
        "alpha": ours.alpha_,
        "auc": float(roc_auc_score(trial.labels_test, ours.decision_function(trial.X_test))),
        "textbook": {
            "seconds": taken,
            "alpha": float(alpha),
            "auc": float(roc_auc_score(trial.labels_test, scores)),
            "stopped": int(stopped),
        },
    }


def memory(trial: Any) -> Row:
    before = peak()
    seconds = timed(lambda: LMMCMClassifierCV().fit(trial.X, trial.y))[0]
    return {"rows": len(trial.X), "seconds": seconds, "before": before, "peak": peak()}


def timed(work: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def peak() -> float:
    """Most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def page(rows: list[Row]) -> list[str]:
    compared = [row for row in rows if row["dataset"] == "magic"]
    both = [row for whole in compared for row in (whole, whole[HALF] | {"seed": whole["seed"]})]
    lines = [
        [
            f"{row['seed']}, {row['rows']:,} rows",
            f"{row['textbook']['seconds']:.1f}",
            f"{row['seconds']:.2f}",
            f"{row['textbook']['seconds'] / row['seconds']:.1f}",
            f"{row['default']['seconds']:.2f}",
            f"{row['textbook']['seconds'] / row['default']['seconds']:.1f}",
            f"{row['seconds of 11 penalties']:.2f}",
            f"{row['textbook']['auc']:.4f}",
            f"{row['auc']:.4f}",
            f"{row['default']['auc']:.4f}",
            f"{row['textbook']['stopped']} of 30",
        ]
        for row in both
    ]
    times = np.array([[row["textbook"]["seconds"], row["seconds"]] for row in compared])
    (large,) = (row for row in rows if row["dataset"] == "adult")
    header = ["seed", "textbook (s)", "ours (s)", "times faster", "our default (s)", "times faster"]
    header += ["ours, 11 penalties (s)", "AUC, textbook", "AUC, ours", "AUC, default"]
    header += ["textbook fits stopped at 100 iterations"]
    return [
        "MAGIC, 6,144 instances in bags of 128 and 3,072 in bags of 64, 5 folds, 6 penalties.",
        '"Textbook" is the L-BFGS-B of SciPy on α in double precision, 100 iterations, one fit for',
        "each penalty and fold. Ours is the same risk, our default the likelihood of the counts.",
        "Processor seconds of one core.",
        "",
        *table(header, lines),
        "",
        f"Times faster, of the mean times: {np.divide(*times.mean(axis=0)):.1f}.",
        "",
        f"Adult, {large['rows']:,} instances, 5 folds, 11 penalties: {large['seconds']:.1f} s, "
        f"peak {large['peak']:.0f} MB, of which {large['before']:.0f} MB were there before.",
    ]


STUDY = Study(
    name="search",
    title="Speed and memory of a search",
    keys=["dataset", "seed"],
    # Adult first: the peak of the memory is then its own
    tasks=lambda options: [
        {"dataset": "adult", "seed": 0},
        *({"dataset": "magic", "seed": seed} for seed in range(options.seeds)),
    ],
    measure=measure,
    page=page,
    options={"--seeds": {"type": int, "default": 3, "help": "trials of MAGIC"}},
)
