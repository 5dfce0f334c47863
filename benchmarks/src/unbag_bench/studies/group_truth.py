"""How far off are shares of groups on real data where the truth is known, by ours and by others.

Each task is a table of groups by classes, of which only the margins of bags are given: registered
voters by race and party in precincts of North Carolina, all and by county; votes and party by state
(a survey, so that the cross-table is known), traffic stops by neighbourhood, late flights by day.
"margins" is `unbag.inference.group_estimates` of a model of the groups alone, "covariates" that of
a model with the other columns as well (of North Carolina, the county). "goodman" is ecological
regression, with intervals of 1.96 standard errors, "bounds" the middle of the bounds of Duncan and
Davis, "pyei" the R × C model of the package of this name (multinomial-Dirichlet, one chain of 300
draws after 300). The bands of "sensitivity" are those of intervals of margins with contextual effects,
in the group itself or in the largest other one, of up to .2, .4 and .8 standard deviations of log-odds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unbag import LLPClassifier, bag_target
from unbag.inference import group_estimates, group_sensitivity
from unbag_bench import suites
from unbag_bench.study import Row, Study, Task, table
from unbag_bench.suites import natural_frame

METHODS = ("goodman", "bounds", "margins", "covariates", "sensitivity", "pyei")
# Columns that make groups and classes, and the data they are in.
TASKS = {
    "race, party": "votes",
    "race, vote": "votes",
    "college, vote": "votes",
    "born again, vote": "votes",
    "race, stop": "stops",
    "gender, stop": "stops",
    "origin, late": "flights",
    "race, registered": "North Carolina",
}
COUNTIES = (
    "Bladen",
    "Brunswick",
    "Columbus",
    "Duplin",
    "New Hanover",
    "Pender",
    "Robeson",
    "Sampson",
)
TASKS |= {f"race, registered in {county}": county for county in COUNTIES}
# Covariates beside the group.
COLUMNS = {
    "votes": ["age", "female", "collegeed", "famincr", "bornagain", "religimp", "churchatd"],
    "stops": ["gender", "race", "hour"],
    "flights": ["sched_dep_time", "distance"],
}
STRENGTHS = (0.2, 0.4, 0.8)


def read(task: str) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Covariates, groups, classes and bags of rows."""
    source = TASKS[task]
    if task.startswith("race, registered"):
        return read_voters(source)
    frame, label, bag = natural_frame(source)
    frame = frame.reset_index(drop=True)
    what, of = task.split(", ")
    if what == "race":
        column, kept = (("racef", ("White", "Black")), ("race", ("White", "Black")))[
            source != "votes"
        ]
        group = frame[column].where(frame[column].isin(kept), "other")
    else:
        name = {"college": "collegeed", "born again": "bornagain"}.get(what, what)
        group = frame[name].astype(object).where(frame[name].notna(), "missing").astype(str)
    classes = np.asarray(label).astype(int)
    if of == "party":
        scale = frame["pid7na"].to_numpy(dtype=float)
        classes = np.where(scale < 4, 0, np.where(scale > 4, 2, 1))
    columns = [name for name in COLUMNS[source] if name in frame and what not in name]
    return frame[columns], group.to_numpy().astype(str), classes, np.asarray(bag)


