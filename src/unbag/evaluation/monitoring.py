"""Whether a model still holds on new bags: counts against predictions, and drift of the rows.

A model trained on bags makes two predictions about new ones: its probabilities add up to their
counts, and bag proportions and mean probabilities lie on the line on which they lay in training
(`unbag.evaluation.drift`), up to sampling, known noise and the bag effect found in training.
`make_monitoring_reference` keeps what is needed of the training bags, in some kilobytes; `monitor`
compares new bags with it.

- *ok*: no test rejects;
- *prior_shift*: totals differ, or the line has become steeper, but bags are ordered as
  well as before: another ``class_prior`` corrects it;
- *degraded*: the line is flatter, or bags scatter more around it: train again.

Each of three tests (totals, slope, scatter) has the level 5% / 3, so that false alarms have a
probability of at most 5%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbag._arrays import Floats
from unbag._outputs import by_output
from unbag._text import p_text, percent, sentence, shown, whole, wrapped
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities, offset_for_shares
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation.bag_effects import NORMAL_95
from unbag.evaluation.drift import (
    BagLine,
    ClassInBags,
    ClassReference,
    LineComparison,
    MonitoringReference,
    OutOfRange,
    Stability,
    compare_with_line,
    stability_index,
)
from unbag.model_selection.fitted import check_gives_probabilities, log_odds_of

MonitorVerdict = Literal["ok", "prior_shift", "degraded"]

# Probability of a false alarm, and the tests that share it: totals, slope, scatter.
_ALPHA, _TESTS = 0.05, 3

# Relative difference of totals that does not matter.
_TOLERANCE = 0.05

# Scatter that matters at all.
_LEAST_SCATTER = 1.25

_LEADS = {
    "ok": "No conflict found: the new bags agree with the model.",
    "prior_shift": "Prior shift: totals differ from those that the model predicts, but it orders "
    "bags as well as in training. Recalibrate it.",
    "degraded": "Degraded: the model no longer predicts the new bags. Train it again.",
}
_FLAT = (
    "No conflict found, but in training the proportions of bags did not follow the model's "
    "probabilities, so these bags cannot show whether it still holds."
)
_STEEPER = (
    "Prior shift: totals are as predicted, but bags differ more than the model's probabilities. It "
    "orders bags as well as in training; a model trained again would separate classes better."
)


@dataclass(frozen=True, eq=False)
class ClassMonitoring:
    """A class in the new bags against what was expected of it."""

    name: Any
    expected: float  # sum of its probabilities over all rows
    observed: float  # its count
    ratio: float  # observed over expected
    ratio_error: float  # clustered by bag
    totals_p: float
    line: BagLine  # of the training bags
    change: LineComparison  # the new bags against it
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
        change = compare_with_line(centred, now)._replace(z=change.z)
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


@dataclass(frozen=True, eq=False)
class MonitoringResult:
    """Whether a model still holds; made by `monitor`. Printing it shows the tests.

    ``bags`` has one row per bag: ``bag``, ``size``, ``class``, ``probability`` (mean), ``expected``
    (proportion by the line of training), ``observed`` (proportion) and ``z`` (standardised
    residual, of the class where it is largest).
    """

    classes: tuple[ClassMonitoring, ...]  # the second of two classes, or each of several
    bags: Mapping[str, NDArray[Any]]
    class_prior: tuple[float, ...]  # at which probabilities add up to the new totals
    out_of_range: OutOfRange  # rows outside the range of training, by column
    tolerance: float

    @property
    def rows_changed(self) -> bool:
        """Whether rows differ from those of training by more than bags differ."""
        return any(one.rows.changed for one in self.classes)

    @cached_property
    def alarms(self) -> dict[str, bool]:
        """Which of the tests reject; the slope's alarm is split by its sign."""
        alpha = _ALPHA / _TESTS / len(self.classes)
        found = dict.fromkeys(("totals", "flatter", "steeper", "scatter"), False)
        for one in self.classes:
            change = one.change
            moved = abs(one.ratio - 1) > self.tolerance
            found["totals"] |= one.totals_p < alpha and moved
            bent = change.slope_p < alpha and abs(one.slope_ratio - 1) > 2 * self.tolerance
            found["flatter"] |= bent and one.slope_ratio < 1
            # slopes of weak models are less in training, where bags are held out, than later
            found["steeper"] |= bent and one.slope_ratio > 1 and one.line.significant
            found["scatter"] |= change.scatter_p < alpha and one.scatter_ratio > _LEAST_SCATTER
        return found

    @property
    def verdict(self) -> MonitorVerdict:
        """ok, prior_shift (recalibrate) or degraded (train again)."""
        alarms = self.alarms
        if alarms["flatter"] or alarms["scatter"]:
            return "degraded"
        if alarms["totals"] or alarms["steeper"]:
            return "prior_shift"
        return "ok"

    @property
    def worst(self) -> int:
        """Number of the bag with the largest residual."""
        return int(np.argmax(np.abs(self.bags["z"])))

    # --- words --------------------------------------------------------------------------------

    @property
    def lead(self) -> str:
        """The verdict in a sentence or two."""
        if self.verdict == "ok" and not any(one.line.significant for one in self.classes):
            return _FLAT
        steeper_only = self.verdict == "prior_shift" and not self.advice
        return _STEEPER if steeper_only else _LEADS[self.verdict]

    @property
    def advice(self) -> list[str]:
        """What to do."""
        if self.verdict != "prior_shift" or not self.alarms["totals"]:
            return []
        prior = f"{self.class_prior[1]:.3g}"
        if len(self.class_prior) > 2:
            shares = np.round(self.class_prior, 4)
            shares[shares.argmax()] += 1 - shares.sum()
            prior = ",".join(f"{share:.4f}" for share in shares)
        return [f"Use --class-prior {prior} (class_prior= in Python), at which totals agree."]

    def describe_totals(self) -> list[str]:
        """Counts against sums of probabilities, one sentence for each class."""
        texts = []
        for one in self.classes:
            low, high = _limits(one.ratio, one.ratio_error)
            texts.append(
                f"Totals{self._of(one)}: {whole(one.observed)} observed, {whole(one.expected)} "
                f"expected; ratio {one.ratio:.2f} (95% interval, clustered by bag: {low:.2f} to "
                f"{high:.2f}; {p_text(one.totals_p)})."
            )
        return texts

    def describe_bags(self) -> list[str]:
        """Slope and scatter for each class, and the worst bag."""
        texts = []
        for one in self.classes:
            low, high = _limits(one.slope_ratio, one.slope_ratio_error)
            change, of = one.change, self._of(one)
            slope = f"{one.slope_ratio:.2f} times that of training "
            slope += f"(95% interval: {low:.2f} to {high:.2f}; {p_text(change.slope_p)})."
            if one.slope_ratio < 0:
                slope += " The order of the bags is reversed."
            if one.slope_ratio_error > 1:  # known no better than by the size of the slope itself
                slope = "unknown, since the new bags are too alike."
            texts += [
                f"Slope{of}: {slope}",
                f"Dispersion{of}: bags vary {one.scatter_ratio:.2f} times as much around their line as "
                "sampling, known noise and the bag effect of training explain (chi-square "
                f"{change.chi_square:.1f} on {change.degrees:.0f}; {p_text(change.scatter_p)}).",
            ]
        return [*texts, self.describe_worst_bag()]

    def describe_worst_bag(self) -> str:
        """The bag with the largest residual."""
        row = {name: column[self.worst] for name, column in self.bags.items()}
        n_bags = len(self.bags["z"])
        name = "" if len(self.classes) == 1 else f" of class {shown(row['class'], 40)}"
        # median of the largest of so many standard normal residuals, without signs
        largest = float(stats.norm.isf((1 - np.exp2(-1 / n_bags)) / 2))
        return (
            f"Worst bag: {shown(row['bag'], 60)}, {percent(row['observed'], 1)}{name} observed, "
            f"{percent(row['expected'], 1)} expected ({row['z']:+.1f} standard errors; the "
            f"largest of {n_bags} bags is typically {largest:.1f})."
        )

    def describe_rows(self) -> list[str]:
        """Drift of the rows."""
        index = max(self.classes, key=lambda one: one.rows.index).rows
        return [f"Rows: {index.description}.", *map(sentence, self.out_of_range.words)]

    def _of(self, one: ClassMonitoring) -> str:
        return "" if len(self.classes) == 1 else f" of class {shown(one.name, 40)}"

    def __str__(self) -> str:
        lines = [line for text in (self.lead, *self.advice) for line in wrapped(text)]
        for text in (*self.describe_totals(), *self.describe_bags(), *self.describe_rows()):
            lines += wrapped(text, "- ", "  ")
        return "\n".join(lines)


