"""Bags of eight, more and more of them: the balanced error goes to the least there can be.

The paper's example of bags too small to be distinguished: true proportions are .45 or .55, each with
probability one half, and bags hold 8 instances. Two bags of different true proportion then show their
shares in the wrong order with probability .26. The theorem on merged bags says that the risk is
learned nevertheless if N pairs grow in number, K of them are merged and K, N/K → ∞ (here
K = ⌈√N⌉), under independent instances (CIIM) as well as under dependent ones (CIBM).

Classes are Gaussian in the plane, so that a linear model can be best and the error of any is known.
It is trained by the logistic loss without further correction, with a penalty that goes to 0 slowly
enough, as the theorem asks.
"""

from __future__ import annotations

import warnings
from math import ceil, exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

from unbag import check_bag_target
from unbag.bags.bags import BagModel
from unbag.datasets import make_gaussian_bags
from unbag.paper import LMMCMClassifier
from unbag.paper.bounds import misordering_probability
from unbag.paper.weights import bag_weights, default_merge_size
from unbag_bench.study import Row, Study, table

BAG_SIZE = 8
LOW, HIGH = 0.45, 0.55
SEPARATION = 2.0
MODELS: dict[str, dict[str, float]] = {
    "CIIM": {},
    "CIBM": {"dependence": 0.3, "label_dependence": 0.3},
}
METHODS: dict[str, dict[str, Any]] = {
    "neighbours, K = 1": {"weights": "pairs", "merge": "blockwise_pairwise", "merge_size": 1},
    "best pairs, K = 1": {"weights": "pairs"},
    "blockwise-pairwise": {"weights": "pairs", "merge": "blockwise_pairwise"},
    "blockwise-max": {"weights": "pairs", "merge": "blockwise_max"},
    "least squares": {"weights": "least_squares"},
}


class Coin:
    """LOW or HIGH, with equal probabilities."""

    def rvs(self, size: int, random_state: RandomState) -> NDArray[np.float64]:
        """Draw ``size`` proportions."""
        return random_state.choice([LOW, HIGH], size)


def draw(n_pairs: int, model: str, seed: int) -> Any:
    return make_gaussian_bags(
        2 * n_pairs,
        BAG_SIZE,
        Coin(),
        separation=SEPARATION,
        random_state=seed,
        **MODELS[model],
    )


def bag_model_of(model: str) -> BagModel:
    return "instances" if model == "CIIM" else "bags"


def balanced_error(classifier: LMMCMClassifier, means: NDArray[np.float64]) -> float:
    """Error of wᵀx + b on N(μ, I), averaged over the classes."""
    w, b = classifier.coef_[0], classifier.intercept_[0]
    margins = np.array([-1, 1]) * (means @ w + b) / max(float(np.linalg.norm(w)), 1e-300)
    return float(ndtr(-margins).mean())


def excess_error(data: Any, model: str, **options: Any) -> float:
    n_pairs = len(data.true_proportions) // 2
    classifier = LMMCMClassifier(
        0.05 * n_pairs**-0.25, kernel="linear", bag_model=bag_model_of(model), **options
    )
    with warnings.catch_warnings():
        # of few bags the risk may have no minimum near by; what is found then counts
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(data.X, data.y)
    return balanced_error(classifier, data.means) - float(ndtr(-SEPARATION / 2))


def misordered(data: Any) -> NDArray[np.bool_]:
    """Whether neighbours of different true proportion show their shares in the wrong order."""
    true = data.true_proportions.reshape(-1, 2)
    shares = check_bag_target(data.y).proportions[:, 1].reshape(-1, 2)
    differ = true[:, 0] != true[:, 1]
    return (np.diff(true) * np.diff(shares) < 0)[differ, 0]


def run(n_pairs: int, model: str, repeats: int) -> Row:
    """Excess errors of every method, draw by draw, and the share of misordered neighbours."""
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    wrong = []
    for seed in range(repeats):
        data = draw(n_pairs, model, seed)
        wrong.append(misordered(data))
        for name, options in METHODS.items():
            found[name].append(excess_error(data, model, **options))
    return {
        "misordered": float(np.concatenate(wrong).mean()),
        "errors": found,
        "expected cost": expected_cost(n_pairs, model),
    }


def expected_cost(n_pairs: int, model: str) -> list[float]:
    """Variance of a difference between class means, relative to that by least squares."""
    bags = check_bag_target(draw(n_pairs, model, seed=0).y)
    bag_model = bag_model_of(model)
    variances = []
    for options in METHODS.values():
        method, merging = options["weights"], {k: v for k, v in options.items() if k != "weights"}
        W = bag_weights(bags, method=method, bag_model=bag_model, **merging)
        variances.append(float(np.sum((W[:, 1] - W[:, 0]) ** 2)))
    return [variance / variances[-1] for variance in variances]


def interval(values: Any) -> tuple[float, float]:
    """Mean, and how far its 95% interval reaches."""
    reach = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / sqrt(len(values))
    return float(np.mean(values)), float(reach)


