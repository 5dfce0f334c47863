"""Sections on columns, probabilities, bags and base models: each is a question and its answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from unbag._text import counted, listing, percent, rough, shown, whole
from unbag.evaluation.sample_size import EffectiveSampleSize
from unbag.model_selection.fitted import last_step
from unbag.models.summary import term_table
from unbag.reports.bags import BagsDisplay
from unbag.reports.calibration import CalibrationDisplay
from unbag.reports.effects import EffectsDisplay, draw_effect
from unbag.reports.importance import ImportanceDisplay
from unbag.reports.page import Finding, NumberTable, Picture, Section, Tile

# Proportion of intervals of two standard errors, from few bags, that miss the truth.
_MISSES = 0.07
# Probabilities of so many misses below which the model is miscalibrated, and may be.
_RARE, _UNUSUAL = 0.01, 0.1

# Proportions of a class that vary by less than this over bags leave little to learn from.
_LITTLE_SPREAD = 0.05
_FEW_BAGS = 10
# Bags in a table.
_LISTED = 10


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
    tables = []
    if terms := getattr(last_step(model), "terms_", ()):
        caption = "Terms of the model, each with the standard deviation of its coefficients."
        header, *rows = term_table(terms)
        tables.append(NumberTable(caption, header, tuple(rows)))
    if not isinstance(importance, str):
        caption = "Permutation importance of the columns."
        if effects is None:
            alt = f"Bars; the longest is {shown(importance.columns[0], 40)}."
            pictures.append(Picture(importance.plot, caption, alt))
        tables.append(NumberTable(caption, importance.header, importance.rows))
    title = "Which columns matter, and how?"
    return Section("columns", title, tuple(findings), tuple(pictures), tuple(tables))


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
        f"Of the rows with the highest probabilities, an estimated {percent(observed)} are "
        f"{what}{margin}; predicted are {percent(curve.predicted[top])}. Probabilities are those "
        "of models trained on other bags."
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
            alt = f"Histogram: bags have between {small} and {large} rows."
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
    return NumberTable(which, ("Bag", "Rows", *heads, "Information"), tuple(rows))


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
