"""Label-free evaluation of scores that are spread over partitions.

Partitions count, bag by bag, how many instances lie in which cell of scores and on which side of
the threshold. All measures and their errors come from these counts by the functions of
`unbag.evaluation`. Only the area under the ROC curve would need every score: it is taken from class
sums in up to 65,536 fine cells of about equal content, within which scores count as tied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from unbag._arrays import Bools, Floats, Ints
from unbag._docstrings import as_in
from unbag.bags.bags import BagModel
from unbag.distributed.partitions import Partitions, is_dask, partitions_of, share
from unbag.distributed.table import BagsById, make_table, merge_summaries, summarise_target
from unbag.evaluation import evaluation as local
from unbag.evaluation.checks import judge
from unbag.evaluation.curves import RocBand, band_around, rates_of_cells, span_bands, tpr_at
from unbag.evaluation.evaluation import Evaluation, what_to_say
from unbag.evaluation.measures import (
    CellTally,
    Measure,
    Tally,
    area_under_roc,
    predicted_shares,
    usual_measures,
)
from unbag.evaluation.sample import Sample, as_columns, check_finite
from unbag.evaluation.uncertainty import Uncertainty
from unbag.model_selection.splitters import some_bags

_FINE_CELLS = 2**16
_COARSE_CELLS = 200

# Rows that the verdict goes by, of no fewer bags than these.
_JUDGED_ROWS = 200_000
_JUDGED_BAGS = 50

# Numbers in the table of coarse cells of all bags; many bags get fewer cells.
_TABLE = 2**25


@as_in(local.evaluate)
def evaluate(
    y: Any,
    scores: Any,
    *,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    bag_model: BagModel = "bags",
    level: float = 0.95,
    n_draws: int = 1000,
    random_state: Any = 0,
) -> Evaluation:
    """Estimate from bags alone how good given scores are, for Dask collections.

    What `unbag.evaluation.evaluate` gives, with intervals by the bootstrap. The verdict, and what is
    said in the place of estimates that it refutes, are those of up to 200,000 rows, of whole bags
    drawn at random. Counts are exact, and so
    are all measures but the area under the ROC curve, which is that of scores rounded to 65,536
    cells; it is exact as well for no more instances than that in any partition and all together.

    Parameters
    ----------
    y : Dask array
        The target, as `DistributedClassifier` takes it; bags that the model was not trained on.
    scores : Dask array of shape (n_instances,) or (n_instances, n_classes)
        Such as ``model.decision_function(X)``. It is computed twice, so that scores which take
        long should be persisted.
    threshold, class_prior, bag_model, level, n_draws, random_state : as in evaluate

    Returns
    -------
    evaluation : Evaluation
        Print it, or take ``evaluation["roc_auc"]``.

    Examples
    --------
    >>> import dask.array as da
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.distributed import evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> y, scores = da.from_array(data.y, chunks=700), da.from_array(data.X[:, 0], chunks=700)
    >>> evaluation = evaluate(y, scores)
    >>> round(evaluation["roc_auc"].value, 1)
    0.9
    """
    uncertainty = Uncertainty("bootstrap", bag_model, level, n_draws, random_state)
    if not is_dask(scores):
        raise ValueError(
            f"scores must be a Dask array, not {type(scores).__name__}; unbag.evaluation.evaluate "
            "takes arrays in memory."
        )
    table = make_table(partitions_of(y).reduce(summarise_target, merge_summaries))
    n_bags, n_instances = table.bags.n_bags, table.n_instances
    table = table.with_labelled_rows_apart()
    bags = replace(table.bags, labelled=np.zeros(table.bags.n_bags, dtype=bool))
    sample = Sample(bags, np.empty(0))
    two = bags.n_classes == 2
    both = partitions_of(scores, y)
    cells = ScoreCells.none()
    if two:
        cells = ScoreCells.of(both.reduce(sample_scores, join_samples), bags.n_bags)
    by_row = (sample.weights / bags.sizes[:, None]).T
    ruler = Ruler(table, by_row, cells, float(threshold))
    tables = both.reduce(count, join_counts, share(ruler)).tables(bags.sizes, bags.n_classes)
    measures = {
        name: _FromTables.of_confusion(measure, tables, sample)
        for name, measure in usual_measures(sample.bags, threshold, class_prior).items()
        if name != "roc_auc"
    }
    if two:
        measures = {"roc_auc": _FromTables.of_area(tables, sample), **measures}
    looks = {name: uncertainty.of(measure, sample) for name, measure in measures.items()}
    some = local.evaluate(
        *_rows_of_some_bags(both, table, check_random_state(random_state)),
        threshold=threshold,
        class_prior=class_prior,
        bag_model=bag_model,
        level=level,
        n_draws=n_draws,
        random_state=random_state,
    )
    verdict = some.verdict
    if some.witnesses:
        verdict = judge(looks, some.tests, some.effect)
    worlds = some.worlds | {"looks": looks}
    roc = _roc_band(tables, sample, uncertainty) if two else None
    if verdict.name != "supported" and roc is not None and some.roc is not None:
        roc = some.roc if verdict.name == "refuted" else span_bands(roc, some.roc)
    return Evaluation(
        verdict=verdict,
        estimates=what_to_say(verdict, worlds),
        worlds=worlds,
        roc=roc,
        scores=scores,
        fold=None,
        threshold=threshold,
        n_bags=n_bags,
        n_instances=n_instances,
        witnesses=some.witnesses,
        effect=some.effect,
    )


def _rows_of_some_bags(
    both: Partitions, table: BagsById, rng: np.random.RandomState
) -> tuple[NDArray[np.void], Floats]:
    """Target and scores of whole bags drawn at random, for what needs rows: the verdict."""
    chosen = some_bags(table.bags.sizes, _JUDGED_ROWS, _JUDGED_BAGS, rng)
    parts = both.gather(rows_of_bags, share((table, chosen)))
    targets, scores = zip(*parts, strict=True)
    return np.concatenate(targets), as_columns(np.concatenate(scores))


def rows_of_bags(
    scores: Any, y: Any, wanted: tuple[BagsById, Bools]
) -> tuple[NDArray[np.void], Floats]:
    """Rows of one partition that belong to chosen bags."""
    table, chosen = wanted
    here = chosen[table.bags.index[table.find(y["bag"])]]
    return np.asarray(y)[here], _one_column(scores, table.bags.n_classes)[here]


@dataclass(frozen=True, eq=False)
class ScoreSample:
    """Scores in rising order, each standing for ``weight`` instances up to it."""

    values: Floats
    weight: Floats


def sample_scores(scores: Any, y: Any) -> ScoreSample:  # noqa: ARG001
    """Some scores of a partition at equal steps, the largest among them."""
    values, times = np.unique(_one_column(scores, 2), return_counts=True)
    return _thin(ScoreSample(values, times.astype(float)))


def join_samples(parts: list[ScoreSample]) -> ScoreSample:
    """Sample the scores of several partitions."""
    values, index = np.unique(np.concatenate([p.values for p in parts]), return_inverse=True)
    weight = _sums(index, np.concatenate([p.weight for p in parts]), len(values))
    return _thin(ScoreSample(values, weight))


def _thin(sample: ScoreSample) -> ScoreSample:
    """Keep at most so many scores that all cells get about the same weight."""
    if len(sample.values) <= _FINE_CELLS:
        return sample
    ends = _ends(sample, _FINE_CELLS)
    return ScoreSample(sample.values[ends], np.diff(np.cumsum(sample.weight)[ends], prepend=0.0))


def _ends(sample: ScoreSample, n_cells: int) -> Ints:
    """Positions of the last scores of at most ``n_cells`` cells of about equal weight."""
    below = np.cumsum(sample.weight)
    wanted = np.floor(np.arange(1, n_cells + 1) * below[-1] / n_cells)
    return np.unique(np.minimum(np.searchsorted(below, wanted), len(below) - 1))


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Fine cells, by their largest score, and the coarse cell that each belongs to."""

    largest: Floats
    coarse: Ints

    @classmethod
    def of(cls, sample: ScoreSample, n_bags: int) -> ScoreCells:
        """Cut where a sample of the scores says."""
        n_coarse = int(np.clip(_TABLE // n_bags, 20, _COARSE_CELLS))
        ends = _ends(sample, n_coarse)
        return cls(sample.values, np.searchsorted(ends, np.arange(len(sample.values))))

    @classmethod
    def none(cls) -> ScoreCells:
        """No cells, for more than two classes."""
        return cls(np.empty(0), np.empty(0, dtype=np.intp))

    @property
    def n_coarse(self) -> int:
        """Number of coarse cells."""
        return int(self.coarse[-1]) + 1 if len(self.coarse) else 0


@dataclass(frozen=True, eq=False)
class Ruler:
    """All that a partition needs for counting; ``by_row`` is W[i, c]/n_i, by class and bag."""

    table: BagsById
    by_row: Floats
    cells: ScoreCells
    threshold: float


@dataclass(frozen=True, eq=False)
class Counts:
    """What partitions count.

    Attributes
    ----------
    bags : ndarray of shape (n_bags,)
        The bags that occur here.
    by_bag : ndarray of shape (n_bags, n_coarse + n_classes + n_classes²)
        Number of instances in each coarse cell, of each prediction, and of each pair of them.
    by_class : ndarray of shape (n_classes, n_fine)
        Weight of each class in each fine cell.
    """

    bags: Ints
    by_bag: Floats
    by_class: Floats

    def tables(self, sizes: NDArray[np.int64], n_classes: int) -> Tables:
        """Give means over bags, of which every one has been seen."""
        means = self.by_bag / sizes[self.bags, None]
        n_coarse = means.shape[1] - n_classes - n_classes**2
        shares, predicted, pairs = np.split(means, [n_coarse, n_coarse + n_classes], axis=1)
        return Tables(shares, predicted, pairs.reshape(-1, n_classes, n_classes), self.by_class)


def count(scores: Any, y: Any, ruler: Ruler) -> Counts:
    """Count the instances of one partition."""
    n_classes = len(ruler.by_row)
    values = _one_column(scores, n_classes)
    if len(values) != len(y):
        raise ValueError(f"There are {len(y)} instances but {len(values)} scores.")
    bag = ruler.table.bags.index[ruler.table.find(y["bag"])]
    predicted = predicted_shares(Sample(ruler.table.bags, values), ruler.threshold)
    pairs = (predicted[:, None] * predicted).reshape(n_classes**2, -1)
    bags, place = np.unique(bag, return_inverse=True)
    n, n_coarse, n_fine = len(bags), ruler.cells.n_coarse, len(ruler.cells.largest)
    sums = [_sums(place, row, n) for row in (*predicted, *pairs)]
    in_cells, by_class = np.empty((n, 0)), np.empty((n_classes, 0))
    if n_fine:
        fine = np.minimum(np.searchsorted(ruler.cells.largest, values), n_fine - 1)
        coarse = place * n_coarse + ruler.cells.coarse[fine]
        in_cells = _sums(coarse, None, n * n_coarse).reshape(n, n_coarse)
        by_class = np.stack([_sums(fine, row[bag], n_fine) for row in ruler.by_row])
    return Counts(bags, np.column_stack([in_cells, *sums]), by_class)


def _sums(group: Ints, values: Floats | None, n: int) -> Floats:
    """Sum of the values, or number, of each of n groups."""
    return np.bincount(group, values, n).astype(float)


def join_counts(parts: list[Counts]) -> Counts:
    """Add what partitions counted; a bag may be in several of them."""
    bags, place = np.unique(np.concatenate([p.bags for p in parts]), return_inverse=True)
    total = np.zeros((len(bags), parts[0].by_bag.shape[1]))
    ends = np.cumsum([len(p.bags) for p in parts])[:-1]
    for part, here in zip(parts, np.split(place, ends), strict=True):
        total[here] += part.by_bag
    return Counts(bags, total, np.sum([p.by_class for p in parts], axis=0))


@dataclass(frozen=True, eq=False)
class Tables:
    """Means over bags: shares of coarse cells, of predictions and of pairs of predictions."""

    shares: Floats
    predicted: Floats
    pairs: Floats
    by_class: Floats


@dataclass(frozen=True, eq=False)
class MomentTally:
    """Statistics known by their means and second moments in each bag."""

    bag_means: Floats
    moments: Floats
    function: Callable[[Floats], Floats]

    def second_moments(self, weights: Floats) -> Floats:
        """Σ_i weights_i · (mean of s sᵀ over bag i)."""
        return np.tensordot(weights, self.moments, axes=1)

    def value(self, means: Floats) -> Floats:
        """Measure for given class means."""
        return self.function(means)


@dataclass(frozen=True, eq=False)
class _FromTables:
    """A measure that was tallied in partitions."""

    estimated: float
    tallied: Tally

    @classmethod
    def of_confusion(cls, measure: Measure, tables: Tables, sample: Sample) -> _FromTables:
        def function(means: Floats) -> Any:
            return measure.of_means(means, sample.bags)  # type: ignore[attr-defined]

        tally = MomentTally(tables.predicted, tables.pairs, function)
        return cls(float(function(sample.weights.T @ tables.predicted)), tally)

    @classmethod
    def of_area(cls, tables: Tables, sample: Sample) -> _FromTables:
        value = float(area_under_roc(tables.by_class))
        offset = value - float(area_under_roc(sample.weights.T @ tables.shares))
        return cls(value, CellTally(tables.shares, area_under_roc, offset))

    def value(self, sample: Sample) -> float:  # noqa: ARG002
        return self.estimated

    def tally(self, sample: Sample) -> Tally:  # noqa: ARG002
        return self.tallied

    def influence(self, sample: Sample) -> Floats:
        raise NotImplementedError("Intervals from partitions are by the bootstrap.")


def _roc_band(tables: Tables, sample: Sample, uncertainty: Uncertainty) -> RocBand:
    """ROC curve from fine cells, and its band from coarse ones, from the highest scores down."""
    curve = tpr_at(np.linspace(0, 1, 101), *rates_of_cells(tables.by_class[..., ::-1]))
    tally = CellTally(tables.shares, lambda means: means)
    draws = uncertainty.draw_class_means(sample, tally)[..., ::-1]
    return band_around(curve, draws, sample, uncertainty)


def _one_column(scores: Any, n_classes: int) -> Floats:
    """Scores of two classes as one number each, of more as one per class."""
    values = np.asarray(scores, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    wanted = 1 if values.ndim == 1 else values.shape[1]
    if values.ndim > 2 or (wanted != n_classes and not (wanted == 1 and n_classes == 2)):
        raise ValueError(f"{n_classes} classes do not go with scores of shape {values.shape}.")
    check_finite(values)
    return values[:, 1] - values[:, 0] if values.ndim == 2 and n_classes == 2 else values
