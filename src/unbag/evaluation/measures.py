"""What can be measured without labels: every measure is a function of class means.

For any statistic h of an instance, W gives an estimate of E[h(X) | class c]. A measure takes some
statistics, and is a function of their class means:

| measure | statistics | function of their class means |
| --- | --- | --- |
| rates, accuracy, precision, cost | 1[predicted class = k] | of the confusion matrix |
| risk | ℓ(f(x), k) | Σ_c π_c E[ℓ(f(X), c) | c] |
| area under the ROC curve | 1[f(x) in cell k] | probability that a positive outranks a negative |

Its *influence* φ_c(x) is the derivative of the measure with respect to the distribution of class c
at x: what standard errors from labelled rows need.

Statistics of instances gathered by bag: what a measure of resampled bags is computed from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from unbag._arrays import Floats, Ints
from unbag._text import quoted
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.evaluation.sample import Sample, make_sample
from unbag.observations.losses import get_loss

# Cells of scores in which resampled ROC curves are counted.
_MAX_CELLS = 200


class Tally(Protocol):
    """Statistics of the instances, gathered by bag, and the function of their class means."""

    @property
    def bag_means(self) -> Floats:
        """Mean of each statistic over each bag: shape (n_bags, n_statistics)."""
        ...

    def value(self, means: Floats) -> Floats:
        """Measure for class means of shape (..., n_classes, n_statistics)."""
        ...


class RowTally(Tally, Protocol):
    """The same with the rows at hand."""

    def sums(self, weights: Floats) -> Floats:
        """Σ_j weights_j · s_j over the rows j of each bag: shape (n_bags, n_statistics)."""
        ...


@dataclass(frozen=True, eq=False)
class ValueTally:
    """Statistics that are numbers: their values, shape (n_statistics, n_instances)."""

    bags: Bags
    statistics: Floats
    function: Callable[[Floats], Floats]

    @property
    def bag_means(self) -> Floats:
        """Mean of each statistic over each bag."""
        return self.bags.means(self.statistics).T

    def sums(self, weights: Floats) -> Floats:
        """Σ_j weights_j · s_j over the rows j of each bag."""
        return (self.bags.means(self.statistics * weights) * self.bags.sizes).T

    def value(self, means: Floats) -> Floats:
        """Measure for given class means."""
        return self.function(means)


@dataclass(frozen=True, eq=False)
class CellTally:
    """Statistics of the cell in which an instance lies; counted, so that many cells are cheap.

    ``offset`` is what sharing a cell takes from the value, and is put back; ``place`` is the cell
    of every bag that each row lies in, counted through, where rows are at hand.
    """

    shares: Floats
    function: Callable[[Floats], Floats]
    offset: float = 0.0
    place: Ints | None = None

    @property
    def bag_means(self) -> Floats:
        """Share of each bag in each cell."""
        return self.shares

    def sums(self, weights: Floats) -> Floats:
        """Sum of the weights of the rows of each bag in each cell."""
        if self.place is None:
            raise ValueError("Rows are not at hand.")
        counts: Floats = np.bincount(self.place, weights, self.shares.size).astype(float)
        return counts.reshape(self.shares.shape)

    def value(self, means: Floats) -> Floats:
        """Measure for given class means."""
        return self.function(means) + self.offset


def score_cells(scores: Floats) -> Ints:
    """Number the instances by score, in a limited number of cells of about equal content."""
    ordered = np.sort(scores)
    ends = np.unique(ordered[(np.arange(1, _MAX_CELLS + 1) * len(ordered)) // _MAX_CELLS - 1])
    return np.searchsorted(ends, scores)


def cell_shares(bags: Bags, cell: Ints) -> Floats:
    """Share of each bag's instances in each cell: shape (n_bags, n_cells)."""
    return bags.tally(cell, int(cell.max()) + 1) / bags.sizes[:, None]


