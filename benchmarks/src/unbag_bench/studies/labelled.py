"""What a few labels and bags give together: intervals on bags that nobody drew at random.

For each natural set, 12,000 of its rows are scored out of fold by a linear model. Then 200 rows are
drawn to be labelled, 200 times: at random, and by `sample_rows_to_label`. The truth is the measure of
these 12,000 rows by all their labels. A row holds the share of intervals that covered it, their mean
width, and that of the intervals from the labels alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag import LLPClassifier
from unbag.evaluation import cross_fit, identification_bounds, sample_rows_to_label
from unbag.evaluation.labelled import candidates, draw_of, fit_imputations, from_draw
from unbag.evaluation.measures import get_measure, make_sample
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import NATURAL, count_target, load_natural

N_ROWS, N_LABELS = 12_000, 200
MEASURES = ("roc_auc", "balanced_accuracy")


def scored(task: str) -> tuple[Any, Any, Any]:
    """Target, out-of-fold scores and labels of some rows of a natural set."""
    X, labels, bag = load_natural(task)
    rows = np.random.default_rng(0).permutation(len(labels))[:N_ROWS]
    y = count_target(bag[rows], labels[rows])
    n_bags = len(np.unique(y["bag"]))
    scores = cross_fit(LLPClassifier(kernel=None), X[rows], y, cv=min(5, n_bags)).scores
    return y, np.ravel(scores), labels[rows]


def draw(plan: str, y: Any, scores: Any, seed: int) -> tuple[Any, Any]:
    """Rows to label, and the weight of every row, if rows differ in it."""
    if plan == "at random":
        return np.random.default_rng(seed).choice(len(scores), N_LABELS, replace=False), None
    rows, weights = sample_rows_to_label(N_LABELS, y, scores, random_state=seed)
    spread = np.full(len(scores), np.nan)
    spread[rows] = weights
    return rows, spread


def run_one(task: str, repeats: int) -> list[Row]:
    y, scores, labels = scored(task)
    sample, measures = make_sample(y, scores), {name: get_measure(name, {}) for name in MEASURES}
    truth = {name: m.value(make_sample(labels, scores)) for name, m in measures.items()}
    imputed = [impute() for impute in candidates(sample, sample.bags)]
    choices = [lambda kept=kept: kept for kept in imputed]
    found = []
    for plan in ("at random", "rows_to_label"):
        estimates: dict[str, list[Any]] = {name: [] for name in measures}
        for seed in range(repeats):
            rows, weights = draw(plan, y, scores, seed)
            known = np.full(len(labels), np.nan)
            known[rows] = labels[rows]
            drawn = draw_of(sample, known, weights)
            imputations = fit_imputations(drawn, choices)
            for name, measure in measures.items():
                estimates[name].append(from_draw(measure, sample, drawn, imputations))
        for name, many in estimates.items():
            possible = identification_bounds(name, y, scores)
            found.append(
                {
                    "plan": plan,
                    "measure": name,
                    "truth": truth[name],
                    "possible": [possible.low, possible.high],
                    "repeats": repeats,
                    **summary(many, truth[name]),
                }
            )
    return found


def summary(many: list[Any], truth: float) -> dict[str, float]:
    alone = [each.alone for each in many]
    return {
        "held": float(np.mean([each.low <= truth <= each.high for each in many])),
        "held_alone": float(np.mean([each.low <= truth <= each.high for each in alone])),
        "width": float(np.mean([each.high - each.low for each in many])),
        "width_alone": float(np.mean([each.high - each.low for each in alone])),
        "bias": float(np.mean([each.value for each in many]) - truth),
        "deviation": float(np.std([each.value for each in many])),
    }


def page(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        low, high = row["possible"]
        lines.append(
            [
                row["task"],
                row["plan"].replace("rows_to", "sample_rows_to"),
                row["measure"],
                f"{row['truth']:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{row['held']:.3f} ({row['held_alone']:.3f})",
                f"{row['width']:.3f}",
                f"{row['width'] / row['width_alone']:.2f}",
            ]
        )
    header = ["bags", "rows drawn", "measure", "truth", "bounds", "coverage", "width"]
    return [
        "Each line: 200 draws of 200 of 12,000 rows. Coverage of 95% intervals, in brackets from the",
        "labels alone. Width: mean width, and as a fraction of that from the labels alone, drawn in",
        "the same way. Bounds: identification bounds, without any label.",
        "",
        *table([*header, "of labels alone"], lines),
    ]


STUDY = Study(
    name="labelled",
    title="Intervals from 200 labels and the bag totals",
    keys=["task"],
    tasks=lambda options: [{"task": task, "repeats": options.repeats} for task in NATURAL],
    measure=run_one,
    page=page,
    options={"--repeats": {"type": int, "default": 200, "help": "draws of rows to label"}},
)
