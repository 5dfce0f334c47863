"""Whether to bend the risks of classes away from negative values.

Models minimise the corrected risk, with ``correction="nonnegative"`` and with "none", on the data
of `unbag_bench.suites`, which `fetch` gets. Two more variants ask what it is that helps: "chosen" trains
with "none" but chooses the penalty by the risk with "nonnegative", and "level" is "nonnegative"
with the intercept moved, after the fit, to where the mean probability of the training rows is their
share of positives. Labels score the models and make no choice.
"""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.metrics import f1_score, roc_auc_score

from unbag import LLPKernelClassifierCV, LLPLinearClassifierCV
from unbag_bench.study import Row, Study, plus_minus, table
from unbag_bench.suites import (
    LANDSCAPE,
    NATURAL,
    TABLES,
    draw_bags,
    load_landscape,
    load_natural,
    load_table,
    split_bags,
)

SEED = 0
ROWS = {"landscape": 6_000, "natural": 12_000, "table": 3_072}
# "kernel" has 300 landmarks, "exact" the kernel of all rows.
MODELS = ("linear", "kernel", "exact")
TITLES = {"linear": "Linear models", "kernel": "Kernel models", "exact": "Exact kernel models"}
PRIORS = ("empirical", "balanced")
MEASURES = ("f1", "accuracy", "auc")
# F1 below which a classifier has all but given up a class.
COLLAPSED = 0.1
# Groups in which rows depend on their bag through their class only, as the corrected risk assumes.
HOLDS = ("Adult, naive", "Adult, simple", "tables, low", "tables, shuffled")


@dataclass(frozen=True)
class Task:
    """Data to train and test on.

    Attributes
    ----------
    group : str
        Tasks of the same kind.
    name : str
    load : callable
        Gives X, y, X_test and labels_test.
    models : tuple of str
        Which of MODELS are tried.
    """

    group: str
    name: str
    load: Callable[[], tuple[Any, Any, Any, Any]]
    models: tuple[str, ...]


def tasks() -> list[Task]:
    """All of them."""
    found = []
    for name in LANDSCAPE:
        kind = name.split("-")[0]
        # of the sets with 5 or 10 bags only those of unequal sizes
        models = MODELS[:2] if "-equal" not in name or "not-equal" in name else MODELS[:1]
        found.append(Task(f"Adult, {kind}", name, lambda n=name: _landscape(n), models))
    found += [Task("natural", name, lambda n=name: _natural(n), MODELS[:2]) for name in NATURAL]
    for kind in ("low", "shuffled", "clustered"):
        for size in (32, 128):
            models = MODELS if size == 128 else MODELS[:2]
            found += [
                Task(
                    f"tables, {kind}, {size}",
                    f"{name}, {kind}, {size}",
                    lambda n=name, k=kind, s=size: _table(n, k, s),
                    MODELS[:1] if kind == "shuffled" else models,
                )
                for name in TABLES
            ]
    return found


def _landscape(name: str) -> tuple[Any, Any, Any, Any]:
    return split_bags(*load_landscape(name), ROWS["landscape"], SEED)


def _natural(name: str) -> tuple[Any, Any, Any, Any]:
    return split_bags(*load_natural(name), ROWS["natural"], SEED)


def _table(name: str, kind: Any, size: int) -> tuple[Any, Any, Any, Any]:
    X, labels = load_table(name)
    return draw_bags(X, labels, kind, size, ROWS["table"], SEED)


def variants(model: str) -> Iterator[tuple[str, str, str]]:
    """Correction, training prior and class prior of what is fitted."""
    for correction in ("nonnegative", "none"):
        for training in ("same", "pooled") if model == "linear" else ("pooled",):
            for prior in PRIORS:
                yield correction, training, prior
    if model != "exact":
        for prior in PRIORS:
            yield "chosen", "pooled", prior


def make_model(model: str, correction: str, training: str, prior: str) -> Any:
    """Build the classifier of a variant."""
    options = {
        "objective": "corrected",
        "training_prior": training,
        "class_prior": prior,
        "correction": "none" if correction == "chosen" else correction,
    }
    if model == "linear":
        return LLPLinearClassifierCV(**options)
    if model == "exact":
        return LLPKernelClassifierCV(approximation=None, **options)
    return LLPKernelClassifierCV(approximation="nystroem", n_components=300, **options)


def try_all(set: str, model: str) -> list[Row]:  # noqa: A002
    """One row for each variant."""
    (task,) = (task for task in tasks() if task.name == set)
    # single precision, which saves half of the time
    X, y, X_test, labels = task.load()
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    share = float(y["proportion"].mean())
    about = {
        "group": task.group,
        "rows": len(X),
        "bags": len(np.unique(y["bag"])),
        "share": round(share, 4),
        "share_test": round(float(labels.mean()), 4),
    }
    rows = []
    for correction, training, prior in variants(model):
        classifier = make_model(model, correction, training, prior)
        start = time.perf_counter()
        with warnings.catch_warnings():
            # whether it converged is a column
            warnings.simplefilter("ignore")
            classifier.fit(X, y)
        own = {
            "training_prior": training,
            "alpha": float(f"{classifier.alpha_:.1e}"),
            "converged": classifier.converged_,
            "seconds": round(time.perf_counter() - start, 2),
        }
        scores = classifier.decision_function(X_test).astype(float)
        found = {(correction, prior): scores}
        if (correction, training, prior) == ("nonnegative", "pooled", "empirical"):
            moved = scores + level(classifier.decision_function(X).astype(float), share)
            found |= {("level", prior): moved, ("level", "balanced"): moved - logit(share)}
        for (name, at), values in found.items():
            rows.append(
                about | {"correction": name, "class_prior": at} | score(labels, values) | own
            )
    return rows


