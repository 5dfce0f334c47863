"""Whether label-free measures hit the truth, and whether their intervals hold it as often as said.

Rows of known label are taken as the population, so that the true AUC and balanced error rate
(BER) are known, and bags are drawn from them with replacement, many times. Every part can be run
by itself:

A  a fixed classifier, bags of Adult and MAGIC as in the paper's experiments;
B  out-of-fold scores, against the models of the folds and the model trained on all bags;
C  counts with Laplace noise, kept quiet or told by ``noise=``;
D  dependent instances, for which only ``cluster_by_bag=True`` makes a promise;
E  seconds and memory that a million instances take.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import getdoc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, binomtest
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from unbag import bag_target
from unbag.datasets import (
    add_count_noise,
    gaussian_auc,
    gaussian_bayes_ber,
    load_adult,
    load_magic,
    make_bags,
    make_gaussian_bags,
)
from unbag.evaluation import cross_val_evaluate, estimate, evaluate
from unbag.evaluation.held_out import HeldOut
from unbag.model_selection.out_of_fold import out_of_fold_scores
from unbag.paper import LMMCMClassifier
from unbag.paper.trials import N_INSTANCES, make_encoder
from unbag_bench.study import Row, Study, standard_error, table

Floats = NDArray[np.float64]
Found = dict[str, list[list[float]]]

MEASURES = {"AUC": "roc_auc", "BER": "balanced_error"}
INTERVALS = [
    ("bootstrap", "bags"),
    ("analytic", "bags"),
    ("bootstrap", "instances"),
    ("analytic", "instances"),
]
BY_BAGS = INTERVALS[:2]
RANGES = {"[0, ½]": (0, 0.5), "[½, 1]": (0.5, 1)}
N_DRAWS = 500
TRAINING_SEED = 1000


@dataclass(frozen=True, eq=False)
class Population:
    """Rows that stand for all there is, so that the truth about scores can be counted."""

    X: Floats
    labels: NDArray[np.int64]

    def draw(
        self, rng: np.random.Generator, span: tuple[float, float], n_bags: int, size: int
    ) -> tuple[NDArray[np.intp], NDArray[np.void]]:
        """Rows and target of bags drawn as in the paper, with replacement."""
        counts = rng.binomial(size, rng.uniform(*span, n_bags))
        positive = np.arange(size) < counts[:, None]
        index = np.empty(positive.shape, dtype=np.intp)
        for label in (0, 1):
            place = positive == label
            index[place] = rng.choice(np.flatnonzero(self.labels == label), place.sum())
        bag = np.repeat(np.arange(n_bags), size)
        return index.ravel(), bag_target(bag, counts=counts[bag])

    def truth(self, scores: Floats) -> dict[str, float]:
        """AUC and balanced error rate of scores of all rows."""
        return {"AUC": float(roc_auc_score(self.labels, scores)), "BER": self._ber(scores)}

    def _ber(self, scores: Floats) -> float:
        wrong = (scores > 0) != self.labels
        return float(np.mean([wrong[self.labels == label].mean() for label in (0, 1)]))


def outcome(labels: list[str], found: Any, truth: float | Floats) -> Row:
    """What one setting says of one measure, and what is true.

    Parameters
    ----------
    labels : list of str
        What the first columns of the table say.
    found : array-like of shape (repeats, n_intervals, 4)
        Value, standard error and limits by each way to make intervals.
    truth : float or ndarray of shape (repeats,)
    """
    found, many = np.asarray(found), np.ndim(truth) > 0
    error = found[:, 0, 0] - truth
    # standard error of a standard deviation, whatever the distribution
    deviation = error.std(ddof=1)
    spread = standard_error((error - error.mean()) ** 2) / (2 * deviation)
    held = np.reshape(truth, (-1, 1))
    covered = (found[..., 2] <= held) & (held <= found[..., 3])
    return {
        "labels": labels,
        "repeats": len(found),
        "truth": with_error(truth) if many else [float(truth)],
        "error": with_error(error),
        "deviation": [float(deviation), float(spread)],
        "se": [with_error(column) for column in found[..., 1].T],
        "covered": covered.sum(axis=0).tolist(),
    }


def with_error(values: Any) -> list[float]:
    """Mean and its standard error."""
    return [float(np.mean(values)), standard_error(values)]


@cache
def load(dataset: str) -> Population:
    data = load_adult("all") if dataset == "adult" else load_magic()
    return Population(np.asarray(make_encoder(data).fit_transform(data.frame)), data.target)


@cache
def scored_population(dataset: str, span: tuple[float, float]) -> tuple[Population, Floats]:
    """Rows that a linear classifier was not trained on, and its scores of them."""
    everything = load(dataset)
    index, y = make_bags(
        everything.labels, 128, span, n_bags=N_INSTANCES[dataset] // 128, random_state=TRAINING_SEED
    )
    model = LMMCMClassifier(0.01, kernel="linear").fit(everything.X[index], y)
    rest = np.setdiff1d(np.arange(len(everything.labels)), index)
    population = Population(everything.X[rest], everything.labels[rest])
    return population, model.decision_function(population.X)


def estimates(
    y: NDArray[np.void],
    scores: Floats,
    seed: int,
    intervals: list[tuple[str, str]] = INTERVALS,
    ranks: Floats | None = None,
) -> Found:
    """Each measure by each way to make intervals: value, standard error, low, high.

    The AUC is that of ``ranks``, if these are given.
    """
    found: Found = {}
    for name, measure in MEASURES.items():
        found[name] = []
        for method, model in intervals:
            e = estimate(
                measure,
                y,
                ranks if ranks is not None and measure == "roc_auc" else scores,
                method=method,  # type: ignore[arg-type]
                cluster_by_bag=model == "bags",
                n_resamples=N_DRAWS,
                random_state=seed,
            )
            found[name].append([e.value, e.standard_error, e.low, e.high])
    return found


def shown(figures: list[float]) -> str:
    """A figure, with its standard error if it has one."""
    return " ± ".join(f"{figure:.4f}" for figure in figures)


def share(hits: int, of: int) -> str:
    """Share with its 95% interval."""
    interval = binomtest(hits, of).proportion_ci(method="wilson")
    return f"{hits / of:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def two_tables(
    header: list[str], outcomes: list[Row], intervals: list[tuple[str, str]] = INTERVALS
) -> list[str]:
    """Errors and standard errors, then coverage."""
    names = [f"{method}, {model}" for method, model in intervals]
    errors = [
        [
            *o["labels"],
            *(shown(o[k]) for k in ("truth", "error", "deviation")),
            *map(shown, o["se"]),
        ]
        for o in outcomes
    ]
    coverage = [[*o["labels"], *(share(n, o["repeats"]) for n in o["covered"])] for o in outcomes]
    return [
        *table([*header, "truth", "mean error", "deviation", *(f"se: {n}" for n in names)], errors),
        "",
        "Share of 95% intervals that hold the truth:",
        "",
        *table([*header, *names], coverage),
    ]


def by_measure(labels: list[str], found: list[Any], truth: dict[str, Any]) -> list[Row]:
    """Outcomes of one setting; ``labels`` come before the name of the measure."""
    return [outcome([*labels, m], [f[m] for f in found], truth[m]) for m in MEASURES]


def run_a(repeats: int, dataset: str, span: str, size: int) -> list[Row]:
    limits, n_bags = RANGES[span], N_INSTANCES[dataset] // size
    population, scores = scored_population(dataset, limits)
    key = (list(N_INSTANCES).index(dataset), list(RANGES).index(span), size)
    found = []
    for seed in range(repeats):
        index, y = population.draw(np.random.default_rng([*key, seed]), limits, n_bags, size)
        found.append(estimates(y, scores[index], seed))
    return by_measure([dataset, span, f"{n_bags} of {size}"], found, population.truth(scores))


def page_a(rows: list[Row]) -> list[str]:
    """A fixed classifier, bags as in the paper.

    Scores of a linear classifier on the rows that it was not trained on; bags are drawn from
    these, 8,192 instances of Adult and 6,144 of MAGIC. *Truth* counts labels of all of them.
    *Mean error* and *deviation* are of estimate minus truth; *se* is the mean of the standard
    errors that each way to make intervals gave. ± is one standard error of the study itself,
    coverage has its 95% interval.
    """
    return [*two_tables(["data", "proportions", "bags", "measure"], rows), "", *verdict_a(rows)]


def verdict_a(outcomes: list[Row]) -> list[str]:
    """All settings together, and how far the worst ones are off."""
    worst = max(
        (o for o in outcomes if o["labels"][2].endswith(" 128")), key=lambda o: abs(o["error"][0])
    )
    repeats = outcomes[0]["repeats"]
    chance = binom.cdf(0.98 * repeats, repeats, 0.95) - binom.cdf(0.92 * repeats - 1, repeats, 0.95)
    lines = []
    for measure in MEASURES:
        own = [o for o in outcomes if o["labels"][3] == measure]
        for k, (method, model) in enumerate(INTERVALS):
            hits = np.array([o["covered"][k] for o in own])
            shares = hits / repeats
            inside = int(((shares >= 0.92) & (shares <= 0.98)).sum())
            lines.append(
                [
                    measure,
                    f"{method}, {model}",
                    share(int(hits.sum()), repeats * len(own)),
                    f"{shares.min():.3f} to {shares.max():.3f}",
                    f"{inside} of {len(own)}",
                ]
            )
    about = ", ".join(worst["labels"])
    return [
        f"Largest mean error with bags of 128: {shown(worst['error'])} ({about}).",
        "",
        f"Intervals that hold exactly 95% would show 92 to 98% in {repeats} draws "
        f"{100 * chance:.0f} times out of 100. All settings together:",
        "",
        *table(["measure", "intervals", "coverage", "by setting", "within 92 to 98%"], lines),
    ]


def draw_b(
    population: Population, n_bags: int, seed: int
) -> tuple[Found, dict[str, dict[str, float]]]:
    """Estimates from out-of-fold scores, and the truths to hold them against."""
    index, y = population.draw(np.random.default_rng([2, n_bags, seed]), (0, 0.5), n_bags, 128)
    X = population.X[index]
    estimator = LMMCMClassifier(kernel="linear")
    models: list[Any] = []
    held_out = HeldOut(X)

    def keep(model: Any, rows: Any) -> Floats:
        models.append(model)
        return held_out(model, rows).columns

    columns, _ = out_of_fold_scores(estimator, X, y, score=keep)
    scores, ranks, _ = columns.T
    found = estimates(y, scores, seed, ranks=ranks)
    if seed == 0:
        same = cross_val_evaluate(estimator, X, y, n_resamples=2).by_assumption["label_shift"]
        assert same["roc_auc"].value == found["AUC"][0][0], "cross_val_evaluate does something else"
    of_folds = np.stack([m.decision_function(population.X) for m in models])
    each = [population.truth(s) for s in of_folds]
    together = Population(population.X, np.tile(population.labels, len(models)))
    truths = {
        "folds, mean": {m: float(np.mean([t[m] for t in each])) for m in MEASURES},
        "folds, pooled": together.truth(of_folds.ravel()),
        "all bags": population.truth(estimator.fit(X, y).decision_function(population.X)),
    }
    return found, truths


def run_b(repeats: int, dataset: str) -> list[Row]:
    n_bags = N_INSTANCES[dataset] // 128
    found = [draw_b(load(dataset), n_bags, seed) for seed in range(repeats)]
    return [
        outcome(
            [dataset, measure, against],
            [f[measure] for f, _ in found],
            np.array([truth[against][measure] for _, truth in found]),
        )
        for measure in MEASURES
        for against in found[0][1]
    ]


def page_b(rows: list[Row]) -> list[str]:
    """Out-of-fold scores.

    `cross_val_evaluate` of an `LMMCMClassifier` in five folds, bags of 128, proportions in
    [0, ½], drawn from all rows of the data set. The truth on all rows is that of the models
    of the five folds (*mean* of their measures; *pooled*: of all their scores together, where
    a positive scored by one model meets a negative scored by another), or that of the model
    trained on *all bags*, which users keep. It differs from draw to draw; its mean is given,
    and *mean error* and *deviation* are of the difference.
    """
    return two_tables(["data", "measure", "against"], rows)


def draw_c(
    population: Population, scores: Floats, span: tuple[float, float], scale: int, seed: int
) -> dict[str, Found | None]:
    """Estimates by how the noise is dealt with; None if they were refused."""
    rng = np.random.default_rng([3, int(2 * span[0]), scale, seed])
    index, y = population.draw(rng, span, 48, 128)
    if scale == 0:
        return {"none": estimates(y, scores[index], seed, BY_BAGS)}
    told = add_count_noise(y, scale, random_state=int(rng.integers(2**31)))
    quiet = bag_target(told["bag"], np.clip(told["proportion"], 0, 1))
    found: dict[str, Found | None] = {"kept quiet": estimates(quiet, scores[index], seed, BY_BAGS)}
    try:
        found["told"] = estimates(told, scores[index], seed, BY_BAGS)
    except ValueError as error:
        if "noise" not in str(error) and "too few" not in str(error):
            raise
        found["told"] = None
    return found


def run_c(repeats: int, span: str, scale: int) -> list[Row]:
    population, scores = scored_population("magic", RANGES[span])
    found = [draw_c(population, scores, RANGES[span], scale, seed) for seed in range(repeats)]
    rows = []
    for how in found[0]:
        kept = [f[how] for f in found if f[how] is not None]
        rows += by_measure([span, str(scale), how], kept, population.truth(scores))
    return [{**row, "refused": repeats - row["repeats"]} for row in rows]


def page_c(rows: list[Row]) -> list[str]:
    """Noisy counts.

    MAGIC, 48 bags of 128, the classifier of part A. Laplace noise of the given scale is added
    to the counts. *Kept quiet*: noisy proportions, clipped to [0, 1], are taken for exact;
    *told*: not clipped, with `noise=`.
    """
    refused = [
        f"{row['refused']} ({row['labels'][0]}, scale {row['labels'][1]})"
        for row in rows
        if row["refused"] and row["labels"][-1] == "AUC"
    ]
    return [
        "Draws that were refused, because proportions vary hardly more than their noise: "
        f"{', '.join(refused) or 'none'}.",
        "",
        *two_tables(["proportions", "scale", "noise", "measure"], rows, BY_BAGS),
    ]


def run_d(repeats: int, n_bags: int, size: int, dependence: float) -> list[Row]:
    found = []
    for seed in range(repeats):
        data = make_gaussian_bags(
            n_bags, size, n_features=1, dependence=dependence, random_state=seed
        )
        found.append(estimates(data.y, data.X[:, 0], seed))
    truth = {"AUC": gaussian_auc(2.0), "BER": gaussian_bayes_ber(2.0)}
    return by_measure([f"{n_bags} of {size}", f"{dependence:g}"], found, truth)


def page_d(rows: list[Row]) -> list[str]:
    """Dependent instances.

    Gaussian classes two standard deviations apart, proportions in [0, 1], one feature as
    score; *dependence* is the correlation of two instances of a bag, given their labels.
    """
    return two_tables(["bags", "dependence", "measure"], rows)


def run_e(repeats: int, model: str) -> Row:  # noqa: ARG001
    data = make_gaussian_bags(10_000, 100, n_features=1, random_state=0)
    before, seconds = peak_memory(), []
    for _ in range(3):
        begin = time.process_time()
        evaluate(data.y, data.X[:, 0], cluster_by_bag=model == "bags", n_resamples=1000)
        seconds.append(time.process_time() - begin)
    return {"labels": [model], "seconds": seconds, "before": before, "peak": peak_memory()}


def page_e(rows: list[Row]) -> list[str]:
    """Speed.

    `evaluate` of 1,000,000 scores in 10,000 bags: seven measures with intervals and the ROC
    curve with its band, 1,000 bootstrap draws, one thread, three runs. Processor seconds.
    """
    lines = [[*row["labels"], ", ".join(f"{s:.1f}" for s in row["seconds"])] for row in rows]
    peak, before = max(row["peak"] for row in rows), min(row["before"] for row in rows)
    return [
        *table(["bag model", "seconds"], lines),
        "",
        f"Peak memory of the whole process: {peak:.2f} GiB, {before:.2f} before the first run.",
    ]


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


RUNS: dict[str, Callable[..., Row | list[Row]]] = {
    "A": run_a,
    "B": run_b,
    "C": run_c,
    "D": run_d,
    "E": run_e,
}
PAGES: dict[str, Callable[[list[Row]], list[str]]] = {
    "A": page_a,
    "B": page_b,
    "C": page_c,
    "D": page_d,
    "E": page_e,
}


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Part and setting of every task; E first, so that the peak of the memory is its own."""
    for model in ("bags", "instances"):
        yield "E", {"model": model}
    for dataset in N_INSTANCES:
        for span in RANGES:
            for size in (32, 128, 512):
                yield "A", {"dataset": dataset, "span": span, "size": size}
    for dataset in N_INSTANCES:
        yield "B", {"dataset": dataset}
    for span in RANGES:
        for scale in (0, 2, 5, 10):
            yield "C", {"span": span, "scale": scale}
    for n_bags, size in ((48, 128), (192, 32)):
        for dependence in (0, 0.02, 0.1, 0.3):
            yield "D", {"n_bags": n_bags, "size": size, "dependence": dependence}


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {"part": part, "case": case, "repeats": options.repeats}
        for part, case in cases()
        if part in options.part.split(",")
    ]


def measure(part: str, case: dict[str, Any], repeats: int) -> Row | list[Row]:
    with threadpool_limits(1):
        return RUNS[part](repeats, **case)


def page(rows: list[Row]) -> list[str]:
    repeats = max(row.get("repeats", 0) for row in rows)
    lines = [f"{N_DRAWS} bootstrap draws, {repeats} repetitions for each line."]
    for part, of_part in PAGES.items():
        title, _, explanation = (getdoc(of_part) or "").partition(".\n\n")
        if own := [row for row in rows if row["part"] == part]:
            lines += ["", f"## {part}. {title}", "", explanation, "", *of_part(own)]
    return lines


STUDY = Study(
    name="label_free",
    title="Label-free measures against the truth",
    keys=["part", "case"],
    tasks=tasks,
    measure=measure,
    page=page,
    options={
        "--repeats": {"type": int, "default": 200, "help": "draws for each line (200)"},
        "--part": {"default": "A,B,C,D,E", "help": "parts to run (A,B,C,D,E)"},
    },
)
