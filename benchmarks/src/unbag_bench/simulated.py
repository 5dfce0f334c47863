"""Simulated tables in bags, with the true log-odds of every row.

`TABLES` are designs with columns of numbers and two categories, of which bags shift some: p(y | x)
is the same in all bags, up to a bag effect. `draw_linear` draws rows of four columns under label
shift, covariate shift or both, for the coverage of intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from unbag._arrays import Floats, Ints

Sizes = Literal["equal", "unequal"]
Shift = Literal["label", "covariate", "both", "bag effect"]

# Coefficients of `draw_linear`.
SLOPES = np.array([1.0, -0.7, 0.4, 0.0])
_SPREAD_OF_MEANS, _BAG_EFFECT = 0.7, 0.4


@dataclass(frozen=True)
class TableDesign:
    """A table in bags under covariate shift.

    Attributes
    ----------
    n_bags, bag_size : int
    shifts : tuple of float
        Standard deviation over bags of the means of the columns; all move with one number u_b.
    own_shifts : float
        Standard deviation of what moves the mean of each column in each bag by itself.
    slopes : tuple of float
    intercept : float
    levels : tuple of int
        Numbers of levels of the categories.
    level_effects : tuple of float
        Standard deviations of their effects.
    level_shift : float
        Standard deviation of the log-frequencies of levels over bags.
    bag_effect : float
        Standard deviation of the random intercept of a bag.
    sizes : {"equal", "unequal"}
    """

    n_bags: int = 400
    bag_size: int = 500
    shifts: tuple[float, ...] = (0.5, 0.0, 0.0, 0.25, 0.0, 0.0)
    own_shifts: float = 0.0
    slopes: tuple[float, ...] = (1.0, -0.7, 0.5, 0.0, 0.3, 0.0)
    intercept: float = -2.0
    levels: tuple[int, ...] = (12, 200)
    level_effects: tuple[float, ...] = (0.6, 0.5)
    level_shift: float = 0.0
    bag_effect: float = 0.0
    sizes: Sizes = "equal"


BASE = TableDesign()
_SMALL = replace(BASE, bag_size=100)
_ALL = (0.4,) * 6
_NONE = (0.0,) * 6

TABLES: dict[str, TableDesign] = {
    "as found": BASE,
    "40 bags of 1,000": replace(BASE, n_bags=40, bag_size=1000),
    "80 bags of 500": replace(BASE, n_bags=80),
    "150 bags of 300": replace(BASE, n_bags=150, bag_size=300),
    "400 bags of 100": _SMALL,
    "1,000 bags of 60": replace(BASE, n_bags=1000, bag_size=60),
    "2,000 bags of 25": replace(BASE, n_bags=2000, bag_size=25),
    "unequal sizes": replace(_SMALL, sizes="unequal"),
    "all columns shift": replace(_SMALL, shifts=_NONE, own_shifts=0.5),
    "all columns shift, 60 bags": replace(_SMALL, n_bags=60, bag_size=500, own_shifts=0.5),
    "all columns shift together": replace(_SMALL, shifts=_ALL),
    "one column shifts": replace(_SMALL, shifts=(0.0, 0.6, 0.0, 0.0, 0.0, 0.0)),
    "levels shift": replace(_SMALL, level_shift=1.0),
    "no shift": replace(_SMALL, shifts=_NONE),
    "balanced": replace(_SMALL, intercept=0.0),
    "rare": replace(_SMALL, intercept=-4.0, bag_size=200),
    "bag effect .2": replace(_SMALL, bag_effect=0.2),
    "bag effect .5": replace(_SMALL, bag_effect=0.5),
    "bag effect .5, 60 bags": replace(BASE, n_bags=60, bag_effect=0.5, own_shifts=0.3),
    "weak numbers": replace(_SMALL, slopes=(0.3, -0.2, 0.1, 0.0, 0.1, 0.0)),
    "no category": replace(_SMALL, level_effects=(0.0, 0.0)),
}


class TableSample(NamedTuple):
    """Rows with the bag, the label and the log-odds of each."""

    frame: pd.DataFrame
    bag: Ints
    labels: Ints
    log_odds: Floats


def draw_table(design: TableDesign, seed: int, n_test: int = 20_000) -> tuple[TableSample, ...]:
    """Draw rows to train on, and fresh ones from as many new bags as they fill, without effects."""
    rng = np.random.default_rng(seed)
    effects = [
        scale * rng.normal(size=n)
        for n, scale in zip(design.levels, design.level_effects, strict=True)
    ]
    n_test_bags = max(n_test // design.bag_size, 40)
    test = replace(
        design, n_bags=n_test_bags, bag_size=n_test // n_test_bags, bag_effect=0.0, sizes="equal"
    )
    return _draw_rows(design, effects, rng), _draw_rows(test, effects, rng)


def _draw_rows(design: TableDesign, effects: list[Floats], rng: Any) -> TableSample:
    sizes = _draw_sizes(design.n_bags, design.bag_size, design.sizes, rng)
    bag = np.repeat(np.arange(design.n_bags), sizes)
    common = rng.normal(size=(design.n_bags, 1)) * np.array(design.shifts)
    own = design.own_shifts * rng.normal(size=(design.n_bags, len(design.shifts)))
    X = rng.normal(size=(len(bag), len(design.shifts))) + (common + own)[bag]
    f = design.intercept + X @ np.array(design.slopes)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    for place, effect in enumerate(effects):
        heights = design.level_shift * rng.normal(size=(design.n_bags, len(effect)))
        # the largest of log-frequencies with Gumbel noise is a draw from the frequencies
        level = (heights[bag] + rng.gumbel(size=(len(bag), len(effect)))).argmax(axis=1)
        f = f + effect[level]
        frame[f"c{place}"] = pd.Categorical([f"l{i}" for i in level])
    seen = f + (design.bag_effect * rng.normal(size=design.n_bags))[bag]
    labels = (rng.random(len(bag)) < expit(seen)).astype(np.int64)
    return TableSample(frame, bag, labels, f)


def _draw_sizes(n_bags: int, size: int, sizes: Sizes, rng: Any) -> Ints:
    if sizes == "equal":
        return np.full(n_bags, size)
    return np.maximum(5, np.round(size * np.exp(rng.normal(size=n_bags) - 0.5))).astype(np.int64)


class LinearSample(NamedTuple):
    """Rows of four columns; the log-odds at the overall class prior are intercept + x @ SLOPES."""

    X: Floats
    bag: Ints
    labels: Ints
    intercept: float


def draw_linear(shift: Shift, n_bags: int, size: int, sizes: Sizes, seed: int) -> LinearSample:
    """Draw rows under one assumption about bags.

    Under label shift, classes are normal with means ±SLOPES/2 and shares uniform on [.05, .95].
    Under covariate shift the means of bags are normal; a bag effect is a random intercept on top.
    With both, one half of the bags is of each kind.
    """
    rng = np.random.default_rng([seed, n_bags, size])
    each = _draw_sizes(n_bags, size, sizes, rng)
    bag = np.repeat(np.arange(n_bags), each)
    X = rng.normal(size=(len(bag), len(SLOPES)))
    if shift == "label":
        labels = (rng.random(len(bag)) < rng.uniform(0.05, 0.95, n_bags)[bag]).astype(np.int64)
        return LinearSample(
            X + (labels[:, None] - 0.5) * SLOPES, bag, labels, float(logit(labels.mean()))
        )
    intercept = -1.0
    if shift == "both":
        return _draw_both(X, bag, n_bags, rng)
    X = X + (_SPREAD_OF_MEANS * rng.normal(size=(n_bags, len(SLOPES))))[bag]
    f = intercept + X @ SLOPES
    if shift == "bag effect":
        f = f + (_BAG_EFFECT * rng.normal(size=n_bags))[bag]
    labels = (rng.random(len(bag)) < expit(f)).astype(np.int64)
    return LinearSample(X, bag, labels, intercept)


def _draw_both(X: Floats, bag: Ints, n_bags: int, rng: Any) -> LinearSample:
    labels = (rng.random(len(bag)) < rng.uniform(0.05, 0.95, n_bags)[bag]).astype(np.int64)
    shifted = np.arange(n_bags) % 2 == 1
    means = _SPREAD_OF_MEANS * rng.normal(size=(n_bags, len(SLOPES)))
    by_label = X + (labels[:, None] - 0.5) * SLOPES
    kind = shifted[bag]
    # that of the log-odds under label shift, at the share of the positives among these rows
    intercept = float(logit(labels[~kind].mean()))
    rows = X + means[bag]
    drawn = (rng.random(len(bag)) < expit(intercept + rows @ SLOPES)).astype(np.int64)
    return LinearSample(
        np.where(kind[:, None], rows, by_label), bag, np.where(kind, drawn, labels), intercept
    )
