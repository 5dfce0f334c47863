"""Whether a model still holds when new bags come in: counts against promise, and rows.

A model that was trained on bags promises two things of new ones: that its probabilities add up to
their counts, and that shares and mean probabilities of bags lie on the line on which they lay in
training (`unbag.evaluation.drift`), up to chance, known noise and the effect that bags had
then. `make_monitoring_reference` keeps what is needed of the training bags, in some kilobytes; `monitor` holds
new bags against it.

- *holds*: nothing speaks against either promise;
- *drifts*: totals are others, or the line has moved or got steeper, but bags are ordered as well as
  before: other shares of the classes, told by ``class_prior``, put that right;
- *broken*: the line is flatter, bags scatter more around it, or a figure of quality that was
  estimated without labels has fallen: train again.

Each of five tests (totals, level, slope, scatter, quality) is made at a fifth of ``level``, so that
nothing being wrong raises an alarm in 5% of all cases at most; how often it does, and what is found
how often, was simulated (results/monitoring.md).

What was found of new bags, the verdict on the model, and all of it in sentences.
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
from unbag.bags.priors import move_chances
from unbag.evaluation.bag_effects import FEWEST_BAGS, NORMAL_95, estimate_bag_effect
from unbag.evaluation.drift import (
    BagLine,
    ClassInBags,
    Direction,
    Held,
    Stability,
    choose_line,
    compare_rows,
    hold_against,
    outside_of,
    remember_columns,
    remember_rows,
)
from unbag.model_selection.fitted import check_gives_chances

MonitorVerdict = Literal["holds", "drifts", "broken"]

# Tests that share the level: totals, level, slope, scatter, quality.
_TESTS = 5

# Scatter, and a fall of quality, that matter at all, however sure they are.
_LEAST_SCATTER, _LEAST_FALL = 1.25, 0.01

# A population stability index from which on rows are said to have changed.
_CHANGED = 0.1

# Of p-values that rows have not changed.
_SURE = 0.01

# Standard errors of a slope, as a share of it, from which on it tells nothing.
_TELLS_NOTHING = 1.0


_LEADS = {
    "holds": "The model holds: nothing in the new bags speaks against it.",
    "drifts": "The model drifts: totals are no longer those that it promises, but bags are ordered "
    "as well as in training. Recalibrate it.",
    "broken": "The model is broken: what it says of the new bags is no longer borne out. Train it "
    "again.",
}
_STEEPER = (
    "The model drifts: totals are those that it promises, but bags differ more than its "
    "probabilities say. It orders bags as well as in training; trained again, it would tell more."
)


@dataclass(frozen=True)
class Quality:
    """A figure such as the AUC, estimated without labels before and now, with standard errors."""

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
        """How likely a fall as this one is by chance."""
        error = np.hypot(self.before_error, self.now_error)
        return float(stats.norm.cdf((self.now - self.before) / error)) if error > 0 else np.nan


@dataclass(frozen=True, eq=False)
class ClassMonitoring:
    """A class in the new bags against what was promised of it.

    Attributes
    ----------
    name : object
        The class.
    promised, found : float
        Sum of its probabilities over all rows, and its count.
    ratio, ratio_error : float
        Found over promised, with its standard error: bags of both times are what is independent.
    totals_p : float
        P-value of the totals.
    line : BagLine
        Of the training bags.
    held : Held
        The new bags against it. Where rows keep their odds, slope and scatter are told after
        probabilities were moved to the new totals.
    rows : Stability
        Of the chances of the class.
    """

    name: Any
    promised: float
    found: float
    ratio: float
    ratio_error: float
    totals_p: float
    line: BagLine
    held: Held
    rows: Stability

    @property
    def slope_ratio(self) -> float:
        """Slope of the new bags as a share of that in training."""
        return 1 + self.held.slope / self._slope_before

    @property
    def slope_ratio_error(self) -> float:
        """Its standard error."""
        return self.held.slope_error / self._slope_before

    @property
    def _slope_before(self) -> float:
        # a line without a slope is as steep as its error allows
        return max(self.line.slope, self.line.slope_error)

    @property
    def scatter_ratio(self) -> float:
        """Scatter of the new bags around their line, as a multiple of what was expected."""
        return self.held.scatter / self.held.expected


@dataclass(frozen=True, eq=False)
class Monitoring:
    """Whether a model still holds; made by `monitor`. Printing it says so in words.

    Attributes
    ----------
    classes : tuple of ClassMonitoring
        The second of two classes, or each of several.
    bags : mapping of str to ndarray
        One row per bag: ``bag``, ``size``, ``class``, ``probability`` (mean), ``promised`` (share
        by the line of training), ``found`` (share) and ``z`` (standardised residual, of the class
        where it is largest).
    class_prior : tuple of float
        Shares of the classes at which probabilities add up to the new totals.
    quality : Quality or None
        The figure that was given.
    outside : mapping of str to float
        Share of rows outside of the range of training, by column.
    level : float
        How often there may be an alarm if nothing is wrong.
    tolerance : float
        Difference of totals that does not matter, as a share.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import make_monitoring_reference, monitor
    >>> data = make_gaussian_bags(n_bags=20, bag_size=30, random_state=0)
    >>> model = LLPEnsembleClassifier("linear").fit(data.X, data.y)
    >>> reference = make_monitoring_reference(model, data.X, data.y)
    >>> found = monitor(model, data.X, data.y, reference=reference)
    >>> found.verdict, len(found.bags["bag"])
    ('holds', 20)
    """

    classes: tuple[ClassMonitoring, ...]
    bags: Mapping[str, NDArray[Any]]
    class_prior: tuple[float, ...]
    quality: Quality | None
    outside: Mapping[str, float]
    level: float
    tolerance: float

    @property
    def rows_changed(self) -> bool:
        """Whether the rows are others than those of training, beyond what bags differ by."""
        return any(
            one.rows.index > _CHANGED and one.rows.p_value < _SURE / len(self.classes)
            for one in self.classes
        )

    @cached_property
    def alarms(self) -> dict[str, bool]:
        """Which of the five tests speak against the model."""
        alpha = self.level / _TESTS / len(self.classes)
        found = dict.fromkeys(
            ("totals", "level", "flatter", "steeper", "scatter", "quality"), False
        )
        for one in self.classes:
            held, base = one.held, max(one.line.share, 1e-9)
            moved = abs(one.ratio - 1) > self.tolerance
            found["totals"] |= one.totals_p < alpha and moved
            found["level"] |= held.level_p < alpha and abs(held.level) > self.tolerance * base
            bent = held.slope_p < alpha and abs(one.slope_ratio - 1) > 2 * self.tolerance
            found["flatter"] |= bent and one.slope_ratio < 1
            # weak models look weaker in training, where bags are held out, than later
            found["steeper"] |= bent and one.slope_ratio > 1 and one.line.sure
            found["scatter"] |= held.scatter_p < alpha and one.scatter_ratio > _LEAST_SCATTER
        found["quality"] = self._fallen(self.level / _TESTS)
        return found

    def _fallen(self, alpha: float) -> bool:
        quality = self.quality
        if quality is None or quality.before - quality.now < _LEAST_FALL:
            return False
        return quality.p_value < alpha and not self.other_rows_explain_quality

    @property
    def other_rows_explain_quality(self) -> bool:
        """Whether rows are told apart less well perhaps because they are others.

        Where rows keep their odds, a model can be as right as it was about rows that are harder.
        """
        return self.rows_changed and all(one.line.direction == "odds" for one in self.classes)

    @property
    def verdict(self) -> MonitorVerdict:
        """The model *holds*, *drifts* (recalibrate it) or is *broken* (train again)."""
        alarms = self.alarms
        if alarms["flatter"] or alarms["scatter"] or alarms["quality"]:
            return "broken"
        if alarms["totals"] or alarms["level"] or alarms["steeper"]:
            return "drifts"
        return "holds"

    @property
    def worst(self) -> int:
        """Number of the bag that is furthest from its promise."""
        return int(np.argmax(np.abs(self.bags["z"])))

    def __str__(self) -> str:
        return told(self)


def told(found: Monitoring) -> str:
    """All of it, in lines."""
    paragraphs = [lead(found), *advice(found)]
    items = [*totals_told(found), *bags_told(found), *rows_told(found), *quality_told(found)]
    lines = [line for text in paragraphs for line in textwrap.wrap(text, WIDTH)]
    for text in items:
        lines += textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(lines)


def lead(found: Monitoring) -> str:
    """The verdict, and what it means."""
    if found.verdict == "drifts" and not advice(found):
        return _STEEPER
    return _LEADS[found.verdict]


def advice(found: Monitoring) -> list[str]:
    """What to do."""
    alarms = found.alarms
    if found.verdict != "drifts" or not (alarms["totals"] or alarms["level"]):
        return []
    return [
        f"Use --class-prior {_prior_told(found)} (class_prior= in Python), at which totals agree."
    ]


def _prior_told(found: Monitoring) -> str:
    """The class prior as an option: for several classes, shares that add up to 1."""
    if len(found.class_prior) == 2:
        return f"{found.class_prior[1]:.3g}"
    shares = np.round(found.class_prior, 4)
    shares[shares.argmax()] += 1 - shares.sum()
    return ",".join(f"{share:.4f}" for share in shares)


def totals_told(found: Monitoring) -> list[str]:
    """Counts against sums of probabilities."""
    texts = []
    for one in found.classes:
        low, high = _limits(one.ratio, one.ratio_error)
        texts.append(
            f"Totals{_of(one, found)}: {whole(one.found)} found, {whole(one.promised)} promised; "
            f"{one.ratio:.2f} times what the model promises (95% interval of what bags vary by: "
            f"{low:.2f} to {high:.2f}; {p_text(one.totals_p)})."
        )
    return texts


def bags_told(found: Monitoring) -> list[str]:
    """The line of shares and mean chances, the scatter around it, and the worst bag."""
    texts = []
    for one in found.classes:
        low, high = _limits(one.slope_ratio, one.slope_ratio_error)
        held = one.held
        slope = f"the model tells bags apart {one.slope_ratio:.2f} times as well as in training "
        if one.slope_ratio < 0:
            slope = f"bags lie the other way round, at {one.slope_ratio:.2f} times the old slope "
        slope += f"(95% interval: {low:.2f} to {high:.2f}; {p_text(held.slope_p)})."
        if one.slope_ratio_error > _TELLS_NOTHING:
            slope = "the new bags are too alike to say whether the model still tells bags apart."
        texts.append(f"Slope{_of(one, found)}: {slope}")
        texts.append(
            f"Scatter{_of(one, found)}: around that line bags vary {one.scatter_ratio:.2f} times "
            "as much as by chance, known noise and the effect of bags in training (chi-square "
            f"{held.scatter:.1f} on {held.expected:.0f}; {p_text(held.scatter_p)})."
        )
        texts.append(
            f"Level{_of(one, found)}: the line has moved by {100 * held.level:+.1f} ± "
            f"{100 * NORMAL_95 * held.level_error:.1f} points ({p_text(held.level_p)})."
        )
    return [*texts, worst_told(found)]


def worst_told(found: Monitoring) -> str:
    """The bag that is furthest from its promise."""
    row = {name: column[found.worst] for name, column in found.bags.items()}
    n_bags = len(found.bags["z"])
    name = "" if len(found.classes) == 1 else f" of class {shown(row['class'], 40)}"
    return (
        f"Worst bag: {shown(row['bag'], 60)}, {percent(row['found'], 1)}{name} where "
        f"{percent(row['promised'], 1)} were promised ({row['z']:+.1f} standard errors; the "
        f"largest of {n_bags} bags would be about {_largest(n_bags):.1f} by chance)."
    )


def rows_told(found: Monitoring) -> list[str]:
    """Whether rows are those of training."""
    index = max(found.classes, key=lambda one: one.rows.index).rows
    rows = "the rows have changed" if found.rows_changed else "no sign that rows have changed"
    texts = [
        f"Rows: {rows} (stability index of probabilities {index.index:.2f}, "
        f"{p_text(index.p_value)} for what bags vary by; above 0.1 and sure counts as a change)."
    ]
    if found.outside:
        shares = [f"{shown(name, 40)} ({percent(s, 1)})" for name, s in found.outside.items()]
        texts.append(f"Columns with rows outside of the range of training: {listing(shares)}.")
    return texts


def quality_name(found: Monitoring) -> str:
    """What the figure of quality is called."""
    return "" if found.quality is None else measure_words(found.quality.name)


def quality_told(found: Monitoring) -> list[str]:
    """A figure of quality, before and now."""
    quality = found.quality
    if quality is None:
        return []
    now, before = (NORMAL_95 * e for e in (quality.now_error, quality.before_error))
    text = (
        f"{quality_name(found)} without labels: {quality.now:.3f} ± {now:.3f} now, "
        f"{quality.before:.3f} ± {before:.3f} when it was fitted "
        f"({p_text(quality.p_value)} for a fall by chance)."
    )
    if not (0 <= quality.now <= 1 and 0 <= quality.before <= 1):
        text += (
            " Beyond 0 to 1 it is no value of its own, since classes do not look the same in all "
            "bags: only the change counts."
        )
    if found.other_rows_explain_quality:
        text += " Rows have changed, and may be harder: this does not count against the model."
    return [text]


def _of(one: ClassMonitoring, found: Monitoring) -> str:
    return "" if len(found.classes) == 1 else f" of class {shown(one.name, 40)}"


def _limits(value: float, error: float) -> tuple[float, float]:
    return value - NORMAL_95 * error, value + NORMAL_95 * error


def _largest(n_bags: int) -> float:
    """Median of the largest of so many standard normal residuals, without signs."""
    return float(stats.norm.isf((1 - np.exp2(-1 / n_bags)) / 2))


_ROUNDS = 200
_SETTLED = 1e-10


@dataclass(frozen=True)
class ClassReference:
    """A class in the training bags, as models said that did not see them.

    Attributes
    ----------
    line : BagLine
        Of shares and mean chances of bags.
    gap, gap_error : float
        By how much shares lay above mean chances over all rows, and its standard error.
    rows : mapping
        Tenths of the chances, for the population stability index.
    """

    line: BagLine
    gap: float
    gap_error: float
    rows: Mapping[str, Any]


@dataclass(frozen=True)
class Reference:
    """What is kept of the training bags, to hold new ones against; made by `make_monitoring_reference`.

    Attributes
    ----------
    n_bags : int
        Number of bags.
    class_shares : tuple of float
        That the model's probabilities are for.
    classes : tuple of ClassReference
        The second of two classes, or each of several.
    columns : mapping of str to (low, high)
        Range of each column of numbers.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import Reference, make_monitoring_reference
    >>> data = make_gaussian_bags(n_bags=20, bag_size=30, random_state=0)
    >>> model = LLPEnsembleClassifier("linear").fit(data.X, data.y)
    >>> reference = make_monitoring_reference(model, data.X, data.y)
    >>> reference.n_bags
    20
    >>> Reference.from_dict(reference.to_dict()) == reference
    True
    """

    n_bags: int
    class_shares: tuple[float, ...]
    classes: tuple[ClassReference, ...]
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the classes that are looked at."""
        return _numbers(len(self.class_shares))

    @property
    def world(self) -> Direction:
        """Which world the training bags leaned to: classes keep their look, or rows their odds."""
        return self.classes[0].line.direction

    def to_dict(self) -> dict[str, Any]:
        """Give plain numbers, lists and mappings, for a file.

        Returns
        -------
        kept : dict
            Plain numbers, lists and mappings.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave.

        Parameters
        ----------
        kept : mapping
            The dictionary.

        Returns
        -------
        reference : Reference
            The same as before.
        """
        classes = tuple(
            ClassReference(**{**one, "line": BagLine(**one["line"])}) for one in kept["classes"]
        )
        return cls(kept["n_bags"], tuple(kept["class_shares"]), classes, kept["columns"])


