"""Which method for which bags: four suites of bags, many methods, one page.

The suites are those of ``unbag-bench reproduce --suite``: the 52 Adult bag sets of Franco et al. beside
what they published of eight methods, natural bags, tables in bags of every kind, and
images. Nothing is chosen by a label; labels of test rows score.

    unbag-bench run landscape --suite landscape --methods linear,labels --splits 2
    unbag-bench run landscape --suite tables --short
    unbag-bench run landscape --suite images --device cuda
    unbag-bench show landscape
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unbag_bench.study import Row, Study
from unbag_bench.suites.figures import draw_figure
from unbag_bench.suites.page import page_lines
from unbag_bench.suites.runner import run_suite_task
from unbag_bench.suites.tasks import SUITES, SuiteTask, make_suite_tasks


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    found = make_suite_tasks(
        options.suite,
        methods=options.methods and options.methods.split(","),
        kinds=options.kinds and options.kinds.split(","),
        names=options.sets and options.sets.split(","),
        seeds=range(options.first, options.first + options.splits),
        short=options.short,
    )
    return [vars(task) | {"device": options.device, "bags": options.bags} for task in found]


def run_one(
    suite: str, name: str, seed: int, method: str, device: str | None, bags: Path | None
) -> Row:
    return run_suite_task(SuiteTask(suite, name, seed, method), device=device, bags=bags)


STUDY = Study(
    name="landscape",
    title="Which method for which bags",
    keys=["suite", "name", "seed", "method"],
    tasks=tasks,
    measure=run_one,
    page=lambda rows: page_lines(rows, "landscape.png"),
    options={
        "--suite": {"choices": list(SUITES), "default": "landscape"},
        "--methods": {"help": "names, by commas; those of the suite by default"},
        "--kinds": {"help": "of bags, by commas; all by default"},
        "--sets": {"help": "names of sets, by commas; all by default"},
        "--device": {"help": "of torch, for the methods that can use one"},
        "--bags": {"type": Path, "help": "folder to keep draws in; those that are there are used"},
        "--splits": {"type": int, "default": 1, "help": "draws of each set"},
        "--first": {"type": int, "default": 0, "help": "number of the first draw"},
        "--short": {"action": "store_true", "help": "only some of the sets"},
    },
    figure=draw_figure,
    packages=[name for name in ("lightgbm", "torch") if find_spec(name)],
)
