"""How much narrower intervals could be, if all labels were known to the method but not used.

Out-of-fold scores of the real sets of `evaluation.py`, with all their labels. *Weights*: W treats
bags by their size alone; weights of least variance know how much a statistic varies in each class,
(γ v₁ + (1 − γ) v₀)/n. Here they are given the true v₁ and v₀, apart for each statistic, and rows
are taken to be independent: the standard error as a part of that by W. *Guesses*: an estimate from
labels and bags compares labels with guesses. Here guesses are made by the monotone curve of the
share of positives over scores that is fitted to all labels, shifted to the counts of the bags: the
width as a part of that from labels alone, beside the same for guesses as they are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.evaluation.imputed_labels import (
    Candidates,
    Guess,
    Guesses,
    draw_of,
    fit_guesses,
    guess_labels,
)
from unbag.evaluation.labelled import from_draw
from unbag.evaluation.measures import get_measure
from unbag.evaluation.sample import Sample, make_sample
from unbag_bench.studies.evaluation import real_sets, scores_of
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import count_target

MEASURES = ("roc_auc", "balanced_accuracy")
# Rates of the positives among positives and among negatives, where weights matter much.
UNEVEN = (0.99, 0.5)


def weights_for(bags: Bags, variances: Floats) -> Floats:
    """W by least squares for bags of the variance γ·v/n: shape (n_bags, n_classes)."""
    each = bags.sizes / np.maximum(bags.proportions @ variances, 1e-9)
    weighed = each[:, None] * bags.proportions
    return weighed @ np.linalg.inv(weighed.T @ bags.proportions)


def error(bags: Bags, columns: Floats, covariances: Floats) -> float:
    """Standard error of Σ_i Σ_c columns[i, c]·(mean of φ_c over bag i), rows independent."""
    inside = np.einsum("bc,acd,bd->ba", columns, covariances, columns)
    return float(np.sqrt(np.sum(inside * bags.proportions / bags.sizes[:, None])))


def gain_by_weights(bags: Bags, influence: Floats, labels: Any) -> float:
    """Standard error by weights of least variance, as a part of that by W."""
    covariances = np.stack([np.cov(influence[:, labels == a]) for a in (0, 1)])
    plain = weights_for(bags, np.ones(2))
    best = np.column_stack([weights_for(bags, covariances[:, c, c])[:, c] for c in (0, 1)])
    return error(bags, best, covariances) / error(bags, plain, covariances)


def widths(name: str, sample: Sample, labels: Any, guesses: Any, seed: int) -> float:
    """Width from labels of half the rows and bags, as a part of that from the labels alone."""
    some = np.random.default_rng(seed).permutation(len(labels))[: len(labels) // 2]
    known = np.full(len(labels), np.nan)
    known[some] = labels[some]
    drawn = draw_of(sample, known, None)
    if guesses is None:
        found = fit_guesses(drawn, Candidates(sample, drawn.bags))
    else:
        found = Guesses(guesses, [Guess(guesses, np.ones(len(some), dtype=bool))])
    estimate = from_draw(get_measure(name, {}), sample, drawn, found)
    assert estimate.alone is not None
    return (estimate.high - estimate.low) / (estimate.alone.high - estimate.alone.low)


def run_one(group: str, set: str) -> list[Row]:  # noqa: A002
    if group == "uneven":
        return [{"measure": "balanced_accuracy", "n_bags": 50, "weights": uneven()}]
    kept = scores_of(group, set)
    labels = kept["label"]
    y = count_target(kept["bag"], labels)
    found = []
    for name, scores in zip(MEASURES, (kept["columns"][:, 1], kept["columns"][:, 0]), strict=True):
        sample = make_sample(y, scores, trusted=True)
        truth = make_sample(labels, scores, trusted=True)
        influence = get_measure(name, {}).influence(truth)
        row = {
            "measure": name,
            "n_bags": sample.bags.n_bags,
            "weights": gain_by_weights(sample.bags, influence, labels),
        }
        if group == "natural":
            curve = IsotonicRegression(y_min=1e-4, y_max=1 - 1e-4).fit(scores, labels)
            best = guess_labels(logit(curve.predict(scores))[None], sample.bags)
            row["guesses"] = widths(name, sample, labels, None, 0)
            row["best_guesses"] = widths(name, sample, labels, best, 0)
        found.append(row)
    return found


def uneven() -> float:
    """The same for rates at which weights matter, and shares spread evenly from 0 to 1."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(50), 100)
    labels = (rng.random(5000) < np.linspace(0, 1, 50)[bag]).astype(int)
    hit = (rng.random(5000) < np.where(labels == 1, *UNEVEN)).astype(float)
    y = count_target(bag, labels)
    influence = np.stack([-hit, hit]) / 2
    return gain_by_weights(make_sample(y, hit - 0.5, trusted=True).bags, influence, labels)


def tasks(options: Any) -> list[dict[str, str]]:  # noqa: ARG001
    real = [
        {"group": name.split("-")[0] if kind == "landscape" else kind, "set": name}
        for kind, name in real_sets(["natural", "landscape"])
    ]
    return [{"group": "uneven", "set": "rates of .99 and .5"}, *real]


def page(rows: list[Row]) -> list[str]:
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        for name in MEASURES:
            found = [r["weights"] for r in rows if r["group"] == group and r["measure"] == name]
            if found:
                middle, least = np.median(found), np.min(found)
                lines.append([group, name, str(len(found)), f"{middle:.3f}", f"{least:.3f}"])
    guessed = [
        [r["set"], r["measure"], f"{r['guesses']:.2f}", f"{r['best_guesses']:.2f}"]
        for r in rows
        if "guesses" in r
    ]
    return [
        "\n".join(__doc__.splitlines()[2:]).strip(),
        "",
        "## Weights",
        "",
        *table(["bags", "measure", "sets", "median", "least"], lines),
        "",
        "## Guesses",
        "",
        *table(["bags", "measure", "guesses as they are made", "in hindsight"], guessed),
    ]


STUDY = Study(
    name="hindsight",
    title="How much narrower could intervals be?",
    keys=["group", "set"],
    tasks=tasks,
    measure=run_one,
    page=page,
)

if __name__ == "__main__":
    STUDY.main()
