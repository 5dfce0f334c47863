"""Does what an evaluation says hold? Verdicts and intervals against the truth, in all worlds.

Groups of bag sets:

- ``natural``: states, days, neighbourhoods; ``naive``, ``simple``, ``intermediate`` and ``hard``:
  the bags of Franco et al. by what they depend on. 16,000 and 8,000 rows, of which three quarters
  train. Their scores take long, and are kept in the folder of the data.
- ``looks``, ``odds``, ``effects``, ``correlated``: simulated. Label shift; covariate
  shift; the same, but for an effect of the bag on the log-odds, of several sizes and independent of
  its rows; so, but for an effect that goes along with the bag's mean score, which no count shows.
- ``many``: as ``looks``, with 80 bags in every set, where intervals are narrow.

A linear model is trained and evaluated as `cross_val_evaluate` does. The truth is the AUC and the
balanced accuracy of the model trained on all bags, on other rows: those left out of the real sets,
and 20,000 of 400 new bags of the simulated ones. Labels are used for nothing else. *By W* is what
would be said if every set were taken to follow label shift.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from unbag import LLPClassifier
from unbag.evaluation.checks import check_columns
from unbag.evaluation.evaluation import evaluate_rows
from unbag.evaluation.held_out import FoldScores, OutOfFold, ScoredRows, cross_fit
from unbag.evaluation.uncertainty import Uncertainty
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import (
    LANDSCAPE,
    NATURAL,
    count_target,
    data_folder,
    load_landscape,
    load_natural,
)

ROWS = {"natural": 16_000, "landscape": 8_000}
WORLDS = ("looks", "odds", "effects", "correlated", "many")
_MEASURES = ("roc_auc", "balanced_accuracy")
_N_FEATURES = 5
_SPANS = ((0.0, 0.5), (0.2, 0.8), (0.5, 1.0), (0.05, 0.35))

Set = dict[str, Any]


def score(X: Any, labels: Any, bag: Any, X_test: Any, labels_test: Any) -> Set:
    """Held-out scores of the rows, and what the model of all bags is truly worth."""
    y = count_target(bag, labels)
    model = LLPClassifier(kernel=None)
    held_out = cross_fit(model, X, y, cv=min(5, len(np.unique(bag))))
    final = model.fit(X, y).decision_function(X_test)
    columns = np.empty((len(y), 3))
    for number, part in enumerate(held_out.parts):
        columns[held_out.fold == number] = np.stack(part[:3], axis=1)
    return {
        "columns": columns,
        "common": np.stack([part.common for part in held_out.parts]),
        "fold": held_out.fold,
        "bag": np.unique(bag, return_inverse=True)[1],
        "label": labels,
        "X": X.astype(np.float32),
        "roc_auc": roc_auc_score(labels_test, final),
        "balanced_accuracy": balanced_accuracy_score(labels_test, final > 0),
    }


def score_real(kind: str, name: str) -> Set:
    """Score a real set, three quarters of its rows to train and the others to test."""
    X, labels, bag = (load_natural if kind == "natural" else load_landscape)(name)
    rows = np.random.default_rng(0).permutation(len(labels))[: ROWS[kind]]
    test, train = np.split(rows, [len(rows) // 4])
    return score(X[train], labels[train], bag[train], X[test], labels[test])


def simulate(world: str, seed: int) -> Set:
    """Draw a set of bags at random: how many, how large, how different, how hard to tell."""
    rng = np.random.default_rng([seed, WORLDS.index(world)])
    n_bags, size = int(rng.choice([12, 20, 40, 80])), int(rng.choice([20, 50, 100, 300]))
    n_bags = 80 if world == "many" else n_bags
    size = min(size, 12_000 // n_bags)
    sizes = np.full(n_bags, size)
    if rng.random() < 0.5:
        sizes = np.maximum(5, rng.poisson(size * rng.gamma(4, 0.25, n_bags)))
    slope = rng.normal(size=_N_FEATURES)
    slope *= rng.choice([0.7, 1.5, 2.5]) / np.linalg.norm(slope)
    setting = {
        "span": _SPANS[rng.integers(len(_SPANS))],
        "between": rng.choice([0.3, 0.6, 1.0]),
        "intercept": rng.choice([-1.0, -0.5, 0.0]),
        "effect": {"effects": rng.choice([0.1, 0.3, 0.6]), "correlated": 0.3}.get(world, 0.0),
        "along": rng.choice([-0.5, 0.5, 1.0]) if world == "correlated" else 0.0,
    }
    drawn = [_draw(world, rng, n, slope, setting) for n in (sizes, np.full(400, 50))]
    (X, labels, bag), (X_test, labels_test, _) = drawn
    return score(X, labels, bag, X_test, labels_test)


def _draw(
    world: str, rng: np.random.Generator, sizes: Any, slope: Any, setting: dict[str, Any]
) -> tuple[Any, NDArray[np.int64], NDArray[np.intp]]:
    bag = np.repeat(np.arange(len(sizes)), sizes)
    noise = rng.normal(size=(len(bag), _N_FEATURES))
    if world in ("looks", "many"):
        share = rng.uniform(*setting["span"], size=len(sizes))
        labels = rng.random(len(bag)) < share[bag]
        return noise + np.outer(labels - 0.5, slope), labels.astype(np.int64), bag
    shift = rng.normal(size=(len(sizes), _N_FEATURES)) * setting["between"]
    effect = setting["effect"] * rng.normal(size=len(sizes)) + setting["along"] * (shift @ slope)
    X = noise + shift[bag]
    labels = rng.random(len(bag)) < expit(X @ slope + setting["intercept"] + effect[bag])
    return X, labels.astype(np.int64), bag


def judge(found: Set) -> dict[str, Any]:
    """What an evaluation says of a set, beside the truth."""
    y = count_target(found["bag"], found["label"])
    fold = found["fold"]
    parts = [
        FoldScores(*found["columns"][fold == number].T, common)
        for number, common in enumerate(found["common"])
    ]
    rows = ScoredRows.from_folds(y, OutOfFold(parts, fold), check_columns(y, found["X"]))
    said = evaluate_rows(rows, 0.0, "empirical", Uncertainty())
    row: dict[str, Any] = {
        "verdict": said.verdict.name,
        "world": None if said.effect is None else said.effect.shift_type,
        "n_bags": said.n_bags,
        "n_rows": said.n_instances,
    }
    for name in _MEASURES:
        low, high = said[name].shown_limits
        before = said.by_assumption["label_shift"][name]
        row[name] = {
            "truth": float(found[name]),
            "value": said[name].value,
            "low": low,
            "high": high,
            "looks": [before.value, before.low, before.high],
            "odds": [
                getattr(said.by_assumption["covariate_shift"][name], k)
                for k in ("value", "low", "high")
            ],
        }
    return row


def kept(kind: str, name: str) -> Path:
    """Where the scores of a real set are kept."""
    return data_folder() / "scores" / f"{kind}-{name}.npz"


def real_sets(groups: list[str]) -> Iterator[tuple[str, str]]:
    """Kinds and names of the real sets of some groups."""
    yield from (("natural", name) for name in NATURAL if "natural" in groups)
    for name in LANDSCAPE:
        if "landscape" in groups or name.split("-")[0] in groups:
            yield "landscape", name


def scores_of(group: str, name: str) -> Set:
    """Scores of a set, simulated or kept."""
    if group in WORLDS:
        return simulate(group, int(name))
    kind = "natural" if group == "natural" else "landscape"
    path = kept(kind, name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **score_real(kind, name))
    return dict(np.load(path))


def measure(group: str, set: str) -> Row:  # noqa: A002
    try:
        return judge(scores_of(group, set))
    except ValueError as error:
        # nothing was said, so that nothing was wrong; counted apart
        return {"refused": str(error)}


def tasks(options: argparse.Namespace) -> list[dict[str, str]]:
    found = [
        (name.split("-")[0] if kind == "landscape" else kind, name)
        for kind, name in real_sets(options.group)
    ]
    seeds = range(options.first, options.first + options.repeats)
    found += [(world, str(seed)) for world in WORLDS if world in options.group for seed in seeds]
    return [{"group": group, "set": name} for group, name in found]


def page(rows: list[Row]) -> list[str]:
    fresh = [row for row in rows if row["group"] in WORLDS and int(row["set"]) >= FIRST_FRESH]
    first = [row for row in rows if row not in fresh]
    refused = [row for row in rows if "refused" in row]
    return [
        "\n".join(__doc__.splitlines()[2:]).strip(),
        "",
        *_tables(first, "##"),
        f"{len(refused)} sets were refused: too few bags of different shares to be evaluated.",
        "",
        "## Sets drawn when all was settled",
        "",
        "Seeds that nothing was tried on before.",
        "",
        *_tables(fresh, "###"),
        "## Which world bags seem to live in",
        "",
        "What scores of bags held out hint at: label shift, covariate shift, or nothing.",
        "",
        *table(["bags", "sets", *HINTS], _hint_lines(rows)),
        "",
        "## Real bags, one by one",
        "",
        *table(
            [
                "bags",
                "n",
                "verdict",
                "world",
                "AUC",
                "said",
                "if looks are the same",
                "if odds are",
            ],
            map(_one_by_one, (r for r in rows if r["group"] == "natural" and "roc_auc" in r)),
        ),
    ]


def _tables(rows: list[Row], level: str) -> list[str]:
    header = ["bags", "sets", "truth held (95% interval)", "mean width", "by W: held"]
    header += ["by W: width", *VERDICTS, "supported, and truth outside"]
    lines = []
    for name in _MEASURES:
        cells = [_line(group, own, name) for group, own in _by_group(rows, name).items()]
        lines += [f"{level} {name}", "", *table(header, cells), ""]
    return lines


def _line(group: str, rows: list[Row], name: str) -> list[str]:
    found = [row[name] for row in rows]
    held = np.array([f["low"] <= f["truth"] <= f["high"] for f in found])
    looks = np.array([f["looks"] for f in found])
    before = [low <= f["truth"] <= high for f, (_, low, high) in zip(found, looks, strict=True)]
    verdict = np.array([row["verdict"] for row in rows])
    spread = np.diff(np.clip(looks[:, 1:], 0, 1))
    interval = binomtest(int(held.sum()), len(held)).proportion_ci(method="wilson")
    return [
        group,
        str(len(rows)),
        f"{held.mean():.3f} ({interval.low:.3f} to {interval.high:.3f})",
        f"{np.mean([f['high'] - f['low'] for f in found]):.3f}",
        f"{np.mean(before):.3f}",
        f"{spread.mean():.3f}",
        *(f"{np.mean(verdict == v):.2f}" for v in VERDICTS),
        f"{np.mean((verdict == 'supported') & ~held):.3f}",
    ]


def _by_group(rows: list[Row], name: str) -> dict[str, list[Row]]:
    """Rows that say something of this name."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if name in row:
            groups[row["group"]].append(row)
    return groups


