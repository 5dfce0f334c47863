"""How often `unbag.evaluation.monitor` raises an alarm: when nothing has changed, and when it has.

A model is trained on the bags of one month and compared with those of the next. In the first two
settings there is label shift, and rows of a bag are independent or alike for a reason of their
own; in the others covariate shift, without and with an effect of their bag. Real bags (states,
days, airlines, neighbourhoods) are halved at random: a model of one half is compared with the other.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy.special import expit, logit

from unbag import LLPClassifier, bag_target
from unbag.evaluation import make_monitoring_reference, monitor
from unbag_bench.study import Row, Study, seeds_of, table
from unbag_bench.suites import count_target, load_natural

N_BAGS, SIZES = 50, (20, 80)
SETTINGS = (
    "label shift",
    "label shift, rows of a bag alike",
    "covariate shift",
    "covariate shift, bag effects",
)
CHANGES = {
    "nothing": "",
    "larger bags": "four times as many rows in each",
    "other shares": "log-odds of the classes + 0.8",
    "slightly other shares": "log-odds of the classes + 0.3",
    "other rows": "the first feature + 0.7 in all rows, labels as the rows have them",
    "other concept": "the second feature has the slope of the first",
    "half the concept": "the slope of the first feature is half of what it was",
    "other shares, real": "negatives left out, so that the odds are exp(0.8) times as large",
    "other concept, real": "half of the labels permuted among all rows",
}
REAL = ("votes", "demographics", "flights", "flights-carrier", "stops")
REAL_CHANGES = ("nothing", "other shares, real", "other concept, real")
N_REAL = 4000
# Nothing is wrong, so that alarms are false; and changes that are harder to find.
QUIET = ("nothing", "larger bags")
SMALL = ("slightly other shares", "half the concept")
PER_TASK = 10

VERDICTS = ("ok", "prior_shift", "degraded")

# Seeds of small changes begin here.
FIRST_SMALL = 2000


def draw(setting: str, change: str, rng: Any) -> tuple[Any, Any]:
    """Rows and target of a month."""
    sizes = rng.integers(*SIZES, N_BAGS) * (4 if change == "larger bags" else 1)
    bag = np.repeat(np.arange(N_BAGS), sizes)
    own = rng.normal(size=(len(bag), 3))
    more = {"other shares": 0.8, "slightly other shares": 0.3}.get(change, 0.0)
    strength = 0.5 if change == "half the concept" else 1.0
    if setting.startswith("label"):
        share = expit(logit(rng.uniform(0.1, 0.5, N_BAGS)) + more)
        labels = rng.random(len(bag)) < share[bag]
        X = own
        if setting != "label shift":
            X = np.sqrt(0.95) * own + np.sqrt(0.05) * rng.normal(size=(N_BAGS, 3))[bag]
        X[:, 1 if change == "other concept" else 0] += 2 * strength * labels
        X[:, 0] += 0.7 * (change == "other rows")
    else:
        X = own + 0.7 * rng.normal(size=(N_BAGS, 3))[bag]
        X[:, 0] += 0.7 * (change == "other rows")
        effect = 0.5 * rng.normal(size=N_BAGS) if setting != "covariate shift" else np.zeros(N_BAGS)
        odds = 1.5 * strength * X[:, 1 if change == "other concept" else 0] - 1 + more + effect[bag]
        labels = rng.random(len(bag)) < expit(odds)
    return X, bag_target(bag, counts=np.bincount(bag, labels)[bag])


def tasks(options: Any) -> list[dict[str, Any]]:
    large = tuple(c for c in CHANGES if c not in (*SMALL, *REAL_CHANGES[1:]))
    found = []
    firsts = [*options.small[::PER_TASK], *options.seeds[::PER_TASK]]
    for first in firsts:
        changes = large if first < options.changes else QUIET
        changes = SMALL if first >= FIRST_SMALL else changes
        found += [{"setting": setting, "first": first, "changes": changes} for setting in SETTINGS]
    seeds = options.halves[::PER_TASK]
    return found + [
        {"setting": r, "first": f, "changes": REAL_CHANGES} for f in seeds for r in REAL
    ]


def halve(setting: str, rng: Any) -> tuple[Any, Any]:
    """Rows of a real set, and those of them that are in one half of the bags."""
    X, labels, bag = load_natural(setting)
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


def run_some(setting: str, first: int, changes: tuple[str, ...]) -> list[Row]:
    """A row for each change, over some draws."""
    found: dict[str, list[Any]] = {change: [] for change in changes}
    for seed in range(first, first + PER_TASK):
        rng = np.random.default_rng([(*SETTINGS, *REAL).index(setting), seed])
        if setting in REAL:
            rows, half = halve(setting, rng)
            X, y = draw_half(rows, half, "nothing", rng)
        else:
            X, y = draw(setting, "nothing", rng)
        model = LLPClassifier(kernel=None).fit(X, y)
        reference = make_monitoring_reference(model, X, y)
        for change in found:
            if setting in REAL:
                X, y = draw_half(rows, ~half, change, rng)
            else:
                X, y = draw(setting, change, rng)
            found[change].append(monitor(model, X, y, reference=reference))
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


def page(rows: list[Row]) -> list[str]:
    lines = []
    for setting in (*SETTINGS, *REAL):
        for change in CHANGES:
            some = [r for r in rows if r["setting"] == setting and r["change"] == change]
            if not some:
                continue
            draws = sum(r["draws"] for r in some)
            verdicts = sum((Counter(r["verdicts"]) for r in some), Counter())
            alarms = sum((Counter(r["alarms"]) for r in some), Counter())
            shares = [verdicts[name] / draws for name in VERDICTS]
            by_test = ", ".join(
                f"{name} {100 * alarms[name] / draws:.0f}"
                for name in some[0]["alarms"]
                if alarms[name] >= draws / 100
            )
            lines.append(
                [
                    setting,
                    change,
                    str(draws),
                    *(f"{100 * share:.1f}" for share in shares),
                    f"{100 * sum(r['rows_changed'] for r in some) / draws:.0f}",
                    f"{np.mean([r['ratio'] for r in some]):.2f}",
                    by_test,
                ]
            )
    false = [
        *(false_alarms(rows, SETTINGS, change) for change in QUIET),
        f"real halves, {false_alarms(rows, REAL, 'nothing')}",
    ]
    header = ["bags", "change", "months", *(name.replace("_", " ") for name in VERDICTS)]
    header += ["rows have changed", "observed / expected", "which tests (each at 1.7%)"]
    return [
        f"{N_BAGS} bags of {SIZES[0]} to {SIZES[1] - 1} rows in both months, three features, a "
        "linear model. Per cent of months.",
        "",
        *(f"- {name}: {what}" for name, what in CHANGES.items() if what),
        "",
        f"False alarms over all settings: {'; '.join(false)}.",
        "",
        *table(header, lines),
    ]


def false_alarms(rows: list[Row], settings: tuple[str, ...], change: str) -> str:
    """Share of months that do not hold, with its standard error."""
    some = [row for row in rows if row["change"] == change and row["setting"] in settings]
    draws = sum(row["draws"] for row in some)
    ok = sum(row["verdicts"].get("ok", 0) for row in some)
    share = 1 - ok / draws
    error = np.sqrt(share * (1 - share) / draws)
    return f"{change}, {100 * share:.1f} ± {100 * error:.1f}% of {draws} months"


STUDY = Study(
    name="monitoring",
    title="Does the model still hold?",
    keys=["setting", "first"],
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
