"""How often 95% intervals of the mixed model cover the truth.

Four columns of numbers with slopes 1, −.7, .4 and 0 (`unbag_bench.simulated.draw_linear`): label
shift, covariate shift, half of the bags of each kind, and covariate shift with a random intercept
of standard deviation .4 in each bag; equal and unequal sizes of 100 rows on average. A row is one
draw: how many intervals of coefficients, of log-odds of single fresh rows and of the mean
probability of a group of rows cover the truth.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
from scipy.special import expit, logit

from unbag import LLPClassifier, bag_target
from unbag._arrays import Floats
from unbag.paper.rows import Row
from unbag_bench.simulated import SLOPES, Shift, Sizes, draw_linear
from unbag_bench.study import Study, standard_error, table

SHIFTS = ("label", "covariate", "both", "bag effect")
BAGS = (12, 50, 400)
SIZES = ("equal", "unequal")
_BAG_SIZE = 100
_N_FRESH = 50
_HEADER = [
    *("shift", "sizes", "bags", "draws", "coefficients", "log-odds", "groups", "slopes"),
    "dispersion (median)",
]


def measure_one(shift: Shift, n_bags: int, sizes: Sizes, seed: int) -> Row:
    """Fit one draw, and check what its intervals cover."""
    drawn = draw_linear(shift, n_bags, _BAG_SIZE, sizes, seed)
    y = bag_target(drawn.bag, counts=np.bincount(drawn.bag, drawn.labels)[drawn.bag])
    model = LLPClassifier(kernel=None).fit(drawn.X, y)
    fresh = np.random.default_rng([seed, 1]).normal(size=(_N_FRESH, len(SLOPES)))
    truth = drawn.intercept + fresh @ SLOPES
    limits = model.predict_interval(fresh)
    low, high = coefficient_intervals(model)
    group = fresh[fresh[:, 0] > 0]
    low_mean, high_mean = group_interval(model, group)
    mean = float(expit(truth[fresh[:, 0] > 0]).mean())
    return {
        "coefficients": float(np.mean((low < SLOPES) & (high > SLOPES))),
        "log_odds": float(np.mean((limits[:, 0] < expit(truth)) & (limits[:, 1] > expit(truth)))),
        "group": float(low_mean < mean < high_mean),
        "slope": float(model.coef_[0] @ SLOPES / (SLOPES @ SLOPES)),
        "dispersion": round(float(model.dispersion_), 3),
        "bag_effect": round(float(model.bag_effect_), 3),
    }


def coefficient_intervals(model: LLPClassifier) -> tuple[Floats, Floats]:
    """95% intervals of the coefficients of columns: log-odds at unit vectors less those at zero."""
    Phi = _design(model, np.eye(len(SLOPES))) - _design(model, np.zeros((1, len(SLOPES))))
    middle = model.coef_[0]
    reach = _reach(model) * np.sqrt(np.einsum("ij,jk,ik->i", Phi, model.covariance_, Phi))
    return middle - reach, middle + reach


def group_interval(model: LLPClassifier, rows: Floats) -> tuple[float, float]:
    """95% interval of the mean probability of rows, by the delta method on the posterior."""
    p = expit(model.decision_function(rows))
    slope = (p * (1 - p)) @ _design(model, rows) / len(p)
    reach = _reach(model) * float(np.sqrt(slope @ model.covariance_ @ slope))
    return float(p.mean() - reach), float(p.mean() + reach)


def _design(model: LLPClassifier, rows: Floats) -> Floats:
    f = model.function_
    return f.design_matrix(f.encoder.encode(rows))


def _reach(model: LLPClassifier) -> float:
    """Half the width of an interval in standard deviations, as `predict_interval` takes it."""
    at = np.zeros((1, len(SLOPES)))
    score, sd = model.decision_function(at, return_std=True)
    return float((logit(model.predict_interval(at)[0, 1]) - score[0]) / sd[0])


def page(rows: list[Row]) -> list[str]:
    cells: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["shift"], row["sizes"], row["n_bags"]].append(row)
    lines = []
    for shift, sizes, n_bags in product(SHIFTS, SIZES, BAGS):
        found = cells.get((shift, sizes, n_bags))
        if not found:
            continue
        lines.append(
            [
                shift,
                sizes,
                str(n_bags),
                str(len(found)),
                *(_mean(found, key) for key in ("coefficients", "log_odds", "group", "slope")),
                f"{np.median([row['dispersion'] for row in found]):.2f}",
            ]
        )
    return [
        "Share of 95% intervals that cover the truth, and the mean of slopes over the true ones; in",
        "brackets one standard error, in thousandths.",
        "",
        *table(_HEADER, lines),
    ]


def _mean(rows: list[Row], key: str) -> str:
    values = [row[key] for row in rows]
    return f"{np.mean(values):.3f} ({1000 * standard_error(values):.0f})"


STUDY = Study(
    name="coverage",
    title="Coverage of 95% intervals",
    keys=["shift", "n_bags", "sizes", "seed"],
    tasks=lambda options: [
        {"shift": shift, "n_bags": n_bags, "sizes": sizes, "seed": seed}
        for shift, n_bags, sizes in product(SHIFTS, options.bags, SIZES)
        for seed in range(options.draws)
    ],
    measure=measure_one,
    page=page,
    options={
        "--draws": {"type": int, "default": 500, "help": "draws of each cell"},
        "--bags": {"type": int, "nargs": "*", "default": list(BAGS), "help": "numbers of bags"},
    },
)