def _limits(value: float, error: float) -> tuple[float, float]:
    return value - NORMAL_95 * error, value + NORMAL_95 * error


def monitor(
    model: Any,
    X: Any,
    y: Any,
    *,
    reference: MonitoringReference,
    tolerance: float = _TOLERANCE,
    class_names: Sequence[Any] | None = None,
) -> MonitoringResult:
    """Test whether a model still predicts the counts of new bags as well as in training.

    Parameters
    ----------
    model : classifier or pipeline with ``predict_proba``
        The model to monitor.
    X : array or data frame with n_instances rows
        The new rows.
    y : structured array from `unbag.bag_target`
        Their bags; at least five.
    reference : MonitoringReference
        From `make_monitoring_reference`, on the bags of training.
    tolerance : float, default=0.05
        Relative difference of totals that does not matter, however significant; twice as much for
        slopes.
    class_names : sequence, optional
        Names of the classes, in their order.

    Returns
    -------
    result : MonitoringResult
        With ``verdict``, ``classes``, ``bags``, ``class_prior``; print it.

    Examples
    --------
    The bags of May hold more positives than those of April did:

    >>> from unbag import LLPClassifier, LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> april = make_gaussian_bags(40, 50, proportions=(0.1, 0.4), random_state=0)
    >>> may = make_gaussian_bags(40, 50, proportions=(0.4, 0.7), random_state=1)
    >>> model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))]).fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> result = monitor(model, may.X, may.y, reference=reference)
    >>> result.verdict
    'prior_shift'
    >>> bool(abs(result.class_prior[1] - may.labels.mean()) < 0.05)
    True
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, as {tolerance!r} is.")
    check_gives_probabilities(model)
    bags = check_bag_target(y)
    _check_reference(bags, reference)
    if class_names is not None:
        bags = replace(bags, names=tuple(map(str, class_names)))
    return compare_bags(bags, model.predict_proba(X), X, reference, tolerance)


def drift_notes(
    reference: MonitoringReference, y: Any, probabilities: ArrayLike, X: Any = None
) -> tuple[str, ...]:
    """Compare new rows and their counts with those of training as `monitor` does, in sentences."""
    bags = check_bag_target(y)
    try:
        _check_reference(bags, reference)
    except ValueError as error:
        return (f"Drift is not tested: {error}",)
    table = np.asarray(probabilities, dtype=float)
    table = np.column_stack([1 - table, table]) if table.ndim == 1 else table
    found = compare_bags(bags, table, X, reference)
    return (f"Drift: {found.lead}", *found.advice, *found.describe_rows())


def _check_reference(bags: Bags, reference: MonitoringReference) -> None:
    n_classes, n_bags = len(reference.class_shares), int((~bags.labelled).sum())
    if bags.n_classes != n_classes:
        raise ValueError(
            f"The reference is for {n_classes} classes, and the target has {bags.n_classes}."
        )
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"monitor takes {FEWEST_BAGS} new bags at least, and there are {n_bags}.")


def compare_bags(
    bags: Bags,
    probabilities: ArrayLike,
    X: Any,
    reference: MonitoringReference,
    tolerance: float = _TOLERANCE,
) -> MonitoringResult:
    """Compare new bags with those of training, by the probabilities of their rows."""
    p = np.asarray(probabilities, dtype=float)
    before, least = np.array(reference.class_shares), 0.5 / bags.n_instances
    # the class prior at which probabilities add up to the totals
    offset = offset_for_shares(by_output(log_odds_of(p)), np.clip(bags.class_shares, least, None))
    prior = np.clip(before, least, None) * np.exp([0.0, *offset] if len(offset) == 1 else offset)
    prior /= prior.sum()
    moved = adjust_probabilities(p, before, prior)
    classes = tuple(
        compare_class(bags, number, one, p[:, number], moved[:, number])
        for number, one in zip(reference.numbers, reference.classes, strict=True)
    )
    return MonitoringResult(
        classes=classes,
        bags=_by_bag(bags, reference, classes, p),
        class_prior=tuple(map(float, prior)),
        out_of_range=OutOfRange(reference.columns, X),
        tolerance=tolerance,
    )


def _by_bag(
    bags: Bags,
    reference: MonitoringReference,
    classes: tuple[ClassMonitoring, ...],
    probabilities: Floats,
) -> dict[str, NDArray[Any]]:
    """One row per bag, of the class where its residual is largest."""
    used = np.flatnonzero(~bags.labelled)
    z = np.stack([one.change.z for one in classes])
    chosen = np.abs(z).argmax(axis=0)
    numbers = np.array(reference.numbers)[chosen]
    means = bags.means(probabilities.T).T[used, numbers]
    expected = np.array(
        [float(classes[k].line.shares_at(mean)) for k, mean in zip(chosen, means, strict=True)]
    )
    return {
        "bag": bags.ids[used],
        "size": bags.sizes[used],
        "class": bags.class_names[numbers],
        "probability": means,
        "expected": expected,
        "observed": bags.proportions[used, numbers],
        "z": z[chosen, np.arange(len(used))],
    }
