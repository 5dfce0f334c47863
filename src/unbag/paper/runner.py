"""Methods that the tables compare, and their trials, each written as soon as it is finished.

A folder of results holds a line for every trial in ``rows.jsonl``. So a run that was killed goes on
where it was, and two runs on the same folder do not spoil each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from unbag._provenance import provenance
from unbag.models import LLPClassifier
from unbag.paper import rows as kept
from unbag.paper.alternating_svm import AlternatingSVMClassifier
from unbag.paper.invcal import InvCalClassifier
from unbag.paper.lmmcm import LMMCMClassifierCV
from unbag.paper.proportion_risk import ProportionRiskClassifier
from unbag.paper.rows import Row, run_and_keep
from unbag.paper.trials import Sampling, Setting, make_trial


@dataclass(frozen=True)
class Method:
    """How to make an estimator, what it is fitted to and which settings it chooses itself."""

    make: Callable[[], Any]
    chosen: tuple[str, ...]
    sees_labels: bool = False


def _as_published() -> LMMCMClassifierCV:
    return LMMCMClassifierCV(
        10.0 ** -np.arange(6), selection="folds", gamma="scale", weights="pairs"
    )


def _corrected() -> LMMCMClassifierCV:
    return LMMCMClassifierCV(correction="nonnegative")


METHODS: dict[str, Method] = {
    "lmmcm-paper": Method(_as_published, ("alpha_",)),
    "lmmcm": Method(_corrected, ("alpha_",)),
    "likelihood": Method(LLPClassifier, ()),
    "invcal": Method(InvCalClassifier, ("C_", "epsilon_", "gamma_")),
    "alter-psvm": Method(AlternatingSVMClassifier, ("C_", "C_bag_", "gamma_")),
    "epr": Method(ProportionRiskClassifier, ("alpha_",)),
    "labels": Method(LLPClassifier, (), sees_labels=True),
}


@dataclass(frozen=True)
class Task:
    """One trial (number ``seed``) of one method, by its name in `METHODS`."""

    setting: Setting
    method: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its file, which says all about it."""
        s = self.setting
        share = "iid" if s.sampling == "iid" else f"{s.proportions[0]:g}-{s.proportions[1]:g}"
        encoded = "-standardized" if s.standardize_all else ""
        return f"table{s.table}_{s.dataset}{encoded}_{share}_{s.bag_size}_{self.method}_{self.seed}"


def make_tasks(
    *,
    tables: Sequence[int] = (1,),
    datasets: Sequence[str] = ("adult", "magic"),
    ranges: Sequence[tuple[float, float]] = ((0.0, 0.5), (0.5, 1.0)),
    bag_sizes: Sequence[int] = (8, 32, 128, 512),
    methods: Sequence[str] = ("lmmcm",),
    trials: int = 5,
    sampling: Sampling = "paper",
    standardize_all: bool = False,
) -> list[Task]:
    """List the trials of all combinations; the first trial of everything comes first.

    Methods are names in `METHODS`; random bags have no ``ranges`` of the true proportions.

    >>> from unbag.paper.runner import make_tasks
    >>> tasks = make_tasks(datasets=["magic"], bag_sizes=[128], trials=2)
    >>> len(tasks), tasks[0].seed, tasks[-1].seed
    (4, 0, 1)
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        known = ", ".join(METHODS)
        raise ValueError(f"There is no method {unknown[0]!r}; the methods are {known}.")
    if trials < 1:
        raise ValueError(f"The number of trials must be at least 1, not {trials}.")
    shares = [(0.0, 1.0)] if sampling == "iid" else ranges
    return [
        Task(Setting(dataset, share, size, table, sampling, standardize_all), method, seed)
        for seed, table, dataset, share, size, method in product(
            range(trials), tables, datasets, shares, bag_sizes, methods
        )
    ]


def run_task(task: Task) -> Row:
    """Fit one method to one trial, and score it with the labels that it did not see.

    One thread each: trials run side by side, and their seconds are core-seconds.
    """
    method = METHODS[task.method]
    model = method.make()
    with threadpool_limits(1), parallel_config("sequential"):
        trial = make_trial(task.setting, task.seed)
        start = time.perf_counter()
        model = model.fit(trial.X, trial.labels if method.sees_labels else trial.y)
        seconds = time.perf_counter() - start
        scores = model.decision_function(trial.X_test)
    setting = asdict(task.setting)
    low, high = setting.pop("proportions")
    return {
        "task": task.name,
        **setting,
        "low": low,
        "high": high,
        "n_bags": task.setting.n_bags,
        "method": task.method,
        "seed": task.seed,
        "auc": float(roc_auc_score(trial.labels_test, scores)),
        "ber": float(1 - balanced_accuracy_score(trial.labels_test, scores > 0)),
        "chosen": {name.rstrip("_"): float(getattr(model, name)) for name in method.chosen},
        "seconds": round(seconds, 3),
        **provenance(),
    }


def run_tasks(
    tasks: Iterable[Task],
    folder: Path,
    jobs: int = 1,
    command: str | None = None,
) -> Iterator[Row]:
    """Run what the folder does not hold yet, and yield each row when it is written.

    So many ``jobs`` run at a time; rows say that they come from ``command``.
    """
    left = [{"task": task} for task in pending(tasks, folder)]
    for rows in run_and_keep(_rows_of, left, folder / "rows.jsonl", jobs, command):
        yield from rows


def _rows_of(task: Task) -> list[Row]:
    return [run_task(task)]


def pending(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """List the tasks that the folder does not hold yet."""
    done = {row["task"] for row in read_rows(folder)}
    return [task for task in tasks if task.name not in done]


def read_rows(folder: Path) -> list[Row]:
    """Read all finished trials of a folder where `run_tasks` wrote, in the order of their names."""
    found = {row["task"]: row for row in kept.load_rows(folder / "rows.jsonl")}
    return [found[name] for name in sorted(found)]
