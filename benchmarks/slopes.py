"""Whether the likelihood of counts finds the true slope: linear models in both worlds, simulated.

    python benchmarks/slopes.py run --repeats 200 -o results/slopes/rows.jsonl
    python benchmarks/slopes.py run --worlds classes -o results/slopes/classes.jsonl
    python benchmarks/slopes.py show results/slopes/{rows,classes}.jsonl -o results/slopes.md
    python benchmarks/slopes.py run-noise --repeats 24 -o results/slopes/noise.jsonl
    python benchmarks/slopes.py show-noise results/slopes/noise*.jsonl -o results/slopes-noise.md

The log-odds of a row are x plus a constant: the slope is 1. "looks": classes keep their look, x is
normal around ±½ given the class, and bags differ in how many positives they draw. "odds": rows keep
their odds, bags differ in where their x lie; with or without an effect of the bag on the log-odds,
and noise on the counts. A row is one fit, without a penalty, of some 4,096 rows (at least 64 bags).

With noise: both worlds, and Laplace noise on the counts of so many times the deviation of draws.
The default is fitted to noisy counts and to the true ones, and their difference kept. Ranking is
measured with nine more columns that tell nothing, for the default and the corrected risk.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from unbag import LinearMCMClassifier, bag_target
from unbag._provenance import provenance_line

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
    "rows keep their odds": (0.0, 0.0),
    "and an effect of ±.5": (0.5, 0.0),
    "and noise of 2 rows": (0.0, 2.0),
    "and both": (0.5, 2.0),
}


def fit_looks(rng: Any, shares: str, size: int) -> float:
    bag = np.repeat(np.arange(max(N_ROWS // size, FEWEST_BAGS)), size)
    chance = SHARES[shares](rng, bag[-1] + 1)
    labels = rng.random(len(bag)) < chance[bag]
    x = rng.normal(size=len(bag)) + labels - 0.5
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    return slope(x, y, 0)


def fit_odds(rng: Any, kind: str, size: int) -> float:
    effect, noise = ODDS[kind]
    bag = np.repeat(np.arange(max(N_ROWS // size, FEWEST_BAGS)), size)
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


def fit_classes(rng: Any, shares: str, size: int) -> float:
    """Three classes around the corners of a triangle: 1 is the mean of the true coefficients."""
    bag = np.repeat(np.arange(max(N_ROWS // size, FEWEST_BAGS)), size)
    chance = CLASS_SHARES[shares](rng, bag[-1] + 1)[bag]
    labels = (rng.random((len(bag), 1)) > np.cumsum(chance, axis=1)[:, :2]).sum(axis=1)
    angle = 2 * np.pi * np.arange(3) / 3
    corners = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = rng.normal(size=(len(bag), 2)) + corners[labels]
    counts = np.stack([np.bincount(bag, labels == c) for c in range(3)], axis=1)
    model = LinearMCMClassifier(alpha=1e-9, objective="likelihood", bag_effect=0, tol=1e-6)
    found = model.fit(X, bag_target(bag, counts=counts[bag])).coef_
    return float((found * corners).sum() / 3)


def slope(x: Any, y: Any, bag_effect: Any) -> float:
    model = LinearMCMClassifier(alpha=1e-9, objective="likelihood", bag_effect=bag_effect, tol=1e-6)
    return float(model.fit(x[:, None], y).coef_[0, 0])


NOISY_SHARES = ("uniform on [0, ½]", ".2 or .8", ".1 or .9")
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


def run_noisy(kind: str, size: int, ratio: float, repeats: int) -> dict[str, Any]:
    found = defaultdict(list)
    for seed in range(repeats):
        rng = np.random.default_rng([2000 + seed, size, int(10 * ratio)])
        X, exact, noisy, labels = make_noisy(rng, kind, size, ratio)
        first = LinearMCMClassifier(alpha=1e-9, tol=1e-6)
        found["slopes"].append(first.fit(X[:, :1], noisy).coef_[0, 0])
        found["looks"].append(first.looks_)
        found["exact"].append(slope(X[:, 0], exact, 0))
        for objective in ("auto", "corrected"):
            try:
                model = LinearMCMClassifier(alpha=1e-3, objective=objective).fit(X, noisy)
                area = roc_auc_score(labels, model.decision_function(X))
            except ValueError:  # refused: shares vary hardly more than noise
                area = np.nan
            found[objective].append(area)
    rounded = {name: np.round(values, 5).tolist() for name, values in found.items()}
    made = {"command": "python " + " ".join(sys.argv), "made": provenance_line()}
    return {"kind": kind, "size": size, "ratio": ratio, **rounded, **made}


def run_noise(options: argparse.Namespace) -> None:
    options.output.parent.mkdir(parents=True, exist_ok=True)
    tasks = [(kind, n, ratio) for kind in options.kinds for n in (16, 64, 128) for ratio in RATIOS]
    jobs = (delayed(run_noisy)(*task, options.repeats) for task in tasks)
    with options.output.open("w") as file:
        for row in Parallel(options.jobs, return_as="generator")(jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()


def show_noise(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for path in options.rows for line in path.read_text().splitlines()]
    lines = [
        "# Noisy counts: slopes for a true 1, and ranking",
        "",
        *dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows),
        "",
        "Noise: its deviation, in those of a count of draws at the pooled share. Slope: 1 and the",
        "mean difference between fits to noisy and to true counts, with its standard error; the",
        "median in brackets. Looks: how often classes were taken to keep their look. AUC: means of",
        "the default, of the corrected risk where that was not refused, and of their differences.",
        "",
        "| | bags of | noise | slope | looks | AUC | corrected | difference |",
        "| --- " * 8 + "|",
    ]
    for row in rows:
        found = 1 + np.array(row["slopes"]) - np.array(row["exact"])
        error = found.std(ddof=1) / np.sqrt(len(found))
        own, other = (np.array(row[name], dtype=float) for name in ("auto", "corrected"))
        ahead = (own - other)[np.isfinite(other)]
        areas = f"{own.mean():.3f} | – | – |"
        if len(ahead) > 1:
            difference = f"{ahead.mean():.3f} ± {ahead.std(ddof=1) / np.sqrt(len(ahead)):.3f}"
            areas = f"{own.mean():.3f} | {np.nanmean(other):.3f} | {difference} |"
        lines.append(
            f"| {row['kind']} | {row['size']} | {row['ratio']:g} | "
            f"{found.mean():.3f} ± {error:.3f} ({np.median(found):.3f}) | "
            f"{np.mean(row['looks']):.2f} | {areas}"
        )
    options.output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def run_one(world: str, kind: str, size: int, repeats: int) -> dict[str, Any]:
    fit = {"looks": fit_looks, "odds": fit_odds, "classes": fit_classes}[world]
    rngs = [np.random.default_rng([1000 + seed, size]) for seed in range(repeats)]
    return {
        "world": world,
        "kind": kind,
        "size": size,
        "slopes": [round(fit(rng, kind, size), 5) for rng in rngs],
        "command": "python " + " ".join(sys.argv),
        "made": provenance_line(),
    }


def run(options: argparse.Namespace) -> None:
    options.output.parent.mkdir(parents=True, exist_ok=True)
    tasks = [("looks", kind, size) for kind in SHARES for size in (2, 8, 32, 128)]
    tasks += [("odds", kind, size) for kind in ODDS for size in (8, 32, 128)]
    tasks += [("classes", kind, size) for kind in CLASS_SHARES for size in (4, 8, 16, 24)]
    tasks = [task for task in tasks if task[0] in options.worlds]
    jobs = (delayed(run_one)(*task, options.repeats) for task in tasks)
    with options.output.open("w") as file:
        for row in Parallel(options.jobs, return_as="generator")(jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                row["world"], row["kind"], row["size"], f"{np.mean(row['slopes']):.4f}", flush=True
            )


def show(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for path in options.rows for line in path.read_text().splitlines()]
    lines = [
        "# Slopes that the likelihood of counts finds, for a true 1",
        "",
        *dict.fromkeys(f"`{row['command']}`: {row['made']}" for row in rows),
        "",
        "Mean over the repeats with its standard error; the median in brackets, as the estimate of",
        "a ratio is skewed where bags tell little. An effect of ±.5 on the log-odds of all rows of",
        "a bag makes the log-odds over all bags flatter: there the slope to be found is about .96.",
        "",
    ]
    sizes = sorted({row["size"] for row in rows})
    lines += ["| | " + " | ".join(f"bags of {n}" for n in sizes) + " |"]
    lines += ["| --- " * (len(sizes) + 1) + "|"]
    table: dict[str, dict[int, str]] = defaultdict(dict)
    within = []
    for row in rows:
        found = np.array(row["slopes"])
        error = found.std(ddof=1) / np.sqrt(len(found))
        within.append(abs(found.mean() - 1) <= 2 * error)
        table[row["kind"]][row["size"]] = (
            f"{found.mean():.3f} ± {error:.3f} ({np.median(found):.3f})"
        )
    for kind, cells in table.items():
        lines.append(f"| {kind} | " + " | ".join(cells.get(n, "–") for n in sizes) + " |")
    lines += ["", f"Within two standard errors of 1: {sum(within)} of {len(within)}."]
    options.output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--repeats", type=int, default=200)
    runner.add_argument("--jobs", type=int, default=1)
    runner.add_argument("--worlds", nargs="+", default=["looks", "odds", "classes"])
    runner.add_argument("-o", "--output", type=Path, required=True)
    runner.set_defaults(call=run)
    shower = commands.add_parser("show")
    shower.add_argument("rows", type=Path, nargs="+")
    shower.add_argument("-o", "--output", type=Path, required=True)
    shower.set_defaults(call=show)
    runner = commands.add_parser("run-noise")
    runner.add_argument("--repeats", type=int, default=24)
    runner.add_argument("--jobs", type=int, default=1)
    runner.add_argument("-o", "--output", type=Path, required=True)
    kinds = [*NOISY_SHARES, "rows keep their odds"]
    runner.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    runner.set_defaults(call=run_noise)
    shower = commands.add_parser("show-noise")
    shower.add_argument("rows", type=Path, nargs="+")
    shower.add_argument("-o", "--output", type=Path, required=True)
    shower.set_defaults(call=show_noise)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
