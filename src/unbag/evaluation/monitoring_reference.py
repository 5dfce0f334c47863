"""Summary of the training bags, and how new rows and counts differ from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import expit, softmax

from unbag._arrays import Floats
from unbag._text import listing, percent, shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation.bag_effects import NORMAL_95, ShiftType, estimate_bag_effect
from unbag.evaluation.drift import (
    BagLine,
    ClassInBags,
    LineComparison,
    Stability,
    choose_line,
    column_ranges,
    compare_with_line,
    rows_out_of_range,
    score_distribution,
    stability_index,
)
from unbag.evaluation.held_out import OutOfFold, cross_fit


@dataclass(frozen=True)
class ClassReference:
    """A class in the training bags, as predicted by models that did not see them."""

    line: BagLine  # of proportions and mean probabilities of bags
    gap: float  # proportion minus mean probability over all rows, and its standard error
    gap_error: float  # proportion minus mean probability over all rows, and its standard error
    rows: Mapping[str, Any]  # deciles of the probabilities, for the population stability index


@dataclass(frozen=True)
class MonitoringReference:
    """Summary of the training bags that `monitor` compares new bags with."""

    n_bags: int  # number of bags
    class_shares: tuple[float, ...]  # class prior of the model's probabilities
    classes: tuple[ClassReference, ...]  # the second of two classes, or each of several
    columns: Mapping[str, Any] = field(default_factory=dict)  # range of each numeric column

    @property
    def numbers(self) -> list[int]:
        """Numbers of the classes that are monitored."""
        return _numbers(len(self.class_shares))

    @property
    def shift_type(self) -> ShiftType:
        """Assumption that the training bags agree with: label shift or covariate shift."""
        return self.classes[0].line.direction

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and mappings, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned."""
        classes = tuple(
            ClassReference(**{**one, "line": BagLine(**one["line"])}) for one in kept["classes"]
        )
        return cls(kept["n_bags"], tuple(kept["class_shares"]), classes, kept["columns"])


def make_monitoring_reference(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    out_of_fold: OutOfFold | None = None,
) -> MonitoringReference:
    """Summarise the training bags for `monitor`.

    Parameters
    ----------
    model : classifier or pipeline
        Clones of it are fitted without each fold; its probabilities are for the class prior
        "empirical".
    X : array or data frame with n_instances rows
        The rows of training.
    y : structured array from `unbag.bag_target`
        Their bags.
    cv : int, splitter or iterable, default=5
        Folds of whole bags.
    out_of_fold : OutOfFold, optional
        From `unbag.evaluation.cross_fit`, if scores of the folds are known already.

    Returns
    -------
    reference : MonitoringReference
        Argument of `monitor`; ``to_dict`` prepares it for a file.

    Examples
    --------
    >>> from unbag import LLPClassifier, LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> april, may = (make_gaussian_bags(n_bags=40, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))]).fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> monitor(model, may.X, may.y, reference=reference).verdict
    'ok'
    """
    bags = check_bag_target(y)
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"A reference takes {FEWEST_BAGS} bags at least, and there are {n_bags}.")
    if out_of_fold is None:
        out_of_fold = cross_fit(model, X, y, cv=cv)
    table = _probabilities(out_of_fold.log_odds)
    effect = estimate_bag_effect(bags, table.T)
    classes = []
    for number in _numbers(bags.n_classes):
        found = ClassInBags.of(bags, table[:, number], number)
        line = choose_line(found, effect.prefers_label_shift)
        rows = score_distribution(bags, table[:, number])
        classes.append(ClassReference(line, *found.total_gap(), rows))
    shares = tuple(map(float, bags.class_shares))
    return MonitoringReference(n_bags, shares, tuple(classes), column_ranges(X))


def _numbers(n_classes: int) -> list[int]:
    return [1] if n_classes == 2 else list(range(n_classes))


def _probabilities(log_odds: Floats) -> Floats:
    if not np.isfinite(log_odds).all():
        raise ValueError("Monitoring takes a model with predict_proba.")
    if log_odds.ndim == 1:
        return np.column_stack([expit(-log_odds), expit(log_odds)])
    return np.asarray(softmax(log_odds, axis=1))


