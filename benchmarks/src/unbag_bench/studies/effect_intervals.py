"""How often the interval of bag effects covers them, in five to a hundred bags.

Covariate shift, and an effect of the bag on its share, normal or with the heavy tails of
Student's t with five degrees of freedom. Probabilities of rows are the true ones, so that nothing but the
interval is at fault. Bags are of one size, or of sizes that differ by a factor of e.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np

from unbag import bag_target, check_bag_target
from unbag.evaluation.bag_effects import effect_of_means
from unbag_bench.study import Row, Study, table

N_BAGS, VARIANCES = (5, 10, 20, 50, 100), (0.0, 0.02, 0.1)
EFFECTS, SIZES = ("normal", "heavy tails"), ("equal", "unequal")
SIZE, TAILS = 200, 5
# Share of a class over all bags, and how far mean probabilities of bags and probabilities of rows are from it.
SHARE, BETWEEN, WITHIN = 0.4, 0.08, 0.1


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    cells = product(EFFECTS, SIZES, N_BAGS, VARIANCES)
    return [
        {"effects": e, "sizes": s, "n_bags": n, "variance": v, "repeats": options.repeats}
        for e, s, n, v in cells
    ]


def run_one(effects: str, sizes: str, n_bags: int, variance: float, repeats: int) -> Row:
    cell = [EFFECTS.index(effects), SIZES.index(sizes), n_bags, round(1000 * variance)]
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng([*cell, repeat])
        spread = np.zeros(n_bags) if sizes == "equal" else rng.normal(size=n_bags)
        n = np.maximum(20, SIZE * np.exp(spread)).astype(int)
        bag = np.repeat(np.arange(n_bags), n)
        p = SHARE + BETWEEN * rng.uniform(-1, 1, n_bags)[bag]
        p += WITHIN * rng.uniform(-1, 1, len(bag))
        moved = p + np.sqrt(variance * SHARE * (1 - SHARE)) * draw(rng, effects, n_bags)[bag]
        counts = np.bincount(bag, rng.random(len(bag)) < moved)
        bags = check_bag_target(bag_target(bag, counts=counts[bag]))
        probabilities = np.stack([1 - p, p])
        means, rest = bags.means(probabilities).T, bags.means(probabilities * (1 - probabilities)).T
        found.append(effect_of_means(bags, means, rest))
    return {
        "held": float(np.mean([one.low <= variance <= one.high for one in found])),
        "below": float(np.mean([one.high < variance for one in found])),
        "present": float(np.mean([one.significant for one in found])),
        "high": float(np.median([one.high for one in found])),
    }


def draw(rng: np.random.Generator, effects: str, n_bags: int) -> Any:
    if effects == "normal":
        return rng.normal(size=n_bags)
    return rng.standard_t(TAILS, size=n_bags) * np.sqrt((TAILS - 2) / TAILS)


def page(rows: list[Row]) -> list[str]:
    lines = []
    for effects, sizes, n_bags in product(EFFECTS, SIZES, N_BAGS):
        own = {
            row["variance"]: row
            for row in rows
            if (row["effects"], row["sizes"], row["n_bags"]) == (effects, sizes, n_bags)
        }
        if len(own) == len(VARIANCES):
            held = [f"{100 * own[v]['held']:.1f}%" for v in VARIANCES]
            present = [f"{100 * own[v]['present']:.0f}%" for v in VARIANCES]
            high = [f"{own[v]['high']:.3f}" for v in VARIANCES]
            lines.append([effects, sizes, str(n_bags), *held, " ".join(present), " ".join(high)])
    repeats = min(row["repeats"] for row in rows)
    error = 100 * np.sqrt(0.95 * 0.05 / repeats)
    headings = ["effects", "sizes", "bags", *(f"τ² = {v:g} held" for v in VARIANCES)]
    return [
        f"How often 95% intervals covered τ², of {repeats} draws each (errors of about {error:.1f} "
        "points), how often effects were there beyond doubt, and the median upper end, for "
        "each τ².",
        "",
        *table([*headings, "beyond doubt", "upper end"], lines),
    ]


STUDY = Study(
    name="effect_intervals",
    title="Coverage of intervals for the bag effect variance",
    keys=["effects", "sizes", "n_bags", "variance", "repeats"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={"--repeats": {"type": int, "default": 1000, "help": "draws of each kind"}},
)
