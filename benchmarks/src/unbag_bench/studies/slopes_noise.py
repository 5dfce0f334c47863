"""Slopes and ranking where counts carry noise: linear models in both worlds, simulated.

Bags as in `slopes`, and Laplace noise on their counts of so many times the deviation of draws. The
default is fitted to noisy counts and to the true ones, and their difference kept. Ranking is
measured with nine more columns that tell nothing, for the default and the corrected risk.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from unbag import LLPLinearClassifier, bag_target
from unbag.paper import LMMCMClassifier
from unbag_bench.studies.slopes import FEWEST_BAGS, N_ROWS, SHARES, SHOWN, slope
from unbag_bench.study import Row, Study, plus_minus, table

KINDS = ("uniform on [0, ½]", ".2 or .8", ".1 or .9", "rows keep their odds")
RATIOS = (0.2, 0.5, 1.0, 3.0)


def make_noisy(rng: Any, kind: str, size: int, ratio: float) -> tuple[Any, Any, Any, Any]:
    """Ten columns, true and noisy counts as targets, and labels."""
    bag = np.repeat(np.arange(max(N_ROWS // size, FEWEST_BAGS)), size)
    n_bags = bag[-1] + 1
    X = rng.normal(size=(len(bag), 10))
    if kind in SHARES:
        labels = rng.random(len(bag)) < SHARES[kind](rng, n_bags)[bag]
        X[:, 0] += labels - 0.5
    else:
        # if but one column differed between bags, bags alone would tell which it is that counts
        X += rng.normal(size=(n_bags, 10))[bag]
        labels = rng.random(len(bag)) < 1 / (1 + np.exp(0.5 - X[:, 0]))
    share = labels.mean()
    deviation = ratio * np.sqrt(size * share * (1 - share))
    counts = np.bincount(bag, labels)
    noisy = counts + rng.laplace(scale=deviation / np.sqrt(2), size=n_bags)
    return (
        X,
        bag_target(bag, counts=counts[bag]),
        bag_target(bag, counts=noisy[bag], noise=deviation),
        labels,
    )


def run_noisy(kind: str, size: int, ratio: float, repeats: int) -> Row:
    found = defaultdict(list)
    for seed in range(repeats):
        rng = np.random.default_rng([2000 + seed, size, int(10 * ratio)])
        X, exact, noisy, labels = make_noisy(rng, kind, size, ratio)
        first = LLPLinearClassifier(alpha=1e-9, tol=1e-6)
        found["slopes"].append(first.fit(X[:, :1], noisy).coef_[0, 0])
        found["looks"].append(first.looks_)
        found["exact"].append(slope(X[:, 0], exact, 0))
        models = {
            "auto": LLPLinearClassifier(alpha=1e-3),
            "corrected": LMMCMClassifier(1e-3, kernel="linear"),
        }
        for objective, model in models.items():
            try:
                area = roc_auc_score(labels, model.fit(X, noisy).decision_function(X))
            except ValueError:  # refused: shares vary hardly more than noise
                area = np.nan
            found[objective].append(area)
    return {name: np.round(values, 5).tolist() for name, values in found.items()}


def page(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        found = 1 + np.array(row["slopes"]) - np.array(row["exact"])
        own, other = (np.array(row[name], dtype=float) for name in ("auto", "corrected"))
        ahead = (own - other)[np.isfinite(other)]
        areas = ["–", "–"]
        if len(ahead) > 1:
            areas = [f"{np.nanmean(other):.3f}", plus_minus(ahead, ".3f")]
        lines.append(
            [
                SHOWN.get(row["kind"], row["kind"]),
                str(row["size"]),
                f"{row['ratio']:g}",
                f"{plus_minus(found, '.3f')} ({np.median(found):.3f})",
                f"{np.mean(row['looks']):.2f}",
                f"{own.mean():.3f}",
                *areas,
            ]
        )
    return [
        "Noise: its deviation, in those of a count of draws at the pooled share. Slope: 1 and the",
        "mean difference between fits to noisy and to true counts, with its standard error; the",
        "median in brackets. Looks: how often bags were taken to follow label shift. AUC: means of",
        "the default, of the corrected risk where that was not refused, and of their differences.",
        "",
        *table(["", "bags of", "noise", "slope", "looks", "AUC", "corrected", "difference"], lines),
    ]


STUDY = Study(
    name="slopes_noise",
    title="Noisy counts: slopes for a true 1, and ranking",
    keys=["kind", "size", "ratio"],
    tasks=lambda options: [
        {"kind": kind, "size": size, "ratio": ratio, "repeats": options.repeats}
        for kind, size, ratio in product(options.kinds, (16, 64, 128), RATIOS)
    ],
    measure=run_noisy,
    page=page,
    options={
        "--repeats": {"type": int, "default": 24, "help": "fits of each"},
        "--kinds": {"nargs": "+", "default": list(KINDS), "choices": list(KINDS)},
    },
)