def read_voters(place: str) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Registered voters of North Carolina, or of a county, a row for each."""
    table = pd.read_csv(Path(suites.__file__).parent / "data" / "north_carolina.csv")
    table = table if place == "North Carolina" else table[table["county"] == place]
    cells = table.drop(columns=["county", "precinct"])
    precinct, cell = np.divmod(np.arange(cells.size), cells.shape[1])
    number = cells.to_numpy().ravel()
    of = pd.Series(cells.columns).str.split("_", expand=True)
    columns = [] if place != "North Carolina" else ["county"]
    frame = table[columns].iloc[np.repeat(precinct, number)].reset_index(drop=True)
    race, party = of[0].to_numpy()[cell], pd.factorize(of[1])[0][cell]
    return frame, *(np.repeat(one, number) for one in (race, party, precinct))


def measure(task: str, method: str) -> Row:
    """Errors of shares, how many intervals cover the truth, and seconds of processor time."""
    X, group, label, bag = read(task)
    names, g = np.unique(group, return_inverse=True)
    _, b = np.unique(bag, return_inverse=True)
    G, B, C = len(names), int(b.max()) + 1, int(label.max()) + 1
    inside = np.zeros((B, G), dtype=int)
    np.add.at(inside, (b, g), 1)
    counts = np.zeros((B, C), dtype=int)
    np.add.at(counts, (b, label), 1)
    truth = np.array([np.bincount(label[g == k], minlength=C) / (g == k).sum() for k in range(G)])
    start = time.process_time()
    share, low, high = ESTIMATES[method](Margins(X, names, g, b, inside, counts))
    seconds = time.process_time() - start
    error = np.abs(share - truth)
    held = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
    return {
        "bags": B,
        "cells": error.size,
        "mean_error": float(np.average(error.mean(axis=1), weights=inside.sum(axis=0))),
        "largest_error": float(error.max()),
        # of sensitivity, one for each strength
        "held": np.mean(held, axis=(-2, -1)).tolist(),
        "width": np.mean(high - low, axis=(-2, -1)).tolist(),
        "seconds": round(seconds, 1),
    }


class Margins(NamedTuple):
    """Rows, their groups g and bags b, and both margins of all bags."""

    X: Any
    names: Any
    g: Any
    b: Any
    inside: Any
    counts: Any


def margins(inside: Any, counts: Any, names: Any) -> tuple[pd.DataFrame, Any]:
    """A row for each bag and group."""
    bag, group = np.nonzero(inside)
    known = counts[:, 1] if counts.shape[1] == 2 else counts
    y = bag_target(bag, counts=known[bag], multiplicity=inside[bag, group])
    return pd.DataFrame({"group": names[group]}), y


def by_margins(t: Margins) -> Any:
    cells, y = margins(t.inside, t.counts, t.names)
    found = group_estimates(LLPClassifier(kernel=None).fit(cells, y), cells, y, "group")
    return found.share, found.low, found.high


def by_sensitivity(t: Margins) -> Any:
    cells, y = margins(t.inside, t.counts, t.names)
    model = LLPClassifier(kernel=None).fit(cells, y)
    found = group_estimates(model, cells, y, "group")
    low, high = (np.stack([one] * len(STRENGTHS)) for one in (found.low, found.high))
    for k, name in enumerate(t.names):
        for c in range(t.counts.shape[1]):
            one = group_sensitivity(model, cells, y, "group", name, of=c, n_draws=20)
            least, most = np.transpose([one.band(strength) for strength in STRENGTHS])
            low[:, k, c] = np.minimum(low[:, k, c], least)
            high[:, k, c] = np.maximum(high[:, k, c], most)
    return found.share, low, high


def by_covariates(t: Margins) -> Any:
    rows = t.X.assign(group=t.names[t.g])
    cells = rows.assign(bag=t.b).value_counts(sort=False, dropna=False).reset_index()
    known, bag, number = t.counts[:, 1] if t.counts.shape[1] == 2 else t.counts, t.b, None
    if len(cells) < len(rows) / 10:
        rows, bag, number = cells[rows.columns], cells["bag"].to_numpy(), cells["count"]
    y = bag_target(bag, counts=known[bag], multiplicity=number)
    model = LLPClassifier(kernel=None).fit(rows, y)
    found = group_estimates(model, rows, y, "group", n_draws=100)
    return found.share, found.low, found.high


def by_goodman(t: Margins) -> Any:
    from unbag.inference.grouped_rows import goodman_regression

    found = goodman_regression(t.inside, t.counts / t.counts.sum(axis=1, keepdims=True))
    return found.share, found.share - 1.96 * found.error, found.share + 1.96 * found.error


def by_bounds(t: Margins) -> Any:
    outside = t.inside.sum(axis=1, keepdims=True) - t.inside
    least = np.maximum(t.counts[:, None] - outside[:, :, None], 0).sum(axis=0)
    most = np.minimum(t.counts[:, None], t.inside[:, :, None]).sum(axis=0)
    size = t.inside.sum(axis=0)[:, None]
    return (least + most) / size / 2, least / size, most / size


def by_pyei(t: Margins) -> Any:
    from pyei import RowByColumnEI

    size = t.counts.sum(axis=1)
    model = RowByColumnEI("multinomial-dirichlet-modified")
    model.fit(
        (t.inside / size[:, None]).T,
        (t.counts / size[:, None]).T,
        size,
        draws=300,
        tune=300,
        chains=1,
        cores=1,
        random_seed=0,
        progressbar=False,
        target_accept=0.9,
    )
    drawn = np.asarray(model.sampled_voting_prefs)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return drawn.mean(axis=0), low, high


ESTIMATES = {
    "goodman": by_goodman,
    "bounds": by_bounds,
    "margins": by_margins,
    "covariates": by_covariates,
    "sensitivity": by_sensitivity,
    "pyei": by_pyei,
}


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    for task in options.tasks.split("; "):
        for method in options.methods.split(","):
            if method != "covariates" or TASKS[task] not in COUNTIES:
                yield {"task": task, "method": method}


def page(rows: list[Row]) -> list[str]:
    heads = [
        "groups, classes",
        "bags",
        "method",
        "mean error",
        "largest error",
        "held",
        "width",
        "seconds",
    ]
    order = sorted(
        rows, key=lambda row: (list(TASKS).index(row["task"]), METHODS.index(row["method"]))
    )
    lines = [
        [
            row["task"],
            str(row["bags"]),
            row["method"] + (f" {STRENGTHS[k]}" if row["method"] == "sensitivity" else ""),
            f"{row['mean_error']:.3f}",
            f"{row['largest_error']:.3f}",
            f"{held:.0%} of {row['cells']}",
            f"{width:.3f}",
            f"{row['seconds']:.1f}",
        ]
        for row in order
        for k, (held, width) in enumerate(
            zip(np.atleast_1d(row["held"]), np.atleast_1d(row["width"]), strict=True)
        )
    ]
    return table(heads, lines)


STUDY = Study(
    name="group_truth",
    title="Shares of groups where the truth is known",
    keys=("task", "method"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--tasks": {"default": "; ".join(TASKS), "help": "names, by semicolons"},
        "--methods": {"default": ",".join(METHODS[:-1]), "help": "names, by commas"},
    },
)
