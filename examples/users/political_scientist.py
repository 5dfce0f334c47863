"""A political scientist: a voter file, and the votes for three candidates in 120 precincts.

Precincts differ in who lives there; whoever looks the same votes with the same odds everywhere.
Asked is how each group voted. Shares, intervals and bounds are held against the votes, which only
this script knows, and so is what the tool says of estimates that assume another world.

Run it with ``python examples/users/political_scientist.py [--precincts 120] [--voters 150]``.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from trial import Trial

from unbag import LLPClassifier, bags_from_frame
from unbag.inference import group_estimates
from unbag.paper import LMMCMClassifierCV
from unbag.tables.features import make_features

CANDIDATES = ["Ann", "Bob", "Cy"]
GROUPS = ("black", "latino", "white")


def make_election(n: int, size: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """Voters, votes by precinct, and who voted for whom."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), size)
    mix = rng.dirichlet([1.2, 1.2, 0.8], n)
    group = np.array([rng.choice(3, p=m) for m in mix[bag]])
    age = rng.normal(45, 15, n * size) + 8 * rng.normal(size=n)[bag]
    odds = np.array([[0, -0.2, -1.4], [0, 0.5, -1.1], [-1.2, -0.6, 0.5]])[group]
    odds = np.exp(odds + np.outer((age - 45) / 15, [0, 0.4, -0.3]))
    chances = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
    vote = (chances < rng.uniform(size=len(bag))[:, None]).sum(axis=1)
    names = np.array([f"P{k:03}" for k in range(n)])
    race = np.array(["white", "black", "latino"])[group]
    voters = pd.DataFrame({"precinct": names[bag], "age": age, "race": race})
    counts = {c: np.bincount(bag, vote == k, n).astype(int) for k, c in enumerate(CANDIDATES)}
    return voters, pd.DataFrame({"precinct": names, **counts}), vote


def main(arguments: Sequence[str] | None = None) -> int:
    """Make tables by group in three ways; 1 if anything that is said is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precincts", type=int, default=120)
    parser.add_argument("--voters", type=int, default=150)
    options = parser.parse_args(arguments)
    trial = Trial()
    voters, results, vote = make_election(options.precincts, options.voters)
    X, y = bags_from_frame(voters, results, on="precinct", positives=CANDIDATES)
    race = X["race"].to_numpy()
    truth = np.array([[np.mean(vote[race == g] == c) for c in range(3)] for g in GROUPS])

    print("The likelihood of the counts, which is the default")
    linear = make_pipeline(make_features(), LLPClassifier(kernel=None)).fit(X, y)
    table = group_estimates(linear, X, y, "race")
    print(table)
    for g, group in enumerate(GROUPS):
        for c, name in enumerate(CANDIDATES):
            limits = (table.low[g, c], table.high[g, c])
            trial.check(f"{group} for {name}", table.share[g, c], truth[g, c], limits)
    inside = (table.least <= truth) & (truth <= table.most)
    trial.expect("bounds hold every truth", bool(inside.all()))

    numbers = np.column_stack([(X["age"] - 45) / 15, race == "black", race == "latino"])
    numbers = numbers.astype(float)
    errors = {"likelihood": np.abs(table.share - truth).max()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        corrected = LMMCMClassifierCV(kernel="linear").fit(numbers, y)
    found = np.array([corrected.predict_proba(numbers[race == g]).mean(axis=0) for g in GROUPS])
    errors["corrected risk"] = np.abs(found - truth).max()
    print(f"  corrected risk: {found[:, 2].round(3)}")
    print(f"  truth: {truth[:, 2].round(3)}")
    for what, error in errors.items():
        print(f"  largest error of nine shares, {what}: {error:.3f}")
    trial.expect(
        "the default is nearer than the corrected risk",
        errors["likelihood"] < errors["corrected risk"],
    )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        voters.to_csv(folder / "voters.csv", index=False)
        results.to_csv(folder / "results.csv", index=False)
        tables = (folder / "voters.csv", folder / "results.csv", "--bag", "precinct")
        said = trial.run("inspect", *tables, "--positives", ",".join(CANDIDATES))
        trial.expect("candidates have their names", all(f"of {c}" in said for c in CANDIDATES))
        trial.expect("no candidate is a number", "class 0" not in said)
        trial.expect(
            "the bags speak against the other world", "not linear in the proportions" in said
        )
    return trial.end()


if __name__ == "__main__":
    raise SystemExit(main())
