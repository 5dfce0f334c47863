"""A whole search on MAGIC against the textbook version, and the peak of memory of one on Adult.

Both minimise the corrected risk on one core: 5 folds, 6 penalties, 6,144 instances in bags of 128
with proportions in [0, ½]. Processor seconds. Ours is timed with 11 penalties as well.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from study import Row, Study, table
from textbook import ALPHAS, search
from unbag import KernelMCMClassifierCV
from unbag.paper import Setting, make_trial


def measure(dataset: str, seed: int) -> Row:
    trial = make_trial(Setting(dataset, (0.0, 0.5), 128), seed)
    with threadpool_limits(1):
        return memory(trial) if dataset == "adult" else compare(trial)


def compare(trial: Any) -> Row:
    ours = KernelMCMClassifierCV(alphas=ALPHAS, objective="corrected")
    seconds = timed(lambda: ours.fit(trial.X, trial.y))[0]
    fine = timed(lambda: KernelMCMClassifierCV(objective="corrected").fit(trial.X, trial.y))[0]
    taken, (scores, alpha, stopped) = timed(lambda: search(trial.X, trial.y, trial.X_test))
    return {
        "seconds": seconds,
        "seconds of 11 penalties": fine,
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
    seconds = timed(lambda: KernelMCMClassifierCV(objective="corrected").fit(trial.X, trial.y))[0]
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
    lines = [
        [
            str(row["seed"]),
            f"{row['textbook']['seconds']:.1f}",
            f"{row['seconds']:.2f}",
            f"{row['textbook']['seconds'] / row['seconds']:.1f}",
            f"{row['seconds of 11 penalties']:.2f}",
            f"{row['textbook']['auc']:.4f}",
            f"{row['auc']:.4f}",
            f"{row['textbook']['stopped']} of 30",
        ]
        for row in compared
    ]
    times = np.array([[row["textbook"]["seconds"], row["seconds"]] for row in compared])
    (large,) = (row for row in rows if row["dataset"] == "adult")
    header = ["seed", "textbook (s)", "ours (s)", "times faster", "ours, 11 penalties (s)"]
    header += ["AUC, textbook", "AUC, ours", "textbook fits stopped at 100 iterations"]
    return [
        'MAGIC, 6,144 instances in bags of 128, 5 folds, 6 penalties. "Textbook" is the L-BFGS-B',
        "of SciPy on α in double precision, 100 iterations, one fit for each penalty and fold.",
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

if __name__ == "__main__":
    STUDY.main()
