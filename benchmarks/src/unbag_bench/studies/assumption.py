"""How often the test of the assumption raises a false alarm, and which drifts it notices.

First the null: bags drawn as in the paper from Adult and MAGIC, and synthetic columns with heavy
tails or rare values, so that the assumption holds. A share of alarms is given for the whole test
(any feature, any bag), for single bags alone, and for a single score (a random linear one) by its
p-value. Then drift: one normal column shifts by δ standard deviations within its class, in a tenth
of the bags or in all of them with random sign. Last, drift that goes with the proportions and so
tilts the line that bags are compared with.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from unbag import bag_target
from unbag.datasets import load_adult, load_magic, make_bags
from unbag.evaluation.label_shift import label_shift_test
from unbag.paper.experiments import N_INSTANCES, make_encoder
from unbag_bench.study import Row, Study, table

Draw = Callable[[int], tuple[NDArray[np.float64], NDArray[np.void], NDArray[np.float64]]]


@cache
def encoded(dataset: str) -> tuple[Any, Any]:
    """All rows, and their labels."""
    data = load_adult("train") if dataset == "adult" else load_magic()
    return np.asarray(make_encoder(data).fit_transform(data.frame)), data.target


def real_bags(dataset: str, bag_size: int) -> Draw:
    """Bags of the paper, all encoded features, and a random linear score."""
    X, target = encoded(dataset)
    n_bags = N_INSTANCES[dataset] // bag_size

    def draw(seed: int) -> tuple[Any, Any, Any]:
        index, y = make_bags(target, bag_size, (0, 0.5), n_bags=n_bags, random_state=seed)
        direction = np.random.default_rng(seed).normal(size=X.shape[1])
        return X[index], y, X[index] @ direction

    return draw


def synthetic_target(
    rng: np.random.Generator, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.void]]:
    bag = np.repeat(np.arange(len(sizes)), sizes)
    positive = rng.uniform(size=len(bag)) < rng.uniform(size=len(sizes))[bag]
    return bag, positive, bag_target(bag, counts=np.bincount(bag, positive)[bag])


COLUMNS: dict[str, Callable[[np.random.Generator, NDArray[np.float64]], NDArray[np.float64]]] = {
    "normal": lambda rng, p: rng.normal(size=(len(p), 10)) + 2 * p,
    "unequal variances": lambda rng, p: rng.normal(size=(len(p), 10)) * (1 + 4 * p) + p,
    "Student, 2 df": lambda rng, p: rng.standard_t(2, size=(len(p), 10)) + p,
    "log-normal": lambda rng, p: rng.lognormal(0, 2, size=(len(p), 10)) * (1 + p),
    "0/1, a tenth ones": lambda rng, p: rng.uniform(size=(len(p), 10)) < 0.1 * (0.5 + p),
    "0/1, 0.1% ones": lambda rng, p: rng.uniform(size=(len(p), 10)) < 0.001 * (0.5 + p),
}
SIZES = {
    "512 of 8": np.full(512, 8),
    "12 of 64": np.full(12, 64),
    "40 of 2 to 900": np.tile([2, 3, 5, 8, 13, 21, 34, 55, 200, 900], 4),
}


def synthetic_bags(columns: str, sizes: str) -> Draw:
    def draw(seed: int) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(seed)
        _, positive, y = synthetic_target(rng, SIZES[sizes])
        X = COLUMNS[columns](rng, positive[:, None].astype(float)).astype(float)
        return X, y, X[:, 0]

    return draw


def false_alarms(columns: str, bags: str, repeats: int, level: float) -> Row:
    """In how many draws the test rejects although the assumption holds."""
    if columns in COLUMNS:
        draw = synthetic_bags(columns, bags)
    else:
        draw = real_bags(columns, int(bags.split()[-1]))
    alarms: dict[str, list[bool]] = {"whole test": [], "single bag": [], "one score": []}
    for seed in range(repeats):
        X, y, one = draw(seed)
        if np.ptp(one) > 0:
            alarms["one score"].append(label_shift_test(one, y).features["p_value"][0] <= level)
        found = label_shift_test(X, y, level=level)
        alarms["whole test"].append(found.reject)
        alarms["single bag"].append(found.bags["adjusted_p_value"][0] <= level)
    counts = {name: [int(np.sum(seen)), len(seen)] for name, seen in alarms.items()}
    return {"alarms": counts, "level": level}


def drift(bags: str, drifting: str, delta: float, repeats: int) -> Row:
    """What is seen of a column that shifts in a tenth of the bags, or in all of them."""
    n_bags, size = _numbers(bags)
    seen, named, hits, flagged = [], [], 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        bag, positive, y = synthetic_target(rng, np.full(n_bags, size))
        shift = np.zeros(n_bags)
        which = np.arange(n_bags) if drifting == "all" else rng.permutation(n_bags)[: n_bags // 10]
        shift[which] = delta * rng.choice([-1, 1], len(which))
        X = rng.normal(size=(len(bag), 10)) + positive[:, None]
        X[:, 0] += shift[bag]
        found = label_shift_test(X, y)
        seen.append(found.features["adjusted_p_value"][0] <= 0.05)
        named.append(found.bags["bag"][0] in which and found.bags["feature"][0] == "0")
        out = found.bags["bag"][found.bags["adjusted_p_value"] <= 0.05]
        flagged += len(out)
        hits += len(np.intersect1d(out, which))
    return {
        "seen": int(np.sum(seen)),
        "worst is right": int(np.sum(named)),
        "bags named": flagged,
        "right": hits,
        "draws": repeats,
    }


def tilt(bags: str, drifting: str, delta: float, repeats: int) -> Row:
    """Draws in which drift of a fifth of the bags, or along the line, is seen."""
    n_bags, size = _numbers(bags)
    seen = {}
    for separation in (1, 3):
        alarms = 0
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            bag = np.repeat(np.arange(n_bags), size)
            positive = rng.uniform(size=len(bag)) < rng.uniform(0, 0.7, n_bags)[bag]
            counts = np.bincount(bag, positive)
            rank = np.argsort(np.argsort(counts, kind="stable"))
            shift = {
                "lowest": rank < n_bags // 5,
                "highest": rank >= n_bags - n_bags // 5,
                "along the line": counts / counts.max(),
            }[drifting]
            x = rng.normal(size=len(bag)) + separation * positive + delta * shift[bag]
            alarms += bool(label_shift_test(x, bag_target(bag, counts=counts[bag])).reject)
        seen[f"{separation} apart"] = alarms
    return {"seen": seen, "draws": repeats}


def _numbers(bags: str) -> tuple[int, int]:
    n_bags, size = bags.split(" of ")
    return int(n_bags), int(size)


PARTS: dict[str, Callable[..., Row]] = {"null": false_alarms, "drift": drift, "tilt": tilt}


def measure(part: str, case: dict[str, Any], **settings: Any) -> Row:
    return PARTS[part](**case, **settings)


def tasks(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    null = [
        (dataset, f"{N_INSTANCES[dataset] // size} of {size}")
        for dataset in ("adult", "magic")
        for size in (8, 32, 128, 512)
    ]
    null += [(columns, sizes) for columns in COLUMNS for sizes in SIZES]
    settings = {"repeats": options.repeats, "level": options.level}
    for columns, bags in null:
        yield {"part": "null", "case": {"columns": columns, "bags": bags}, **settings}
    draws = {"repeats": max(options.repeats // 4, 1)}
    for bags in ("512 of 8", "100 of 50", "20 of 200"):
        for drifting in ("a tenth", "all"):
            for delta in (0.1, 0.2, 0.5, 1.0, 2.0):
                case = {"bags": bags, "drifting": drifting, "delta": delta}
                yield {"part": "drift", "case": case, **draws}
    for bags in ("10 of 50", "50 of 8", "50 of 50"):
        for drifting in ("lowest", "highest", "along the line"):
            for delta in (1.0, 3.0, 10.0):
                case = {"bags": bags, "drifting": drifting, "delta": delta}
                yield {"part": "tilt", "case": case, **draws}


def rate(hits: int, draws: int) -> str:
    """Share with its 95% interval."""
    interval = binomtest(hits, draws).proportion_ci(method="wilson")
    return f"{hits / draws:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def of_drift(row: Row) -> list[str]:
    case, draws, named = row["case"], row["draws"], row["bags named"]
    n_bags, some = _numbers(case["bags"])[0], case["drifting"] == "a tenth"
    return [
        *_about(case),
        f"{row['seen'] / draws:.2f}",
        f"{row['worst is right'] / draws:.2f}" if some else "",
        f"{named / draws:.1f} of {n_bags // 10 if some else n_bags}",
        f"{row['right'] / named:.2f}" if named and some else "",
    ]


def _about(case: dict[str, Any]) -> list[str]:
    return [case["bags"], case["drifting"], f"{case['delta']:g}"]


def page(rows: list[Row]) -> list[str]:
    null, drifts, tilts = ([row for row in rows if row["part"] == part] for part in PARTS)
    level, draws = null[0]["level"], null[0]["alarms"]["whole test"][1]
    return [
        f"## False alarms at level {level:g}, {draws} draws, with 95% intervals",
        "",
        "The assumption holds here. Adult has 108 columns, MAGIC 10, the others 10.",
        "",
        *table(
            ["columns", "bags", "whole test", "any single bag", "p-value of one score"],
            [
                [*row["case"].values(), *(rate(*found) for found in row["alarms"].values())]
                for row in null
            ],
        ),
        "",
        f"## Drift of one of 10 columns, {drifts[0]['draws']} draws",
        "",
        "Shift by δ standard deviations within a class, of random sign. *Seen*: the column's",
        "adjusted p-value is at most 0.05. *Worst is right*: the first bag in the table drifts.",
        "*Bags named*: adjusted p-value at most 0.05, per draw; *right*: share that does drift.",
        "",
        *table(
            ["bags", "drifting", "δ", "seen", "worst is right", "bags named", "right"],
            map(of_drift, drifts),
        ),
        "",
        f"## Drift that goes with the proportions, {tilts[0]['draws']} draws",
        "",
        "Proportions lie between 0 and 0.7. The fifth of the bags with the lowest or highest ones",
        "shifts by δ, or every bag by δ times its share of the highest: that is what classes",
        "further apart would give, and is seen only if too steep for that. Share of draws in which",
        "the test rejects, with classes one and three standard deviations apart.",
        "",
        *table(
            ["bags", "drifting", "δ", "seen, 1 apart", "seen, 3 apart"],
            [
                [*_about(row["case"]), *(f"{n / row['draws']:.2f}" for n in row["seen"].values())]
                for row in tilts
            ],
        ),
    ]


STUDY = Study(
    name="assumption",
    title="Test of the assumption",
    keys=["part", "case"],
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--repeats": {
            "type": int,
            "default": 200,
            "help": "draws of each null; of drift a quarter of them",
        },
        "--level": {"type": float, "default": 0.05, "help": "level of the test"},
    },
)
