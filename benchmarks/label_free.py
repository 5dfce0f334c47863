"""Whether label-free measures hit the truth, and whether their intervals hold it as often as said.

Rows of known label are taken as the population, so that the true AUC and balanced error rate
(BER) are known, and bags are drawn from them with replacement, many times. Every part can be run
by itself:

A  a fixed classifier, bags of Adult and MAGIC as in the paper's experiments;
B  out-of-fold scores, against the models of the folds and the model trained on all bags;
C  counts with Laplace noise, kept quiet or told by ``noise=``;
D  dependent instances, for which only ``bag_model="bags"`` makes a promise;
E  seconds and memory that a million instances take.

Writes Markdown.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binom, binomtest
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from unbag import LinearMCMClassifier, bag_target
from unbag._provenance import provenance_line
from unbag.datasets import (
    add_count_noise,
    gaussian_auc,
    gaussian_bayes_ber,
    load_adult,
    load_magic,
    make_bags,
    make_gaussian_bags,
)
from unbag.metrics import cross_val_evaluate, estimate, evaluate
from unbag.metrics.evaluation import ScoreAndRank
from unbag.model_selection.out_of_fold import out_of_fold_scores
from unbag.paper.trials import N_INSTANCES, make_encoder

Floats = NDArray[np.float64]
Found = dict[str, list[list[float]]]
Run = Callable[[Callable[[int], Any]], list[Any]]

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


@dataclass(frozen=True, eq=False)
class Outcome:
    """Estimates of one measure in one setting, and the truth.

    Attributes
    ----------
    labels : list of str
        What the first columns of the table say.
    found : ndarray of shape (repeats, n_intervals, 4)
        Value, standard error and limits by each way to make intervals.
    truth : float or ndarray of shape (repeats,)
    """

    labels: list[str]
    found: Floats
    truth: float | Floats

    @property
    def error(self) -> Floats:
        """Estimate minus truth, by repetition."""
        return self.found[:, 0, 0] - self.truth

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Whether each interval holds the truth: shape (repeats, n_intervals)."""
        truth = np.reshape(self.truth, (-1, 1))
        return (self.found[..., 2] <= truth) & (truth <= self.found[..., 3])


def load(dataset: str) -> Population:
    data = load_adult("all") if dataset == "adult" else load_magic()
    return Population(np.asarray(make_encoder(data).fit_transform(data.frame)), data.target)


def scored_population(dataset: str, span: tuple[float, float]) -> tuple[Population, Floats]:
    """Rows that a linear classifier was not trained on, and its scores of them."""
    everything = load(dataset)
    index, y = make_bags(
        everything.labels, 128, span, n_bags=N_INSTANCES[dataset] // 128, random_state=TRAINING_SEED
    )
    model = LinearMCMClassifier(alpha=0.01, objective="corrected").fit(everything.X[index], y)
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
                bag_model=model,  # type: ignore[arg-type]
                n_draws=N_DRAWS,
                random_state=seed,
            )
            found[name].append([e.value, e.standard_error, e.low, e.high])
    return found


def plus_minus(value: float, error: float) -> str:
    return f"{value:.4f} ± {error:.4f}"


def of_mean(values: Floats) -> str:
    """Mean with its standard error."""
    return plus_minus(values.mean(), values.std(ddof=1) / np.sqrt(len(values)))


def of_deviation(values: Floats) -> str:
    """Standard deviation with its standard error, whatever the distribution."""
    deviation = values.std(ddof=1)
    spread = ((values - values.mean()) ** 2).std(ddof=1) / np.sqrt(len(values))
    return plus_minus(deviation, spread / (2 * deviation))


def of_share(hits: NDArray[np.bool_]) -> str:
    """Share with its 95% interval."""
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    return f"{hits.mean():.3f} ({interval.low:.3f} to {interval.high:.3f})"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def two_tables(
    header: list[str], outcomes: list[Outcome], intervals: list[tuple[str, str]]
) -> list[str]:
    """Errors and standard errors, then coverage."""
    names = [f"{method}, {model}" for method, model in intervals]
    errors = [
        [*o.labels, of_truth(o.truth), of_mean(o.error), of_deviation(o.error)]
        + [of_mean(column) for column in o.found[..., 1].T]
        for o in outcomes
    ]
    coverage = [[*o.labels, *map(of_share, o.covered.T)] for o in outcomes]
    return [
        *table([*header, "truth", "mean error", "deviation", *(f"se: {n}" for n in names)], errors),
        "",
        "Share of 95% intervals that hold the truth:",
        "",
        *table([*header, *names], coverage),
    ]


def of_truth(truth: float | Floats) -> str:
    return f"{truth:.4f}" if np.ndim(truth) == 0 else of_mean(np.asarray(truth))


def by_measure(labels: list[str], found: list[Any], truth: dict[str, Any]) -> list[Outcome]:
    """Outcomes of one setting; ``labels`` come before the name of the measure."""
    return [Outcome([*labels, m], np.array([f[m] for f in found]), truth[m]) for m in MEASURES]