def make_monitoring_reference(
    model: Any, X: Any, y: Any, *, chances: ArrayLike | None = None
) -> Reference:
    """Keep what is needed of the training bags to hold new ones against them.

    Parameters
    ----------
    model : classifier or pipeline
        Fitted to X and y with the class prior "empirical", with ``out_of_fold_scores_``, such as
        `unbag.LLPEnsembleClassifier` or the pipeline of `unbag.tables.make_classifier`.
    X : array or data frame with n_instances rows
        The rows of training.
    y : structured array from `unbag.bag_target`
        Their bags.
    chances : array-like of shape (n_instances, n_classes), optional
        For other models: probabilities of each row by a model that did not see its bag.

    Returns
    -------
    reference : Reference
        What to give to `monitor`; ``to_dict`` makes it something for a file.

    Examples
    --------
    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation.monitoring import make_monitoring_reference, monitor
    >>> april, may = (make_gaussian_bags(n_bags=40, bag_size=40, random_state=s) for s in (0, 1))
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> monitor(model, may.X, may.y, reference=reference).verdict
    'holds'
    """
    bags = check_bag_target(y)
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(f"A reference takes {FEWEST_BAGS} bags at least, and there are {n_bags}.")
    table = _held_out_chances(model, bags) if chances is None else np.asarray(chances, float)
    effect = estimate_bag_effect(bags, table.T)
    classes = []
    for number in _numbers(bags.n_classes):
        found = ClassInBags.of(bags, table[:, number], number)
        line = choose_line(found, effect.leans_to_looks)
        classes.append(
            ClassReference(line, *found.total_gap(), remember_rows(bags, table[:, number]))
        )
    shares = tuple(map(float, bags.class_shares))
    return Reference(n_bags, shares, tuple(classes), remember_columns(X))


