"""What was found of new bags, the verdict on the model, and all of it in sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unbag._text import WIDTH, listing, measure_words, p_text, percent, shown, whole
from unbag.evaluation.bag_effects import NORMAL_95
from unbag.evaluation.bag_lines import BagLine, Held
from unbag.evaluation.row_drift import Stability

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
