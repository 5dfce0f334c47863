"""Trees of likely leaves and rounds, weighed, beside the best alone: few bags of other tables.

Sets are like those of table 2 in `boosted`: 14 bags whose shares differ. None of the tables is
among those that `boosted` reports on. Labels of test rows score settings here, so that figures of
these tables are no measure of the trees.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binomtest

from unbag import LLPBoostingClassifier
from unbag_bench.studies.boosted import fit_trees
from unbag_bench.studies.boosted_choices import MORE_TABLES
from unbag_bench.study import Row, Study, plus_minus, seeds_of, table
from unbag_bench.suites import draw_bags, load_table

N_BAGS = 14
SIZES = (8, 32, 128)
TEMPERATURES = (0.0, 1.0)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    names = ("draw", "table", "kind", "size", "temperature")
    cells = product(seeds_of(options.draws), MORE_TABLES, ("low", "high"), SIZES, TEMPERATURES)
    return [dict(zip(names, cell, strict=True)) for cell in cells]


def run_one(draw: int, table: str, kind: Any, size: int, temperature: float) -> Row:
    data = draw_bags(*load_table(table), kind, size, N_BAGS * size, seed=draw)
    model = LLPBoostingClassifier(start="linear", temperature=temperature, n_jobs=1)
    return fit_trees(model, *data)


def page(rows: list[Row]) -> list[str]:
    found: dict[Any, dict[float, float]] = defaultdict(dict)
    for row in rows:
        cell = row["size"], row["kind"], row["table"], row["draw"]
        found[cell][row["temperature"]] = row["auc"]
    gains = {cell: auc[1.0] - auc[0.0] for cell, auc in found.items() if len(auc) == 2}
    parts = {f"bags of {size}": [g for c, g in gains.items() if c[0] == size] for size in SIZES}
    by_table = {name: [g for c, g in gains.items() if c[2] == name] for name in MORE_TABLES}
    means = [float(np.mean(own)) for own in by_table.values()]
    error = "mean difference ± standard error"
    header = ["sets", "number", error, "median", "above in", "below in"]
    return [
        "Test AUC of trees added to a linear function with a temperature of 1, less that with the",
        f"best leaves and rounds alone, on the same rows: {N_BAGS} bags, shares on [0, ½] or",
        "on [½, 1].",
        "",
        *table(
            header,
            [
                [name, *_line(own)]
                for name, own in {**parts, "all": list(gains.values()), **by_table}.items()
            ],
        ),
        "",
        f"Over tables: {plus_minus(means)}. Sign test over sets:",
        f"p = {_sign_test(list(gains.values())):.3f}, one-sided.",
    ]


def _line(gains: list[float]) -> list[str]:
    above, below = _sides(gains)
    median = f"{np.median(gains):+.4f}"
    return [str(len(gains)), plus_minus(gains), median, str(above), str(below)]


def _sides(gains: list[float]) -> tuple[int, int]:
    return sum(one > 0 for one in gains), sum(one < 0 for one in gains)


def _sign_test(gains: list[float]) -> float:
    above, below = _sides(gains)
    return float(binomtest(above, above + below, alternative="greater").pvalue)


STUDY = Study(
    name="boosted_means",
    title="Trees of likely leaves and rounds, weighed, beside the best alone",
    keys=["draw", "table", "kind", "size", "temperature"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--draws": {"default": "8-9", "help": "first and last"}},
    packages=["lightgbm"],
)

if __name__ == "__main__":
    STUDY.main()