def least_pairs() -> tuple[int, int]:
    """N from which 2(N/K) exp(−2Kε²) ≤ .05, for K = √N and for K = N.

    Neighbours differ by Δ = HIGH − LOW with probability 1 − τ = ½, independently: condition (LP) holds.
    ε is the largest that is allowed.
    """
    epsilon = (HIGH - LOW) / 2 / (1 + HIGH - LOW)
    K = 1
    while 2 * K * exp(-2 * K * epsilon**2) > 0.05:
        K += 1
    return K**2, ceil(log(40) / (2 * epsilon**2))


def costs(errors: NDArray[np.float64]) -> list[str]:
    """Ratio of means to that of the last column, with 95% interval by the delta method."""
    means = errors.mean(axis=0)
    ratio = means / means[-1]
    rest = (errors - ratio * errors[:, -1:]) / means[-1]
    reach = student.ppf(0.975, len(errors) - 1) * rest.std(axis=0, ddof=1) / sqrt(len(errors))
    return [f"{r:.2f} ± {e:.2f}" for r, e in zip(ratio, reach, strict=True)]


def model_table(model: str, rows: list[Row]) -> list[str]:
    lines, scaled = [], []
    for row in rows:
        N, errors = row["n_pairs"], [row["errors"][name] for name in METHODS]
        cells = [f"{1e4 * mean:.2f} ± {1e4 * reach:.2f}" for mean, reach in map(interval, errors)]
        lines.append([f"{N:,}", f"{default_merge_size(2 * N)}", f"{row['misordered']:.3f}", *cells])
        scaled.append(N * np.transpose(errors))
    # the first numbers of pairs are too small for the limit
    lines.append(["cost, found", "", "", *costs(np.mean(scaled[2:] or scaled, axis=0))])
    expected = [f"{cost:.2f}" for cost in rows[-1]["expected cost"]]
    lines.append(["cost, expected", "", "", *expected])
    return ["", f"## {model}", "", *table(["N", "K", "misordered", *METHODS], lines)]


def by_model(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of each model, fewest pairs first."""
    ordered = sorted(rows, key=lambda row: row["n_pairs"])
    return {model: [row for row in ordered if row["model"] == model] for model in MODELS}


def draw_figure(rows: list[Row], path: Path) -> None:
    """Excess error against N, one panel for each model, with 95% intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(MODELS), sharey=True)
    for panel, (model, own) in zip(panels, by_model(rows).items(), strict=True):
        N = np.array([row["n_pairs"] for row in own])
        for k, (name, marker) in enumerate(zip(METHODS, "osv^D", strict=True)):
            mean, reach = np.transpose([interval(row["errors"][name]) for row in own])
            dashes = "--" if name.startswith("blockwise") else "-"
            panel.errorbar(
                N * 1.03 ** (k - 2), mean, reach, label=name, marker=marker, ms=4, lw=1.2, ls=dashes
            )
        panel.plot(N, 0.08 / N, color="0.5", lw=1, ls=":", label="slope of 1/N")
        panel.set(xscale="log", yscale="log", title=model, xlabel="N, half the number of bags")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("balanced error − Bayes error")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def page(rows: list[Row]) -> list[str]:
    merged, unmerged = least_pairs()
    exact, bayes = misordering_probability(LOW, HIGH, BAG_SIZE), float(ndtr(-SEPARATION / 2))
    repeats = len(rows[0]["errors"]["least squares"])
    words = f"""\
2N bags of {BAG_SIZE} instances with true proportions {LOW} or {HIGH}. Balanced error beyond the
Bayes error of {bayes:.4f}, in hundredths of a percent: mean of {repeats} draws with 95% interval.
*Misordered*: share of neighbours of different true proportion that show them in the wrong order;
for independent labels it should be {exact:.4f}. *Cost*: N times the error relative to least
squares, from the third line on; *expected* is that ratio for the variance of an estimated
difference between class means, which the weights alone tell, and only a guide to that of errors.

Pairs in the wrong order do no harm at K = 1 either. The observed proportion of a bag is more than
an estimate: given the labels, it is the exact mixture of the instances in the bag, and the
corrected risk is unbiased whichever bag of a pair is called positive. So consistency does not need
merging, which costs precision, as merged bags differ less than small ones do. The theorem merges
because its proof asks for some contrast in every pair; its probability 1 − δ − 2(N/K)exp(−2Kε²)
is 1 − δ − 0.05 from N = {merged:,} on in this example. Without merging it is enough that pairs
differ on average, which has the probability 1 − 2exp(−2Nε²): 0.95 from N = {unmerged:,} on.

![Excess error against N](consistency.png)"""
    tables = [line for model, own in by_model(rows).items() for line in model_table(model, own)]
    return [words, *tables]


STUDY = Study(
    name="consistency",
    title="Consistency with bags of fixed size",
    keys=["model", "n_pairs"],
    tasks=lambda options: [
        {"model": model, "n_pairs": 4**power, "repeats": options.repeats}
        for model in MODELS
        for power in range(2, options.largest + 1)
    ],
    measure=run,
    page=page,
    options={
        "--repeats": {"type": int, "default": 60, "help": "draws for each number of pairs"},
        "--largest": {"type": int, "default": 6, "help": "up to 4 to this power pairs"},
    },
    figure=draw_figure,
)
