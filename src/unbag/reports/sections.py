"""Sections of a report on bags, on label shift, and on training."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._text import counted, p_text, percent, rough, sentence, shown, whole
from unbag.bags.bags import Bags
from unbag.evaluation import Evaluation
from unbag.evaluation.bag_effects import describe_effect
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.sample_size import EffectiveSampleSize
from unbag.reports.bags import BagsDisplay
from unbag.reports.label_shift import LabelShiftDisplay
from unbag.reports.page import Finding, FindingKind, NumberTable, Picture, Section, Tile

# Shares of a class that vary by less than this over bags leave little to learn from.
_LITTLE_SPREAD = 0.05
_FEW_BAGS = 10
_LISTED = 10


def bags_section(display: BagsDisplay) -> Section:
    """Report the effective sample size of the bags."""
    information, bags = display.information, display.bags
    findings = [Finding(information.summary), *_bag_warnings(display)]
    if bags.noise is not None:
        text = "The proportions are noisy; estimates and intervals include the noise."
        findings.append(Finding(text, "note"))
    low, high = bags.proportions[:, -1].min(), bags.proportions[:, -1].max()
    pictures, tables = [], (_bag_table(information),)
    if not bags.labelled.all():
        what = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[-1], 40)}"
        pictures.append(
            Picture(
                display.plot,
                "Distribution of the proportions over the bags. The wider, the more informative.",
                f"The proportion of {what} in a bag is between {percent(low)} and {percent(high)}.",
            )
        )
        if bags.sizes.min() < bags.sizes.max():
            small, large = whole(bags.sizes.min()), whole(bags.sizes.max())
            pictures.append(
                Picture(
                    lambda ax: display.plot(ax, view="sizes"),
                    "Sizes of the bags.",
                    f"Histogram: bags have between {small} and {large} instances.",
                )
            )
    return Section(
        "bags", "How informative are the bags?", tuple(findings), tuple(pictures), tables
    )


def _bag_warnings(display: BagsDisplay) -> list[Finding]:
    bags, found = display.bags, []
    least = int(display.spread.argmin())
    if display.spread[least] < _LITTLE_SPREAD:
        name = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[least], 40)}"
        text = (
            f"The proportion of {name} hardly differs between bags (standard deviation "
            f"{display.spread[least]:.2g}). Bags are informative by their differences: get bags "
            "with more different proportions."
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
    return Tile(
        "effective sample size",
        rough(information.n_effective),
        f"{percent(information.fraction_of_labels)} of what all labels would give",
    )


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
            *(percent(columns[name][k], 1) for name in names),
            percent(columns["share"][k], 1),
        )
        for k in range(min(n, _LISTED))
    ]
    which = f"The {_LISTED} most informative of {whole(n)} bags" if n > _LISTED else "The bags"
    return NumberTable(which, ("Bag", "Instances", *heads, "Information"), tuple(rows))


def assumption_section(
    evaluation: Evaluation, displays: list[LabelShiftDisplay], effects: list[Finding]
) -> Section:
    """Report the tests of label shift in detail.

    ``effects`` are findings on bag effects.
    """
    findings = [
        Finding(
            "Under label shift, instances of a class are distributed alike in all bags, and the "
            "bag mean of any column is linear in the proportions."
        )
    ]
    tables: list[NumberTable] = []
    for check in evaluation.rows.checks:
        what, test = check.what, check.test
        if isinstance(test, str):
            findings.append(Finding(f"{what} could not be tested: {test}", "note"))
            continue
        if test.reject:
            text = f"{what}: {_lower(test.summary)}"
            if not tables:
                text += " Look at these bags and columns first."
            findings.append(Finding(text, "warning"))
            tables.append(_suspects(what, test))
        else:
            kind: FindingKind = "good" if test.could_fail else "note"
            findings.append(Finding(f"{what}: {_lower(test.summary)}", kind))
        findings += [Finding(note, "note") for note in (*test.notes, *check.notes)]
    findings += effects
    pictures = [
        Picture(
            display.plot,
            f"Bag means of {shown(display.feature, 40)}, and their expectation under label shift.",
            f"Bag means of {shown(display.feature, 40)} against the proportions, with the fitted "
            f"line; {counted(int(display.suspicious.sum()), 'bag stands', 'bags stand')} out.",
        )
        for display in displays
    ]
    return Section(
        "assumption",
        "Does label shift hold?",
        tuple(findings),
        tuple(pictures),
        tuple(tables),
    )


def effect_findings(model: Any, bags: Bags) -> list[Finding]:
    """Report the bag effect of a model trained by the count likelihood."""
    effect = None if bags.labelled.all() else describe_effect(model)
    if effect is None:
        return []
    text = (
        "Training by the count likelihood is right under label shift and under covariate shift. "
        f"{sentence(effect)}"
    )
    return [Finding(text, "note" if model.bag_effect_ > 0 else "plain")]


def _suspects(what: str, test: LabelShiftTest) -> NumberTable:
    table = test.bags
    keep = np.flatnonzero(table["adjusted_p_value"] <= test.alpha)[:_LISTED]
    if len(keep) == 0:
        keep = np.arange(min(5, len(table["bag"])))
    rows = tuple(
        (
            shown(table["bag"][k], 60),
            whole(table["size"][k]),
            shown(table["feature"][k], 60),
            f"{table['z'][k]:+.1f}",
            p_text(table["adjusted_p_value"][k]).removeprefix("p = ").removeprefix("p "),
        )
        for k in keep
    )
    header = ("Bag", "Instances", "Column", "z", "p, adjusted")
    return NumberTable(f"Bags with the largest deviations, by {_lower(what)}", header, rows)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


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
