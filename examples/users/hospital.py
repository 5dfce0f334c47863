"""A hospital: fifteen wards report how many patients were infected, and not who.

Fifteen bags are few. What the commands say must be wide enough, or refused; a few known labels
help. Wards whose numbers are all alike teach nothing, and are refused.

Run it with ``python examples/users/hospital.py [--patients 60]``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from trial import Trial

WARDS = 15


def make_wards(n: int, shares: Any, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Patients with their hidden infection, and infections by ward."""
    rng = np.random.default_rng(seed)
    ward = np.repeat(np.arange(len(shares)), n)
    infected = np.concatenate([rng.permutation(n) < round(n * share) for share in shares])
    patients = pd.DataFrame({"ward": [f"ward {k + 1}" for k in ward]})
    patients["age"] = rng.normal(60, 15, len(ward)).round()
    patients["fever"] = (37 + rng.gamma(1.0, 0.4, len(ward)) + 1.0 * infected).round(1)
    patients["crp"] = np.exp(rng.normal(1, 0.8, len(ward)) + 1.2 * infected).round(1)
    patients.loc[rng.uniform(size=len(ward)) < 0.1, "crp"] = np.nan
    patients["infected"] = infected.astype(int)
    counts = patients.groupby("ward", sort=False)["infected"].sum().reset_index()
    return patients, counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through the commands; 1 if anything they say is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=60, help="of each ward")
    options = parser.parse_args(arguments)
    trial = Trial()
    shares = np.random.default_rng(0).uniform(0.05, 0.6, WARDS)
    patients, counts = make_wards(options.patients, shares, seed=1)
    others, _ = make_wards(options.patients, np.full(40, 0.3), seed=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hidden = patients.drop(columns="infected")
        hidden.to_csv(folder / "patients.csv", index=False)
        counts.to_csv(folder / "wards.csv", index=False)
        others.drop(columns="infected").to_csv(folder / "others.csv", index=False)
        # a few labels are known
        known = patients["infected"].where(np.random.default_rng(3).uniform(size=len(hidden)) < 0.1)
        hidden.assign(seen=known).to_csv(folder / "some.csv", index=False)

        told = ("--bag", "ward", "--positives", "infected")
        widths = {}
        for what, table, extra in (
            ("counts alone", "patients.csv", ()),
            ("with some labels", "some.csv", ("--labels", "seen")),
        ):
            model = folder / "model.unbag"
            found = trial.run_json(
                *("fit", folder / table, folder / "wards.csv", *told, *extra),
                *("--model", "linear", "-o", model, "-q"),
            )
            trial.run("predict", model, folder / "others.csv", "-o", folder / "s.csv", "-q")
            auc = roc_auc_score(others["infected"], pd.read_csv(folder / "s.csv")["score"])
            one = found["evaluation"]["estimates"]["roc_auc"]
            trial.check(f"AUC, {what}", one["value"], auc, (one["low"], one["high"]))
            widths[what] = one["high"] - one["low"]
        print(f"  widths of the intervals: {widths}")

        alike, same = make_wards(options.patients, np.full(WARDS, 0.3), seed=4)
        alike.drop(columns="infected").to_csv(folder / "alike.csv", index=False)
        same.to_csv(folder / "same.csv", index=False)
        tables = (folder / "alike.csv", folder / "same.csv")
        said = trial.run("fit", *tables, *told, "-o", folder / "no.unbag", "-q", code=1)
        print(f"  {said.splitlines()[-1]}")
        trial.expect("no model was saved", not (folder / "no.unbag").exists())
    return trial.end()


if __name__ == "__main__":
    raise SystemExit(main())