def monitor(
    model: Any,
    X: Any,
    y: Any,
    *,
    reference: Reference,
    quality: Quality | None = None,
    level: float = 0.05,
    tolerance: float = 0.05,
    class_names: Sequence[Any] | None = None,
) -> Monitoring:
    """Say whether a model still holds, from the counts of new bags.

    Parameters
    ----------
    model : classifier or pipeline with ``predict_proba``
        The model to look after.
    X : array or data frame with n_instances rows
        The new rows.
    y : structured array from `unbag.bag_target`
        Their bags; five at least.
    reference : Reference
        From `make_monitoring_reference`, on the bags of training.
    quality : Quality, optional
        A figure such as the AUC, estimated without labels on the bags of training (held out) and
        on the new ones.
    level : float, default=0.05
        How often there may be an alarm if nothing is wrong, over all tests together.
    tolerance : float, default=0.05
        Difference of totals that does not matter, however sure it is, as a share; of slopes, twice
        as much.
    class_names : sequence, optional
        What to call the classes, in their order.

    Returns
    -------
    found : Monitoring
        With ``verdict``, ``classes``, ``bags``, ``class_prior``; print it.

    Examples
    --------
    The bags of May hold more positives than those of April did:

    >>> from unbag import LLPEnsembleClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation.monitoring import make_monitoring_reference, monitor
    >>> april = make_gaussian_bags(40, 50, proportions=(0.1, 0.4), random_state=0)
    >>> may = make_gaussian_bags(40, 50, proportions=(0.4, 0.7), random_state=1)
    >>> model = LLPEnsembleClassifier("linear").fit(april.X, april.y)
    >>> reference = make_monitoring_reference(model, april.X, april.y)
    >>> found = monitor(model, may.X, may.y, reference=reference)
    >>> found.verdict
    'drifts'
    >>> bool(abs(found.class_prior[1] - may.labels.mean()) < 0.05)
    True
    """
    bags = check_bag_target(y)
    _check(bags, reference, level, tolerance)
    check_gives_chances(model)
    if class_names is not None:
        bags = replace(bags, names=tuple(map(str, class_names)))
    chances = np.asarray(model.predict_proba(X), dtype=float)
    before = np.array(reference.class_shares)
    prior = _prior_for_totals(chances, before, bags)
    moved = move_chances(chances, before, prior)
    classes = tuple(
        _hold_class(bags, number, one, chances[:, number], moved[:, number])
        for number, one in zip(reference.numbers, reference.classes, strict=True)
    )
    return Monitoring(
        classes=classes,
        bags=_by_bag(bags, reference, classes, chances),
        class_prior=tuple(map(float, prior)),
        quality=quality,
        outside=outside_of(reference.columns, X),
        level=level,
        tolerance=tolerance,
    )


