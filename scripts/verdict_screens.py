"""Photograph a page of each verdict for docs/evaluation.md; needs Chromium.

python scripts/verdict_screens.py
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from unbag import LLPClassifier, bags_from_frame
from unbag.datasets import load_flights, make_gaussian_bags
from unbag.reports import model_report
from unbag.tables import make_classifier

SCREENS = Path(__file__).parents[1] / "docs" / "screens"
CLOUDS = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)


def alike() -> Any:
    """The clouds, with rows of a bag drawn to the same side."""
    drawn = 0.15 * np.random.default_rng(0).normal(size=(40, CLOUDS.X.shape[1]))
    return CLOUDS.X + drawn[np.unique(CLOUDS.y["bag"], return_inverse=True)[1]]


def flights() -> Any:
    """Flights and how many of a day were late."""
    found = load_flights()
    return bags_from_frame(found.frame, found.days, on="date", positives="late")


CASES: dict[str, tuple[str, Any, Any]] = {
    "supported": ("Two clouds", LLPClassifier(kernel=None), lambda: (CLOUDS.X, CLOUDS.y)),
    "doubtful": (
        "Two clouds, and rows of a bag that are alike",
        LLPClassifier(kernel=None),
        lambda: (alike(), CLOUDS.y),
    ),
    "refuted": ("Flights that were late, by day", make_classifier("linear"), flights),
}


def main() -> None:
    """Make the pages, and check that each has its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        for verdict, (title, model, data) in CASES.items():
            report = model_report(model, *data(), title=title)
            if report.evaluation.verdict.name != verdict:
                raise SystemExit(f"{title!r} is {report.evaluation.verdict.name}, not {verdict}.")
            page = report.save(Path(folder) / f"{verdict}.html")
            shot = SCREENS / f"verdict-{verdict}.png"
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,1000"]
            subprocess.run(
                ["chromium", *options, f"--screenshot={shot}", f"file://{page}"], check=True
            )


if __name__ == "__main__":
    main()
