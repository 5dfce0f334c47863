"""An ad analyst: impressions one by one, conversions by campaign only.

Nothing is dropped or prepared: an id that is different in every row, thousands of placements,
devices. A model is fitted to the campaigns of May and used on those of June; what the commands
say of it is held against who converted, which only this script knows.

Run it with ``python examples/users/ad_analyst.py [--impressions 199110] [--model auto]``.
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


def make_month(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """Impressions, conversions by campaign, and who converted: some campaigns do better."""
    rng = np.random.default_rng(seed)
    n_campaigns = max(40, n // 400)
    campaign = rng.integers(n_campaigns, size=n)
    rate = rng.beta(0.6, 3.0, n_campaigns)
    converts = rng.uniform(size=n) < rate[campaign]
    frame = pd.DataFrame({"campaign": [f"c{k:04}" for k in campaign]})
    frame["impression_id"] = 10**6 + np.arange(n)
    effects = np.array([0.8, -0.5, 0.4, 0.0, 0.0])
    for k, effect in enumerate(effects):
        frame[f"x{k}"] = rng.normal(size=n) + effect * converts
    # popular placements, and thousands that hardly anybody sees
    places = np.minimum(rng.zipf(1.5, n), max(30, n // 70))
    frame["placement"] = [f"site{k}" for k in places]
    frame["device"] = np.where(
        rng.uniform(size=n) < 0.4 + 0.2 * converts, "phone", rng.choice(["desk", "tab"], n)
    )
    counts = frame.assign(conversions=converts.astype(int)).groupby("campaign")["conversions"].sum()
    return frame, counts.reset_index(), converts


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through the commands; 1 if anything they say is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impressions", type=int, default=199_110)
    parser.add_argument("--model", default="auto")
    options = parser.parse_args(arguments)
    trial = Trial()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        converts = {}
        for month, seed in (("may", 1), ("june", 2)):
            rows, counts, converts[month] = make_month(options.impressions, seed)
            rows.to_csv(folder / f"{month}.csv", index=False)
            counts.to_csv(folder / f"{month}-campaigns.csv", index=False)
        known = ("--bag", "campaign", "--positives", "conversions")
        may, june = ((folder / f"{m}.csv", folder / f"{m}-campaigns.csv") for m in converts)

        said = trial.run("inspect", *may, *known)
        trial.expect("the id is named", "impression_id is different in every row" in said)
        trial.expect(
            "nothing speaks against the bags", "No conflict with label shift found" in said
        )

        model = folder / "model.unbag"
        how = ("--model", options.model, "-q")
        fitted = trial.run_json("fit", *may, *known, "-o", model, *how)
        trial.expect("label shift is not rejected", _verdict(fitted["evaluation"]) != "rejected")
        trial.run("predict", model, june[0], "-o", folder / "scores.csv", "-q")
        scores = pd.read_csv(folder / "scores.csv")
        auc = roc_auc_score(converts["june"], scores["score"])
        for when, found in (
            ("of folds of May", fitted["evaluation"]),
            ("of June", trial.run_json("evaluate", model, *june, *known)),
        ):
            one = found["estimates"]["roc_auc"]
            # the model is the same, and so are the people
            trial.check(f"AUC {when}", one["value"], auc, (one["low"], one["high"]))
        said = trial.run("monitor", model, *june, *known)
        trial.expect("the model still holds in June", said.startswith("No conflict found"))
        mean = scores["probability"].mean()
        share = converts["june"].mean()
        trial.check("mean probability", mean, share, (mean - 0.05, mean + 0.05))
    return trial.end()


def _verdict(evaluation: dict[str, Any]) -> str:
    name: str = evaluation["verdict"]["name"]
    return name


if __name__ == "__main__":
    raise SystemExit(main())