def _numbers(n_classes: int) -> list[int]:
    return [1] if n_classes == 2 else list(range(n_classes))


def _held_out_chances(model: Any, bags: Bags) -> Floats:
    inner = model[-1] if hasattr(model, "steps") else model
    if not hasattr(inner, "out_of_fold_scores_"):
        raise ValueError(
            f"{type(inner).__name__} has no out_of_fold_scores_; give probabilities of models that "
            "did not see the bags as chances."
        )
    if not np.allclose(inner.class_prior_, bags.class_shares):
        raise ValueError(
            "Probabilities must be for the shares of the training bags to be held against counts: "
            "fit the model with class_prior='empirical'."
        )
    scores = np.asarray(inner.out_of_fold_scores_, dtype=float)
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    return np.asarray(softmax(scores, axis=1))


def _check(bags: Bags, reference: Reference, level: float, tolerance: float) -> None:
    check_inside(level, "level")
    if not tolerance >= 0:
        raise ValueError(f"tolerance must not be negative, as {tolerance!r} is.")
    n_classes = len(reference.class_shares)
    if bags.n_classes != n_classes:
        raise ValueError(
            f"The reference is for {n_classes} classes, and the target has {bags.n_classes}."
        )
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        raise ValueError(
            f"Whether a model holds takes {FEWEST_BAGS} new bags at least, and there are {n_bags}."
        )


