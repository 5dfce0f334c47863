"""What can be measured without labels: every measure is a function of class means.

For any statistic h of an instance, W gives an estimate of E[h(X) | class c]. A measure takes some
statistics, and is a function of their class means:

| measure | statistics | function of their class means |
| --- | --- | --- |
| rates, accuracy, precision, cost | 1[predicted class = k] | of the confusion matrix |
| risk | ℓ(f(x), k) | Σ_c π_c E[ℓ(f(X), c) | c] |
| area under the ROC curve | 1[f(x) in cell k] | probability that a positive outranks a negative |

Its *influence* φ_c(x) is the derivative of the measure with respect to the distribution of class c
at x: what standard errors from labelled rows need. Its *tally* gathers statistics by bag: what
resampled bags are evaluated from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats, Ints
from unbag._text import quoted
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import resolve_class_prior
from unbag.observations.losses import get_loss
from unbag.weights import decontamination_weights

# Cells of scores in which resampled ROC curves are counted.
_MAX_CELLS = 200

# Of class means, for slopes by finite differences.
_STEP = 1e-5

# --- scored rows ----------------------------------------------------------------------------------

ScoreKind = Literal["scores", "probabilities", "predictions"]

_LABELS = "All scores are class labels, as model.predict(X) gives them"
_GIVE = "give model.decision_function(X)"
_COLUMNS = "(Two columns, one for each class, are never taken for {}.)"


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores of instances whose bags have known proportions."""

    bags: Bags
    scores: Floats  # (n_instances,) or (n_instances, n_classes)
    kind: ScoreKind = "scores"  # type of the scores
    posterior: Floats | None = None  # class probabilities in place of W: (n_classes, n_instances)

    @cached_property
    def weights(self) -> Floats:
        """W, which turns means over bags into means over classes: shape (n_bags, n_classes)."""
        return decontamination_weights(self.bags)

    def row_weights(self) -> Iterator[Floats]:
        """Weight of every row in one class after the other: W[i, c]/n_i, or scaled posteriors."""
        if self.posterior is None:
            for of_bags in (self.weights / self.bags.sizes[:, None]).T:
                yield of_bags[self.bags.index]
        else:
            for row in self.posterior:
                yield row / max(row.sum(), np.finfo(float).tiny)

    def class_means(self, values: Floats) -> Floats:
        """Estimate E[h(X) | class c]; the last axis runs over instances, then over classes."""
        if self.posterior is None:
            return self.bags.means(values) @ self.weights
        return np.stack([values @ row for row in self.row_weights()], axis=-1)

    def with_labelled_rows_apart(self) -> Sample:
        """Count every row of known label as an independent draw, whatever the bag model."""
        if self.posterior is not None or not self.bags.labelled.any():
            return self
        return replace(self, bags=self.bags.with_labelled_rows_apart()[0])

    def check_order(self) -> None:
        """Refuse predicted classes, which put no order between rows."""
        if self.kind == "predictions":
            raise ValueError(f"{_LABELS}, and labels rank no rows; {_GIVE}.")

    def check_threshold(self, threshold: float) -> None:
        """Refuse predicted classes and probabilities that a threshold does not divide."""
        low, high = self.scores.min(), self.scores.max()
        if self.kind == "predictions" and not low < threshold < high:
            raise ValueError(
                f"{_LABELS}, and the threshold {threshold:g} is not between them; {_GIVE}, or "
                f"threshold={(low + high) / 2:g}."
            )
        if self.kind == "probabilities" and threshold == 0:
            raise ValueError(
                "All scores lie between 0 and 1, as probabilities do, and the threshold is 0, so "
                f"that all would be predicted positive; {_GIVE}, or threshold=0.5 for "
                f"probabilities. {_COLUMNS.format('probabilities')}"
            )

    def check_scale(self) -> None:
        """Refuse what a loss would not understand."""
        if self.kind != "scores":
            text = f"All scores look like {self.kind}, and a loss is one of decision values"
            raise ValueError(f"{text}; {_GIVE}. {_COLUMNS.format('them')}")


