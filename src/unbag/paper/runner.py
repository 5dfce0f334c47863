"""Run trials, each finished one written at once.

A folder of results holds one small JSON file per trial under ``rows/``, named by what was run and
written in one move. So a run that was killed goes on where it was, and two runs on the same
folder do not spoil each other. `pack_rows` gathers them in ``rows.jsonl``, one line each, which
counts just the same and is what one keeps or shares.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from unbag._files import write_whole
from unbag._provenance import provenance
from unbag.paper.methods import METHODS
from unbag.paper.trials import Sampling, Setting, make_trial

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One trial of one method."""

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
    """List the trials of all combinations; the first trial of everything comes first."""
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        known = ", ".join(METHODS)
        raise ValueError(f"There is no method {unknown[0]!r}; the methods are {known}.")
    if trials < 1:
        raise ValueError(f"The number of trials must be at least 1, not {trials}.")
    # shuffled bags know no range of proportions
    shares = [(0.0, 1.0)] if sampling == "iid" else ranges
    return [
        Task(Setting(dataset, share, size, table, sampling, standardize_all), method, seed)
        for seed, table, dataset, share, size, method in product(
            range(trials), tables, datasets, shares, bag_sizes, methods
        )
    ]


def run_task(task: Task, device: str | None = None) -> Row:
    """Fit one method to one trial, and score it with the labels that it did not see.

    One thread each: trials run side by side, and their seconds are core-seconds, unless they
    are computed on a device of torch.
    """
    method = METHODS[task.method]
    model = method.make()
    if device is not None and "device" in model.get_params():
        model.set_params(device=device)
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
        "device": getattr(model, "device", None),
        **provenance(),
    }


def run_tasks(
    tasks: Iterable[Task], folder: Path, jobs: int = 1, device: str | None = None
) -> Iterator[Row]:
    """Run what the folder does not hold yet, and yield each row when it is written.

    Trials go through joblib, so that ``joblib.parallel_config(backend="dask")`` sends them to a
    cluster; rows are written here, by the process that started them. Methods that can compute on
    a device of torch do so on ``device``.
    """
    rows = folder / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    left = pending(tasks, folder)
    finished = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(run_task)(task, device) for task in left
    )
    for row in finished:
        write_whole(rows / f"{row['task']}.json", json.dumps(row, ensure_ascii=False) + "\n")
        yield row


def pending(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """List the tasks that the folder does not hold yet."""
    done = {row["task"] for row in read_rows(folder)}
    return [task for task in tasks if task.name not in done]


def read_rows(folder: Path) -> list[Row]:
    """Read all finished trials of a folder, in the order of their names."""
    packed = folder / "rows.jsonl"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    texts = [(packed, line) for line in lines]
    texts += [(p, p.read_text(encoding="utf-8")) for p in (folder / "rows").glob("*.json")]
    found = {}
    for path, text in texts:
        try:
            row = json.loads(text)
            found[row["task"]] = row
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is damaged; delete it, and it is run again.") from None
    return [found[name] for name in sorted(found)]


def pack_rows(folder: Path) -> None:
    """Gather all finished trials in one file."""
    lines = [json.dumps(row, ensure_ascii=False) for row in read_rows(folder)]
    write_whole(folder / "rows.jsonl", "".join(line + "\n" for line in lines))