def _prior_for_totals(chances: Floats, before: Floats, bags: Bags) -> Floats:
    """Shares of the classes at which chances add up to the totals."""
    least = 0.5 / bags.n_instances
    totals = np.clip(bags.class_shares, least, None)
    totals = totals / totals.sum()
    prior = np.clip(before, least, None)
    for _ in range(_ROUNDS):
        step = totals / np.maximum(move_chances(chances, before, prior).mean(axis=0), 1e-300)
        prior = prior * step
        prior = prior / prior.sum()
        if np.abs(step - 1).max() < _SETTLED:
            break
    return prior


def _hold_class(
    bags: Bags, number: int, before: ClassReference, chances: Floats, moved: Floats
) -> ClassMonitoring:
    found = ClassInBags.of(bags, chances, number)
    line = before.line
    held = hold_against(line, found)
    if line.direction == "odds":
        # what other totals do to the line of odds is undone before its slope is looked at
        now = ClassInBags.of(bags, moved, number)
        centred = replace(line, centre=now.mean, intercept=now.share, share=now.share)
        again = hold_against(centred, now)
        names = ("slope", "slope_error", "slope_p", "scatter", "expected", "scatter_p")
        held = held._replace(**{name: getattr(again, name) for name in names})
    gap, error = found.total_gap()
    both = float(np.hypot(error, before.gap_error))
    totals_p = 2 * stats.t.sf(abs(gap - before.gap) / both, len(found.sizes) - 1)
    mean = max(found.mean, 1e-12)
    rows = float(found.sizes.sum())
    return ClassMonitoring(
        name=bags.class_names[number],
        promised=rows * found.mean,
        found=rows * found.share,
        ratio=found.share / mean,
        ratio_error=both / mean,
        totals_p=float(totals_p),
        line=line,
        held=held,
        rows=compare_rows(before.rows, bags, chances),
    )


def _by_bag(
    bags: Bags, reference: Reference, classes: tuple[ClassMonitoring, ...], chances: Floats
) -> dict[str, NDArray[Any]]:
    """One row per bag, of the class where its residual is largest."""
    used = np.flatnonzero(~bags.labelled)
    z = np.stack([one.held.z for one in classes])
    chosen = np.abs(z).argmax(axis=0)
    numbers = np.array(reference.numbers)[chosen]
    means = bags.means(chances.T).T[used, numbers]
    promised = np.array(
        [float(classes[k].line.shares_at(mean)) for k, mean in zip(chosen, means, strict=True)]
    )
    return {
        "bag": bags.ids[used],
        "size": bags.sizes[used],
        "class": bags.class_names[numbers],
        "probability": means,
        "promised": promised,
        "found": bags.proportions[used, numbers],
        "z": z[chosen, np.arange(len(used))],
    }
