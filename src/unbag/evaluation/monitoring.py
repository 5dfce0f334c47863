"""Whether a model still holds on new bags: counts against predictions, and drift of the rows.

A model trained on bags makes two predictions about new ones: its probabilities add up to their
counts, and bag proportions and mean probabilities lie on the line on which they lay in training
(`unbag.evaluation.drift`), up to sampling, known noise and the bag effect found in training.
`make_monitoring_reference` keeps what is needed of the training bags, in some kilobytes; `monitor`
compares new bags with it.

- *ok*: no test rejects;
- *prior_shift*: totals differ, or the line has moved or become steeper, but bags are ordered as
  well as before: another ``class_prior`` corrects it;
- *degraded*: the line is flatter, bags scatter more around it, or a measure of quality that was
  estimated without labels has fallen: train again.

Each of five tests (totals, shift, slope, scatter, quality) has the level ``alpha`` / 5, so that
false alarms have a probability of at most ``alpha``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit, softmax

from unbag._arrays import Floats
from unbag._checks import check_inside
from unbag._text import WIDTH, listing, measure_words, p_text, percent, shown, whole
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities
from unbag.evaluation.bag_effects import FEWEST_BAGS, NORMAL_95, ShiftType, estimate_bag_effect
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
from unbag.model_selection.fitted import check_gives_chances

MonitorVerdict = Literal["ok", "prior_shift", "degraded"]

# Tests that share alpha: totals, shift, slope, scatter, quality.
_TESTS = 5

# Scatter, and a fall of quality, that matter at all.
_LEAST_SCATTER, _LEAST_FALL = 1.25, 0.01

# A population stability index, and its p-value, from which on rows count as changed.
_CHANGED, _SURE = 0.1, 0.01

# Relative standard error from which on a slope says nothing.
_SLOPE_UNKNOWN = 1.0

_ROUNDS, _SETTLED = 200, 1e-10

_LEADS = {
    "ok": "No conflict found: the new bags agree with the model.",
    "prior_shift": "Prior shift: totals differ from those that the model predicts, but it orders "
    "bags as well as in training. Recalibrate it.",
    "degraded": "Degraded: the model no longer predicts the new bags. Train it again.",
}
_STEEPER = (
    "Prior shift: totals are as predicted, but bags differ more than the model's probabilities. It "
    "orders bags as well as in training; a model trained again would separate classes better."
)


@dataclass(frozen=True)
class Quality:
    """A measure such as the AUC, estimated without labels before and now, with standard errors."""

    name: str
    before: float
    before_error: float
    now: float
    now_error: float

    @classmethod
    def of(cls, name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Self:
        """Compare estimates with ``value``, ``low`` and ``high``, limits of 95% intervals.

        For a fall, the lower limit before and the upper limit now are what counts.
        """
        return cls(
            name,
            before["value"],
            (before["value"] - before["low"]) / NORMAL_95,
            now["value"],
            (now["high"] - now["value"]) / NORMAL_95,
        )

    @property
    def p_value(self) -> float:
        """P-value of a fall."""
        error = np.hypot(self.before_error, self.now_error)
        return float(stats.norm.cdf((self.now - self.before) / error)) if error > 0 else np.nan


@dataclass(frozen=True)
class ClassReference:
    """A class in the training bags, as predicted by models that did not see them.

    Attributes
    ----------
    line : BagLine
        Of proportions and mean probabilities of bags.
    gap, gap_error : float
        Proportion minus mean probability over all rows, and its standard error.
    rows : mapping
        Deciles of the probabilities, for the population stability index.
    """

    line: BagLine
    gap: float
    gap_error: float
    rows: Mapping[str, Any]


@dataclass(frozen=True)
class MonitoringReference:
    """Summary of the training bags that `monitor` compares new bags with.

    Attributes
    ----------
    n_bags : int
        Number of bags.
    class_shares : tuple of float
        Class prior of the model's probabilities.
    classes : tuple of ClassReference
        The second of two classes, or each of several.
    columns : mapping of str to (low, high)
        Range of each numeric column.

    Examples
    --------
    >>> from unbag import LLPClassifier, LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference
    >>> from unbag.evaluation.monitoring import MonitoringReference
    >>> data = make_gaussian_bags(n_bags=20, bag_size=30, random_state=0)
    >>> model = LLPEnsembleClassifier([("linear", LLPClassifier(kernel=None))]).fit(data.X, data.y)
    >>> reference = make_monitoring_reference(model, data.X, data.y)
    >>> reference.n_bags
    20
    >>> MonitoringReference.from_dict(reference.to_dict()) == reference
    True
    """

    n_bags: int
    class_shares: tuple[float, ...]
    classes: tuple[ClassReference, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the classes that are monitored."""
        return _numbers(len(self.class_shares))

    @property
    def shift_type(self) -> ShiftType:
        """Assumption that the training bags agree with: label shift or covariate shift."""
        return self.classes[0].line.direction

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and mappings, for a file.

        Returns
        -------
        kept : dict
            Plain numbers, lists and mappings.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned.

        Parameters
        ----------
        kept : mapping
            The dictionary.

        Returns
        -------
        reference : MonitoringReference
            The same as before.
        """
        classes = tuple(
            ClassReference(**{**one, "line": BagLine(**one["line"])}) for one in kept["classes"]
        )
        return cls(kept["n_bags"], tuple(kept["class_shares"]), classes, kept["columns"])


@dataclass(frozen=True, eq=False)
class ClassMonitoring:
    """A class in the new bags against what was expected of it.

    Attributes
    ----------
    name : object
        The class.
    expected, observed : float
        Sum of its probabilities over all rows, and its count.
    ratio, ratio_error : float
        Observed over expected, with its standard error, clustered by bag.
    totals_p : float
        P-value of the totals.
    line : BagLine
        Of the training bags.
    change : LineComparison
        The new bags against it. Under covariate shift, slope and scatter are tested after
        probabilities were moved to the new totals.
    rows : Stability
        Of the probabilities of the class.
    """

    name: Any
    expected: float
    observed: float
    ratio: float
    ratio_error: float
    totals_p: float
    line: BagLine
    change: LineComparison
    rows: Stability

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


@dataclass(frozen=True, eq=False)
class MonitoringResult:
    """Whether a model still holds; made by `monitor`. Printing it shows the tests.

    Attributes
    ----------
    classes : tuple of ClassMonitoring
        The second of two classes, or each of several.
    bags : mapping of str to ndarray
        One row per bag: ``bag``, ``size``, ``class``, ``probability`` (mean), ``expected``
        (proportion by the line of training), ``observed`` (proportion) and ``z`` (standardised
        residual, of the class where it is largest).
    class_prior : tuple of float
        Class prior at which probabilities add up to the new totals.
    quality : Quality or None
        The measure that was given.
    out_of_range : mapping of str to float
        Proportion of rows outside the range of training, by column.
    alpha : float
        Probability of a false alarm.
    tolerance : float
        Relative difference of totals that does not matter.
    """

    classes: tuple[ClassMonitoring, ...]
    bags: Mapping[str, NDArray[Any]]
    class_prior: tuple[float, ...]
    quality: Quality | None
    out_of_range: Mapping[str, float]
    alpha: float
    tolerance: float

    @property
    def rows_changed(self) -> bool:
        """Whether rows differ from those of training by more than bags differ."""
        return any(
            one.rows.index > _CHANGED and one.rows.p_value < _SURE / len(self.classes)
            for one in self.classes
        )

    @cached_property
    def alarms(self) -> dict[str, bool]:
        """Which of the tests reject; the slope's alarm is split by its sign."""
        alpha = self.alpha / _TESTS / len(self.classes)
        found = dict.fromkeys(
            ("totals", "shift", "flatter", "steeper", "scatter", "quality"), False
        )
        for one in self.classes:
            change, base = one.change, max(one.line.share, 1e-9)
            moved = abs(one.ratio - 1) > self.tolerance
            found["totals"] |= one.totals_p < alpha and moved
            found["shift"] |= change.shift_p < alpha and abs(change.shift) > self.tolerance * base
            bent = change.slope_p < alpha and abs(one.slope_ratio - 1) > 2 * self.tolerance
            found["flatter"] |= bent and one.slope_ratio < 1
            # weak models look weaker in training, where bags are held out, than later
            found["steeper"] |= bent and one.slope_ratio > 1 and one.line.sure
            found["scatter"] |= change.scatter_p < alpha and one.scatter_ratio > _LEAST_SCATTER
        found["quality"] = self._fallen(self.alpha / _TESTS)
        return found

    def _fallen(self, alpha: float) -> bool:
        quality = self.quality
        if quality is None or quality.before - quality.now < _LEAST_FALL:
            return False
        return quality.p_value < alpha and not self.other_rows_explain_quality

    @property
    def other_rows_explain_quality(self) -> bool:
        """Whether quality may have fallen because rows are harder to classify.

        Under covariate shift a model can be as right as before about rows that are harder.
        """
        return self.rows_changed and all(
            one.line.direction == "covariate_shift" for one in self.classes
        )

    @property
    def verdict(self) -> MonitorVerdict:
        """ok, prior_shift (recalibrate) or degraded (train again)."""
        alarms = self.alarms
        if alarms["flatter"] or alarms["scatter"] or alarms["quality"]:
            return "degraded"
        if alarms["totals"] or alarms["shift"] or alarms["steeper"]:
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
        steeper_only = self.verdict == "prior_shift" and not self.advice
        return _STEEPER if steeper_only else _LEADS[self.verdict]

    @property
    def advice(self) -> list[str]:
        """What to do."""
        alarms = self.alarms
        if self.verdict != "prior_shift" or not (alarms["totals"] or alarms["shift"]):
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
        """Slope, scatter and shift for each class, and the worst bag."""
        texts = []
        for one in self.classes:
            low, high = _limits(one.slope_ratio, one.slope_ratio_error)
            change, of = one.change, self._of(one)
            slope = f"{one.slope_ratio:.2f} times that of training "
            slope += f"(95% interval: {low:.2f} to {high:.2f}; {p_text(change.slope_p)})."
            if one.slope_ratio < 0:
                slope += " The order of the bags is reversed."
            if one.slope_ratio_error > _SLOPE_UNKNOWN:
                slope = "unknown, since the new bags are too alike."
            texts += [
                f"Slope{of}: {slope}",
                f"Scatter{of}: bags vary {one.scatter_ratio:.2f} times as much around their line "
                "as by sampling, known noise and the bag effect of training (chi-square "
                f"{change.chi_square:.1f} on {change.degrees:.0f}; {p_text(change.scatter_p)}).",
                f"Shift{of}: the line has moved by {100 * change.shift:+.1f} ± "
                f"{100 * NORMAL_95 * change.shift_error:.1f} points ({p_text(change.shift_p)}).",
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
        rows = "changed" if self.rows_changed else "no change found"
        texts = [
            f"Rows: {rows}. The population stability index of the probabilities is "
            f"{index.index:.2f} ({p_text(index.p_value)}, clustered by bag); above {_CHANGED:g} "
            f"with p < {_SURE:g} it is a change."
        ]
        if self.out_of_range:
            shares = [f"{shown(n, 40)} ({percent(s, 1)})" for n, s in self.out_of_range.items()]
            texts.append(f"Columns with rows outside the range of training: {listing(shares)}.")
        return texts

    @property
    def quality_name(self) -> str:
        """Name of the measure of quality."""
        return "" if self.quality is None else measure_words(self.quality.name)

    def describe_quality(self) -> list[str]:
        """The measure of quality, before and now."""
        quality = self.quality
        if quality is None:
            return []
        now, before = (NORMAL_95 * e for e in (quality.now_error, quality.before_error))
        text = (
            f"{self.quality_name} without labels: {quality.now:.3f} ± {now:.3f} now, "
            f"{quality.before:.3f} ± {before:.3f} in training ({p_text(quality.p_value)} for a "
            "fall)."
        )
        if not (0 <= quality.now <= 1 and 0 <= quality.before <= 1):
            text += " Label shift does not hold, since 0 to 1 is left: only the change counts."
        if self.other_rows_explain_quality:
            text += " Rows have changed and may be harder: this does not count against the model."
        return [text]

    def _of(self, one: ClassMonitoring) -> str:
        return "" if len(self.classes) == 1 else f" of class {shown(one.name, 40)}"

    def __str__(self) -> str:
        lines = [line for text in (self.lead, *self.advice) for line in textwrap.wrap(text, WIDTH)]
        items = [*self.describe_totals(), *self.describe_bags()]
        items += [*self.describe_rows(), *self.describe_quality()]
        for text in items:
            lines += textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
        return "\n".join(lines)


def _limits(value: float, error: float) -> tuple[float, float]:
    return value - NORMAL_95 * error, value + NORMAL_95 * error


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


def monitor(
    model: Any,
    X: Any,
    y: Any,
    *,
    reference: MonitoringReference,
    quality: Quality | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.05,
    class_names: Sequence[Any] | None = None,
) -> MonitoringResult:
    """Test whether a model still holds, from the counts of new bags.

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
    quality : Quality, optional
        A measure such as the AUC, estimated without labels on the bags of training (held out) and
        on the new ones.
    alpha : float, default=0.05
        Probability of a false alarm, over all tests together.
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
    bags = check_bag_target(y)
    _check(bags, reference, alpha, tolerance)
    check_gives_chances(model)
    if class_names is not None:
        bags = replace(bags, names=tuple(map(str, class_names)))
    probabilities = np.asarray(model.predict_proba(X), dtype=float)
    before = np.array(reference.class_shares)
    prior = _prior_for_totals(probabilities, before, bags)
    moved = adjust_probabilities(probabilities, before, prior)
    classes = tuple(
        _compare_class(bags, number, one, probabilities[:, number], moved[:, number])
        for number, one in zip(reference.numbers, reference.classes, strict=True)
    )
    return MonitoringResult(
        classes=classes,
        bags=_by_bag(bags, reference, classes, probabilities),
        class_prior=tuple(map(float, prior)),
        quality=quality,
        out_of_range=rows_out_of_range(reference.columns, X),
        alpha=alpha,
        tolerance=tolerance,
    )


def _numbers(n_classes: int) -> list[int]:
    return [1] if n_classes == 2 else list(range(n_classes))


def _probabilities(log_odds: Floats) -> Floats:
    if not np.isfinite(log_odds).all():
        raise ValueError("Monitoring takes a model with predict_proba.")
    if log_odds.ndim == 1:
        return np.column_stack([expit(-log_odds), expit(log_odds)])
    return np.asarray(softmax(log_odds, axis=1))


def _check(bags: Bags, reference: MonitoringReference, alpha: float, tolerance: float) -> None:
    check_inside(alpha, "alpha")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, as {tolerance!r} is.")
    n_classes = len(reference.class_shares)
    if bags.n_classes != n_classes:
        raise ValueError(
            f"The reference is for {n_classes} classes, and the target has {bags.n_classes}."
        )
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"monitor takes {FEWEST_BAGS} new bags at least, and there are {n_bags}.")


def _prior_for_totals(probabilities: Floats, before: Floats, bags: Bags) -> Floats:
    """Class prior at which probabilities add up to the totals."""
    least = 0.5 / bags.n_instances
    totals = np.clip(bags.class_shares, least, None)
    totals = totals / totals.sum()
    prior = np.clip(before, least, None)
    for _ in range(_ROUNDS):
        now = adjust_probabilities(probabilities, before, prior).mean(axis=0)
        step = totals / np.maximum(now, 1e-300)
        prior = prior * step
        prior = prior / prior.sum()
        if np.abs(step - 1).max() < _SETTLED:
            break
    return prior


def _compare_class(
    bags: Bags, number: int, before: ClassReference, probabilities: Floats, moved: Floats
) -> ClassMonitoring:
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


def drift_notes(
    reference: MonitoringReference, y: Any, probabilities: ArrayLike, X: Any = None
) -> tuple[str, ...]:
    """Compare new rows and their counts with those of training, in sentences.

    Parameters
    ----------
    reference : MonitoringReference
        Of the training bags.
    y : structured array from `unbag.bag_target`
        The new bags.
    probabilities : array-like of shape (n_instances, n_classes)
        Of the model for the new rows.
    X : array or data frame, optional
        The new rows.
    """
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
    worst = max(rows, key=lambda one: one.index)
    found = f"population stability index {worst.index:.2f}, {p_text(worst.p_value)}"
    if worst.index > _CHANGED and worst.p_value < _SURE / len(rows):
        notes.append(f"Drift: rows differ from those of training ({found}).")
    else:
        notes.append(f"No drift of the rows since training found ({found}).")
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
