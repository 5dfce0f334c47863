"""What hidden counts cost when known as sets, and what else one can do with them.

Rows have five columns and true slopes; counts of bags are hidden in seven ways. Measured is the mean
absolute error of the slopes of the mixed model, fitted to all counts, to sets, to the middle of each
set with the noise of a draw from it, to known counts alone, and with zeros for hidden counts.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from unbag import LLPClassifier, bag_target
from unbag_bench.study import Row, Study, Task, table

SLOPES = np.array([1.0, -0.7, 0.4, 0.2, 0.0])

SETTINGS = {
    "covariate shift": "300 bags of 80 rows; 1 to 9 hidden",
    "label shift": "the same, bags differ in their share of positives alone",
    "bag effects": "the same, with a random intercept of standard deviation 0.4 for each bag",
    "unequal bags": "300 bags of 10 to 300 rows; 1 to 9 hidden",
    "bands": "300 bags of 80 rows; counts by tens: 0-9, 10-19, ...",
    "noise": "the same, noise of standard deviation 2 added before 1 to 9 are hidden",
    "majority": "300 bags of 300 rows; known is whether half of a bag or more is positive",
}

METHODS = ("all counts", "sets", "middles with noise", "known counts alone", "zeros")


def draw(setting: str, seed: int) -> dict[str, Any]:
    """Rows, bags, counts as published without hiding, limits, and the noise of counts."""
    rng, n_bags = np.random.default_rng(seed), 300
    sizes = np.full(n_bags, {"majority": 300}.get(setting, 80))
    if setting == "unequal bags":
        sizes = np.exp(rng.uniform(np.log(10), np.log(300), n_bags)).astype(int)
    bag = np.repeat(np.arange(n_bags), sizes)
    X = rng.normal(size=(len(bag), len(SLOPES)))
    if setting == "label shift":
        label = rng.random(len(bag)) < (0.3 * rng.beta(1.0, 1.5, n_bags))[bag]
        # two normal distributions whose log-ratio has these slopes
        X += np.where(label[:, None], SLOPES, 0.0)
    else:
        X += 0.7 * rng.normal(size=(n_bags, len(SLOPES)))[bag]
        effect = 0.4 * rng.normal(size=n_bags) * (setting == "bag effects")
        base = {"majority": 0.0, "bands": -1.0}.get(setting, -2.9)
        label = rng.random(len(bag)) < expit(base + X @ SLOPES + effect[bag])
    counts, noise = np.bincount(bag, label, n_bags), 0.0
    if setting == "noise":
        noise = 2.0
        counts = np.round(counts + noise * rng.normal(size=n_bags))
    low, high = counts, counts
    if setting == "bands":
        low, high = counts // 10 * 10, counts // 10 * 10 + 9
    elif setting == "majority":
        most = counts >= sizes / 2
        low, high = np.where(most, np.ceil(sizes / 2), 0), np.where(most, sizes, (sizes - 1) // 2)
    else:
        hidden = (counts >= 1) & (counts <= 9)
        low, high = np.where(hidden, 1, counts), np.where(hidden, 9, counts)
    return {"X": X, "bag": bag, "counts": counts, "low": low, "high": high, "noise": noise}


def target(method: str, data: dict[str, Any]) -> tuple[Any, Any] | None:
    """X and y of a method; None where it cannot be used."""
    X, bag, low, high = data["X"], data["bag"], data["low"], data["high"]
    hidden, sd = low < high, np.full(len(low), data["noise"])
    if method == "all counts":
        return X, bag_target(bag, counts=data["counts"][bag], noise=sd[bag])
    if method == "sets":
        return X, bag_target(bag, low=low[bag], high=high[bag], noise=sd[bag])
    if method == "known counts alone":
        kept = ~hidden[bag]
        if (~hidden).sum() < 5:
            return None
        return X[kept], bag_target(bag[kept], counts=low[bag][kept], noise=sd[bag][kept])
    if method == "zeros" and (hidden.all() or data["noise"]):  # with noise, fits take minutes each
        return None
    top = np.minimum(high, np.bincount(bag))
    sd = np.hypot(sd, np.sqrt(((top - low + 1.0) ** 2 - 1) / 12)) if method != "zeros" else sd
    value = (low + top) / 2 if method != "zeros" else np.where(hidden, 0, low)
    return X, bag_target(bag, counts=value[bag], noise=sd[bag])


def measure(setting: str, method: str, draws: int) -> Row:
    """Mean absolute error of slopes, what their mean is of the true ones, and coverage."""
    errors, ratios, held, share = [], [], [], []
    for seed in range(draws):
        data = draw(setting, seed)
        share.append(float((data["low"] < data["high"]).mean()))
        given = target(method, data)
        if given is None:
            return {"error": None, "ratio": None, "held": None, "hidden": float(np.mean(share))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LLPClassifier(kernel=None).fit(*given)
        found = model.coef_[0]
        sd = np.sqrt(np.diag(model.covariance_))[1:] / given[0].std(axis=0)
        errors.append(float(np.abs(found - SLOPES).mean()))
        ratios.append(float(found @ SLOPES / (SLOPES @ SLOPES)))
        held.append(float((np.abs(found - SLOPES) < 1.96 * sd).mean()))
    return {
        "error": float(np.mean(errors)),
        "se": float(np.std(errors) / np.sqrt(draws)),
        "ratio": float(np.mean(ratios)),
        "held": float(np.mean(held)),
        "hidden": float(np.mean(share)),
    }


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """All settings and methods."""
    for setting in options.settings.split(","):
        for method in METHODS:
            yield {"setting": setting, "method": method, "draws": options.draws}


def page(rows: list[Row]) -> list[str]:
    """A table of errors, and one of slopes and intervals."""
    by = {(row["setting"], row["method"]): row for row in rows}
    settings = [name for name in SETTINGS if (name, "sets") in by]
    errors, slopes = [], []
    for name in settings:
        own = [by.get((name, method), {"error": None}) for method in METHODS]
        whole = own[0]["error"]
        shown = [_shown(row["error"], whole) for row in own]
        errors.append([name, f"{own[1]['hidden']:.0%}", *shown])
        slopes.append(
            [
                name,
                *("" if r["error"] is None else f"{r['ratio']:.2f}, {r['held']:.0%}" for r in own),
            ]
        )
    return [
        *(f"- {name}: {text}" for name, text in SETTINGS.items()),
        "",
        "Mean absolute error of slopes, and how many times that of all counts:",
        "",
        *table(["setting", "hidden", *METHODS], errors),
        "",
        "Slopes as a share of the true ones, and how many 95% intervals cover them:",
        "",
        *table(["setting", *METHODS], slopes),
    ]


def _shown(error: float | None, whole: float) -> str:
    return "" if error is None else f"{error:.3f} ({error / whole:.2f})"


STUDY = Study(
    name="hidden_counts",
    title="What hidden counts cost",
    keys=("setting", "method", "draws"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--draws": {"type": int, "default": 30},
        "--settings": {"default": ",".join(SETTINGS), "help": "names, by commas"},
    },
)
