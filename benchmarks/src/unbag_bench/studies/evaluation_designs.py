"""Intervals and verdicts without labels, where assumptions are true and where they are not.

Each set of `unbag_bench.evaluation_designs` is evaluated by `cross_val_evaluate` with the linear
`LLPClassifier` (for scores that come from no model, by `evaluate`). The truth is the measure of the
model trained on all bags, or of that score, on 100,000 rows of new bags of the same size. Real sets are the bags
of Franco et al. (a quarter of 6,000 rows is left out for the truth), states, days and
neighbourhoods where their files are at hand, and days of `load_flights` without the delay at
departure: two halves of the year, and winter and April.

*Falsely consistent* is the proportion of sets in which an assumption is not rejected although the
estimate under it misses the truth.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from unbag import LLPClassifier, bags_from_frame
from unbag.datasets import load_flights
from unbag.evaluation import Evaluation, cross_val_evaluate, evaluate
from unbag.tables import make_classifier
from unbag_bench.evaluation_designs import DESIGNS, draw_set
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import LANDSCAPE, NATURAL, count_target, load_landscape, load_natural

_ASSUMPTIONS = ("label_shift", "covariate_shift")
_RESAMPLES = 300
_REAL_ROWS = 6_000
# Periods of `load_flights`: training until, evaluation from and until.
_PERIODS = {"halves": ("2013-07", "2013-07", "2014"), "winter": ("2013-04", "2013-04", "2013-05")}


def measure(group: str, set: str) -> Row:  # noqa: A002
    try:
        return _measure(group, set)
    except ValueError as error:
        return {"refused": str(error)}


def _measure(group: str, name: str) -> Row:
    if group in DESIGNS:
        return simulated(group, int(name))
    if group == "flights without dep_delay":
        return flights(name)
    X, labels, bag = (load_natural if group == "natural" else load_landscape)(name)
    rows = np.random.default_rng(37).permutation(len(labels))[:_REAL_ROWS]
    test, train = np.split(rows, [len(rows) // 4])
    model, y = LLPClassifier(kernel=None), count_target(bag[train], labels[train])
    found = _cross_val(model, X[train], y, bag[train])
    scores = model.fit(X[train], y).decision_function(X[test])
    return _record(found, scores, labels[test])


def simulated(name: str, seed: int) -> Row:
    """Evaluate a simulated set."""
    drawn = draw_set(name, seed)
    X, labels, bag = drawn.rows
    y = count_target(bag, labels)
    if drawn.score is not None:
        found = evaluate(y, drawn.score(drawn.rows), X=X, n_resamples=_RESAMPLES)
        return _record(found, drawn.score(drawn.test), drawn.test.labels)
    model = LLPClassifier(kernel=None)
    found = _cross_val(model, X, y, bag)
    return _record(found, model.fit(X, y).decision_function(drawn.test.X), drawn.test.labels)


def flights(period: str) -> Row:
    """Train on a part of the year, without the delay at departure, and evaluate on a later one."""
    data = load_flights()
    frame, late = data.frame.drop(columns="dep_delay"), np.asarray(data.target)
    date, (until, start, end) = frame["date"].astype(str), _PERIODS[period]
    before = (date < until).to_numpy()
    after = ((date >= start) & (date < end)).to_numpy()
    how: dict[str, Any] = {"on": "date", "positives": "late", "unmatched": "drop"}
    X, y = bags_from_frame(frame[before], data.days, **how)
    X_new, y_new = bags_from_frame(frame[after], data.days, **how)
    model = make_classifier("linear").fit(X, y)
    scores = model.decision_function(X_new)
    found = evaluate(y_new, scores, n_resamples=_RESAMPLES)
    return _record(found, scores, late[after])


def _cross_val(model: Any, X: Any, y: Any, bag: Any) -> Evaluation:
    folds = min(5, len(np.unique(bag)))
    return cross_val_evaluate(model, X, y, cv=folds, n_resamples=_RESAMPLES)


def _record(found: Evaluation, scores: Any, labels: Any) -> Row:
    """The verdicts, and each estimate next to the truth."""
    if scores.ndim == 1:
        truths = {
            "roc_auc": roc_auc_score(labels, scores),
            "balanced_accuracy": balanced_accuracy_score(labels, scores > 0),
        }
    else:
        truths = {"balanced_accuracy": balanced_accuracy_score(labels, scores.argmax(axis=1))}
    row: Row = {
        "n_bags": found.n_bags,
        "n_rows": found.n_instances,
        "rests_on": found.verdict.assumption,
        "verdicts": {name: one.name for name, one in found.verdicts.items()},
        "signal": found.signal,
        "slope": None if found.effect is None else _finite(found.effect.slope_unconstrained),
    }
    for name, truth in truths.items():
        by = found.by_assumption
        row[name] = {
            "truth": float(truth),
            "value": _finite(found[name].value),
            "interval": found[name].shown_limits,
            **{key: by[key][name].shown_limits for key in (*_ASSUMPTIONS, "sensitivity")},
        }
    return row


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def tasks(options: argparse.Namespace) -> list[dict[str, str]]:
    names = [name for name in DESIGNS if options.group is None or name in options.group]
    seeds = range(options.first, options.first + options.repeats)
    found = [{"group": name, "set": str(seed)} for seed in seeds for name in names]
    wanted = options.group or ["flights without dep_delay", "landscape", "natural"]
    if "flights without dep_delay" in wanted:
        found += [{"group": "flights without dep_delay", "set": name} for name in _PERIODS]
    if "landscape" in wanted:
        found += [
            {"group": name.split("-")[0], "set": name} for name in LANDSCAPE[:: options.every]
        ]
    if "natural" in wanted:
        found += [{"group": "natural", "set": name} for name in NATURAL]
    return found


def page(rows: list[Row]) -> list[str]:
    found = [row for row in rows if "refused" not in row]
    lines = ["\n".join(__doc__.splitlines()[2:]).strip(), ""]
    header = [
        "bags",
        "assumption that holds",
        "sets",
        "interval covers",
        "width",
        "label shift: not rejected",
    ]
    header += ["covariate shift: not rejected", "falsely consistent", "inconclusive"]
    header += ["sensitivity range covers", "its width"]
    for name in ("roc_auc", "balanced_accuracy"):
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in found:
            if name in row:
                groups[row["group"]].append(row)
        lines += [f"## {name}", ""]
        lines += [*table(header, [_line(group, own, name) for group, own in groups.items()]), ""]
    return [*lines, f"{len(rows) - len(found)} of {len(rows)} sets were refused."]


def _line(group: str, rows: list[Row], name: str) -> list[str]:
    found = [row[name] for row in rows]

    def covers(key: str) -> Any:
        return np.array([_inside(one, key) for one in found])

    named = {
        key: np.array([row["verdicts"][key] == "not_rejected" for row in rows])
        for key in _ASSUMPTIONS
    }
    # an assumption counts where it is what estimates rest on
    rests = {key: np.array([row["rests_on"] == key for row in rows]) for key in _ASSUMPTIONS}
    false = sum(rests[key] & ~covers(key) for key in _ASSUMPTIONS)
    either = np.array([row["rests_on"] in _ASSUMPTIONS for row in rows])
    design = DESIGNS.get(group)
    if design is None:
        holds = "?"
    else:
        holds = design.holds or ("none" if design.detectable else "none, not detectable")
    return [
        group,
        holds.replace("_", " "),
        str(len(rows)),
        f"{covers('interval').mean():.2f}",
        f"{_width(found, 'interval'):.2f}",
        *(f"{named[key].mean():.2f}" for key in _ASSUMPTIONS),
        f"{np.mean(false):.2f}",
        f"{np.mean(~either):.2f}",
        f"{covers('sensitivity').mean():.2f}",
        f"{_width(found, 'sensitivity'):.2f}",
    ]


def _inside(one: dict[str, Any], key: str) -> bool:
    low, high = one[key]
    return bool(low - 1e-9 <= one["truth"] <= high + 1e-9)


def _width(found: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([one[key][1] - one[key][0] for one in found]))


STUDY = Study(
    name="evaluation_designs",
    title="Intervals and verdicts without labels, in bags that would mislead them",
    keys=("group", "set"),
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--group": {"type": lambda text: text.split(";"), "help": "groups, joined by semicolons"},
        "--repeats": {"type": int, "default": 100, "help": "sets of each design"},
        "--first": {"type": int, "default": 0, "help": "first seed"},
        "--every": {"type": int, "default": 4, "help": "of the landscape sets, every n-th"},
    },
)