def _hint_lines(rows: list[Row]) -> list[list[str]]:
    lines = []
    for group, own in _by_group(rows, "world").items():
        found = [row["world"] for row in own]
        lines.append(
            [group, str(len(own)), *(str(sum(map(found.count, names))) for names in HINTS.values())]
        )
    return lines


def _one_by_one(row: Row) -> list[str]:
    found = row["roc_auc"]
    said = (found["value"], found["low"], found["high"])
    return [
        row["set"],
        str(row["n_bags"]),
        row["verdict"],
        row["world"] or "unsure",
        f"{found['truth']:.3f}",
        *(
            f"{v:.3f} ({low:.3f} to {high:.3f})"
            for v, low, high in (said, found["looks"], found["odds"])
        ),
    ]


VERDICTS = ("supported", "doubtful", "refuted")
# Rows of commit 206f41b and before name the assumptions otherwise.
HINTS = {
    "label shift": ("looks", "label_shift"),
    "covariate shift": ("odds", "covariate_shift"),
    "no hint": (None,),
}
FIRST_FRESH = 1000
STUDY = Study(
    name="evaluation",
    title="Does what an evaluation says hold?",
    keys=["group", "set"],
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--group": {
            "type": lambda text: text.split(","),
            "default": ["natural", "landscape", *WORLDS],
        },
        "--repeats": {"type": int, "default": 200, "help": "simulated sets of each group"},
        "--first": {"type": int, "default": 0, "help": "first seed"},
    },
)