class Measure(Protocol):
    """One measure of how good scores are."""

    def value(self, sample: Sample) -> float:
        """Estimate it."""
        ...

    def influence(self, sample: Sample) -> Floats:
        """φ_c(x) of every class and instance: shape (n_classes, n_instances)."""
        ...

    def tally(self, sample: Sample) -> Tally:
        """Gather by bag what estimates from resampled bags need."""
        ...


class RowMeasure(Measure, Protocol):
    """One that has the rows at hand."""

    def tally(self, sample: Sample) -> RowTally:
        """Gather by bag what estimates from resampled bags need."""
        ...


class ByClassMeans(ABC):
    """A measure whose statistics are few numbers per instance."""

    def value(self, sample: Sample) -> float:
        """Estimate it."""
        statistics = self.statistics(sample)
        return float(self.of_means(sample.class_means(statistics).T, sample.bags))

    def influence(self, sample: Sample) -> Floats:
        """φ_c(x): the slopes in the class means, times the statistics."""
        statistics = self.statistics(sample)
        means = sample.class_means(statistics).T
        return self.gradient(means, sample.bags) @ statistics

    def tally(self, sample: Sample) -> ValueTally:
        """Gather the statistics by bag."""
        bags = sample.bags
        return ValueTally(bags, self.statistics(sample), lambda means: self.of_means(means, bags))

    @abstractmethod
    def statistics(self, sample: Sample) -> Floats:
        """Numbers of every instance: shape (n_statistics, n_instances)."""

    @abstractmethod
    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for class means of shape (..., n_classes, n_statistics)."""

    @abstractmethod
    def gradient(self, means: Floats, bags: Bags) -> Floats:
        """Slope of the measure in each class mean: shape (n_classes, n_statistics)."""


def predicted_shares(sample: Sample, threshold: float) -> Floats:
    """How far each instance is predicted to be of each class: (n_classes, n_instances).

    A score equal to the threshold counts half for either class. With one column of scores per
    class, the class with the largest score is predicted.
    """
    scores = sample.scores
    if scores.ndim == 1:
        sample.check_threshold(threshold)
        above = (scores > threshold) + 0.5 * (scores == threshold)
        return np.stack([1 - above, above])
    return (scores.argmax(axis=1) == np.arange(scores.shape[1])[:, None]).astype(float)


@dataclass(frozen=True)
class OfConfusion(ByClassMeans):
    """A measure that depends on the confusion matrix M[c, k] = P(predicted k | class c)."""

    threshold: float = 0.0

    def statistics(self, sample: Sample) -> Floats:
        """How far an instance is predicted to be of each class."""
        return predicted_shares(sample, self.threshold)


@dataclass(frozen=True)
class Rate(OfConfusion):
    """P(predicted ``predicted`` | class ``actual``): one entry of the confusion matrix."""

    actual: int = 1
    predicted: int = 1

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        return means[..., _class_number(self.actual, bags), _class_number(self.predicted, bags)]

    def gradient(self, means: Floats, bags: Bags) -> Floats:
        """Slope in each class mean."""
        slope = np.zeros_like(means)
        slope[_class_number(self.actual, bags), _class_number(self.predicted, bags)] = 1.0
        return slope


@dataclass(frozen=True)
class Cost(OfConfusion):
    """Σ_c π_c Σ_k cost[c, k] · P(predicted k | class c).

    ``cost=None`` charges one for every error, so that a balanced prior gives the balanced error
    rate; ``complement`` gives one minus it, the (balanced) accuracy.
    """

    class_prior: Any = "balanced"
    cost: Any = field(default=None, hash=False)
    complement: bool = False

    def _charges(self, bags: Bags) -> Floats:
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        return prior[:, None] * check_cost(self.cost, bags)

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        charge = np.sum(self._charges(bags) * means, axis=(-2, -1))
        return 1 - charge if self.complement else charge

    def gradient(self, means: Floats, bags: Bags) -> Floats:  # noqa: ARG002
        """Slope in each class mean."""
        return (-1.0 if self.complement else 1.0) * self._charges(bags)


@dataclass(frozen=True)
class Precision(OfConfusion):
    """P(class ``positive`` | predicted so), where classes have the shares ``class_prior``."""

    class_prior: Any = "empirical"
    positive: int = 1

    # β² of (1 + β²) π M/(β² π + P(predicted)), the measure F_β, which for β = 0 is the precision
    _recall_counts: ClassVar[int] = 0

    def _parts(self, means: Floats, bags: Bags) -> tuple[Floats, Floats, Floats]:
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        joint = prior * means[..., _class_number(self.positive, bags)]
        top = (1 + self._recall_counts) * joint[..., self.positive]
        return prior, top, self._recall_counts * prior[self.positive] + joint.sum(axis=-1)

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        _, top, bottom = self._parts(means, bags)
        return _ratio(top, bottom)

    def gradient(self, means: Floats, bags: Bags) -> Floats:
        """Slope in each class mean."""
        prior, top, bottom = self._parts(means, bags)
        own = (1 + self._recall_counts) * (np.arange(len(prior)) == self.positive)
        slope = np.zeros_like(means)
        slope[:, self.positive] = prior * (_ratio(own, bottom) - _ratio(top, bottom**2))
        return slope


class F1(Precision):
    """Harmonic mean of precision and recall, 2πM/(π + P(predicted)), at given class shares."""

    _recall_counts = 1


@dataclass(frozen=True)
class Risk(ByClassMeans):
    """Σ_c π_c E[ℓ(f(X), c) | c]: the corrected risk of any loss."""

    loss: Any = "logistic"
    class_prior: Any = "balanced"

    def statistics(self, sample: Sample) -> Floats:
        """Loss of an instance, were it of each class."""
        sample.check_scale()
        scores = sample.scores
        columns = scores.T[None] if scores.ndim == 2 else scores[None, None]
        losses = get_loss(self.loss, sample.bags.n_classes).losses(columns)
        return np.asarray(losses[0], dtype=float)

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        return np.diagonal(means, axis1=-2, axis2=-1) @ prior

    def gradient(self, means: Floats, bags: Bags) -> Floats:  # noqa: ARG002
        """Slope in each class mean."""
        return np.diag(resolve_class_prior(self.class_prior, bags.class_shares))


@dataclass(frozen=True)
class Area:
    """Area under the ROC curve: P(f(X₊) > f(X₋)) + ½ P(f(X₊) = f(X₋)).

    With signed weights it is Σ W₊(x) W₋(z) (1[f(x) > f(z)] + ½ 1[f(x) = f(z)]) over all
    instances, which sorting gives in O(n log n). Pairs inside a bag add what they are expected
    to add, since each counts together with its mirror image: the estimate is unbiased.
    """

    def value(self, sample: Sample) -> float:
        """Estimate it, with every distinct score in a cell of its own."""
        return float(area_under_roc(self._class_shares(sample)))

    def influence(self, sample: Sample) -> Floats:
        """φ₊(x) = P(f(X₋) below f(x)), φ₋(x) = P(f(X₊) above f(x)), ties counted half."""
        shares = self._class_shares(sample)
        cell = np.unique(sample.scores, return_inverse=True)[1]
        below = np.cumsum(shares, axis=1) - shares / 2
        return np.stack([1 - below[1], below[0]])[:, cell]

    def tally(self, sample: Sample) -> CellTally:
        """Count bags in cells of scores that hold about equally many instances."""
        value = self.value(sample)
        cell = score_cells(sample.scores)
        shares = cell_shares(sample.bags, cell)
        by_class = [np.bincount(cell, row) for row in sample.row_weights()]
        # what pairs of one cell would add beyond one half each
        offset = value - float(area_under_roc(np.stack(by_class)))
        place = sample.bags.index * shares.shape[1] + cell
        return CellTally(shares, area_under_roc, offset, place)

    @staticmethod
    def _class_shares(sample: Sample) -> Floats:
        """Share of each class in each cell, one per distinct score: shape (2, n_cells)."""
        n_classes = sample.bags.n_classes
        if n_classes != 2:
            raise ValueError(
                f"The area under the ROC curve is for two classes and there are {n_classes}."
            )
        sample.check_order()
        order = np.argsort(sample.scores, kind="stable")
        ordered = sample.scores[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        del ordered
        return np.stack([np.add.reduceat(row[order], first) for row in sample.row_weights()])


def area_under_roc(shares: Floats) -> Floats:
    """Area for shares (..., 2, n_cells) of negatives and positives in rising cells of scores."""
    negative, positive = shares[..., 0, :], shares[..., 1, :]
    below = np.cumsum(negative, axis=-1)
    below -= negative / 2
    below *= positive
    return below.sum(axis=-1)


def _class_number(number: int, bags: Bags) -> int:
    if not 0 <= number < bags.n_classes:
        raise ValueError(
            f"There is no class number {number}; they go from 0 to {bags.n_classes - 1}."
        )
    return number


def _ratio(top: Any, bottom: Any) -> Any:
    """Quotient; not a number where nothing is predicted positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bottom == 0, np.nan, np.divide(top, bottom))


