"""Sections on accuracy: whether estimates can be trusted, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unbag._text import capital, counted, measure_words, percent, sentence, shown, whole
from unbag.bags.bags import Bags
from unbag.evaluation import Estimate, Evaluation
from unbag.evaluation.bag_effects import describe_effect
from unbag.evaluation.evaluation import usual_measures
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.labelled import LabelledEstimate
from unbag.evaluation.measures import as_columns, make_sample
from unbag.model_selection.fitted import last_step
from unbag.reports.bags import LabelShiftDisplay
from unbag.reports.curves import RocDisplay
from unbag.reports.page import Finding, FindingKind, NumberTable, Picture, Section, Tile

_KINDS: dict[str, FindingKind] = {
    "not_rejected": "good",
    "inconclusive": "note",
    "rejected": "warning",
}
_WORDS = {
    "not_rejected": "no conflict found",
    "inconclusive": "inconclusive",
    "rejected": "rejected",
}
# Width of an interval below which values are written with one more digit.
_NARROW = 0.04
_MEASURES = {
    "roc_auc": "Area under ROC (AUC)",
    "true_positive_rate": "Recall (TPR)",
    "false_positive_rate": "False positive rate (FPR)",
    "f1": "F1 score",
}


# --- the verdict ----------------------------------------------------------------------------------


def verdict_section(
    evaluation: Evaluation, displays: list[LabelShiftDisplay], model: Any, bags: Bags
) -> Section:
    """Say which assumption estimates rest on, and whether the bags contradict it."""
    verdict, checks = evaluation.verdict, evaluation.rows.checks
    first, reasons = next(iter(evaluation.estimates.values())), [*verdict.reasons]
    if first.is_range:
        text = f"No, only the ranges. {verdict.lead} {evaluation.lead}"
        findings = [Finding(text, _KINDS[verdict.name])]
    elif first.assumption == "labels":
        findings = [Finding(f"Yes. {evaluation.lead}", "good")]
        reasons = [verdict.lead, *reasons]
    else:
        shift = first.assumption.replace("_", " ")
        findings = [Finding(f"Yes, if {shift} holds. {verdict.lead}", _KINDS[verdict.name])]
    for other in evaluation.other_verdicts:
        reasons += [other.lead, *other.reasons]
    tests = {one.what: one.test for one in checks if isinstance(one.test, LabelShiftTest)}
    rejecting = {what for what, test in tests.items() if test.reject}
    for text in reasons:
        warn = verdict.assumption != "covariate_shift" and text.partition(":")[0] in rejecting
        findings.append(Finding(text, "warning" if warn else "plain"))
    notes = [note for test in tests.values() for note in test.notes]
    notes += [note for check in checks for note in check.notes]
    findings += [Finding(note, "note") for note in notes]
    effect = describe_effect(last_step(model))
    if effect is not None and evaluation.fold is not None and not bags.labelled.all():
        text = (
            "Training by the count likelihood is right under label shift and under covariate shift. "
            f"{sentence(effect)}"
        )
        findings.append(Finding(text, "note" if last_step(model).bag_effect_ > 0 else "plain"))
    findings += [Finding(text, "note") for text in (*evaluation.drift, *verdict.advice)]
    pictures = [
        Picture(
            display.plot,
            f"Bag means of {shown(display.feature, 40)}. Under label shift they are linear in the "
            "proportions.",
            f"Bag means of {shown(display.feature, 40)} against the proportions, with the fitted "
            f"line; {counted(int(display.suspicious.sum()), 'bag stands', 'bags stand')} out.",
        )
        for display in displays
    ]
    tables = [_by_assumption(evaluation)] if len(evaluation.by_assumption) > 1 else []
    title = "Can the estimates be trusted?"
    return Section("verdict", title, tuple(findings), tuple(pictures), tuple(tables))


def verdict_tile(evaluation: Evaluation) -> Tile:
    """Give the verdict in a word."""
    verdict, first = evaluation.verdict, next(iter(evaluation.estimates.values()))
    if isinstance(first, LabelledEstimate):
        return Tile("labels", whole(first.n_labels), "estimates need no assumption", "good")
    shift = "covariate shift" if verdict.assumption == "covariate_shift" else "label shift"
    detail = {
        "label_shift": "estimates rest on it",
        "covariate_shift": "estimates rest on it; label shift is rejected",
        "either": "estimates span what it allows",
        "sensitivity": "estimates are sensitivity ranges",
        "labels": "all rows have labels",
    }[verdict.assumption]
    return Tile(shift, _WORDS[verdict.name], detail, _KINDS[verdict.name])


def _by_assumption(evaluation: Evaluation) -> NumberTable:
    found = evaluation.by_assumption
    heads: dict[str, str] = {
        key: f"{key.replace('_', ' ').capitalize()} ({_WORDS[evaluation.verdicts[key].name]})"
        for key in ("label_shift", "covariate_shift")
        if key in found and key in evaluation.verdicts
    }
    heads |= {"sensitivity": "Sensitivity range"} if "sensitivity" in found else {}

    def cell(name: str, one: Estimate) -> str:
        value, interval = value_text(name, one), interval_text(name, one)
        if value == "not usable":
            return value
        return interval if one.assumption == "sensitivity" else f"{value}, {interval}"

    rows = tuple(
        (measure_name(name), *(cell(name, found[key][name]) for key in heads))
        for name in ("roc_auc", "balanced_accuracy", "accuracy")
        if name in found["label_shift"]
    )
    caption = f"Estimates by assumption. {evaluation.sensitivity}"
    return NumberTable(caption, ("Measure", *heads.values()), rows)


# --- accuracy -------------------------------------------------------------------------------------


def measure_name(measure: str) -> str:
    """Name a measure for readers."""
    if measure.startswith("recall of "):
        return f"Recall of class {shown(measure.removeprefix('recall of '), 60)}"
    return _MEASURES.get(measure, measure.replace("_", " ").capitalize())


def _number(measure: str, value: float, digits: int = 0) -> str:
    """Write a value: an AUC between 0 and 1, other measures in percent."""
    return f"{value:.{digits + 2}f}" if measure == "roc_auc" else percent(value, digits)


def value_text(measure: str, found: Estimate) -> str:
    """Write the value of an estimate."""
    if np.isnan(found.value):
        return "undefined"
    if found.bounded and not 0 <= found.value <= 1:
        return "not usable"
    return _number(measure, found.value, _digits(found))


def _digits(found: Estimate) -> int:
    """One digit more where the interval is narrow enough for it."""
    return 1 if found.high - found.low < _NARROW else 0


def interval_text(measure: str, found: Estimate) -> str:
    """Write the limits of an estimate."""
    limits = found.shown_limits
    if np.isnan(limits[0]):
        return "undefined"
    low, high = (_number(measure, end, _digits(found)) for end in limits)
    return f"{low.removesuffix('%')} to {high}"


def _limits(name: str, evaluation: Evaluation) -> str:
    """The interval, and the sensitivity range of estimates that rest on an assumption."""
    found, ranges = evaluation[name], evaluation.ranges
    beside = f"; sensitivity range {interval_text(name, ranges[name])}" if ranges else ""
    level = percent(found.confidence_level, None)
    what = "range" if found.is_range else f"{level} interval"
    return f"{what} {interval_text(name, found)}{beside}"


def performance_section(
    evaluation: Evaluation, bags: Bags, roc: RocDisplay | None, labels: ArrayLike | None
) -> Section:
    """Report how accurate the classifier is on bags that it did not see."""
    name = "roc_auc" if "roc_auc" in evaluation.estimates else "balanced_accuracy"
    random, found = 0.5 if name == "roc_auc" else 1 / bags.n_classes, evaluation[name]
    findings = []
    if found.high < random:
        text = (
            "No, it is worse than random guessing. Check that proportions are those of the right "
            "class."
        )
        findings.append(Finding(text, "warning"))
    elif found.low <= random:
        text = (
            f"No, these bags do not show it: the {'range' if found.is_range else 'interval'} includes "
            f"{_number(name, random)}, the value of random guessing."
        )
        findings.append(Finding(text, "warning"))
    lead = _lead(name, evaluation, bags)
    findings.append(Finding(lead if findings else f"Yes. {lead}"))
    outside = [
        measure_name(n) for n, e in evaluation.estimates.items() if value_text(n, e) == "not usable"
    ]
    if outside:
        text = (
            "Unbiased estimates may leave 0 to 1 where bags are few or much alike: "
            f"{', '.join(outside)}. Use their intervals only."
        )
        findings.append(Finding(text, "warning"))
    pictures = []
    if roc is not None:
        level = percent(roc.band.confidence_level, None)
        band = "sensitivity range" if roc.auc.is_range else f"{level} band"
        caption = (
            f"ROC curve of held-out scores with its {band}, estimated from {roc.source} alone."
        )
        rates = ", ".join(
            f"{percent(np.interp(at, roc.band.fpr, roc.band.tpr))} at {percent(at)}"
            for at in (0.1, 0.2, 0.5)
        )
        alt = f"ROC curve: recall is {rates} false positives."
        pictures.append(Picture(roc.plot, caption, alt, size=(4.3, 4.1)))
    title = "Is the classifier better than random guessing?"
    tables = (_measures(evaluation, labels),)
    return Section("performance", title, tuple(findings), tuple(pictures), tables)


def performance_tiles(evaluation: Evaluation) -> list[Tile]:
    """Give the one or two measures to be seen first."""
    tiles = []
    for name in ("roc_auc", "balanced_accuracy"):
        if name not in evaluation.estimates:
            continue
        found = evaluation[name]
        value, limits = value_text(name, found), interval_text(name, found)
        if found.is_range:
            detail = f"{value} {evaluation.condition(name)}"
            tiles.append(Tile(measure_words(name), limits, detail))
        else:
            tiles.append(Tile(measure_words(name), value, _limits(name, evaluation)))
    return tiles


def _lead(name: str, evaluation: Evaluation, bags: Bags) -> str:
    """The first measure in words."""
    found, held_out = evaluation[name], "Every bag was scored by a model that had not seen it."
    value, limits = value_text(name, found), _limits(name, evaluation)
    by_labels = found.assumption == "labels"
    source = "from the labelled rows and the bags" if by_labels else "from the proportions alone"
    source = "from labels" if bags.labelled.all() else source
    if name != "roc_auc":
        recalls = {
            k: e.value for k, e in evaluation.estimates.items() if k.startswith("recall of ")
        }
        worst = min(recalls, key=lambda k: recalls[k])
        return (
            f"On average over the {bags.n_classes} classes, {value} of the rows of a class are "
            f"recognised ({limits}), estimated {source}. The lowest recall has class "
            f"{shown(worst.removeprefix('recall of '), 40)}: "
            f"{value_text('', evaluation[worst])}. {held_out}"
        )
    text = "The probability that a random positive is ranked above a random negative (AUC) is "
    if found.is_range:
        low_to_high = interval_text(name, found).replace(" to ", " and ")
        return (
            f"{text}between {low_to_high}: bags determine no more. It is {value} "
            f"{evaluation.condition(name)}. {held_out}"
        )
    shift = found.assumption.replace("_", " ")
    rests = "" if by_labels else f" if {shift} holds, which these bags do not contradict"
    return f"{text}{value}{rests} ({limits}), estimated {source}. {held_out}"


def _measures(evaluation: Evaluation, labels: ArrayLike | None) -> NumberTable:
    first = next(iter(evaluation.estimates.values()))
    level = "Range" if first.is_range else f"{percent(first.confidence_level, None)} interval"
    ranges, truth = evaluation.ranges, {}
    if labels is not None:
        sample = make_sample(labels, as_columns(evaluation.scores))
        measures = usual_measures(sample.bags, evaluation.threshold, "empirical")
        truth = {name: measure.value(sample) for name, measure in measures.items()}
    rows = []
    for name, e in evaluation.estimates.items():
        row = [measure_name(name), value_text(name, e), interval_text(name, e)]
        row += [interval_text(name, ranges[name])] if ranges else []
        row += [_number(name, truth[name], 1)] if truth else []
        rows.append(tuple(row))
    threshold = "" if evaluation.roc is None else f", log-odds threshold {evaluation.threshold:.3g}"
    condition = capital(evaluation.condition(next(iter(evaluation.estimates))))
    header = ["Measure", condition if first.is_range else "Estimate", level]
    header += ["Sensitivity range"] if ranges else []
    header += ["With the labels"] if truth else []
    caption = f"Estimates on held-out bags ({whole(evaluation.n_instances)} rows){threshold}"
    return NumberTable(caption, tuple(header), tuple(rows))
