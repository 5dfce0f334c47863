"""What all studies share: tasks that are run once, rows that are kept, a page made of them.

``studies/NAME.py`` declares a `Study` of the same name, ``STUDY``:

    unbag-bench run NAME [options]     # what results/NAME/rows.jsonl lacks, added to it
    unbag-bench show NAME              # results/NAME.md, from these rows alone

A row carries the command, the machine and the versions it was made with. Conclusions are written by
hand in results/NAME/notes.md and come first on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag._provenance import provenance
from unbag._text import markdown_table
from unbag.paper.rows import Row, load_rows, run_and_keep

# What pages are made of.
table = markdown_table
Task = Mapping[str, Any]
# Names the folder of results in place of benchmarks/results.
RESULTS_VARIABLE = "UNBAG_BENCH_RESULTS"


def results_folder() -> Path:
    """Path of the folder of rows and pages: benchmarks/results of the repository by default."""
    named = os.environ.get(RESULTS_VARIABLE)
    folder = Path(named) if named else Path(__file__).parents[2] / "results"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder of results {folder}: install with pip install -e benchmarks, or "
            "name a folder with --results."
        )
    return folder


@dataclass(frozen=True)
class Study:
    """Tasks, how to measure one, and the page that shows the rows.

    Attributes
    ----------
    name : str
        That of the module, of the folder of rows and of the page.
    title : str
        Heading of the page.
    keys : sequence of str
        Arguments of ``measure`` that identify a task; they stand in every row.
    tasks : callable
        Options -> keyword arguments of ``measure``, one mapping for each task.
    measure : callable
        Gives a row, or a list of rows.
    page : callable
        Rows -> lines of Markdown, below the heading.
    options : dict
        What `run` takes, as arguments of ``add_argument``.
    figure : callable, optional
        Draws the rows to a path, results/NAME.png.
    packages : sequence of str
        Those whose versions rows carry beside the usual ones.
    """

    name: str
    title: str
    keys: Sequence[str]
    tasks: Callable[[argparse.Namespace], Iterable[Task]]
    measure: Callable[..., Row | list[Row]]
    page: Callable[[list[Row]], list[str]]
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    figure: Callable[[list[Row], Path], None] | None = None
    packages: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        """Where rows and notes are."""
        return results_folder() / self.name

    def run(self, options: argparse.Namespace, command: str) -> None:
        """Measure what is missing; every row is on disk before the next one is begun."""
        path = options.output or self.folder / "rows.jsonl"
        kept = {self._identity(row) for row in load_rows(path)}
        left = [task for task in self.tasks(options) if self._identity(task) not in kept]
        calls = [{"study": self, "task": task} for task in left]
        for number, found in enumerate(
            run_and_keep(measure_task, calls, path, options.jobs, command), start=1
        ):
            name = ", ".join(str(found[0][key]) for key in self.keys) if found else "nothing"
            print(f"{number} of {len(left)}: {name}", file=sys.stderr, flush=True)

    def show(self) -> Path:
        """Write the page, and the picture if there is one; return the path of the page."""
        rows = load_rows(self.folder / "rows.jsonl")
        path = self.folder.with_suffix(".md")
        path.write_text(self.render(rows), encoding="utf-8")
        if self.figure is not None:
            self.figure(rows, self.folder.with_suffix(".png"))
        return path

    def render(self, rows: list[Row]) -> str:
        """Heading, conclusions, what the study makes of the rows, and where these come from."""
        origin = dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows)
        notes = self.folder / "notes.md"
        above = [notes.read_text(encoding="utf-8")] if notes.exists() else []
        page = [*above, *self.page(rows)]
        made = ["", "## Raw results", "", f"`{self.name}/rows.jsonl`, by", ""]
        lines = [f"# {self.title}", "", *page, *made, *(f"- {line}" for line in origin)]
        return "\n".join(lines).rstrip("\n") + "\n"

    def _identity(self, values: Mapping[str, Any]) -> str:
        return json.dumps([values[key] for key in self.keys])


def measure_task(study: Study, task: Task) -> list[Row]:
    """Rows of a task, with its keys, the machine and the versions."""
    found = study.measure(**task)
    rows = [found] if isinstance(found, dict) else found
    own = {key: task[key] for key in study.keys}
    origin = provenance() | {name: version(name) for name in study.packages}
    made = ", ".join(f"{name} {value}" for name, value in origin.items())
    return [{**own, **row, "made": made} for row in rows]


def fit_and_score(model: Any, X: Any, y: Any, X_test: Any, labels_test: Any) -> Row:
    """Fit; the AUC of test rows, and what the fit took."""
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "auc": float(roc_auc_score(labels_test, model.decision_function(X_test))),
        "seconds": round(seconds, 2),
        "core_seconds": round(cpu, 2),
    }


def seeds_of(text: str) -> range:
    """Seeds from the first to the last, written like 100-104."""
    first, last = map(int, text.split("-"))
    return range(first, last + 1)


def plus_minus(values: Any, form: str = "+.4f") -> str:
    """Mean and its standard error, such as +0.0123 ± 0.0045; a single value stands alone."""
    error = f" ± {standard_error(values):{form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{error}"


def standard_error(values: Any) -> float:
    """Standard error of a mean; not a number for a single value."""
    values = np.asarray(values)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