def make_sample(
    y: Any, scores: ArrayLike, *, binary: str | None = None, trusted: bool = False
) -> Sample:
    """Check scores against the bags they belong to."""
    bags = check_bag_target(y)
    try:
        values = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "Scores must be numbers; give model.decision_function(X), not model.predict(X)."
        ) from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != bags.n_instances:
        raise ValueError(
            f"There are {bags.n_instances} instances but scores of shape {values.shape}."
        )
    if values.ndim == 2 and values.shape[1] != bags.n_classes:
        raise ValueError(f"{bags.n_classes} classes need as many columns of scores.")
    what = "A single column of scores" if values.ndim == 1 else binary
    if what is not None and bags.n_classes != 2:
        raise ValueError(f"{what} is for two classes and there are {bags.n_classes}.")
    if not np.isfinite(values).all():
        raise ValueError("Scores must be finite numbers.")
    if values.ndim == 2:
        return Sample(bags, values[:, 1] - values[:, 0] if bags.n_classes == 2 else values)
    return Sample(bags, values, "scores" if trusted else _kind(values, bags.classes))


def as_columns(scores: Floats) -> Floats:
    """Scores of two classes as a column for each, which nobody takes for probabilities."""
    return np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores


def _kind(values: Floats, classes: NDArray[Any]) -> ScoreKind:
    """Predicted classes and probabilities from scores; a constant may be anything."""
    if len(values) == 0 or values.min() == values.max():
        return "scores"
    # classes named by text have the numbers 0, 1, ... as well
    labels = classes if classes.dtype.kind in "biuf" else np.arange(len(classes))
    if np.isin(values, labels.astype(float)).all():
        return "predictions"
    return "probabilities" if values.min() >= 0 and values.max() <= 1 else "scores"


# --- measures -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tally:
    """Statistics s_j of the rows, gathered by bag, and the measure as a function of class means."""

    bag_means: Floats  # (n_bags, n_statistics)
    sums: Callable[[Floats], Floats]  # of w_j s_j over the rows of each bag, for weights w
    value: Callable[[Floats], Floats]  # of class means (..., n_classes, n_statistics)


