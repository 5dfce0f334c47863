"""What several groupings of the same rows are worth: each alone, added up, with what they share.

4,000 rows of four columns are counted by three groupings; the log-odds have known slopes.

- "crossed": 40 campaigns, 25 days and 15 regions that have nothing to do with each other. Rows keep
  their odds: cells differ in who is in them.
- "nested": 12 campaigns, the same by 10 devices (120 cells), and 25 days: every campaign is counted
  twice.
- "looks": as "crossed", but classes keep their look: rows are drawn given their class, and the odds
  of the class are the product of what campaign, day and region do.

With and without Gaussian noise of 4 rows on every count. Nobody tells the methods which world it
is. "penalty" has 40 columns, of which most do nothing, and looks at how penalties are chosen.

Real rows, of the sets that `fetch` gets: votes by state, race, decade of age and income; late
flights by day, destination, airline and airport, and hour; traffic stops by neighbourhood, hour and
race. 20,000 rows are drawn, of which three quarters train and the others test. Penalties are the
default, 1e-3, and nothing is chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from unbag import (
    LLPLinearClassifier,
    MultiGroupingClassifier,
    MultiGroupingClassifierCV,
    bag_target,
    multi_grouping_target,
)
from unbag.bags import check_groupings_target
from unbag.models.checks import DEFAULT_ALPHAS
from unbag.observations.grouped_counts import GroupedCounts
from unbag.tables.features import make_features
from unbag_bench.study import Row, Study, plus_minus, table
from unbag_bench.suites import natural_frame

N_ROWS = 4000
SLOPES = np.array([1.0, -0.5, 0.5, 0.0])
NOISE = 4.0
SETTINGS = [
    f"{kind}{noise}" for kind in ("crossed", "nested", "looks") for noise in ("", ", noise")
]
METHODS = ["first alone", "second alone", "third alone", "added up", "shared", "labels"]


# Columns that real rows are counted by, beside what makes their bags.
REAL: dict[str, dict[str, Any]] = {
    "votes": {
        "race": lambda rows: rows["racef"],
        "age": lambda rows: rows["age"] // 10,
        "income": lambda rows: rows["famincr"],
    },
    "flights": {
        "destination": lambda rows: rows["dest"],
        "airline": lambda rows: rows["carrier"] + rows["origin"],
        "hour": lambda rows: rows["sched_dep_time"] // 100,
    },
    "stops": {"hour": lambda rows: rows["hour"], "race": lambda rows: rows["race"]},
}
N_REAL, N_TRAIN = 20_000, 15_000


def make_cells(rng: Any, nested: bool) -> list[Any]:
    if not nested:
        return [rng.integers(0, n, N_ROWS) for n in (40, 25, 15)]
    campaign, device = rng.integers(0, 12, N_ROWS), rng.integers(0, 10, N_ROWS)
    return [10 * campaign + device, campaign, rng.integers(0, 25, N_ROWS)]


def draw_rows(rng: Any, cells: list[Any], slopes: Any) -> tuple[Any, Any]:
    """Rows that keep their odds, in cells that differ in who is in them."""
    X = rng.normal(size=(N_ROWS, len(slopes)))
    for cell in cells:
        X += 0.6 * rng.normal(size=(cell.max() + 1, len(slopes)))[cell]
    return X, rng.random(N_ROWS) < expit(X @ slopes - 1)


def draw_looks(rng: Any, cells: list[Any], slopes: Any) -> tuple[Any, Any]:
    """Rows of classes that keep their look, in cells that differ in the odds of the classes."""
    odds = -1 + sum(0.8 * rng.normal(size=cell.max() + 1)[cell] for cell in cells)
    labels = rng.random(N_ROWS) < expit(odds)
    return rng.normal(size=(N_ROWS, len(slopes))) + np.outer(labels - 0.5, slopes), labels


def count(rng: Any, cells: list[Any], labels: Any, noise: float) -> Any:
    targets = {}
    for name, cell in zip(("first", "second", "third"), cells, strict=True):
        counts = np.bincount(cell, labels) + noise * rng.normal(size=cell.max() + 1)
        targets[name] = bag_target(cell, counts=counts[cell], noise=noise or None)
    return multi_grouping_target(targets)


def make_data(rng: Any, setting: str, slopes: Any) -> tuple[Any, Any, Any]:
    kind, *noisy = setting.split(", ")
    cells = make_cells(rng, kind == "nested")
    X, labels = (draw_looks if kind == "looks" else draw_rows)(rng, cells, slopes)
    return X, labels, count(rng, cells, labels, NOISE if noisy else 0.0)


def deviations(X: Any, y: Any, model: Any) -> Any:
    """What the curvature of the objective says of the deviations of the slopes."""
    groupings = check_groupings_target(y)
    everything = np.ones(groupings.n_cells, dtype=bool)
    likelihood = GroupedCounts(groupings, everything, model.covariance_, looks=model.looks_)
    rows = np.column_stack([X, np.ones(len(X))])
    theta, step = np.append(model.coef_[0], model.intercept_), 1e-4
    shifts = np.concatenate([step * np.eye(len(theta)), -step * np.eye(len(theta))])
    problem = np.zeros(len(shifts), dtype=np.intp)
    slope = likelihood.value_and_gradient((rows @ (theta + shifts).T).T[:, None], problem)[1]
    up, down = np.split(len(X) * slope[:, 0] @ rows, 2)
    curvature = (up - down) / (2 * step)
    return np.sqrt(np.diag(np.linalg.inv((curvature + curvature.T) / 2)))[:-1]


def measure_setting(setting: str, repeats: int) -> Row:
    errors: dict[str, list[float]] = {method: [] for method in METHODS}
    covered: dict[str, list[float]] = {method: [] for method in METHODS[:-1]}
    bias, looks = [], []
    for seed in range(repeats):
        rng = np.random.default_rng([SETTINGS.index(setting), seed])
        X, labels, y = make_data(rng, setting, SLOPES)
        targets = [y["first"], y["second"], y["third"], y, y, labels.astype(int)]
        for method, target in zip(METHODS, targets, strict=True):
            model = MultiGroupingClassifier(
                1e-7,
                covariance="none" if method == "added up" else "shared",
                class_prior="empirical",
                tol=1e-6,
            ).fit(X, target)
            off = model.coef_[0] - SLOPES
            errors[method].append(round(float(np.mean(off**2)), 7))
            if method != "labels":
                inside = np.abs(off) < 1.96 * deviations(X, target, model)
                covered[method].append(round(float(inside.mean()), 3))
            if method == "shared":
                bias.append(np.round(off, 5).tolist())
                looks.append(model.looks_)
    return {"errors": errors, "covered": covered, "off": bias, "looks": looks}


def measure_penalty(repeats: int) -> Row:
    """Mean squared errors of the chances, for all penalties and the one that was chosen."""
    slopes = np.append(SLOPES, np.zeros(36))
    found, chosen = [], []
    for seed in range(repeats):
        rng = np.random.default_rng([99, seed])
        X, _, y = make_data(rng, "crossed, noise", slopes)
        truth = expit(X @ slopes - 1)
        own = []
        for alpha in DEFAULT_ALPHAS:
            model = MultiGroupingClassifier(alpha, class_prior="empirical").fit(X, y)
            own.append(round(float(np.mean((model.predict_proba(X)[:, 1] - truth) ** 2)), 7))
        found.append(own)
        choice = MultiGroupingClassifierCV(class_prior="empirical").fit(X, y)
        chosen.append(int(np.argmin(np.abs(np.log(np.divide(DEFAULT_ALPHAS, choice.alpha_))))))
    return {"errors": found, "chosen": chosen}


def measure_real(task: str, splits: int) -> Row:
    """Test AUC of linear models of the bags alone, of all groupings, and of labels."""
    frame, labels, bag = natural_frame(task)
    found: dict[str, list[float]] = {}
    for seed in range(splits):
        drawn = np.random.default_rng(seed).permutation(len(labels))[:N_REAL]
        train, test = drawn[:N_TRAIN], drawn[N_TRAIN:]
        rows, own = frame.iloc[train], labels[train]
        columns = {"bag": bag[train], **{name: by(rows) for name, by in REAL[task].items()}}
        targets = {}
        for name, values in columns.items():
            cell = pd.factorize(np.asarray(values).astype(str))[0]
            targets[name] = bag_target(cell, counts=np.bincount(cell, own)[cell])
        y, features = multi_grouping_target(targets), make_features()
        X, X_test = features.fit_transform(rows), features.transform(frame.iloc[test])
        models = {
            "bags alone": LLPLinearClassifier(bag_effect=0).fit(X, y["bag"]),
            "bags alone, default": LLPLinearClassifier().fit(X, y["bag"]),
            "added up": MultiGroupingClassifier(covariance="none").fit(X, y),
            "shared": MultiGroupingClassifier().fit(X, y),
            "labels": LogisticRegression(max_iter=1000).fit(X, own),
        }
        for method, model in models.items():
            score = roc_auc_score(labels[test], model.decision_function(X_test))
            found.setdefault(method, []).append(round(float(score), 5))
    return {"auc": found}


def measure(setting: str, repeats: int) -> Row:
    if setting == "penalty":
        return measure_penalty(max(2, repeats // 8))
    if setting in REAL:
        return measure_real(setting, max(2, repeats // 10))
    return measure_setting(setting, repeats)


def page(rows: list[Row]) -> list[str]:
    by_setting = {row["setting"]: row for row in rows}
    real = {name: row for name, row in by_setting.items() if name in REAL}
    simulated = {name: row for name, row in by_setting.items() if name in SETTINGS}
    errors = {name: row["errors"] for name, row in simulated.items()}
    lines = [
        "Root of the mean squared error of the slopes, over all repeats and four slopes:",
        "",
        *table(
            ["", *METHODS],
            [
                [name, *(f"{np.sqrt(np.mean(own[method])):.4f}" for method in METHODS)]
                for name, own in errors.items()
            ],
        ),
        "",
        'How much larger the mean squared error is than that of "shared", in percent of the',
        "latter, with the standard error over repeats (the same data for all methods):",
        "",
        *table(
            ["", *METHODS[:4]],
            [
                [name, *(_excess(own, method) for method in METHODS[:4])]
                for name, own in errors.items()
            ],
        ),
        "",
        "Share of slopes inside the 95% intervals that the curvature of the objective promises,",
        "and its standard error:",
        "",
        *table(
            ["", *METHODS[:-1]],
            [
                [name, *(plus_minus(row["covered"][method], ".3f") for method in METHODS[:-1])]
                for name, row in simulated.items()
            ],
        ),
        "",
        _worlds_line(simulated),
        "",
        'Mean of what the slopes by "shared" are off the true 1, −.5, .5 and 0:',
        "",
        *table(
            ["", "1", "−.5", ".5", "0"],
            [
                [name, *(plus_minus(values, ".3f") for values in np.transpose(row["off"]))]
                for name, row in simulated.items()
            ],
        ),
    ]
    if "penalty" in by_setting:
        lines += ["", *_penalty_lines(by_setting["penalty"])]
    return lines + _real_lines(real)


def _real_lines(real: dict[str, Row]) -> list[str]:
    if not real:
        return []
    methods = list(next(iter(real.values()))["auc"])
    header = ["", *methods, "shared less bags alone", "shared less added up"]
    lines = []
    for name, row in real.items():
        auc = {method: np.array(values) for method, values in row["auc"].items()}
        gains = [auc["shared"] - auc[method] for method in ("bags alone", "added up")]
        lines.append(
            [name, *(plus_minus(one, ".3f") for one in auc.values()), *map(plus_minus, gains)]
        )
    n_splits = len(next(iter(real.values()))["auc"]["shared"])
    return [
        "",
        f"Real rows: test AUC, mean over {n_splits} draws of rows with its standard error:",
        "",
        *table(header, lines),
    ]


def _worlds_line(simulated: dict[str, Row]) -> str:
    found = ", ".join(
        f"{sum(row['looks']):.0f} of {len(row['looks'])} ({name})"
        for name, row in simulated.items()
        if name.endswith("noise")
    )
    return f'"shared" found that classes keep their look in {found}, and then added up.'


def _penalty_lines(row: Row) -> list[str]:
    found = np.array(row["errors"])
    chosen = found[np.arange(len(found)), row["chosen"]]
    best = found.mean(axis=0).argmin()
    return [
        f'Penalties, in {len(found)} sets of 40 columns ("crossed, noise"): mean squared error',
        "of the chances, times 1,000, for each penalty held fixed, and for the one chosen on",
        "counts held out:",
        "",
        *table(
            [*(f"{alpha:.2g}" for alpha in DEFAULT_ALPHAS), "chosen"],
            [[f"{1000 * value:.2f}" for value in [*found.mean(axis=0), chosen.mean()]]],
        ),
        "",
        f"Chosen less the best fixed one ({DEFAULT_ALPHAS[best]:.2g}): "
        f"{plus_minus(1000 * (chosen - found[:, best]), '.3f')}; less the best of each set: "
        f"{plus_minus(1000 * (chosen - found.min(axis=1)), '.3f')}.",
    ]


def _excess(errors: dict[str, list[float]], method: str) -> str:
    base = np.array(errors["shared"])
    more = (np.array(errors[method]) - base) / base.mean()
    return plus_minus(100 * more, ".0f")


STUDY = Study(
    name="groupings",
    title="Several groupings of the same rows",
    keys=["setting"],
    tasks=lambda options: [
        {"setting": setting, "repeats": options.repeats}
        for setting in [*SETTINGS, "penalty", *REAL]
    ],
    measure=measure,
    page=page,
    options={"--repeats": {"type": int, "default": 100, "help": "data sets of each setting"}},
)
