"""Rows of results: one JSON object a line, written as soon as it is known, and for good."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

Row = dict[str, Any]


def load_rows(path: Path) -> list[Row]:
    """Read the rows of a file, none if there is no file."""
    rows = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ValueError(
                f"Line {number} of {path} is damaged; delete it, and what it held is run again."
            )
        rows.append(row)
    return rows


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add rows to a file in one write, on disk when this returns.

    So two runs can write to one file. Of a run that was killed while it wrote, the last line may
    be damaged; what is added later starts on a line of its own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())
        os.fsync(file.fileno())


def run_and_keep(
    measure: Callable[..., list[Row]],
    tasks: Iterable[Mapping[str, Any]],
    path: Path,
    jobs: int = 1,
    command: str | None = None,
) -> Iterator[list[Row]]:
    """Call ``measure`` with the keywords of each task, and yield its rows when they are written.

    Rows carry the command that they come from, if it is given.

    Calls go through joblib, so that ``joblib.parallel_config(backend="dask")`` sends them to a
    cluster; rows are written here, by the process that started them.
    """
    finished = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(measure)(**task) for task in tasks
    )
    origin = {} if command is None else {"command": command}
    for found in finished:
        rows = [row | origin for row in found]
        append_rows(path, rows)
        yield rows
