"""Sections of a report: each is a question about the model, and its answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from unbag._text import (
    counted,
    listing,
    measure_words,
    percent,
    rough,
    sentence,
    shown,
    whole,
)
from unbag.bags.bags import Bags
from unbag.evaluation import Estimate, Evaluation
from unbag.evaluation.bag_effects import describe_effect
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.measures import as_columns, make_sample, usual_measures
from unbag.evaluation.sample_size import EffectiveSampleSize
from unbag.model_selection.fitted import last_step
from unbag.reports.bags import BagsDisplay
from unbag.reports.calibration import CalibrationDisplay
from unbag.reports.effects import EffectsDisplay, draw_effect
from unbag.reports.importance import ImportanceDisplay
from unbag.reports.label_shift import LabelShiftDisplay
from unbag.reports.page import Finding, FindingKind, NumberTable, Picture, Section, Tile
from unbag.reports.roc import RocDisplay

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
_MEASURES = {
    "roc_auc": "Area under ROC (AUC)",
    "true_positive_rate": "Recall (TPR)",
    "false_positive_rate": "False positive rate (FPR)",
    "f1": "F1 score",
}
# Proportion of intervals of two standard errors, from few bags, that miss the truth.
_MISSES = 0.07
# Probabilities of so many misses below which the model is miscalibrated, and may be.
_RARE, _UNUSUAL = 0.01, 0.1

# Proportions of a class that vary by less than this over bags leave little to learn from.
_LITTLE_SPREAD = 0.05
_FEW_BAGS = 10
# Bags in a table.
_LISTED = 10


# --- the verdict ----------------------------------------------------------------------------------


def verdict_section(
    evaluation: Evaluation, displays: list[LabelShiftDisplay], model: Any, bags: Bags
) -> Section:
    """Say which assumption estimates rest on, and whether the bags contradict it."""
    verdict, checks = evaluation.verdict, evaluation.rows.checks
    answer = "Yes." if verdict.name == "not_rejected" else "No, only the ranges."
    text = f"{answer} {verdict.lead} {evaluation.lead}"
    findings = [Finding(text, _KINDS[verdict.name])]
    reasons = [*verdict.reasons]
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
    findings += _effect_findings(model, bags) if evaluation.fold is not None else []
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
    heads: dict[str, str] = {
        key: f"{key.replace('_', ' ').capitalize()} ({_WORDS[evaluation.verdicts[key].name]})"
        for key in ("label_shift", "covariate_shift")
        if key in found and key in evaluation.verdicts
    }
    heads |= {"sensitivity": "Sensitivity range"} if "sensitivity" in found else {}
    rows = []
    for name in ("roc_auc", "balanced_accuracy", "accuracy"):
        if name in found["label_shift"]:
            cells = [_both_text(name, found[key][name]) for key in heads]
            rows.append((measure_name(name), *cells))
    caption = f"Estimates by assumption. {evaluation.sensitivity}"
    return NumberTable(caption, ("Measure", *heads.values()), tuple(rows))


def _both_text(name: str, found: Estimate) -> str:
    text = value_text(name, found)
    if text == "not usable":
        return text
    interval = interval_text(name, found)
    return interval if found.assumption == "sensitivity" else f"{text}, {interval}"


def _effect_findings(model: Any, bags: Bags) -> list[Finding]:
    """Report the bag effect of a model trained by the count likelihood."""
    model = last_step(model)
    effect = None if bags.labelled.all() else describe_effect(model)
    if effect is None:
        return []
    text = (
        "Training by the count likelihood is right under label shift and under covariate shift. "
        f"{sentence(effect)}"
    )
    return [Finding(text, "note" if model.bag_effect_ > 0 else "plain")]


# --- accuracy -------------------------------------------------------------------------------------


def measure_name(measure: str) -> str:
    """Name a measure for readers."""
    if measure.startswith("recall of "):
        return f"Recall of class {shown(measure.removeprefix('recall of '), 60)}"
    return _MEASURES.get(measure, measure.replace("_", " ").capitalize())


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
            f"{number(name, random)}, the value of random guessing."
        )
        findings.append(Finding(text, "warning"))
    source = _source(evaluation, bags)
    lead = (
        _auc_lead(evaluation, source) if name == "roc_auc" else _mean_lead(evaluation, bags, source)
    )
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
        caption = f"ROC curve of held-out scores with its {band}, estimated {source}."
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


def _auc_lead(evaluation: Evaluation, source: str) -> str:
    auc, name = evaluation["roc_auc"], "roc_auc"
    text = "The probability that a random positive is ranked above a random negative (AUC) is "
    value = value_text(name, auc)
    if auc.is_range:
        low_to_high = interval_text(name, auc).replace(" to ", " and ")
        return (
            f"{text}between {low_to_high}: bags determine no more. It is {value} "
            f"{evaluation.condition(name)}. {_HELD_OUT}"
        )
    rests = ""
    if auc.assumption != "labels":
        shift = auc.assumption.replace("_", " ")
        rests = f" if {shift} holds, which these bags do not contradict"
    return f"{text}{value}{rests} ({_limits(name, evaluation)}), estimated {source}. {_HELD_OUT}"


_HELD_OUT = "Every bag was scored by a model that had not seen it."


def _mean_lead(evaluation: Evaluation, bags: Bags, source: str) -> str:
    mean = evaluation["balanced_accuracy"]
    worst = min(
        (name for name in evaluation.estimates if name.startswith("recall of ")),
        key=lambda name: evaluation[name].value,
    )
    return (
        f"On average over the {bags.n_classes} classes, {value_text('', mean)} of the instances of "
        f"a class are recognised ({_limits('balanced_accuracy', evaluation)}), estimated {source}. The "
        f"lowest recall has class {shown(worst.removeprefix('recall of '), 40)}: "
        f"{value_text('', evaluation[worst])}. {_HELD_OUT}"
    )


def _source(evaluation: Evaluation, bags: Bags) -> str:
    if bags.labelled.all():
        return "from labels"
    labels = next(iter(evaluation.estimates.values())).assumption == "labels"
    return "from the labelled rows and the bags" if labels else "from the proportions alone"


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
        row += [number(name, truth[name], 1)] if truth else []
        rows.append(tuple(row))
    threshold = "" if evaluation.roc is None else f", threshold {evaluation.threshold:.3g}"
    header = ["Measure", "Estimate", level]
    header += ["Sensitivity range"] if ranges else []
    header += ["With the labels"] if truth else []
    caption = f"Estimates on held-out bags ({whole(evaluation.n_instances)} instances){threshold}"
    return NumberTable(caption, tuple(header), tuple(rows))


# --- columns --------------------------------------------------------------------------------------


def columns_section(
    effects: EffectsDisplay | None, importance: ImportanceDisplay | str, model: Any
) -> Section:
    """Report how columns act on the log-odds, and how important they are."""
    findings, pictures = [], []
    if isinstance(importance, str):
        findings.append(Finding(f"Their importance is not estimated: {importance}", "note"))
    else:
        shares = zip(importance.columns[:3], importance.importance, strict=False)
        first = [f"{shown(name, 40)} ({percent(share)})" for name, share in shares]
        text = (
            f"Most important: {listing(first)}. Importance is the loss of likelihood of the bag "
            "counts when a column is shuffled, as a proportion of the total over all columns. "
            "Correlated columns replace each other, and importance is association, not cause."
        )
        findings.append(Finding(text))
    if effects is not None:
        level = percent(effects.confidence_level, None)
        text = (
            "The curves show by how much the log-odds change with one column while the others stay "
            f"at their medians or most frequent values, with {level} bands of the posterior."
        )
        findings.append(Finding(text))
        for effect in effects.effects:
            name = shown(effect.column, 40)
            alt = (
                f"Effect of {name}: log-odds between {effect.log_odds.min():+.2f} and "
                f"{effect.log_odds.max():+.2f} relative to the reference."
            )
            draw = partial(draw_effect, effects, effect)
            pictures.append(Picture(draw, f"Effect of {name}.", alt, size=(3.4, 2.8)))
    tables = [*_terms(last_step(model))]
    if not isinstance(importance, str):
        caption = "Permutation importance of the columns."
        if effects is None:
            alt = f"Bars; the longest is {shown(importance.columns[0], 40)}."
            pictures.append(Picture(importance.plot, caption, alt))
        tables.append(NumberTable(caption, importance.header, importance.rows))
    title = "Which columns matter, and how?"
    return Section("columns", title, tuple(findings), tuple(pictures), tuple(tables))


def _terms(model: Any) -> tuple[NumberTable, ...]:
    rows = tuple(
        (
            shown(term.term, 40),
            f"{term.standard_deviation:.2f}",
            f"{term.degrees_of_freedom:.1f}",
            percent(term.variance_share),
        )
        for term in getattr(model, "terms_", ())
    )
    header = ("Term", "Standard deviation", "Effective df", "Share of variance")
    caption = "Terms of the model, each with the standard deviation of its coefficients."
    return (NumberTable(caption, header, rows),) if rows else ()


# --- probabilities --------------------------------------------------------------------------------


def reliability_section(display: CalibrationDisplay | str) -> Section:
    """Report whether probabilities are calibrated; a str says why that is not known."""
    title = "Are its probabilities calibrated?"
    if isinstance(display, str):
        return Section("probabilities", title, (Finding(f"Not estimated: {display}", "note"),))
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
    picture = Picture(
        display.plot,
        "Predicted probabilities and proportions estimated from bags. Points on the dotted line "
        "are calibrated.",
        f"Calibration curve; at the top, {percent(curve.predicted[top])} predicted and "
        f"{percent(observed)} observed.",
    )
    findings = (*_agreement(display), Finding(text))
    return Section("probabilities", title, findings, (picture,))


def _agreement(display: CalibrationDisplay) -> list[Finding]:
    """In how many bins proportions are as predicted, and whether others would have been detected."""
    agree, n_bins, alike, bar = display.agreement
    if n_bins == 0:
        return []
    text = (
        f"in {agree} of {n_bins} bins of similar probability, predicted and estimated proportion "
        f"agree within two standard errors, which are typically ±{100 * bar:.0f} points."
    )
    # of so many misses, or more, if the model is calibrated
    probability, if_alike = (
        float(stats.binom.sf(n_bins - k - 1, n_bins, _MISSES)) for k in (agree, alike)
    )
    if probability < _RARE or 2 * agree < n_bins:
        return [Finding(f"No: only {text}", "warning")]
    if if_alike >= _RARE:
        text += (
            " These bags could not have shown miscalibration: they would agree as well with the "
            "same probability for all rows."
        )
        return [Finding(f"Unclear: {text}", "note")]
    if probability >= _UNUSUAL:
        return [Finding(f"Yes: {text}", "good")]
    return [Finding(f"Yes, roughly: {text}")]


# --- bags and base models -------------------------------------------------------------------------


def bags_section(display: BagsDisplay) -> Section:
    """Report the effective sample size of the bags."""
    information, bags = display.information, display.bags
    warnings = _bag_warnings(display)
    little = any(finding.kind == "warning" for finding in warnings)
    findings = [Finding(f"{'No, hardly' if little else 'Yes'}. {information.summary}"), *warnings]
    if bags.noise is not None:
        text = "The proportions are noisy; estimates and intervals include the noise."
        findings.append(Finding(text, "note"))
    low, high = bags.proportions[:, -1].min(), bags.proportions[:, -1].max()
    pictures = []
    if not bags.labelled.all():
        what = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[-1], 40)}"
        caption = "Distribution of the proportions over the bags. The wider, the more informative."
        alt = f"The proportion of {what} in a bag is between {percent(low)} and {percent(high)}."
        pictures.append(Picture(display.plot, caption, alt))
        small, large = whole(bags.sizes.min()), whole(bags.sizes.max())
        if small != large:
            sizes = BagsDisplay(bags, information, "sizes")
            alt = f"Histogram: bags have between {small} and {large} instances."
            pictures.append(Picture(sizes.plot, "Sizes of the bags.", alt))
    tables = (_bag_table(information),)
    return Section("bags", "Are the bags informative?", tuple(findings), tuple(pictures), tables)


def _bag_warnings(display: BagsDisplay) -> list[Finding]:
    bags, found = display.bags, []
    centre = np.average(bags.proportions, axis=0, weights=bags.sizes)
    variance = np.average((bags.proportions - centre) ** 2, axis=0, weights=bags.sizes)
    least, spread = int(variance.argmin()), float(np.sqrt(variance.min()))
    if spread < _LITTLE_SPREAD:
        name = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[least], 40)}"
        text = (
            f"The proportion of {name} hardly differs between bags (standard deviation "
            f"{spread:.2g}). Bags are informative by their differences: get bags with more "
            "different proportions."
        )
        found.append(Finding(text, "warning"))
    if display.information.warning:
        found.append(Finding(display.information.warning, "warning"))
    if bags.n_bags < _FEW_BAGS and not bags.labelled.all():
        text = f"There are only {counted(bags.n_bags, 'bag')}: intervals are rough."
        found.append(Finding(text, "note"))
    return found


def bags_tile(information: EffectiveSampleSize) -> Tile:
    """Give the effective sample size."""
    detail = f"{percent(information.fraction_of_labels)} of what all labels would give"
    return Tile("effective sample size", rough(information.n_effective), detail)


def _bag_table(information: EffectiveSampleSize) -> NumberTable:
    columns = information.by_bag
    n = len(columns["bag"])
    names = [name for name in columns if name not in ("bag", "size", "share")]
    heads = [
        "Proportion of positives"
        if name == "proportion"
        else f"Proportion of {shown(name.removeprefix('proportion of '), 40)}"
        for name in names
    ]
    rows = [
        (
            shown(columns["bag"][k], 60),
            whole(columns["size"][k]),
            *(percent(columns[name][k], 1) for name in (*names, "share")),
        )
        for k in range(min(n, _LISTED))
    ]
    which = f"The {_LISTED} most informative of {whole(n)} bags" if n > _LISTED else "The bags"
    return NumberTable(which, ("Bag", "Instances", *heads, "Information"), tuple(rows))


def learners_section(model: Any) -> Section | None:
    """Report the base models of an ensemble and their weights; None for any other."""
    leaderboard = getattr(model, "leaderboard_", [])
    if len(leaderboard) < 2:
        return None
    tried = [row for row in leaderboard if row["loss"] is not None]
    text = (
        f"{counted(len(tried), 'base model')} trained on the same folds, weighted by the "
        "likelihood of held-out bags: its difference over the standard error of that."
    )
    findings = [Finding(text)]
    findings += [
        Finding(f"Without {row['learner']}: {row['note']}.", "note")
        for row in leaderboard
        if row["note"]
    ]
    rows = tuple(
        (row["learner"], f"{row['loss']:.5f}", percent(row["weight"]), f"{row['seconds']:.1f}")
        for row in tried
    )
    heads = ("base model", "negative log-likelihood per row", "weight", "seconds")
    table = NumberTable("Base models by held-out likelihood, the best first", heads, rows)
    return Section("learners", "Which base models are used?", tuple(findings), (), (table,))
