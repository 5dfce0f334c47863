"""How often intervals of `unbag.inference.group_estimates` cover the share of a class in a group.

Bags of 40 rows in three groups, of which the smallest has 7% of all rows, and an age; under
covariate shift or label shift.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from unbag import LLPClassifier, bag_target
from unbag.inference import group_estimates
from unbag_bench.study import Row, Study, Task, table

SIZE = 40
GROUPS = ("large", "middle", "small")
LOG_ODDS = np.array([-0.8, 0.9, 0.2])
# The seeds from 0 on were seen while the method was made; rows of "penalty 1e-4" and "search", of
# linear models and a jackknife in commit 206f41b, are from these.
FIRST = 1000
MODELS = {"posterior": lambda: LLPClassifier(kernel=None)}


def draw(shift: str, n_bags: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Features, target, groups, and the share of positives in each group."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), SIZE)
    if shift == "covariate shift":
        mix = rng.dirichlet([2.4, 1.32, 0.28], n_bags)[bag]
        group = choose(rng, mix)
        age = rng.normal(size=len(bag)) + 0.5 * rng.normal(size=n_bags)[bag]
        label = rng.uniform(size=len(bag)) < expit(LOG_ODDS[group] + 0.6 * age)
    else:
        label = rng.uniform(size=len(bag)) < rng.beta(1.5, 1.5, n_bags)[bag]
        mix = np.array([0.6, 0.33, 0.07]) * np.where(label[:, None], np.exp(LOG_ODDS), 1)
        group = choose(rng, mix / mix.sum(axis=1, keepdims=True))
        age = rng.normal(size=len(bag)) + 0.6 * label
    X = np.column_stack([age, group == 1, group == 2]).astype(float)
    y = bag_target(bag, counts=np.bincount(bag, label)[bag])
    return X, y, group, np.array([label[group == g].mean() for g in range(3)])


def choose(rng: np.random.Generator, probabilities: Any) -> Any:
    """One of the groups for each row."""
    return (
        probabilities.cumsum(axis=1)[:, :-1] < rng.uniform(size=len(probabilities))[:, None]
    ).sum(axis=1)


def measure(shift: str, model: str, bags: int, draws: int) -> Row:
    """Of each group: how often the interval holds the share, its width, and the mean error."""
    found = []
    for seed in range(FIRST, FIRST + draws):
        X, y, group, truth = draw(shift, bags, seed)
        one = group_estimates(MODELS[model]().fit(X, y), X, y, group)
        low, high, share = one.low[:, 1], one.high[:, 1], one.share[:, 1]
        found.append([(low <= truth) & (truth <= high), high - low, share - truth])
    held, width, error = np.mean(found, axis=0)
    return {
        "held": dict(zip(GROUPS, held.tolist(), strict=True)),
        "width": dict(zip(GROUPS, width.tolist(), strict=True)),
        "error": dict(zip(GROUPS, error.tolist(), strict=True)),
    }


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Few and many bags, two models, both assumptions."""
    for bags in (30, 120):
        for model in options.models.split(","):
            for shift in ("covariate shift", "label shift"):
                yield {"shift": shift, "model": model, "bags": bags, "draws": options.draws}


def page(rows: list[Row]) -> list[str]:
    """One row of the table for each task."""
    heads = ["shift", "model", "bags", "draws"]
    heads += [f"{what}, {group}" for what in ("held", "width", "error") for group in GROUPS]
    lines = []
    for row in rows:
        shown = [f"{row['held'][g]:.0%}" for g in GROUPS]
        shown += [f"{row['width'][g]:.3f}" for g in GROUPS]
        shown += [f"{row['error'][g]:+.3f}" for g in GROUPS]
        lines.append([row["shift"], row["model"], str(row["bags"]), str(row["draws"]), *shown])
    return table(heads, lines)


STUDY = Study(
    name="group_intervals",
    title="Coverage of intervals for shares of groups",
    keys=("shift", "model", "bags", "draws"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--draws": {"type": int, "default": 400},
        "--models": {"default": ",".join(MODELS), "help": "names, by commas"},
    },
)
