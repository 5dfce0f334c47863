"""Whether the likelihood of counts finds the true slope: linear models under both assumptions, simulated.

The log-odds of a row are x plus a constant: the slope is 1. "label shift": x is
normal around ±½ given the class, and bags differ in how many positives they draw. "covariate shift": bags
differ in where their x lie; with or without an effect of the bag on the log-odds,
and noise on the counts. A row is fits without a penalty, of some 4,096 rows (at least 64 bags), or
of several times as many: what is left of a bias then says whether it is one of small samples.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import root
from scipy.special import expit

from unbag import LLPClassifier, bag_target
from unbag_bench.study import Row, Study, plus_minus, standard_error, table

N_ROWS, FEWEST_BAGS = 4096, 64

SHARES: dict[str, Any] = {
    "0 or .4": lambda rng, n: rng.choice([0.0, 0.4], n),
    ".2 or .8": lambda rng, n: rng.choice([0.2, 0.8], n),
    ".1 or .9": lambda rng, n: rng.choice([0.1, 0.9], n),
    "uniform on [0, ½]": lambda rng, n: rng.uniform(0, 0.5, n),
    "shuffled": lambda rng, n: np.full(n, 0.3),  # noqa: ARG005
}

# Deviation of the effect of a bag on the log-odds, and of Laplace noise on its count.
ODDS = {
    "covariate shift": (0.0, 0.0),
    "and an effect of ±.5": (0.5, 0.0),
    "and noise of 2 rows": (0.0, 2.0),
    "and both": (0.5, 2.0),
}


def fit_looks(rng: Any, shares: str, size: int, times: int) -> float:
    bag = np.repeat(np.arange(times * max(N_ROWS // size, FEWEST_BAGS)), size)
    probability = SHARES[shares](rng, bag[-1] + 1)
    labels = rng.random(len(bag)) < probability[bag]
    x = rng.normal(size=len(bag)) + labels - 0.5
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    return slope(x, y, 0)


def fit_odds(rng: Any, kind: str, size: int, times: int) -> float:
    effect, noise = ODDS[kind]
    bag = np.repeat(np.arange(times * max(N_ROWS // size, FEWEST_BAGS)), size)
    n_bags = bag[-1] + 1
    x = rng.normal(size=len(bag)) + rng.normal(size=n_bags)[bag]
    odds = x - 0.5 + effect * rng.normal(size=n_bags)[bag]
    counts = np.bincount(bag, rng.random(len(bag)) < 1 / (1 + np.exp(-odds)))
    if noise:
        counts = counts + rng.laplace(scale=noise / np.sqrt(2), size=n_bags)
    y = bag_target(bag, counts=counts[bag], noise=noise or None)
    return slope(x, y, "auto")


CLASS_SHARES: dict[str, Any] = {
    "three classes, any shares": lambda rng, n: rng.dirichlet([1.0, 1.0, 1.0], n),
    "three classes, shuffled": lambda rng, n: np.full((n, 3), 1 / 3),  # noqa: ARG005
}


def fit_classes(rng: Any, shares: str, size: int, times: int) -> float:
    """Three classes around the corners of a triangle: 1 is the mean of the true coefficients."""
    bag = np.repeat(np.arange(times * max(N_ROWS // size, FEWEST_BAGS)), size)
    probability = CLASS_SHARES[shares](rng, bag[-1] + 1)[bag]
    labels = (rng.random((len(bag), 1)) > np.cumsum(probability, axis=1)[:, :2]).sum(axis=1)
    angle = 2 * np.pi * np.arange(3) / 3
    corners = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = rng.normal(size=(len(bag), 2)) + corners[labels]
    counts = np.stack([np.bincount(bag, labels == c) for c in range(3)], axis=1)
    found = unpenalised(0.0).fit(X, bag_target(bag, counts=counts[bag])).coef_
    return float((found * corners).sum() / 3)


def slope(x: Any, y: Any, bag_effect: Any) -> float:
    return float(unpenalised(bag_effect).fit(x[:, None], y).coef_[0, 0])


def unpenalised(bag_effect: Any) -> LLPClassifier:
    """The mixed model with a variance so large that nothing is shrunk."""
    return LLPClassifier(kernel=None, bag_effect=bag_effect, variances={"numbers": 1e6}, tol=1e-3)


SHIFTS: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "label shift": (fit_looks, SHARES, (2, 8, 32, 128)),
    "covariate shift": (fit_odds, ODDS, (8, 32, 128)),
    "classes": (fit_classes, CLASS_SHARES, (4, 8, 16, 24)),
}


def run_one(shift: str, kind: str, size: int, times: int, repeats: int) -> Row:
    fit = SHIFTS[shift][0]
    rngs = [np.random.default_rng([1000 + seed, size]) for seed in range(repeats)]
    return {"slopes": [round(fit(rng, kind, size, times), 5) for rng in rngs]}


def true_slope(kind: str) -> float:
    """1; with an effect of bags, the slope of the logistic curve nearest to the mean over them."""
    effect = ODDS.get(kind, (0.0, 0.0))[0]
    if not effect:
        return 1.0
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    x, weight = np.sqrt(2) * node, weight / weight.sum()
    probability = expit(x[:, None] - 0.5 + effect * node) @ weight

    def slopes(line: Any) -> Any:
        off = weight * (expit(line[0] + line[1] * x) - probability)
        return off.sum(), off @ x

    return float(root(slopes, [-0.5, 1.0]).x[1])


def page(rows: list[Row]) -> list[str]:
    lines = [
        "Mean over the repeats with its standard error; the median in brackets, as the estimate of",
        "a ratio is skewed where bags carry little information. An effect of ±.5 on the log-odds of all rows of",
        "a bag makes the log-odds over all bags flatter: the logistic curve nearest to the mean",
        f"over bags has a slope of {true_slope('and both'):.3f} there, which is to be found.",
    ]
    for times in sorted({row["times"] for row in rows}):
        own = [row for row in rows if row["times"] == times]
        bags = "Some 4,096 rows" if times == 1 else f"{times} times as many bags"
        lines += ["", f"## {bags}", "", *one_table(own)]
    return lines


def one_table(rows: list[Row]) -> list[str]:
    sizes = sorted({row["size"] for row in rows})
    cells: dict[str, dict[int, str]] = defaultdict(dict)
    within = []
    for row in rows:
        found = np.array(row["slopes"])
        off = abs(found.mean() - true_slope(row["kind"]))
        within.append(off <= 2 * standard_error(found))
        cells[row["kind"]][row["size"]] = f"{plus_minus(found, '.3f')} ({np.median(found):.3f})"
    return [
        *table(
            ["", *(f"bags of {n}" for n in sizes)],
            [[kind, *(found.get(n, "–") for n in sizes)] for kind, found in cells.items()],
        ),
        "",
        f"Within two standard errors of the truth: {sum(within)} of {len(within)}.",
    ]


STUDY = Study(
    name="slopes",
    title="Bias of slopes from the count likelihood (true slope 1)",
    keys=["shift", "kind", "size", "times"],
    tasks=lambda options: [
        {"shift": shift, "kind": kind, "size": size, "times": options.times}
        | {"repeats": options.repeats}
        for shift in options.shifts
        for kind, size in product(*SHIFTS[shift][1:])
    ],
    measure=run_one,
    page=page,
    options={
        "--repeats": {"type": int, "default": 200, "help": "fits of each"},
        "--times": {"type": int, "default": 1, "help": "so many times as many bags"},
        "--shifts": {"nargs": "+", "default": list(SHIFTS), "choices": list(SHIFTS)},
    },
)