def level(scores: Any, share: float) -> float:
    """What to add to scores so that their mean probability is a share."""
    reach = float(np.abs(scores).max()) + 20
    return float(brentq(lambda shift: expit(scores + shift).mean() - share, -reach, reach))


def score(labels: Any, scores: Any) -> dict[str, float]:
    """F1 of the positive class, accuracy and AUC, and the share of rows called positive."""
    called = scores > 0
    values = {
        "f1": f1_score(labels, called, zero_division=0.0),
        "accuracy": np.mean(called == labels),
        "auc": roc_auc_score(labels, scores),
        "called": called.mean(),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def page(rows: list[Row]) -> list[str]:
    """Tables of paired differences, and of collapses."""
    lines = []
    for model in MODELS:
        own = [row for row in rows if row["model"] == model]
        for training in ("same", "pooled"):
            for prior in PRIORS:
                lines += _differences(own, model, "nonnegative", "none", training, prior)
    for model in MODELS:
        own = [row for row in rows if row["model"] == model and model != "exact"]
        for other in ("chosen", "level"):
            for prior in PRIORS:
                lines += _differences(own, model, other, "none", "pooled", prior)
    return [*lines, *_collapses(rows), *_levels(rows)]


def _find(
    rows: list[Row], correction: str, training: str, prior: str
) -> dict[tuple[str, str], Row]:
    wanted = (correction, training, prior)
    keys = ("correction", "training_prior", "class_prior")
    return {
        (row["group"], row["set"]): row for row in rows if tuple(row[k] for k in keys) == wanted
    }


def _differences(
    rows: list[Row], model: str, one: str, other: str, training: str, prior: str
) -> list[str]:
    """A table of one correction less another, if there are rows of both."""
    ours, theirs = _find(rows, one, training, prior), _find(rows, other, training, prior)
    if not ours or not theirs:
        return []
    gains: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for key, row in ours.items():
        world = "assumption holds" if key[0].startswith(HOLDS) else "assumption fails"
        for group in (key[0], world, "all"):
            for measure in MEASURES:
                gains[group][measure].append(row[measure] - theirs[key][measure])
    totals = [name for name in ("assumption holds", "assumption fails", "all") if name in gains]
    lines = [
        [group, str(len(gains[group]["f1"])), *(_cell(gains[group][m]) for m in MEASURES)]
        for group in [*(name for name in gains if name not in totals), *totals]
    ]
    return [
        f'### {TITLES[model]}, {one} less {other}: trained at "{training}", used at "{prior}"',
        "",
        *table(["", "sets", "F1", "accuracy", "AUC"], lines),
        "",
    ]


def _cell(gains: list[float]) -> str:
    """Mean, standard error, and how many are above and below zero."""
    values = np.array(gains)
    up, down = int((values > 0).sum()), int((values < 0).sum())
    return f"{plus_minus(values)} ({up} up, {down} down)"


def _collapses(rows: list[Row]) -> list[str]:
    """How often F1 falls below a limit with one correction and not with the other."""
    lines = []
    for model in MODELS:
        own = [row for row in rows if row["model"] == model]
        for training in ("same", "pooled"):
            for prior in PRIORS:
                found = {
                    name: {key for key, row in of.items() if row["f1"] < COLLAPSED}
                    for name in ("nonnegative", "none", "chosen", "level")
                    if (of := _find(own, name, training, prior))
                }
                if not found:
                    continue
                bent, plain = found["nonnegative"], found["none"]
                counts = [len(bent - plain), len(plain - bent), len(bent & plain)]
                more = [
                    str(len(found[name])) if name in found else "" for name in ("chosen", "level")
                ]
                n_sets = len(_find(own, "none", training, prior))
                name = f'{model}, trained at "{training}", used at "{prior}"'
                lines.append([name, str(n_sets), *map(str, counts), *more])
    header = ["", "sets", "only nonnegative", "only none", "both", "chosen", "level"]
    return [
        f"### One class given up: sets with F1 below {COLLAPSED}",
        "",
        *table(header, lines),
        "",
    ]


def _levels(rows: list[Row]) -> list[str]:
    """Mean F1, accuracy and AUC of every variant."""
    names = ("nonnegative", "none", "chosen", "level")
    lines = []
    for model in MODELS[:2]:
        own = [row for row in rows if row["model"] == model]
        for prior in PRIORS:
            found = {name: _find(own, name, "pooled", prior) for name in names}
            groups = dict.fromkeys(key[0] for key in found["none"])
            for group in groups:
                cells = []
                for name in names:
                    inside = [row for key, row in found[name].items() if key[0] == group]
                    means = [np.mean([row[m] for row in inside]) for m in MEASURES]
                    cells.append(" ".join(f"{value:.3f}" for value in means))
                lines.append([f'{model}, "{prior}": {group}', *cells])
    return ["### Means by group: F1, accuracy and AUC", "", *table(["", *names], lines), ""]


STUDY = Study(
    name="correction",
    title="Whether to bend the risks of classes away from negative values",
    keys=["set", "model"],
    tasks=lambda _: [
        {"set": task.name, "model": model}
        for model in MODELS
        for task in tasks()
        if model in task.models
    ],
    measure=try_all,
    page=page,
)