def check_cost(cost: Any, bags: Bags) -> Floats:
    """Charge of each prediction for each class: shape (n_classes, n_classes)."""
    n = bags.n_classes
    if cost is None:
        return 1 - np.eye(n)
    table = np.asarray(cost, dtype=float)
    if n == 2 and table.shape == (2,):
        false_positive, false_negative = table
        table = np.array([[0, false_positive], [false_negative, 0]])
    if table.shape != (n, n) or not np.isfinite(table).all():
        raise ValueError(
            "cost must be (cost of a false positive, cost of a false negative), or a table with "
            f"one row per class and one column per prediction ({n} by {n})."
        )
    return table


MEASURES: dict[str, Callable[..., RowMeasure]] = {
    "roc_auc": Area,
    "balanced_accuracy": lambda **options: Cost(complement=True, **options),
    "balanced_error": Cost,
    "accuracy": lambda class_prior="empirical", **options: Cost(
        class_prior=class_prior, complement=True, **options
    ),
    "cost": Cost,
    "recall": Rate,
    "true_positive_rate": Rate,
    "false_positive_rate": lambda **options: Rate(actual=0, predicted=1, **options),
    "precision": Precision,
    "f1": F1,
    "corrected_risk": Risk,
}


def usual_measures(bags: Bags, threshold: float, class_prior: Any) -> dict[str, RowMeasure]:
    """Measures of an evaluation, by name."""
    found: dict[str, RowMeasure] = {
        "balanced_accuracy": Cost(threshold, complement=True),
        "accuracy": Cost(threshold, class_prior, complement=True),
    }
    if bags.n_classes > 2:
        recalls = {f"recall of {c}": Rate(threshold, i, i) for i, c in enumerate(bags.class_names)}
        return {**found, **recalls}
    return {
        "roc_auc": Area(),
        **found,
        "true_positive_rate": Rate(threshold, 1, 1),
        "false_positive_rate": Rate(threshold, 0, 1),
        "precision": Precision(threshold, class_prior),
        "f1": F1(threshold, class_prior),
    }


def plain_estimate(measure: str | RowMeasure, y: Any, scores: Any, **options: Any) -> float:
    """Return the plain estimate of a measure, without interval and checks."""
    return get_measure(measure, options).value(make_sample(y, scores))


def get_measure(measure: str | RowMeasure, options: dict[str, Any]) -> RowMeasure:
    """Look a measure up by name, with its options."""
    if not isinstance(measure, str):
        if options:
            raise ValueError("Options go with the name of a measure, not with a measure itself.")
        return measure
    if measure not in MEASURES:
        raise ValueError(f"There is no measure {measure!r}; there are {', '.join(MEASURES)}.")
    try:
        return MEASURES[measure](**options)
    except TypeError:
        message = f"The measure {measure!r} does not take all of {quoted(options)}."
        raise ValueError(message) from None
