"""How often `unbag.evaluation.monitor` raises an alarm: when nothing has changed, and when it has.

A model is trained on the bags of one month and held against those of the next. In the first two
settings there is label shift, and rows of a bag are independent or alike for a reason of their
own; in the others covariate shift, without and with an effect of their bag. Real bags (states,
days, airlines, neighbourhoods) are halved at random: a model of one half is held against the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.special import expit, logit

from unbag import LLPClassifier, bag_target
from unbag.evaluation import (
    cross_fit,
    cross_val_evaluate,
    evaluate,
    make_monitoring_reference,
    monitor,
)
from unbag.evaluation.monitoring import Quality
from unbag_bench.study import Row, Study, seeds_of, table
from unbag_bench.suites import count_target, load_natural

N_BAGS, SIZES = 50, (20, 80)
N_DRAWS = 100
WORLDS = ("looks", "looks, rows of a bag alike", "odds", "odds, effect of bags")
CHANGES = {
    "nothing": "",
    "larger bags": "four times as many rows in each",
    "other shares": "log-odds of the classes + 0.8",
    "slightly other shares": "log-odds of the classes + 0.3",
    "other rows": "the first feature + 0.7 in all rows, labels as the rows have them",
    "other concept": "the second feature tells what the first told",
    "half the concept": "the first feature tells half of what it told",
    "other shares, real": "negatives left out, so that the odds are exp(0.8) times as large",
    "other concept, real": "half of the labels dealt out anew among all rows",
}
REAL = ("votes", "demographics", "flights", "flights-carrier", "stops")
REAL_CHANGES = ("nothing", "other shares, real", "other concept, real")
N_REAL = 4000
# Nothing is wrong, so that alarms are false; and changes that are harder to find.
QUIET = ("nothing", "larger bags")
SMALL = ("slightly other shares", "half the concept")
PER_TASK = 10

# Verdicts, and as rows of commit 206f41b and before name them.
VERDICTS = (("ok", "holds"), ("prior_shift", "drifts"), ("degraded", "broken"))

# Seeds of small changes begin here.
FIRST_SMALL = 2000


def draw(world: str, change: str, rng: Any) -> tuple[Any, Any]:
    """Rows and target of a month."""
    sizes = rng.integers(*SIZES, N_BAGS) * (4 if change == "larger bags" else 1)
    bag = np.repeat(np.arange(N_BAGS), sizes)
    own = rng.normal(size=(len(bag), 3))
    more = {"other shares": 0.8, "slightly other shares": 0.3}.get(change, 0.0)
    told = 0.5 if change == "half the concept" else 1.0
    if world.startswith("looks"):
        share = expit(logit(rng.uniform(0.1, 0.5, N_BAGS)) + more)
        labels = rng.random(len(bag)) < share[bag]
        X = own
        if world != "looks":
            X = np.sqrt(0.95) * own + np.sqrt(0.05) * rng.normal(size=(N_BAGS, 3))[bag]
        X[:, 1 if change == "other concept" else 0] += 2 * told * labels
        X[:, 0] += 0.7 * (change == "other rows")
    else:
        X = own + 0.7 * rng.normal(size=(N_BAGS, 3))[bag]
        X[:, 0] += 0.7 * (change == "other rows")
        effect = 0.5 * rng.normal(size=N_BAGS) if world != "odds" else np.zeros(N_BAGS)
        odds = 1.5 * told * X[:, 1 if change == "other concept" else 0] - 1 + more + effect[bag]
        labels = rng.random(len(bag)) < expit(odds)
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def tasks(options: Any) -> list[dict[str, Any]]:
    large = tuple(c for c in CHANGES if c not in (*SMALL, *REAL_CHANGES[1:]))
    found = []
    firsts = [*options.small[::PER_TASK], *options.seeds[::PER_TASK]]
    for first in firsts:
        changes = large if first < options.changes else QUIET
        changes = SMALL if first >= FIRST_SMALL else changes
        found += [{"world": world, "first": first, "changes": changes} for world in WORLDS]
    seeds = options.halves[::PER_TASK]
    return found + [{"world": r, "first": f, "changes": REAL_CHANGES} for f in seeds for r in REAL]


def halve(world: str, rng: Any) -> tuple[Any, Any]:
    """Rows of a real set, and those of them that are in one half of the bags."""
    X, labels, bag = load_natural(world)
    rows = rng.permutation(len(labels))[:N_REAL]
    ids = np.unique(bag)
    first = np.isin(bag[rows], rng.permutation(ids)[: len(ids) // 2])
    return (X[rows], labels[rows], bag[rows]), first


def draw_half(rows: Any, some: Any, change: str, rng: Any) -> tuple[Any, Any]:
    """Rows and target of one half, as they are or changed."""
    X, labels, bag = (column[some] for column in rows)
    if change == "other shares, real":
        keep = (labels == 1) | (rng.random(len(labels)) < np.exp(-0.8))
        X, labels, bag = X[keep], labels[keep], bag[keep]
    if change == "other concept, real":
        labels = np.where(rng.random(len(labels)) < 0.5, rng.permutation(labels), labels)
    return X, count_target(bag, labels)


def run_some(world: str, first: int, changes: tuple[str, ...]) -> list[Row]:
    """A row for each change, over some draws."""
    found: dict[str, list[Any]] = {change: [] for change in changes}
    for seed in range(first, first + PER_TASK):
        rng = np.random.default_rng([(*WORLDS, *REAL).index(world), seed])
        if world in REAL:
            rows, half = halve(world, rng)
            X, y = draw_half(rows, half, "nothing", rng)
        else:
            X, y = draw(world, "nothing", rng)
        model = LLPClassifier(kernel=None).fit(X, y)
        held_out = cross_fit(model, X, y)
        reference = make_monitoring_reference(model, X, y, out_of_fold=held_out)
        said = cross_val_evaluate(model, X, y, out_of_fold=held_out, n_resamples=N_DRAWS)
        before = auc(said, reference.shift_type)
        for change in found:
            if world in REAL:
                X, y = draw_half(rows, ~half, change, rng)
            else:
                X, y = draw(world, change, rng)
            scores, chances = model.decision_function(X), model.predict_proba(X)
            now = evaluate(y, scores, probabilities=chances, n_resamples=N_DRAWS)
            quality = Quality.of("roc_auc", before, auc(now, reference.shift_type))
            found[change].append(monitor(model, X, y, reference=reference, quality=quality))
    return [
        {
            "change": change,
            "draws": len(months),
            "verdicts": dict(Counter(month.verdict for month in months)),
            "alarms": {name: sum(m.alarms[name] for m in months) for name in months[0].alarms},
            "rows_changed": sum(month.rows_changed for month in months),
            "ratio": round(float(np.mean([m.classes[0].ratio for m in months])), 3),
            "lines": dict(Counter(month.classes[0].line.direction for month in months)),
        }
        for change, months in found.items()
    ]


def auc(evaluation: Any, world: str) -> dict[str, float]:
    return asdict(evaluation.by_assumption[world]["roc_auc"])


def page(rows: list[Row]) -> list[str]:
    lines = []
    for world in (*WORLDS, *REAL):
        for change in CHANGES:
            some = [r for r in rows if r["world"] == world and r["change"] == change]
            if not some:
                continue
            draws = sum(r["draws"] for r in some)
            verdicts = sum((Counter(r["verdicts"]) for r in some), Counter())
            alarms = sum((Counter(r["alarms"]) for r in some), Counter())
            shares = [sum(verdicts[name] for name in names) / draws for names in VERDICTS]
            by_test = ", ".join(
                f"{name} {100 * alarms[name] / draws:.0f}"
                for name in some[0]["alarms"]
                if alarms[name] >= draws / 100
            )
            lines.append(
                [
                    world,
                    change,
                    str(draws),
                    *(f"{100 * share:.1f}" for share in shares),
                    f"{100 * sum(r['rows_changed'] for r in some) / draws:.0f}",
                    f"{np.mean([r['ratio'] for r in some]):.2f}",
                    by_test,
                ]
            )
    false = [
        *(false_alarms(rows, WORLDS, change) for change in QUIET),
        f"real halves, {false_alarms(rows, REAL, 'nothing')}",
    ]
    header = ["world", "change", "months", "holds", "drifts", "broken"]
    header += ["rows have changed", "found / promised", "which tests (each at 1%)"]
    return [
        f"{N_BAGS} bags of {SIZES[0]} to {SIZES[1] - 1} rows in both months, three features, a "
        "linear model, AUC included. Per cent of months.",
        "",
        *(f"- {name}: {what}" for name, what in CHANGES.items() if what),
        "",
        f"False alarms over all worlds: {'; '.join(false)}.",
        "",
        *table(header, lines),
    ]


def false_alarms(rows: list[Row], worlds: tuple[str, ...], change: str) -> str:
    """Share of months that do not hold, with its standard error."""
    some = [row for row in rows if row["change"] == change and row["world"] in worlds]
    draws = sum(row["draws"] for row in some)
    ok = sum(row["verdicts"].get(name, 0) for row in some for name in VERDICTS[0])
    share = 1 - ok / draws
    error = np.sqrt(share * (1 - share) / draws)
    return f"{change}, {100 * share:.1f} ± {100 * error:.1f}% of {draws} months"


STUDY = Study(
    name="monitoring",
    title="Does the model still hold?",
    keys=["world", "first"],
    tasks=tasks,
    measure=run_some,
    page=page,
    options={
        "--seeds": {"type": seeds_of, "default": range(100), "help": "draws of each"},
        "--changes": {"type": int, "default": 20, "help": "of these, with large changes"},
        "--small": {
            "type": seeds_of,
            "default": range(FIRST_SMALL, FIRST_SMALL + 20),
            "help": "draws with small changes",
        },
        # halves below 100 served to make the tests careful enough
        "--halves": {
            "type": seeds_of,
            "default": range(100, 120),
            "help": "halves of each real set",
        },
    },
)