def drift_notes(
    reference: MonitoringReference, y: Any, probabilities: ArrayLike, X: Any = None
) -> tuple[str, ...]:
    """Compare new rows and their counts with those of training, in sentences."""
    bags = check_bag_target(y)
    table = np.asarray(probabilities, dtype=float)
    table = np.column_stack([1 - table, table]) if table.ndim == 1 else table
    if bags.n_classes != len(reference.class_shares) or bags.n_bags < FEWEST_BAGS:
        return ()
    notes = []
    numbers, classes = reference.numbers, reference.classes
    rows = [
        stability_index(one.rows, bags, table[:, k])
        for k, one in zip(numbers, classes, strict=True)
    ]
    notes.append(f"Drift of the rows: {max(rows, key=lambda one: one.index).description}.")
    for k, one in zip(numbers, classes, strict=True):
        now = ClassInBags.of(bags, table[:, k], k)
        gap, error = now.total_gap()
        both = float(np.hypot(error, one.gap_error))
        if abs(gap - one.gap) > 1.5 * NORMAL_95 * both:
            name = "" if len(classes) == 1 else f" of class {shown(bags.class_names[k], 40)}"
            notes.append(
                f"Drift: counts{name} are {now.share / max(now.mean, 1e-12):.2f} times those that the "
                "model predicts; see unbag monitor."
            )
    out = rows_out_of_range(reference.columns, X) if X is not None else {}
    if out:
        shares = [f"{shown(n, 40)} ({percent(s, 1)})" for n, s in out.items()]
        notes.append(f"Columns with rows outside the range of training: {listing(shares)}.")
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class ClassMonitoring:
    """A class in the new bags against what was expected of it."""

    name: Any  # the class
    expected: float  # sum of its probabilities over all rows, and its count
    observed: float  # sum of its probabilities over all rows, and its count
    ratio: float  # observed over expected, with its standard error, clustered by bag
    ratio_error: float  # observed over expected, with its standard error, clustered by bag
    totals_p: float  # P-value of the totals
    line: BagLine  # of the training bags
    change: LineComparison
    rows: Stability  # of the probabilities of the class

    @property
    def slope_ratio(self) -> float:
        """Slope of the new bags over that in training."""
        return 1 + self.change.slope / self._slope_before

    @property
    def slope_ratio_error(self) -> float:
        """Its standard error."""
        return self.change.slope_error / self._slope_before

    @property
    def _slope_before(self) -> float:
        # a line without a slope is as steep as its error allows
        return max(self.line.slope, self.line.slope_error)

    @property
    def scatter_ratio(self) -> float:
        """Chi-square of the new bags around their line over its degrees of freedom."""
        return self.change.chi_square / self.change.degrees


def compare_class(
    bags: Bags, number: int, before: ClassReference, probabilities: Floats, moved: Floats
) -> ClassMonitoring:
    """Compare a class in new bags with training; by probabilities, and those at the new totals."""
    found = ClassInBags.of(bags, probabilities, number)
    line = before.line
    change = compare_with_line(line, found)
    if line.direction == "covariate_shift":
        # the effect of other totals on this line is undone before its slope is tested
        now = ClassInBags.of(bags, moved, number)
        centred = replace(line, centre=now.mean, intercept=now.share, share=now.share)
        again = compare_with_line(centred, now)
        names = ("slope", "slope_error", "slope_p", "chi_square", "degrees", "scatter_p")
        change = change._replace(**{name: getattr(again, name) for name in names})
    gap, error = found.total_gap()
    both = float(np.hypot(error, before.gap_error))
    totals_p = 2 * stats.t.sf(abs(gap - before.gap) / both, len(found.sizes) - 1)
    mean = max(found.mean, 1e-12)
    n_rows = float(found.sizes.sum())
    return ClassMonitoring(
        name=bags.class_names[number],
        expected=n_rows * found.mean,
        observed=n_rows * found.share,
        ratio=found.share / mean,
        ratio_error=both / mean,
        totals_p=float(totals_p),
        line=line,
        change=change,
        rows=stability_index(before.rows, bags, probabilities),
    )