def draw_a(
    population: Population,
    scores: Floats,
    span: tuple[float, float],
    n_bags: int,
    size: int,
    key: tuple[int, ...],
    seed: int,
) -> Found:
    index, y = population.draw(np.random.default_rng([*key, seed]), span, n_bags, size)
    return estimates(y, scores[index], seed)


def part_a(run: Run) -> list[str]:
    """A fixed classifier, bags as in the paper.

    Scores of a linear classifier on the rows that it was not trained on; bags are drawn from
    these, 8,192 instances of Adult and 6,144 of MAGIC. *Truth* counts labels of all of them.
    *Mean error* and *deviation* are of estimate minus truth; *se* is the mean of the standard
    errors that each way to make intervals gave. ± is one standard error of the study itself,
    coverage has its 95% interval.
    """
    outcomes: list[Outcome] = []
    for a, dataset in enumerate(N_INSTANCES):
        for b, (name, span) in enumerate(RANGES.items()):
            population, scores = scored_population(dataset, span)
            for size in (32, 128, 512):
                n_bags = N_INSTANCES[dataset] // size
                found = run(partial(draw_a, population, scores, span, n_bags, size, (a, b, size)))
                labels = [dataset, name, f"{n_bags} of {size}"]
                outcomes += by_measure(labels, found, population.truth(scores))
    header = ["data", "proportions", "bags", "measure"]
    return [*two_tables(header, outcomes, INTERVALS), "", *verdict_a(outcomes)]


def verdict_a(outcomes: list[Outcome]) -> list[str]:
    """All settings together, and how far the worst ones are off."""
    bias = max(
        (o for o in outcomes if o.labels[2].endswith(" 128")), key=lambda o: abs(o.error.mean())
    )
    repeats = len(outcomes[0].found)
    chance = binom.cdf(0.98 * repeats, repeats, 0.95) - binom.cdf(0.92 * repeats - 1, repeats, 0.95)
    rows = []
    for measure in MEASURES:
        own = [o for o in outcomes if o.labels[3] == measure]
        for k, (method, model) in enumerate(INTERVALS):
            shares = np.array([o.covered[:, k].mean() for o in own])
            inside = int(((shares >= 0.92) & (shares <= 0.98)).sum())
            rows.append(
                [
                    measure,
                    f"{method}, {model}",
                    of_share(np.concatenate([o.covered[:, k] for o in own])),
                    f"{shares.min():.3f} to {shares.max():.3f}",
                    f"{inside} of {len(own)}",
                ]
            )
    return [
        f"Largest mean error with bags of 128: {of_mean(bias.error)} ({', '.join(bias.labels)}).",
        "",
        f"Intervals that hold exactly 95% would show 92 to 98% in {repeats} draws "
        f"{100 * chance:.0f} times out of 100. All settings together:",
        "",
        *table(["measure", "intervals", "coverage", "by setting", "within 92 to 98%"], rows),
    ]


def draw_b(
    population: Population, n_bags: int, seed: int
) -> tuple[Found, dict[str, dict[str, float]]]:
    """Estimates from out-of-fold scores, and the truths to hold them against."""
    index, y = population.draw(np.random.default_rng([2, n_bags, seed]), (0, 0.5), n_bags, 128)
    X = population.X[index]
    estimator = LinearMCMClassifier(objective="corrected")
    models: list[Any] = []
    score_and_rank = ScoreAndRank(X)

    def keep(model: Any, rows: Any) -> Floats:
        models.append(model)
        return score_and_rank(model, rows)

    columns, _ = out_of_fold_scores(estimator, X, y, score=keep)
    scores, ranks = columns.T
    found = estimates(y, scores, seed, ranks=ranks)
    if seed == 0:
        same = cross_val_evaluate(estimator, X, y, n_draws=2)
        assert np.array_equal(same.scores, scores), "cross_val_evaluate does something else"
        assert same["roc_auc"].value == found["AUC"][0][0], "its AUC is another one"
    of_folds = np.stack([m.decision_function(population.X) for m in models])
    each = [population.truth(s) for s in of_folds]
    together = Population(population.X, np.tile(population.labels, len(models)))
    truths = {
        "folds, mean": {m: float(np.mean([t[m] for t in each])) for m in MEASURES},
        "folds, pooled": together.truth(of_folds.ravel()),
        "all bags": population.truth(estimator.fit(X, y).decision_function(population.X)),
    }
    return found, truths


