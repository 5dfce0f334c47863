"""Whether the likelihood of counts finds the true slope: linear models in both worlds, simulated.

    python benchmarks/slopes.py run --repeats 200 -o results/slopes/rows.jsonl
    python benchmarks/slopes.py show results/slopes/rows.jsonl -o results/slopes.md

The log-odds of a row are x plus a constant: the slope is 1. "looks": classes keep their look, x is
normal around ±½ given the class, and bags differ in how many positives they draw. "odds": rows keep
their odds, bags differ in where their x lie; with or without an effect of the bag on the log-odds,
and noise on the counts. A row is one fit, without a penalty, of some 4,096 rows (at least 64 bags).
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

from unbag import LinearMCMClassifier, bag_target
from unbag.provenance import provenance_line

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


def slope(x: Any, y: Any, bag_effect: Any) -> float:
    model = LinearMCMClassifier(alpha=1e-9, objective="likelihood", bag_effect=bag_effect, tol=1e-6)
    return float(model.fit(x[:, None], y).coef_[0, 0])


def run_one(world: str, kind: str, size: int, repeats: int) -> dict[str, Any]:
    fit = fit_looks if world == "looks" else fit_odds
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
    jobs = (delayed(run_one)(*task, options.repeats) for task in tasks)
    with options.output.open("w") as file:
        for row in Parallel(options.jobs, return_as="generator")(jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                row["world"], row["kind"], row["size"], f"{np.mean(row['slopes']):.4f}", flush=True
            )


def show(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
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
    lines += ["| | " + " | ".join(f"bags of {n}" for n in sizes) + " |", "| --- " * 5 + "|"]
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
    runner.add_argument("-o", "--output", type=Path, required=True)
    runner.set_defaults(call=run)
    shower = commands.add_parser("show")
    shower.add_argument("rows", type=Path)
    shower.add_argument("-o", "--output", type=Path, required=True)
    shower.set_defaults(call=show)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
