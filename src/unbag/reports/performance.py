"""How good the classifier is, in words and numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unbag._text import measure_words, percent, shown, whole
from unbag.bags.bags import Bags
from unbag.evaluation import Estimate, Evaluation
from unbag.evaluation.measures import usual_measures
from unbag.evaluation.sample import as_columns, make_sample
from unbag.reports.content import Finding, NumberTable, Picture, Section, Tile
from unbag.reports.roc import RocDisplay
from unbag.reports.wording import digits_of, interval_text, measure_name


def performance_section(
    evaluation: Evaluation, bags: Bags, roc: RocDisplay | None, labels: ArrayLike | None
) -> Section:
    """Answer how good the classifier is on bags that it did not see."""
    findings = [Finding(_lead(evaluation, bags)), *_beyond_chance(evaluation, bags)]
    findings += _impossible(evaluation)
    pictures = []
    if roc is not None:
        caption = (
            f"ROC curve of out-of-fold scores with its {percent(roc.band.confidence_level, None)} band, "
            f"estimated {_source(bags)}."
        )
        rates = ", ".join(
            f"{percent(np.interp(at, roc.band.fpr, roc.band.tpr))} at {percent(at)}"
            for at in (0.1, 0.2, 0.5)
        )
        alt = f"ROC curve: rates of true positives are {rates} false positives."
        pictures.append(Picture(roc.plot, caption, alt, size=(4.3, 4.1)))
    return Section(
        key="performance",
        title="How good is the classifier?",
        findings=tuple(findings),
        pictures=tuple(pictures),
        tables=(_table(evaluation, labels),),
    )


def performance_tiles(evaluation: Evaluation) -> list[Tile]:
    """Give the one or two measures to be seen first."""
    first = [name for name in ("roc_auc", "balanced_accuracy") if name in evaluation.estimates]
    return [_tile(measure_words(name), evaluation[name]) for name in first]


def _tile(label: str, found: Estimate) -> Tile:
    if found.assumption == "sensitivity":
        promised = f"{percent(found.value)} if scores keep their word"
        return Tile(label, interval_text(found), promised)
    return Tile(label, percent(found.value, digits_of(found)), _interval(found))


def _lead(evaluation: Evaluation, bags: Bags) -> str:
    source = _source(bags)
    held_out = "Every bag was scored by a model that had not seen it."
    if "roc_auc" in evaluation.estimates:
        auc = evaluation["roc_auc"]
        if auc.assumption == "sensitivity":
            return (
                "The classifier ranks a random positive above a random negative in "
                f"{interval_text(auc)} of cases: more cannot be told {source}. If its log-odds "
                f"hold inside bags it is {percent(auc.value, digits_of(auc))}. {held_out}"
            )
        return (
            "The classifier ranks a random positive above a random negative in "
            f"{percent(auc.value, digits_of(auc))} of cases ({_interval(auc)}), estimated "
            f"{source}. {held_out}"
        )
    mean = evaluation["balanced_accuracy"]
    worst = min(
        (name for name in evaluation.estimates if name.startswith("recall of ")),
        key=lambda name: evaluation[name].value,
    )
    return (
        f"On average over the {bags.n_classes} classes, "
        f"{percent(mean.value, digits_of(mean))} of the instances of a class are recognised "
        f"({_interval(mean)}), estimated {source}. Hardest is class "
        f"{shown(worst.removeprefix('recall of '), 40)}, of which "
        f"{percent(evaluation[worst].value, digits_of(evaluation[worst]))} are found. {held_out}"
    )


def _source(bags: Bags) -> str:
    return "from labels" if bags.labelled.all() else "from the proportions alone"


def _beyond_chance(evaluation: Evaluation, bags: Bags) -> list[Finding]:
    if "roc_auc" in evaluation.estimates:
        chance, found = 0.5, evaluation["roc_auc"]
    else:
        chance, found = 1 / bags.n_classes, evaluation["balanced_accuracy"]
    if found.high < chance:
        text = (
            "The classifier does worse than chance. Look whether the proportions are those of the "
            "class they are taken for."
        )
    elif found.low <= chance:
        text = (
            f"The interval reaches down to {percent(chance)}, which is chance: these bags do not "
            "show that the classifier is any better than guessing."
        )
    else:
        return []
    return [Finding(text, "warning")]


def _impossible(evaluation: Evaluation) -> list[Finding]:
    outside = {
        name: e.value
        for name, e in evaluation.estimates.items()
        if e.bounded and not 0 <= e.value <= 1 and not np.isnan(e.value)
    }
    if not outside:
        return []
    listed = ", ".join(f"{measure_name(name)} {value:.3f}" for name, value in outside.items())
    text = (
        "Some estimates fall outside 0 to 1, as unbiased estimates may when bags are few or much "
        f"alike: {listed}. Trust the intervals more than the values."
    )
    return [Finding(text, "warning")]


def _table(evaluation: Evaluation, labels: ArrayLike | None) -> NumberTable:
    confidence_level = next(iter(evaluation.estimates.values())).confidence_level
    truth = {} if labels is None else _truth(evaluation, labels)
    rows = []
    for name, e in evaluation.estimates.items():
        value = percent(e.value, digits_of(e))
        row = [
            measure_name(name),
            value,
            interval_text(e),
            f"±{percent(e.standard_error, 1)}",
        ]
        if truth:
            row.append(percent(truth[name], 1))
        rows.append(tuple(row))
    threshold = "" if evaluation.roc is None else f", threshold {evaluation.threshold:.3g}"
    header = (
        "Measure",
        "Estimate",
        f"{percent(confidence_level, None)} interval",
        "Standard error",
    )
    return NumberTable(
        f"Estimates on bags held out ({whole(evaluation.n_instances)} instances){threshold}",
        (*header, "With the labels") if truth else header,
        tuple(rows),
    )


def _truth(evaluation: Evaluation, labels: ArrayLike) -> dict[str, float]:
    """The same measures with labels."""
    sample = make_sample(labels, as_columns(evaluation.scores))
    measures = usual_measures(sample.bags, evaluation.threshold, "empirical")
    return {name: measure.value(sample) for name, measure in measures.items()}


def _interval(found: Estimate) -> str:
    return f"{percent(found.confidence_level, None)} interval {interval_text(found)}"