def count_in_cells(bags: Bags, scores: Floats) -> tuple[Ints, Floats]:
    """Cells of similar score, about equally full: of each row, and shares (n_bags, n_cells)."""
    ordered = np.sort(scores)
    ends = np.unique(ordered[(np.arange(1, _MAX_CELLS + 1) * len(ordered)) // _MAX_CELLS - 1])
    cell = np.searchsorted(ends, scores)
    return cell, bags.tally(cell, int(cell.max()) + 1) / bags.sizes[:, None]


class Measure(ABC):
    """One measure of how good scores are."""

    @property
    def bounded(self) -> bool:
        """Whether it lies between 0 and 1."""
        return True

    @abstractmethod
    def value(self, sample: Sample) -> float:
        """Estimate it."""

    @abstractmethod
    def influence(self, sample: Sample) -> Floats:
        """φ_c(x) of every class and instance: shape (n_classes, n_instances)."""

    @abstractmethod
    def tally(self, sample: Sample) -> Tally:
        """Gather by bag what estimates from resampled bags need."""

    def unseen(self, sample: Sample, tail: float) -> Floats:  # noqa: ARG002
        """Values that intervals include although no resampled bags show them; by default none."""
        return np.array([])


class ByClassMeans(Measure):
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

    def tally(self, sample: Sample) -> Tally:
        """Gather the statistics by bag."""
        bags, statistics = sample.bags, self.statistics(sample)
        return Tally(
            bag_means=bags.means(statistics).T,
            sums=lambda weights: (bags.means(statistics * weights) * bags.sizes).T,
            value=lambda means: self.of_means(means, bags),
        )

    @abstractmethod
    def statistics(self, sample: Sample) -> Floats:
        """Numbers of every instance: shape (n_statistics, n_instances)."""

    @abstractmethod
    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for class means of shape (..., n_classes, n_statistics)."""

    def gradient(self, means: Floats, bags: Bags) -> Floats:
        """Slope of the measure in each class mean: shape (n_classes, n_statistics)."""
        steps = _STEP * np.eye(means.size).reshape(-1, *means.shape)
        rise = self.of_means(means + steps, bags) - self.of_means(means - steps, bags)
        return np.reshape(rise, means.shape) / (2 * _STEP)


@dataclass(frozen=True)
class OfConfusion(ByClassMeans):
    """A measure that depends on the confusion matrix M[c, k] = P(predicted k | class c)."""

    threshold: float = 0.0

    def statistics(self, sample: Sample) -> Floats:
        """Predicted class of each instance (n_classes, n_instances); at the threshold, half of each."""
        scores = sample.scores
        if scores.ndim == 2:
            return (scores.argmax(axis=1) == np.arange(scores.shape[1])[:, None]).astype(float)
        sample.check_threshold(self.threshold)
        above = (scores > self.threshold) + 0.5 * (scores == self.threshold)
        return np.stack([1 - above, above])

    def unseen(self, sample: Sample, tail: float) -> Floats:
        """Values where all rows are predicted alike, if some were not: all of these right, or wrong.

        A share of 1 − tail^(1/n) is the most that n rows can fail to show (Clopper and Pearson), n
        their number over the design effect of bags on the scores.
        """
        statistics, scores = self.statistics(sample), np.atleast_2d(sample.scores.T)
        if np.ptp(statistics, axis=1).any() or not np.ptp(scores):
            return np.array([])
        bags = sample.bags
        apart = bags.means(scores) - scores.mean(axis=1, keepdims=True)
        between = np.sum((apart * bags.sizes / bags.n_instances) ** 2, axis=1)
        most_alike = np.max(between / scores.var(axis=1))
        share = 1 - tail ** max(most_alike, 1 / bags.n_instances)
        others = np.stack([np.roll(np.eye(bags.n_classes), k, 1) for k in range(bags.n_classes)])
        return np.asarray(self.of_means((1 - share) * statistics[:, 0] + share * others, bags))


@dataclass(frozen=True)
class Rate(OfConfusion):
    """P(predicted ``predicted`` | class ``actual``): one entry of the confusion matrix."""

    actual: int = 1
    predicted: int = 1

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        return means[..., _class_number(self.actual, bags), _class_number(self.predicted, bags)]


@dataclass(frozen=True)
class Cost(OfConfusion):
    """Σ_c π_c Σ_k cost[c, k] · P(predicted k | class c), or one minus it: the ``complement``.

    ``cost=None`` charges one for every error: a balanced prior gives the balanced error rate.
    """

    class_prior: Any = "balanced"
    cost: Any = field(default=None, hash=False)
    complement: bool = False

    @property
    def bounded(self) -> bool:
        """Whether it is a proportion of errors, or one minus it."""
        return self.complement or self.cost is None

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means."""
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        charge = np.sum(prior[:, None] * check_cost(self.cost, bags) * means, axis=(-2, -1))
        return 1 - charge if self.complement else charge


@dataclass(frozen=True)
class Precision(OfConfusion):
    """P(class ``positive`` | predicted so), where classes have the shares ``class_prior``."""

    class_prior: Any = "empirical"
    positive: int = 1

    # β² of (1 + β²) π M/(β² π + P(predicted)), the measure F_β, which for β = 0 is the precision
    _recall_counts: ClassVar[int] = 0

    def of_means(self, means: Floats, bags: Bags) -> Any:
        """Measure for given class means; not a number where nothing is predicted positive."""
        prior = resolve_class_prior(self.class_prior, bags.class_shares)
        joint = prior * means[..., _class_number(self.positive, bags)]
        top = (1 + self._recall_counts) * joint[..., self.positive]
        bottom = self._recall_counts * prior[self.positive] + joint.sum(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(bottom == 0, np.nan, np.divide(top, bottom))


class F1(Precision):
    """Harmonic mean of precision and recall, 2πM/(π + P(predicted)), at given class shares."""

    _recall_counts = 1


@dataclass(frozen=True)
class Risk(ByClassMeans):
    """Σ_c π_c E[ℓ(f(X), c) | c]: the corrected risk of any loss."""

    loss: Any = "logistic"
    class_prior: Any = "balanced"

    @property
    def bounded(self) -> bool:
        """No loss has an upper limit that is known here."""
        return False

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


@dataclass(frozen=True)
class Area(Measure):
    """Area under the ROC curve: P(f(X₊) > f(X₋)) + ½ P(f(X₊) = f(X₋)).

    With signed weights Σ W₊(x) W₋(z) (1[f(x) > f(z)] + ½ 1[f(x) = f(z)]) is unbiased: pairs inside
    a bag add what they are expected to, since each counts together with its mirror image.
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

    def tally(self, sample: Sample) -> Tally:
        """Count bags in cells of scores that hold about equally many instances."""
        cell, shares = count_in_cells(sample.bags, sample.scores)
        by_class = np.stack([np.bincount(cell, row).astype(float) for row in sample.row_weights()])
        # what pairs of one cell add beyond one half each
        offset = self.value(sample) - float(area_under_roc(by_class))
        place = sample.bags.index * shares.shape[1] + cell

        def sums(weights: Floats) -> Floats:
            return np.bincount(place, weights, shares.size).astype(float).reshape(shares.shape)

        return Tally(shares, sums, lambda means: area_under_roc(means) + offset)

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


MEASURES: dict[str, Callable[..., Measure]] = {
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


def get_measure(measure: str | Measure, options: dict[str, Any]) -> Measure:
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
