"""Run tasks of the suites, each finished one written at once, so that a stopped run goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.metrics import f1_score, roc_auc_score
from threadpoolctl import threadpool_limits

from unbag._arrays import Floats
from unbag._provenance import provenance
from unbag.paper.rows import Row, load_rows, run_and_keep
from unbag_bench.suites.methods import BATCH, FEWEST_STEPS, METHODS
from unbag_bench.suites.tasks import SuiteData, SuiteTask, load_data

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def run_suite_task(
    task: SuiteTask,
    folder: Path | None = None,
    device: str | None = None,
    bags: Path | None = None,
) -> Row:
    """Fit one method to one draw, and score it with the labels that it did not see.

    One thread each: tasks run side by side. Bags that cannot be drawn, and methods that refuse
    the bags they are given, make a row that says why. Methods that can compute on a device of torch
    do so on ``device``. Which row is in which bag is kept in the folder ``bags``.
    """
    row: Row = {
        "suite": task.suite,
        "name": task.name,
        "seed": task.seed,
        "method": task.method,
    }
    try:
        data = load_data(task.suite, task.name, task.seed, folder, bags)
    except ValueError as refused:
        return row | {"skipped": str(refused)}
    row |= {
        "bags": data.digest,
        "n_bags": len(np.unique(data.y["bag"])),
        "n_rows": len(data.y),
    }
    with threadpool_limits(1), parallel_config("sequential"):
        try:
            return row | _measure(task, data, device)
        except ValueError as refused:
            return row | {"failed": str(refused)}


def _measure(task: SuiteTask, data: SuiteData, device: str | None) -> Row:
    method = METHODS[task.method]
    model = method.make()
    if device is not None and "device" in model.get_params():
        model.set_params(device=device)
    if "batch_size" in model.get_params():
        model.set_params(batch_size=min(BATCH, len(data.y) // FEWEST_STEPS))
    _forget_peak()
    wall, core = time.perf_counter(), time.process_time()
    model.fit(data.X, data.labels if method.sees_labels else data.y)
    spent = {
        "seconds": round(time.perf_counter() - wall, 3),
        "core_seconds": round(time.process_time() - core, 3),
        "peak_mb": round(_peak_mb()),
    }
    return {
        **_score(model, data),
        **spent,
        **({"device": model.device} if getattr(model, "device", None) else {}),
        "chosen": {
            name: float(getattr(model, f"{name}_"))
            for name in ("alpha", "bag_effect", "dispersion")
            if getattr(model, f"{name}_", None) is not None
        },
    }


def _score(model: Any, data: SuiteData) -> Row:
    """Accuracy, F1 and AUC; of several classes the means of each against the rest."""
    truth, predicted = data.labels_test, model.predict(data.X_test)
    if len(model.classes_) == 2:
        kind, scores = "binary", _scores(model, data.X_test)
        more = {"predicted": float(np.mean(predicted))}
    else:
        kind, scores, more = "macro", model.predict_proba(data.X_test), {}
    return {
        "accuracy": float(np.mean(predicted == truth)),
        "f1": float(f1_score(truth, predicted, average=kind)),
        "auc": float(roc_auc_score(truth, scores, multi_class="ovr")),
        **more,
    }


def _scores(model: Any, X: Floats) -> Floats:
    if hasattr(model, "decision_function"):
        return np.ravel(model.decision_function(X))
    probabilities: Floats = model.predict_proba(X)[:, 1]
    return probabilities


def run_suite_tasks(
    tasks: Iterable[SuiteTask],
    path: Path,
    jobs: int = 1,
    folder: Path | None = None,
    device: str | None = None,
    bags: Path | None = None,
    command: str | None = None,
) -> Iterator[Row]:
    """Run what the file of rows does not hold yet, and yield each row when it is written.

    Rows carry the command that they come from, if it is given.
    Tasks go through joblib, so that ``joblib.parallel_config(backend="dask")`` sends them to a
    cluster, whose machines must have the files of ``folder``, and share the folder ``bags``.
    """
    left = pending_suite_tasks(tasks, path)
    given = {"folder": folder, "device": device, "bags": bags}
    calls = [{"task": task, **given} for task in left]
    for rows in run_and_keep(_rows_of, calls, path, jobs, command):
        yield from rows


def pending_suite_tasks(tasks: Iterable[SuiteTask], path: Path) -> list[SuiteTask]:
    """List the tasks that the file does not hold yet."""
    done = {identity_of(row) for row in load_rows(path)}
    return [task for task in tasks if task.identity not in done]


def identity_of(row: Row) -> str:
    """Tell which task a row is of."""
    return SuiteTask(row["suite"], row["name"], row["seed"], row["method"]).identity


def _rows_of(task: SuiteTask, **given: Any) -> list[Row]:
    return [run_suite_task(task, **given) | provenance()]


def _forget_peak() -> None:
    """Let the peak of the memory start again, where the system can do that."""
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def _peak_mb() -> float:
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        return float(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1e3
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
