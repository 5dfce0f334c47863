"""What the defaults of boosted trees come from: settings compared on other tables.

None of these tables is among those that `boosted` reports on. Labels of test rows score settings
here, so that figures of these tables are no measure of the trees.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from boosted import fit_and_score
from study import Row, Study, standard_error, table
from unbag import BoostedMCMClassifier
from unbag.suites import draw_bags, load_table

# Settings that were compared; the first is the default.
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "refit on all bags": {"refit": True},
    "5 folds": {"cv": 5},
    "reg_lambda 1": {"reg_lambda": 1.0},
    "stumps": {"num_leaves": 2},
    "16 leaves": {"num_leaves": 16},
}
TABLES = ("flchain", "nass_cds", "wa_churn", "k401ksubs")
N_ROWS = 2048
BAGS = (("low", 8), ("shuffled", 32), ("high", 128))


def run_one(table: str, kind: str, size: int, choice: str) -> Row:
    data = draw_bags(*load_table(table), kind, size, N_ROWS, seed=7)
    return fit_and_score(BoostedMCMClassifier(**CHOICES[choice], n_jobs=1), *data)


def page(rows: list[Row]) -> list[str]:
    auc: dict[str, dict[Any, float]] = defaultdict(dict)
    for row in rows:
        auc[row["choice"]][row["table"], row["kind"], row["size"]] = row["auc"]
    base = auc.pop("default")
    lines = []
    for name, values in auc.items():
        gain = np.array([values[cell] - base[cell] for cell in values])
        mean = f"{gain.mean():+.4f} ± {standard_error(gain):.4f}"
        lines.append([name, str(len(gain)), mean, str(int((gain > 0).sum()))])
    bags = ", ".join(f"{kind} shares of {size}" for kind, size in BAGS)
    return [
        f"Test AUC less that of the default, with {N_ROWS:,} rows to train on, in bags of",
        f"{bags} rows from {', '.join(TABLES)}; one draw of each.",
        "",
        *table(
            ["setting", "sets", "mean difference ± standard error", "above the default in"], lines
        ),
    ]


STUDY = Study(
    name="boosted_choices",
    title="Settings of boosted trees, compared on other tables",
    keys=["table", "kind", "size", "choice"],
    tasks=lambda _: [
        {"table": name, "kind": kind, "size": size, "choice": choice}
        for kind, size in BAGS
        for name in TABLES
        for choice in CHOICES
    ],
    measure=run_one,
    page=page,
    packages=["lightgbm"],
)

if __name__ == "__main__":
    STUDY.main()
