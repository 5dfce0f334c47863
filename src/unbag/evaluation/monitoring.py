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
from unbag._outputs import by_output, probabilities_of_all, scores_of_all
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
    slope_ratio: float  # slope of the new bags over that in training
    slope_ratio_error: float
    line: BagLine  # of the training bags
    change: LineComparison  # the new bags against it
    rows: Stability  # of the probabilities of the class

    @property
    def scatter_ratio(self) -> float:
        """Chi-square of the new bags around their line over its degrees of freedom."""
        return self.change.chi_square / self.change.degrees

    def describe(self, of: str) -> tuple[str, list[str]]:
        """Totals in a sentence, and slope and scatter in one each; ``of`` names the class."""
        low, high = _limits(self.ratio, self.ratio_error)
        totals = (
            f"Totals{of}: {whole(self.observed)} observed, {whole(self.expected)} expected; ratio "
            f"{self.ratio:.2f} (95% interval, clustered by bag: {low:.2f} to {high:.2f}; "
            f"{p_text(self.totals_p)})."
        )
        low, high = _limits(self.slope_ratio, self.slope_ratio_error)
        slope = (
            f"{self.slope_ratio:.2f} times that of training (95% interval: {low:.2f} to "
            f"{high:.2f}; {p_text(self.change.slope_p)})."
        )
        if self.slope_ratio < 0:
            slope += " The order of the bags is reversed."
        if self.slope_ratio_error > 1:  # known no better than by the size of the slope itself
            slope = "unknown, since the new bags are too alike."
        scatter = (
            f"Dispersion{of}: bags vary {self.scatter_ratio:.2f} times as much around their line as "
            "sampling, known noise and the bag effect of training explain (chi-square "
            f"{self.change.chi_square:.1f} on {self.change.degrees:.0f}; "
            f"{p_text(self.change.scatter_p)})."
        )
        return totals, [f"Slope{of}: {slope}", scatter]


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
    mean, n_rows = max(found.mean, 1e-12), float(found.sizes.sum())
    # a line without a slope is as steep as its error allows
    slope_before = max(line.slope, line.slope_error)
    return ClassMonitoring(
        name=bags.class_names[number],
        expected=n_rows * found.mean,
        observed=n_rows * found.share,
        ratio=found.share / mean,
        ratio_error=both / mean,
        totals_p=float(2 * stats.t.sf(abs(gap - before.gap) / both, len(found.sizes) - 1)),
        slope_ratio=1 + change.slope / slope_before,
        slope_ratio_error=change.slope_error / slope_before,
        line=line,
        change=change,
        rows=stability_index(before.rows, bags, probabilities),
    )


@dataclass(frozen=True, eq=False)
class MonitoringResult:
    """Whether a model still holds; made by `monitor`. Printing it shows the tests.

    ``bags`` has a row per bag: ``bag``, ``size``, ``class`` (that with the largest residual),
    ``probability`` (mean), ``expected`` and ``observed`` (proportions) and ``z`` (residual).
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

    def describe_rows(self) -> list[str]:
        """Drift of the rows."""
        index = max(self.classes, key=lambda one: one.rows.index).rows
        return [f"Rows: {index.description}.", *map(sentence, self.out_of_range.words)]

    def _of(self, name: Any) -> str:
        return "" if len(self.classes) == 1 else f" of class {shown(name, 40)}"

    def __str__(self) -> str:
        of_classes = [one.describe(self._of(one.name)) for one in self.classes]
        lines = [totals for totals, _ in of_classes]
        lines += [line for _, others in of_classes for line in others]
        worst, n_bags = np.argmax(np.abs(self.bags["z"])), len(self.bags["z"])
        row = {name: column[worst] for name, column in self.bags.items()}
        # median of the largest of so many standard normal residuals, without signs
        largest = float(stats.norm.isf((1 - np.exp2(-1 / n_bags)) / 2))
        lines.append(
            f"Worst bag: {shown(row['bag'], 60)}, {percent(row['observed'], 1)}"
            f"{self._of(row['class'])} observed, {percent(row['expected'], 1)} expected "
            f"({row['z']:+.1f} standard errors; the largest of {n_bags} bags is typically "
            f"{largest:.1f})."
        )
        text = [line for text in (self.lead, *self.advice) for line in wrapped(text)]
        for line in (*lines, *self.describe_rows()):
            text += wrapped(line, "- ", "  ")
        return "\n".join(text)


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
    if class_names is not None:
        bags = replace(bags, names=tuple(map(str, class_names)))
    return compare_bags(bags, model.predict_proba(X), X, reference, tolerance)


def drift_notes(
    reference: MonitoringReference, y: Any, probabilities: ArrayLike, X: Any = None
) -> tuple[str, ...]:
    """Compare new rows and their counts with those of training as `monitor` does, in sentences."""
    try:
        found = compare_bags(check_bag_target(y), probabilities, X, reference)
    except ValueError as error:
        return (f"Drift is not tested: {error}",)
    return (f"Drift: {found.lead}", *found.advice, *found.describe_rows())


def compare_bags(
    bags: Bags,
    probabilities: ArrayLike,
    X: Any,
    reference: MonitoringReference,
    tolerance: float = _TOLERANCE,
) -> MonitoringResult:
    """Compare new bags with those of training, by the probabilities of their rows."""
    n_classes, used = len(reference.class_shares), np.flatnonzero(~bags.labelled)
    if bags.n_classes != n_classes:
        raise ValueError(
            f"The reference is for {n_classes} classes, and the target has {bags.n_classes}."
        )
    if len(used) < FEWEST_BAGS:
        raise ValueError(
            f"monitor takes {FEWEST_BAGS} new bags at least, and there are {len(used)}."
        )
    p = probabilities_of_all(by_output(probabilities)).T
    before, least = np.array(reference.class_shares), 0.5 / bags.n_instances
    # the class prior at which probabilities add up to the totals
    offset = offset_for_shares(by_output(log_odds_of(p)), np.clip(bags.class_shares, least, None))
    prior = np.clip(before, least, None) * np.exp(scores_of_all(offset[:, None])[:, 0])
    prior /= prior.sum()
    moved = adjust_probabilities(p, before, prior)
    classes = tuple(
        compare_class(bags, number, one, p[:, number], moved[:, number])
        for number, one in zip(reference.numbers, reference.classes, strict=True)
    )
    # of each bag the class where its residual is largest
    z = np.stack([one.change.z for one in classes])
    worst, each = np.abs(z).argmax(axis=0), np.arange(len(used))
    numbers = np.array(reference.numbers)[worst]
    means = bags.means(p.T)[numbers, used]
    expected = np.stack([one.line.shares_at(means) for one in classes])
    by_bag = {
        "bag": bags.ids[used],
        "size": bags.sizes[used],
        "class": bags.class_names[numbers],
        "probability": means,
        "expected": expected[worst, each],
        "observed": bags.proportions[used, numbers],
        "z": z[worst, each],
    }
    out_of_range = OutOfRange(reference.columns, X)
    return MonitoringResult(classes, by_bag, tuple(map(float, prior)), out_of_range, tolerance)
