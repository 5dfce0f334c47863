"""What the defaults of boosted trees come from: settings compared on other tables.

None of these tables is among those that `boosted` reports on. Labels of test rows score settings
here, so that figures of these tables are no measure of the trees.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np

from boosted import fit_and_score
from study import Row, Study, standard_error, table
from unbag import BoostedMCMClassifier
from unbag.suites import draw_bags, load_table

# Settings that were compared: the others are held against the first.
CHOICES: dict[str, dict[str, Any]] = {
    "from zero": {"start": "zero"},
    "from zero, refit on all bags": {"start": "zero", "refit": True},
    "from zero, 5 folds": {"start": "zero", "cv": 5},
    "from zero, reg_lambda 1": {"start": "zero", "reg_lambda": 1.0},
    "from zero, stumps": {"start": "zero", "num_leaves": 2},
    "from zero, 16 leaves": {"start": "zero", "num_leaves": 16},
    "from a linear function": {"start": "linear"},
}
FIRST, *_, LAST = CHOICES

# Kinds and sizes of bags, and rows in all: thousands of rows, and fourteen bags.
MANY = [("low", 8, 2048), ("shuffled", 32, 2048), ("high", 128, 2048)]
FEW = [("low", 8, 112), ("low", 32, 448), ("high", 128, 1792)]
TABLES = ["flchain", "nass_cds", "wa_churn", "k401ksubs"]
MORE_TABLES = [
    *TABLES,
    *("health_insurance", "hi", "compas", "smoke_ban", "lending_club", "stackoverflow"),
]


def tasks(_: Any) -> list[dict[str, Any]]:
    few = product(FEW, MORE_TABLES, [FIRST, LAST])
    many = product(MANY, TABLES, CHOICES)
    return [
        {"table": name, "kind": kind, "size": size, "rows": rows, "choice": choice}
        for (kind, size, rows), name, choice in (*few, *many)
    ]


def run_one(table: str, kind: str, size: int, rows: int, choice: str) -> Row:
    data = draw_bags(*load_table(table), kind, size, rows, seed=7)
    return fit_and_score(BoostedMCMClassifier(**CHOICES[choice], n_jobs=1), *data)


def page(rows: list[Row]) -> list[str]:
    auc: dict[str, dict[Any, float]] = defaultdict(dict)
    for row in rows:
        bags = row["kind"], row["size"], row["rows"]
        auc[row["choice"]][row["table"], bags] = row["auc"]
    base = auc[FIRST]
    lines = [
        [name, f"{size} ({kind})", f"{n_rows:,}", *_compare(own, base)]
        for name, values in auc.items()
        for kind, size, n_rows in [*FEW, *MANY]
        if name != FIRST
        if (own := {k: v for k, v in values.items() if k[1] == (kind, size, n_rows)})
    ]
    lines += [
        [f"**{name}**", "all", "", *_compare(values, base)]
        for name, values in auc.items()
        if name != FIRST
    ]
    header = ["setting", "bags", "rows", "sets", "mean difference ± standard error", "above in"]
    return [
        f"Test AUC less that of trees {FIRST} with the other defaults, on the same rows; one draw",
        f"of each set. Tables: {', '.join(MORE_TABLES)}; those with",
        f"2,048 rows are the first {len(TABLES)}.",
        "",
        *table(header, lines),
    ]


def _compare(values: dict[Any, float], base: dict[Any, float]) -> list[str]:
    gain = [value - base[cell] for cell, value in values.items()]
    error = f" ± {standard_error(gain):.4f}" if len(gain) > 1 else ""
    return [str(len(gain)), f"{np.mean(gain):+.4f}{error}", str(sum(one > 0 for one in gain))]


STUDY = Study(
    name="boosted_choices",
    title="Settings of boosted trees, compared on other tables",
    keys=["table", "kind", "size", "rows", "choice"],
    tasks=tasks,
    measure=run_one,
    page=page,
    packages=["lightgbm"],
)

if __name__ == "__main__":
    STUDY.main()
