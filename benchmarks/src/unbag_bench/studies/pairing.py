"""How long pairing takes, and how much information the fast way loses against the best pairing.

The loss is measured against the exact matching where that is quick, else against a bound that no
matching can exceed (half the best assignment), so that it is certified either way. For more bags
than that only the time is given: processor seconds, which a busy machine changes least.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from unbag.paper.pairing import Pairing, pair_exchange, pair_matching
from unbag_bench.study import Row, Study, table

Bags = tuple[NDArray[np.float64], NDArray[np.float64]]


def make_bags(family: str, n_bags: int, seed: int) -> Bags:
    """Draw proportions and sizes."""
    rng = np.random.default_rng(seed)
    uniform = rng.random(n_bags)
    log_normal = np.ceil(rng.lognormal(3, 1, n_bags))
    if family == "uniform":
        return uniform, rng.integers(10, 200, n_bags).astype(float)
    if family == "log-normal sizes":
        return uniform, log_normal
    if family == "heavy-tailed sizes":
        return uniform, np.ceil(5 + 5 * rng.pareto(1.1, n_bags))
    if family == "narrow proportions":
        return 0.4 + 0.05 * uniform, log_normal
    if family == "clustered proportions":
        return rng.choice([0.1, 0.3, 0.8], n_bags) + 0.06 * (uniform - 0.5), log_normal
    if family == "two proportions":
        return np.where(uniform < 0.3, 0.2, 0.7), log_normal
    if family == "many ties":
        return np.round(uniform, 1), rng.choice([5.0, 10.0, 20.0, 50.0], n_bags)
    if family == "sizes follow proportions":
        return uniform, np.ceil(np.exp(1 + 4 * uniform + 0.5 * rng.standard_normal(n_bags)))
    if family == "skewed":
        return rng.beta(0.5, 5, n_bags), np.ceil(rng.lognormal(4, 1.5, n_bags))
    return rng.binomial(log_normal.astype(int), 0.3) / log_normal, log_normal


FAMILIES = [
    "uniform",
    "log-normal sizes",
    "heavy-tailed sizes",
    "narrow proportions",
    "clustered proportions",
    "two proportions",
    "many ties",
    "sizes follow proportions",
    "skewed",
    "counted labels",
]


def assignment_bound(proportions: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """Give a weight that no matching exceeds."""
    bags = np.arange(len(sizes))
    difference = proportions[:, None] - proportions
    table = 2 / (1 / sizes[:, None] + 1 / sizes) * difference**2
    return float(table[bags, linear_sum_assignment(table, maximize=True)[1]].sum() / 2)


def timed(pair: Callable[..., Pairing], bags: Bags) -> tuple[float, float]:
    begin = time.process_time()
    pairing = pair(*bags)
    seconds = time.process_time() - begin
    return seconds, pairing.information(*bags)


def measure(family: str, n_bags: int, exact_up_to: int, bound_up_to: int, seed: int) -> Row:
    bags = make_bags(family, n_bags, seed)
    exact_seconds, best, against = None, None, "none"
    if n_bags <= exact_up_to:
        exact_seconds, best = timed(pair_matching, bags)
        against = "exact matching"
    elif n_bags <= bound_up_to:
        best, against = assignment_bound(*bags), "assignment bound"
    seconds, information = timed(pair_exchange, bags)
    return {
        "seed": seed,
        "matching": exact_seconds,
        "exchange": seconds,
        "loss": None if best is None else max(0.0, 1 - information / best),
        "against": against,
    }


def page(rows: list[Row]) -> list[str]:
    header = ["bags are", "number", "matching, s", "exchange, s", "loss, %", "loss against"]
    cells = [
        [
            row["family"],
            f"{row['n_bags']:,}",
            "" if row["matching"] is None else f"{row['matching']:.2f}",
            f"{row['exchange']:.2f}",
            "" if row["loss"] is None else f"{100 * row['loss']:.4f}",
            row["against"],
        ]
        for row in rows
    ]
    return ["Processor seconds of one core.", "", *table(header, cells)]


STUDY = Study(
    name="pairing",
    title="Pairing",
    keys=["family", "n_bags"],
    tasks=lambda options: [
        {
            "family": family,
            "n_bags": n_bags,
            "exact_up_to": options.exact_up_to,
            "bound_up_to": options.bound_up_to,
            "seed": options.seed,
        }
        for n_bags in options.bags
        for family in FAMILIES
    ],
    measure=measure,
    page=page,
    options={
        "--bags": {
            "type": int,
            "nargs": "+",
            "default": [100, 300, 1_000, 3_000, 100_000, 1_000_000],
            "help": "numbers of bags",
        },
        "--exact-up-to": {"type": int, "default": 1_000, "help": "most bags to match exactly"},
        "--bound-up-to": {"type": int, "default": 3_000, "help": "most bags to bound"},
        "--seed": {"type": int, "default": 0, "help": "seed of the bags drawn"},
    },
)
