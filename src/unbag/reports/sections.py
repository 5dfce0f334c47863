"""The other questions that a report answers, one function each."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._text import counted, p_text, percent, rough, sentence, shown, whole
from unbag.bags.bags import Bags
from unbag.evaluation import Evaluation
from unbag.evaluation.bag_effects import describe_effect
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.sample_size import LISTED_PIECES, EffectiveSampleSize
from unbag.reports.bags import BagsDisplay
from unbag.reports.content import Finding, FindingKind, NumberTable, Picture, Section, Tile
from unbag.reports.label_shift import LabelShiftDisplay
from unbag.reports.rounds import RoundsDisplay
from unbag.reports.validation_curve import ValidationCurveDisplay

# Shares of a class that vary by less than this over bags leave little to learn from.
_LITTLE_SPREAD = 0.05
_FEW_BAGS = 10
_LISTED = 10


def bags_section(display: BagsDisplay) -> Section:
    """Tell what the bags are worth."""
    information, bags = display.information, display.bags
    findings = [Finding(information.summary), *_bag_warnings(display)]
    if bags.noise is not None:
        text = "The proportions are noisy; estimates and intervals allow for that."
        findings.append(Finding(text, "note"))
    low, high = bags.proportions[:, -1].min(), bags.proportions[:, -1].max()
    pictures, tables = [], [_bag_table(information)]
    if not bags.labelled.all():
        what = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[-1], 40)}"
        pictures.append(
            Picture(
                display.plot,
                "How the proportions are spread over the bags. The further, the better.",
                f"The share of {what} in a bag lies between {percent(low)} and {percent(high)}.",
            )
        )
        if bags.sizes.min() < bags.sizes.max():
            small, large = whole(bags.sizes.min()), whole(bags.sizes.max())
            pictures.append(
                Picture(
                    lambda ax: display.plot(ax, view="sizes"),
                    "How large the bags are.",
                    f"Histogram: bags have between {small} and {large} instances.",
                )
            )
        half = counted(display.bags_for(0.5), "bag")
        pictures.append(
            Picture(
                lambda ax: display.plot(ax, view="information"),
                f"How much the most informative bags tell: {half} of {whole(bags.n_bags)} "
                "hold half of the information.",
                f"Curve of the information held by the most informative bags: {half} hold half.",
            )
        )
    if information.if_split:
        tables.append(_finer_table(information))
    return Section(
        "bags", "What are the bags worth?", tuple(findings), tuple(pictures), tuple(tables)
    )


def _bag_warnings(display: BagsDisplay) -> list[Finding]:
    bags, found = display.bags, []
    least = int(display.spread.argmin())
    if display.spread[least] < _LITTLE_SPREAD:
        name = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[least], 40)}"
        text = (
            f"The share of {name} hardly varies from bag to bag (standard deviation "
            f"{display.spread[least]:.2g}). Bags tell classes apart by their differences; bags of "
            "more different mixtures would help most."
        )
        found.append(Finding(text, "warning"))
    if display.information.warning:
        found.append(Finding(display.information.warning, "warning"))
    if bags.n_bags < _FEW_BAGS and not bags.labelled.all():
        text = f"There are only {counted(bags.n_bags, 'bag')}: intervals are rough."
        found.append(Finding(text, "note"))
    return found


def bags_tile(information: EffectiveSampleSize) -> Tile:
    """Give the number of labelled rows that the bags are worth."""
    return Tile(
        "worth in labelled rows",
        rough(information.n_effective),
        f"{percent(information.fraction_of_labels)} of what all labels would give",
    )


def _bag_table(information: EffectiveSampleSize) -> NumberTable:
    columns = information.by_bag
    n = len(columns["bag"])
    names = [name for name in columns if name not in ("bag", "size", "share")]
    heads = [
        "Share of positives"
        if name == "proportion"
        else f"Share of {shown(name.removeprefix('proportion of '), 40)}"
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


def _finer_table(information: EffectiveSampleSize) -> NumberTable:
    finer = information.if_split
    rows = tuple(
        (
            whole(finer["pieces"][k]),
            whole(finer["n_bags"][k]),
            rough(finer["mean_size"][k]),
            rough(finer["n_effective"][k]),
            percent(finer["fraction_of_labels"][k]),
        )
        for k in range(min(len(finer["pieces"]), LISTED_PIECES))
    )
    return NumberTable(
        "What to expect if proportions were known for smaller bags: every bag cut at random",
        ("Pieces of a bag", "Bags", "Mean size", "Worth in labelled rows", "Of all labels"),
        rows,
    )


def assumption_section(
    evaluation: Evaluation, displays: list[LabelShiftDisplay], effects: list[Finding]
) -> Section:
    """Tell whether instances of a class are alike in all bags, as far as can be seen.

    ``effects`` is what is known of bag effects.
    """
    findings = [
        Finding(
            "Estimates from proportions rest on an assumption that bags often break: an instance "
            "of a class looks the same in whatever bag it is. If so, the mean of any column over a "
            "bag follows its proportions. Instances are taken to be independent besides, given "
            "their classes."
        )
    ]
    tables: list[NumberTable] = []
    for check in evaluation.checks:
        what, test = check.what, check.test
        if isinstance(test, str):
            findings.append(Finding(f"{what} could not be tested: {test}", "note"))
            continue
        if test.reject:
            text = f"{what} speak against the assumption. {test.summary}"
            if not tables:
                text += " Look at these bags and columns first."
            findings.append(Finding(text, "warning"))
            tables.append(_suspects(what, test))
        else:
            kind: FindingKind = "good" if test.could_fail else "note"
            findings.append(Finding(f"{what}: {_lower(test.summary)}", kind))
        findings += [Finding(note, "note") for note in test.notes]
    findings += [Finding(note, "note") for one in evaluation.checks for note in one.notes]
    if evaluation.effect is not None and evaluation.effect.shift_type is not None:
        kind = "note" if evaluation.effect.shift_type == "covariate_shift" else "plain"
        findings.append(Finding(evaluation.effect.message, kind))
    findings += effects
    pictures = [
        Picture(
            display.plot,
            f"Means of bags and what their proportions lead one to expect, for "
            f"{shown(display.feature, 40)}.",
            f"Bag means of {shown(display.feature, 40)} against the proportions, with the fitted "
            f"line; {counted(int(display.suspicious.sum()), 'bag stands', 'bags stand')} out.",
        )
        for display in displays
    ]
    return Section(
        "assumption",
        "Does the assumption hold?",
        tuple(findings),
        tuple(pictures),
        tuple(tables),
    )


def effect_findings(model: Any, bags: Bags) -> list[Finding]:
    """Tell what the features leave unexplained between bags.

    ``model`` was trained on the likelihood of counts; of others nothing is known.
    """
    effect = None if bags.labelled.all() else describe_effect(model, bags)
    if effect is None:
        return []
    text = (
        "The model was trained on the likelihood of the counts, which does not need that "
        "assumption: it is right as well if rows that look the same have the same odds in all "
        f"bags. {sentence(effect)}"
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
    header = ("Bag", "Instances", "Most in", "Standard errors off", "p, adjusted")
    return NumberTable(f"The bags that fit worst, by {_lower(what)}", header, rows)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def learners_section(leaderboard: list[dict[str, Any]]) -> Section:
    """Tell what was compared, and how much each counts."""
    tried = [row for row in leaderboard if row["loss"] is not None]
    text = (
        f"Trained on the same folds: {counted(len(tried), 'learner')}. Weights follow from the "
        "likelihood of held-out bags, by its difference over the standard error of that."
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
    heads = ("learner", "negative log-likelihood per row", "weight", "seconds")
    table = NumberTable("Learners, the best first, by bags held out.", heads, rows)
    return Section(
        "learners", "Which learners, and how much of each?", tuple(findings), (), (table,)
    )


def whose_choice(leaderboard: list[dict[str, Any]]) -> str:
    """Begin a sentence about settings: of an ensemble, those of its best base model."""
    tried = [row for row in leaderboard if row["loss"] is not None]
    if len(tried) < 2:
        return ""
    best = tried[0]
    return (
        f"Every learner chooses for itself; this is the best one, {best['learner']}, which makes "
        f"up {percent(best['weight'])} of the ensemble. "
    )


def path_section(display: ValidationCurveDisplay, whose: str = "") -> Section:
    """Tell how the penalty was chosen."""
    low, high = display.alphas.min(), display.alphas.max()
    best = "had the least risk on bags held out, estimated without labels"
    if display.criteria:
        best = f"was best on bags held out, by {' and '.join(display.criteria)} together"
    text = (
        f"{whose}Of {counted(len(display.alphas), 'penalty', 'penalties')} from {low:.2g} to "
        f"{high:.2g}, {display.alpha:.2g} {best}."
    )
    findings = [Finding(text)]
    if display.edge:
        text = (
            f"It is the {display.edge} that was tried; a still "
            f"{'stronger' if display.edge == 'strongest' else 'weaker'} one may do better "
            "(parameter alphas)."
        )
        findings.append(Finding(text, "note"))
    what = "What the penalty is chosen by" if display.criteria else "The risk on bags held out"
    caption = f"{what}. Towards the right models become simpler."
    picture = Picture(display.plot, caption, f"{what}, best at {display.alpha:.2g}.")
    return Section("penalty", "How was the penalty chosen?", tuple(findings), (picture,))


def rounds_section(display: RoundsDisplay, whose: str = "") -> Section:
    """Tell how leaves and rounds of boosted trees were chosen."""
    tried = np.unique(display.leaves)
    by = "by the likelihood of their counts"
    best = f"Trees of {display.num_leaves} leaves were best on bags held out"
    text = f"{whose}{best} after {display.n_rounds} rounds, {by}."
    if display.n_rounds == 0:
        text = f"{whose}Trees added nothing to a linear function on bags held out, {by}."
    if len(tried) > 1:
        text += f" Those of {', '.join(map(str, tried))} leaves were tried."
    findings = [Finding(text)]
    if display.edge:
        text = "More rounds than were tried may do better (parameter n_estimators)."
        findings.append(Finding(text, "note"))
    caption = "What leaves and rounds are chosen by. Lines end where nothing more was to be gained."
    alt = f"Losses on bags held out, best at {display.n_rounds} rounds."
    picture = Picture(display.plot, caption, alt)
    return Section("rounds", "How were the trees chosen?", tuple(findings), (picture,))