def part_b(run: Run) -> list[str]:
    """Out-of-fold scores.

    `cross_val_evaluate` of a `LinearMCMClassifier` in five folds, bags of 128, proportions in
    [0, ½], drawn from all rows of the data set. The truth on all rows is that of the models
    of the five folds (*mean* of their measures; *pooled*: of all their scores together, where
    a positive scored by one model meets a negative scored by another), or that of the model
    trained on *all bags*, which users keep. It differs from draw to draw; its mean is given,
    and *mean error* and *deviation* are of the difference.
    """
    outcomes: list[Outcome] = []
    for dataset in N_INSTANCES:
        found = run(partial(draw_b, load(dataset), N_INSTANCES[dataset] // 128))
        outcomes += [
            Outcome(
                [dataset, measure, against],
                np.array([f[measure] for f, _ in found]),
                np.array([truth[against][measure] for _, truth in found]),
            )
            for measure in MEASURES
            for against in found[0][1]
        ]
    return two_tables(["data", "measure", "against"], outcomes, INTERVALS)


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


def part_c(run: Run) -> list[str]:
    """Noisy counts.

    MAGIC, 48 bags of 128, the classifier of part A. Laplace noise of the given scale is added
    to the counts. *Kept quiet*: noisy proportions, clipped to [0, 1], are taken for exact;
    *told*: not clipped, with `noise=`.
    """
    outcomes: list[Outcome] = []
    refused: list[str] = []
    for name, span in RANGES.items():
        population, scores = scored_population("magic", span)
        for scale in (0, 2, 5, 10):
            found = run(partial(draw_c, population, scores, span, scale))
            for how in found[0]:
                kept = [f[how] for f in found if f[how] is not None]
                if len(kept) < len(found):
                    refused.append(f"{len(found) - len(kept)} ({name}, scale {scale})")
                outcomes += by_measure([name, str(scale), how], kept, population.truth(scores))
    return [
        "Draws that were refused, because proportions vary hardly more than their noise: "
        f"{', '.join(refused) or 'none'}.",
        "",
        *two_tables(["proportions", "scale", "noise", "measure"], outcomes, BY_BAGS),
    ]


def draw_d(n_bags: int, size: int, dependence: float, seed: int) -> Found:
    data = make_gaussian_bags(n_bags, size, n_features=1, dependence=dependence, random_state=seed)
    return estimates(data.y, data.X[:, 0], seed)


def part_d(run: Run) -> list[str]:
    """Dependent instances.

    Gaussian classes two standard deviations apart, proportions in [0, 1], one feature as
    score; *dependence* is the correlation of two instances of a bag, given their labels.
    """
    truth = {"AUC": gaussian_auc(2.0), "BER": gaussian_bayes_ber(2.0)}
    outcomes: list[Outcome] = []
    for n_bags, size in ((48, 128), (192, 32)):
        for dependence in (0, 0.02, 0.1, 0.3):
            found = run(partial(draw_d, n_bags, size, dependence))
            outcomes += by_measure([f"{n_bags} of {size}", f"{dependence:g}"], found, truth)
    return two_tables(["bags", "dependence", "measure"], outcomes, INTERVALS)


def part_e(run: Run) -> list[str]:  # noqa: ARG001
    """Speed.

    `evaluate` of 1,000,000 scores in 10,000 bags: seven measures with intervals and the ROC
    curve with its band, 1,000 bootstrap draws, one thread, three runs.
    """
    data = make_gaussian_bags(10_000, 100, n_features=1, random_state=0)
    rows, before = [], peak_memory()
    for model in ("bags", "instances"):
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            evaluate(data.y, data.X[:, 0], bag_model=model, n_draws=1000)
            seconds.append(time.perf_counter() - begin)
        rows.append([model, ", ".join(f"{s:.1f}" for s in seconds)])
    return [
        *table(["bag model", "seconds"], rows),
        "",
        f"Peak memory of the whole process: {peak_memory():.2f} GiB, {before:.2f} before the first "
        "run.",
    ]


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


PARTS = {"A": part_a, "B": part_b, "C": part_c, "D": part_d, "E": part_e}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=200, help="draws for each row (200)")
    parser.add_argument("--part", default="A,B,C,D,E", help="parts to run (A,B,C,D,E)")
    parser.add_argument("--jobs", type=int, default=1, help="draws made at the same time (1)")
    parser.add_argument("-o", "--output", type=Path, default=None, help="Markdown file to write")
    arguments = parser.parse_args()
    parts = [part.strip().upper() for part in arguments.part.split(",")]
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"There is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")

    def run(once: Callable[[int], Any]) -> list[Any]:
        jobs = (delayed(once)(seed) for seed in range(arguments.repeats))
        return list(Parallel(n_jobs=arguments.jobs)(jobs))

    begin = time.perf_counter()
    text = {}
    # E first: the peak memory of the process is then its own
    for part in sorted(parts, key=lambda part: part != "E"):
        since = time.perf_counter()
        with threadpool_limits(1):
            found = PARTS[part](run)
        title, _, explanation = (getdoc(PARTS[part]) or "").partition(".\n\n")
        text[part] = [f"## {part}. {title}", "", explanation, "", *found]
        print(f"part {part}: {time.perf_counter() - since:.0f} s", flush=True)
    command = (
        f"python benchmarks/label_free.py --repeats {arguments.repeats} --part {','.join(parts)}"
    )
    lines = [
        "# Label-free measures against the truth",
        "",
        f"`{command}` ({time.perf_counter() - begin:.0f} s, {N_DRAWS} bootstrap draws, "
        f"{arguments.repeats} repetitions for each row):",
        "",
        provenance_line(),
    ]
    for part in sorted(parts):
        lines += ["", *text[part]]
    if arguments.output is None:
        print("\n".join(lines))
    else:
        arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
