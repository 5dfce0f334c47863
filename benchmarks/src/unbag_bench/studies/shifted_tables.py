"""How near the mixed model comes to labels on tables whose bags shift some columns.

The designs of `unbag_bench.simulated.TABLES`: numbers and two categories (12 and 200 levels), bags
that shift two columns, all, one or none, bag effects, 40 to 2,000 bags. A row is one model on one
draw, scored on fresh rows: "mixed" with and without the categories and the kernel term, the
logistic regression on the labels, and "previous", the linear default of commit 206f41b (penalty by
ranks of two likelihoods over folds), whose rows were made once with that commit.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from unbag import LLPClassifier, bag_target
from unbag.paper.rows import Row
from unbag.tables.features import make_features
from unbag_bench.simulated import TABLES, draw_table
from unbag_bench.study import Study, fit_and_score, plus_minus, table

METHODS = ("mixed", "mixed, numbers alone", "mixed + kernel", "labels")
PREVIOUS = "previous"


def measure_one(design: str, seed: int, method: str) -> Row:
    """Fit one method to one draw of a design."""
    train, test = draw_table(TABLES[design], seed)
    frame, fresh = train.frame, test.frame
    if method == "labels":
        features = make_features()
        X, X_test = features.fit_transform(frame), features.transform(fresh)
        model: Any = LogisticRegression(max_iter=1000)
        row = fit_and_score(model, X, train.labels, X_test, test.labels)
        scores = model.decision_function(X_test)
    else:
        numbers = [name for name in frame if str(name).startswith("x")]
        if method == "mixed, numbers alone":
            frame, fresh = frame[numbers], fresh[numbers]
        model = LLPClassifier(kernel="auto" if method == "mixed + kernel" else None)
        y = bag_target(train.bag, counts=np.bincount(train.bag, train.labels)[train.bag])
        row = fit_and_score(model, frame, y, fresh, test.labels)
        scores = model.decision_function(fresh)
        row |= {
            "dispersion": round(float(model.dispersion_), 3),
            "deviations": {term.term: round(term.standard_deviation, 3) for term in model.terms_},
            "iterations": model.n_iter_,
            "converged": bool(model.converged_),
        }
    row["log_loss"] = float(log_loss(test.labels, expit(scores)))
    return row


def page(rows: list[Row]) -> list[str]:
    cells: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        cells[row["design"], row["method"]][row["seed"]] = row
    methods = [m for m in (*METHODS, PREVIOUS) if any(m == method for _, method in cells)]
    lines, gains = [], []
    for design in TABLES:
        if (design, "mixed") not in cells:
            continue
        line = [design]
        for method in methods:
            of_method = list(cells.get((design, method), {}).values())
            line.append(_means(of_method) if of_method else "")
        gain = _differences(cells, design, "mixed", PREVIOUS)
        gains += gain
        line.append(plus_minus(gain) if gain else "")
        lines.append(line)
    found = [
        "Test AUC, log-loss and core-seconds, means over draws; the last column is the AUC of the",
        "mixed model less the previous default's.",
        "",
        *table(["design", *methods, "gain"], lines),
    ]
    if gains:
        found += ["", f"Gain over all draws: {plus_minus(gains)}, least {min(gains):+.4f}."]
    helped = [
        difference
        for design in TABLES
        for difference in _differences(cells, design, "mixed, numbers alone", "mixed")
    ]
    if helped:
        found += [
            "",
            f"Leaving the categories out: {plus_minus(helped)}, at most {max(helped):+.4f}.",
        ]
    behind = [d for design in TABLES for d in _differences(cells, design, "labels", "mixed")]
    if behind:
        found += [
            "",
            f"Labels less the mixed model: {plus_minus(behind)}, most {max(behind):+.4f}.",
        ]
    return found


def _means(rows: list[Row]) -> str:
    auc, loss, cpu = (
        np.mean([row[k] for row in rows]) for k in ("auc", "log_loss", "core_seconds")
    )
    return f"{auc:.3f}, {loss:.3f}, {cpu:.1f} s"


def _differences(
    cells: dict[tuple[str, str], dict[int, Row]], design: str, one: str, other: str
) -> list[float]:
    a, b = cells.get((design, one), {}), cells.get((design, other), {})
    return [a[seed]["auc"] - b[seed]["auc"] for seed in a if seed in b]


STUDY = Study(
    name="shifted_tables",
    title="Tables whose bags shift some columns",
    keys=["design", "seed", "method"],
    tasks=lambda options: [
        {"design": design, "seed": seed, "method": method}
        for seed in range(options.seeds)
        for design in (options.designs or TABLES)
        for method in (options.methods or METHODS)
    ],
    measure=measure_one,
    page=page,
    options={
        "--seeds": {"type": int, "default": 2, "help": "draws of each design"},
        "--designs": {"nargs": "*", "choices": list(TABLES), "help": "all by default"},
        "--methods": {"nargs": "*", "choices": METHODS, "help": "all by default"},
    },
)
