"""Sections of a report on accuracy: the verdict, the measures, and the probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import softmax

from unbag._text import measure_words, percent, shown, whole
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities
from unbag.evaluation import Estimate, Evaluation
from unbag.evaluation.measures import as_columns, make_sample, usual_measures
from unbag.model_selection.fitted import last_step
from unbag.reports.calibration import CalibrationDisplay
from unbag.reports.page import Finding, FindingKind, NumberTable, Picture, Section, Tile
from unbag.reports.roc import RocDisplay

_NAMES = {
    "roc_auc": "Area under ROC (AUC)",
    "balanced_accuracy": "Balanced accuracy",
    "accuracy": "Accuracy",
    "true_positive_rate": "Recall (TPR)",
    "false_positive_rate": "False positive rate (FPR)",
    "precision": "Precision",
    "f1": "F1 score",
}

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

# Proportion of intervals of two standard errors, from few bags, that miss the truth.
_MISSES = 0.07
# Probabilities of so many misses below which the model is miscalibrated, and may be.
_RARE, _UNUSUAL = 0.01, 0.1

_PROBABILITIES = "Are its probabilities calibrated?"


# --- numbers --------------------------------------------------------------------------------------


def measure_name(measure: str) -> str:
    """Name a measure for readers."""
    if measure.startswith("recall of "):
        return f"Recall of class {shown(measure.removeprefix('recall of '), 60)}"
    return _NAMES.get(measure, measure.replace("_", " "))


def number(measure: str, value: float, digits: int = 0) -> str:
    """Write a value: an AUC between 0 and 1, other measures in percent."""
    return f"{value:.{digits + 2}f}" if measure == "roc_auc" else percent(value, digits)


def value_text(measure: str, found: Estimate) -> str:
    """Write the value of an estimate."""
    if np.isnan(found.value):
        return "undefined"
    if found.bounded and not 0 <= found.value <= 1:
        return "not usable"
    return number(measure, found.value, _digits(found))


def interval_text(measure: str, found: Estimate) -> str:
    """Write the limits of an estimate."""
    low, high = found.shown_limits
    if np.isnan(low):
        return "undefined"
    ends = [number(measure, end, _digits(found)) for end in (low, high)]
    return f"{ends[0].removesuffix('%')} to {ends[1]}"


def _digits(found: Estimate) -> int:
    """One digit more where the interval is narrow enough for it."""
    return 1 if found.high - found.low < 0.04 else 0


# --- the verdict ----------------------------------------------------------------------------------


def verdict_section(evaluation: Evaluation) -> Section:
    """Say which assumption estimates rest on, and whether the bags contradict it."""
    verdict = evaluation.verdict
    findings = [Finding(f"{verdict.lead} {evaluation.lead}", _KINDS[verdict.name])]
    findings += [Finding(text) for text in verdict.reasons]
    for key, other in evaluation.verdicts.items():
        if key == "label_shift" and verdict.assumption == "covariate_shift":
            findings.append(Finding(other.lead))
        elif key == "covariate_shift" != verdict.assumption:
            own = [text for text in other.reasons if text not in verdict.reasons]
            findings.append(Finding(" ".join([other.lead, *own])))
    findings += [Finding(text, "note") for text in (*evaluation.drift, *verdict.advice)]
    tables = (_by_assumption(evaluation),) if len(evaluation.by_assumption) > 1 else ()
    return Section("verdict", "Can the estimates be trusted?", tuple(findings), tables=tables)


def verdict_tile(evaluation: Evaluation) -> Tile:
    """Give the verdict in a word."""
    verdict = evaluation.verdict
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
    keys = [key for key in ("label_shift", "covariate_shift", "sensitivity") if key in found]
    names = [n for n in ("roc_auc", "balanced_accuracy", "accuracy") if n in found["label_shift"]]
    rows = []
    for name in names:
        cells = []
        for key in keys:
            e = found[key][name]
            text = value_text(name, e)
            alone = key == "sensitivity" or text == "not usable"
            alone_text = text if text == "not usable" else interval_text(name, e)
            cells.append(alone_text if alone else f"{text}, {interval_text(name, e)}")
        rows.append((measure_name(name), *cells))
    heads = {
        "label_shift": f"Label shift ({_verdict_word(evaluation, 'label_shift')})",
        "covariate_shift": f"Covariate shift ({_verdict_word(evaluation, 'covariate_shift')})",
        "sensitivity": "Sensitivity range",
    }
    header = ("Measure", *(heads[key] for key in keys))
    caption = f"Estimates by assumption. {evaluation.sensitivity}"
    return NumberTable(caption, header, tuple(rows))


def _verdict_word(evaluation: Evaluation, key: str) -> str:
    verdict = evaluation.verdicts.get(key)
    return "" if verdict is None else _WORDS[verdict.name]


# --- measures -------------------------------------------------------------------------------------


def performance_section(
    evaluation: Evaluation, bags: Bags, roc: RocDisplay | None, labels: ArrayLike | None
) -> Section:
    """Report how accurate the classifier is on bags that it did not see."""
    findings = [Finding(_lead(evaluation, bags)), *_beyond_chance(evaluation, bags)]
    findings += _impossible(evaluation)
    pictures = []
    if roc is not None:
        level = percent(roc.band.confidence_level, None)
        spanning = roc.auc.assumption in ("sensitivity", "either")
        band = "sensitivity range" if spanning else f"{level} band"
        caption = (
            f"ROC curve of held-out scores with its {band}, estimated {_source(evaluation, bags)}."
        )
        rates = ", ".join(
            f"{percent(np.interp(at, roc.band.fpr, roc.band.tpr))} at {percent(at)}"
            for at in (0.1, 0.2, 0.5)
        )
        alt = f"ROC curve: recall is {rates} false positives."
        pictures.append(Picture(roc.plot, caption, alt, size=(4.3, 4.1)))
    return Section(
        key="performance",
        title="How accurate is the classifier?",
        findings=tuple(findings),
        pictures=tuple(pictures),
        tables=(_measures(evaluation, labels),),
    )


def performance_tiles(evaluation: Evaluation) -> list[Tile]:
    """Give the one or two measures to be seen first."""
    first = [name for name in ("roc_auc", "balanced_accuracy") if name in evaluation.estimates]
    return [_tile(name, evaluation) for name in first]


def _tile(name: str, evaluation: Evaluation) -> Tile:
    label, found = measure_words(name), evaluation[name]
    if found.assumption in ("sensitivity", "either"):
        detail = f"{value_text(name, found)} if log-odds are calibrated within bags"
        return Tile(label, interval_text(name, found), detail)
    detail = f"{_interval(name, found)}{_beside(name, evaluation)}"
    return Tile(label, value_text(name, found), detail)


def _beside(name: str, evaluation: Evaluation) -> str:
    """The sensitivity range, with estimates that rest on an assumption."""
    found = evaluation.ranges
    return f"; sensitivity range {interval_text(name, found[name])}" if found else ""


def _lead(evaluation: Evaluation, bags: Bags) -> str:
    source = _source(evaluation, bags)
    held_out = "Every bag was scored by a model that had not seen it."
    if "roc_auc" in evaluation.estimates:
        auc = evaluation["roc_auc"]
        text = "The probability that a random positive is ranked above a random negative (AUC) is "
        if auc.assumption in ("sensitivity", "either"):
            return (
                f"{text}between {interval_text('roc_auc', auc).replace(' to ', ' and ')}: bags "
                "determine no more. If "
                "log-odds are calibrated within bags, it is "
                f"{value_text('roc_auc', auc)}. {held_out}"
            )
        rests = ""
        if auc.assumption != "labels":
            shift = auc.assumption.replace("_", " ")
            rests = f" if {shift} holds, which these bags do not contradict"
        return (
            f"{text}{value_text('roc_auc', auc)}{rests} ({_interval('roc_auc', auc)}"
            f"{_beside('roc_auc', evaluation)}), estimated {source}. {held_out}"
        )
    mean = evaluation["balanced_accuracy"]
    worst = min(
        (name for name in evaluation.estimates if name.startswith("recall of ")),
        key=lambda name: evaluation[name].value,
    )
    return (
        f"On average over the {bags.n_classes} classes, {value_text('', mean)} of the instances of "
        f"a class are recognised ({_interval('', mean)}), estimated {source}. The lowest recall "
        f"has class {shown(worst.removeprefix('recall of '), 40)}: "
        f"{value_text('', evaluation[worst])}. {held_out}"
    )


def _source(evaluation: Evaluation, bags: Bags) -> str:
    if bags.labelled.all():
        return "from labels"
    labels = next(iter(evaluation.estimates.values())).assumption == "labels"
    return "from the labelled rows and the bags" if labels else "from the proportions alone"


def _beyond_chance(evaluation: Evaluation, bags: Bags) -> list[Finding]:
    name = "roc_auc" if "roc_auc" in evaluation.estimates else "balanced_accuracy"
    random, found = 0.5 if name == "roc_auc" else 1 / bags.n_classes, evaluation[name]
    if found.high < random:
        text = (
            "The classifier is worse than random guessing. Check that proportions are those of the "
            "right class."
        )
    elif found.low <= random:
        text = (
            f"The interval includes {number(name, random)}, the value of random guessing: these "
            "bags do not show that the classifier is better."
        )
    else:
        return []
    return [Finding(text, "warning")]


def _impossible(evaluation: Evaluation) -> list[Finding]:
    outside = [
        measure_name(name)
        for name, e in evaluation.estimates.items()
        if e.bounded and not 0 <= e.value <= 1 and not np.isnan(e.value)
    ]
    if not outside:
        return []
    text = (
        "Unbiased estimates may leave 0 to 1 where bags are few or much alike: "
        f"{', '.join(outside)}. Use their intervals only."
    )
    return [Finding(text, "warning")]


def _measures(evaluation: Evaluation, labels: ArrayLike | None) -> NumberTable:
    level = next(iter(evaluation.estimates.values())).confidence_level
    truth = {} if labels is None else _truth(evaluation, labels)
    ranges = evaluation.ranges
    rows = []
    for name, e in evaluation.estimates.items():
        row = [measure_name(name), value_text(name, e), interval_text(name, e)]
        if ranges:
            row.append(interval_text(name, ranges[name]))
        if truth:
            row.append(number(name, truth[name], 1))
        rows.append(tuple(row))
    threshold = "" if evaluation.roc is None else f", threshold {evaluation.threshold:.3g}"
    header = ["Measure", "Estimate", f"{percent(level, None)} interval"]
    header += ["Sensitivity range"] if ranges else []
    header += ["With the labels"] if truth else []
    return NumberTable(
        f"Estimates on held-out bags ({whole(evaluation.n_instances)} instances){threshold}",
        tuple(header),
        tuple(rows),
    )


def _truth(evaluation: Evaluation, labels: ArrayLike) -> dict[str, float]:
    """The same measures with labels."""
    sample = make_sample(labels, as_columns(evaluation.scores))
    measures = usual_measures(sample.bags, evaluation.threshold, "empirical")
    return {name: measure.value(sample) for name, measure in measures.items()}


def _interval(name: str, found: Estimate) -> str:
    return f"{percent(found.confidence_level, None)} interval {interval_text(name, found)}"


# --- probabilities --------------------------------------------------------------------------------


def held_out_probabilities(y: Any, evaluation: Evaluation, model: Any) -> NDArray[np.float64]:
    """Probabilities of every row by a model that did not see its bag, at the prior of the bags."""
    last = last_step(model)
    if evaluation.log_odds is None:
        raise ValueError(
            f"{type(last).__name__} gives scores and no probabilities; "
            "a classifier whose scores are log-odds, such as LLPClassifier, gives both."
        )
    scores = evaluation.log_odds
    table = scores[:, None] * [0.0, 1.0] if scores.ndim == 1 else scores
    found: NDArray[np.float64] = softmax(table, axis=1)
    prior = getattr(last, "class_prior_", None)
    shares = check_bag_target(y).class_shares
    return found if prior is None else adjust_probabilities(found, prior, shares)


def show_reliability(y: Any, evaluation: Evaluation, model: Any) -> CalibrationDisplay | str:
    """Compare probabilities with the bags, or say why that is not possible."""
    if evaluation.verdict.assumption in ("covariate_shift", "sensitivity"):
        return "the calibration curve rests on label shift, which these bags reject."
    try:
        return CalibrationDisplay.from_data(y, held_out_probabilities(y, evaluation, model))
    except ValueError as error:
        return str(error)


def reliability_section(display: CalibrationDisplay | str) -> Section:
    """Report whether probabilities are calibrated; a str says why that is not known."""
    if isinstance(display, str):
        finding = Finding(f"Not estimated: {display}", "note")
        return Section("probabilities", _PROBABILITIES, (finding,))
    curve = next(iter(display.curves.values()))
    top = int(np.argmax(curve.predicted))
    what = "positive" if len(display.curves) == 1 else f"of class {next(iter(display.curves))}"
    within = 2 * curve.standard_error[top]
    margin = f" (± {100 * within:.0f} points)" if np.isfinite(within) else ""
    observed = float(np.clip(curve.observed[top], 0, 1))
    text = (
        f"Of the instances with the highest probabilities, an estimated {percent(observed)} are "
        f"{what}{margin}; predicted are {percent(curve.predicted[top])}. Probabilities are those "
        "of models that did not see the bag."
    )
    findings = [Finding(text), *_agreement(display)]
    picture = Picture(
        display.plot,
        "Predicted probabilities and proportions estimated from bags. Points on the dotted line "
        "are calibrated.",
        f"Calibration curve; at the top, {percent(curve.predicted[top])} predicted and "
        f"{percent(observed)} observed.",
    )
    return Section("probabilities", _PROBABILITIES, tuple(findings), (picture,))


def _agreement(display: CalibrationDisplay) -> list[Finding]:
    """In how many bins proportions are as predicted, and whether others would have been seen."""
    agree, n_bins = display.agreeing
    if n_bins == 0:
        return []
    bars = f"±{100 * display.typical_bar:.0f} points"
    text = (
        f"In {agree} of {n_bins} bins of similar probability, predicted and estimated proportion "
        f"agree within two standard errors, which are typically {bars}."
    )
    probability = _probability_of_misses(n_bins - agree, n_bins)
    if probability < _RARE or 2 * agree < n_bins:
        return [Finding(text, "warning")]
    if _probability_of_misses(n_bins - display.agreeing_if_all_alike, n_bins) >= _RARE:
        text += (
            " These bags could not have shown miscalibration: they would agree as well with the "
            "same probability for all rows."
        )
        return [Finding(text, "note")]
    return [Finding(text, "good" if probability >= _UNUSUAL else "plain")]


def _probability_of_misses(misses: int, n_bins: int) -> float:
    """Probability of so many misses, or more, if the model is calibrated."""
    return float(stats.binom.sf(misses - 1, n_bins, _MISSES))
