"""What the defaults of boosted trees come from: settings compared on other tables.

None of these tables is among those that `boosted` reports on. Labels of test rows score settings
here, so that figures of these tables are no measure of the trees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from unbag import LLPBoostingClassifier
from unbag_bench.studies.boosted import fit_trees
from unbag_bench.study import Row, Study, plus_minus, table
from unbag_bench.suites import draw_bags, load_table

# Settings that were compared: the others are held against the first, of which the best leaves and
# rounds alone are taken, or a mean of all that were looked at.
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
MEANS = {
    f"{name}, mean of {looks} looks": {**CHOICES[name], "temperature": temperature}
    for temperature, looks in ((16, "all"), (1, "likely"))
    for name in (FIRST, LAST)
}

# Kinds and sizes of bags, and rows in all: thousands of rows, and fourteen bags.
MANY = [("low", 8, 2048), ("shuffled", 32, 2048), ("high", 128, 2048)]
FEW = [("low", 8, 112), ("low", 32, 448), ("high", 128, 1792)]
TABLES = ["flchain", "nass_cds", "wa_churn", "k401ksubs"]
MORE_TABLES = [
    *TABLES,
    *("health_insurance", "hi", "compas", "smoke_ban", "lending_club", "stackoverflow"),
]

# How much bags must tell before trees need no linear function to start from.
MORE_ROWS = [
    *product(
        [("shuffled", 32, 1024), ("shuffled", 32, 4096)],
        ["hi", "nass_cds", "fertility", "k401ksubs", "smoke_ban"],
    ),
    *product(
        [("low", 32, n) for n in (512, 1024, 2048, 4096)],
        ["flchain", "wa_churn", "k401ksubs", "hi", "smoke_ban", "fertility"],
    ),
    *product([("shuffled", 128, 16384), ("low", 32, 8192)], ["hi", "fertility"]),
    *product(
        [("shuffled", 128, 6144), ("shuffled", 32, 6144)],
        ["hi", "fertility", "k401ksubs", "smoke_ban", "census_income"],
    ),
]

# Where means of several numbers of leaves and rounds were compared with the best alone.
MOST_FOR_MEANS = 4096


def tasks(_: Any) -> list[dict[str, Any]]:
    both = [FIRST, LAST]
    few = product(FEW, MORE_TABLES, both)
    many = product(MANY, TABLES, CHOICES)
    limit = ((*cell, choice) for cell, choice in product(MORE_ROWS, both))
    cells = [*product(FEW, MORE_TABLES), *product(MANY, TABLES), *MORE_ROWS]
    few_rows = [(bags, name) for bags, name in dict.fromkeys(cells) if bags[-1] <= MOST_FOR_MEANS]
    means = ((*cell, choice) for cell, choice in product(few_rows, MEANS))
    return [
        {"table": name, "kind": kind, "size": size, "rows": rows, "choice": choice}
        for (kind, size, rows), name, choice in (*few, *many, *limit, *means)
    ]


def run_one(table: str, kind: str, size: int, rows: int, choice: str) -> Row:
    data = draw_bags(*load_table(table), kind, size, rows, seed=7)
    if choice != LAST:
        raise ValueError("Trees always start from a linear function; rows of others are older.")
    return fit_trees(LLPBoostingClassifier(n_jobs=1), *data)


def page(rows: list[Row]) -> list[str]:
    auc: dict[str, dict[Any, float]] = defaultdict(dict)
    for row in rows:
        bags = row["kind"], row["size"], row["rows"]
        auc[row["choice"]][row["table"], bags] = row["auc"]
    gains = {
        name: {cell: value - auc[FIRST][cell] for cell, value in values.items()}
        for name, values in auc.items()
        if name in CHOICES and name != FIRST
    }
    lines = [
        [name, f"{size} ({kind})", f"{n_rows:,}", *_mean([values[cell] for cell in own])]
        for name, values in gains.items()
        for kind, size, n_rows in dict.fromkeys([*FEW, *MANY, *(bags for bags, _ in MORE_ROWS)])
        if (own := [cell for cell in values if cell[1] == (kind, size, n_rows)])
    ]
    lines += [[f"**{name}**", "all", "", *_mean(list(of.values()))] for name, of in gains.items()]
    header = ["sets", "mean difference ± standard error", "above in"]
    parts = {"rows": lambda row: row["n_rows"], "worth in labelled rows": labelled_rows}
    return [
        f"Test AUC less that of trees {FIRST} with the other defaults, on the same rows; one draw",
        f"of each set. Lines of 10 sets: {', '.join(MORE_TABLES)};",
        f"of 4, the first {len(TABLES)} of these; others, tables with so many rows.",
        "",
        *table(["setting", "bags", "rows", *header], lines),
        "",
        f"## Trees {LAST}, by how much there is to learn from",
        "",
        "Worth in labelled rows: what `unbag.effective_sample_size` says of such bags on average.",
        *(
            line
            for name, value in parts.items()
            for line in ("", *table([name, *header], _by(value, rows, gains[LAST])))
        ),
        "",
        "## A mean of several numbers of leaves and rounds, beside the best alone",
        "",
        "Test AUC less that of the best leaves and rounds by bags held out, from the same start.",
        "",
        *table(["setting", "bags", *header], _means(auc)),
    ]


def _means(auc: dict[str, dict[Any, float]]) -> list[list[str]]:
    lines = []
    for name in MEANS:
        best = auc[name.rpartition(", ")[0]]
        found = {cell: value - best[cell] for cell, value in auc[name].items()}
        kinds = {
            "whose shares differ": lambda kind: kind != "shuffled",
            "shuffled": lambda kind: kind == "shuffled",
            "all": lambda _: True,
        }
        lines += [
            [name, what, *_mean([one for (_, bags), one in found.items() if belongs(bags[0])])]
            for what, belongs in kinds.items()
        ]
    return lines


def labelled_rows(row: Row) -> float:
    """What the bags of a row are worth: a share of it is what shares differ by."""
    by_chance = 1 / row["size"]
    beyond = 0.0 if row["kind"] == "shuffled" else 1 / 9  # Var γ / q(1 − q), q = ¼ or ¾
    return float(row["n_rows"] * (by_chance + (1 - by_chance) * beyond))


def _by(value: Callable[[Row], float], rows: list[Row], gains: dict[Any, float]) -> list[list[str]]:
    """Gains of the last choice in sets whose value doubles from line to line."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if row["choice"] == LAST:
            cell = row["table"], (row["kind"], row["size"], row["rows"])
            found[max(6, int(np.ceil(np.log2(value(row)))))].append(gains[cell])
    return [[f"up to {2**power:,}", *_mean(found[power])] for power in sorted(found)]


def _mean(gains: list[float]) -> list[str]:
    return [str(len(gains)), plus_minus(gains), str(sum(one > 0 for one in gains))]


STUDY = Study(
    name="boosted_choices",
    title="Settings of boosted trees, compared on other tables",
    keys=["table", "kind", "size", "rows", "choice"],
    tasks=tasks,
    measure=run_one,
    page=page,
    packages=["lightgbm"],
)
