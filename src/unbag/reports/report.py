"""Report of a fitted classifier from bags alone, as one page."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unbag._files import check_place
from unbag._outputs import by_output
from unbag._text import counted, listing, percent, rough, shown, whole
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities, probabilities_of
from unbag.evaluation import Evaluation, cross_val_evaluate
from unbag.evaluation.sample_size import EffectiveSampleSize, effective_sample_size
from unbag.model_selection.fitted import last_step
from unbag.models.summary import term_table
from unbag.reports.accuracy import (
    performance_section,
    performance_tiles,
    verdict_section,
    verdict_tile,
)
from unbag.reports.bags import BagsDisplay, LabelShiftDisplay, show_test
from unbag.reports.columns import EffectsDisplay, ImportanceDisplay, draw_effect
from unbag.reports.curves import CalibrationDisplay, RocDisplay
from unbag.reports.drawing import make_axes
from unbag.reports.page import Finding, NumberTable, Page, Picture, Section, Tile

# Proportion of intervals of two standard errors, from few bags, that miss the truth.
_MISSES = 0.07
# Probabilities of so many misses below which the model is miscalibrated, and may be.
_RARE, _UNUSUAL = 0.01, 0.1

_FEW_BAGS = 10
# Bags in a table.
_LISTED = 10

# Effects of columns on the page, and columns of the model beyond which none is computed.
_EFFECTS, _MOST_COLUMNS = 6, 200


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report(Page):
    """What `model_report` found; printing it shows the sentences.

    Attributes
    ----------
    title : str
        Title of the page.
    estimator : classifier
        Fitted to all bags.
    evaluation : Evaluation
        Its estimated accuracy on held-out bags.
    displays : dict of str to display
        The pictures, each with its ``plot()`` and ``frame()``.
    sections : tuple of Section
        The parts of the page.
    facts, tiles, command, model, origin
        What stands above and below them.
    """

    estimator: Any
    evaluation: Evaluation
    displays: dict[str, Any]


def model_report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    command: str | None = None,
    path: str | os.PathLike[str] | None = None,
    labels: ArrayLike | None = None,
    feature_names: ArrayLike | None = None,
    **options: Any,
) -> Report:
    """Fit a classifier, and report its estimated accuracy, the checks behind it, and its columns.

    Parameters
    ----------
    estimator : classifier or pipeline
        If it is not fitted yet, a clone is fitted to all bags.
    X : array, sparse matrix or data frame with n_instances rows
        The instances.
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions.
    title : str, optional
        Title of the page.
    command : str, optional
        The command or call that makes the page, to be shown on it.
    path : str or path, optional
        Where to write the page.
    labels : array-like of shape (n_instances,), optional
        True labels, if known; shown for comparison and used for nothing else.
    feature_names : sequence of str, optional
        Names of the columns of X, if that is not a data frame.
    **options
        Of `unbag.evaluation.cross_val_evaluate`, such as ``cv``, ``threshold``, ``class_prior``
        and ``confidence_level``.

    Returns
    -------
    report : Report
        Print it, or see ``report.to_html()``, ``report.save(path)`` and ``report.displays``.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import model_report
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
    >>> report = model_report(LLPClassifier(kernel=None), data.X, data.y, title="Two clouds")
    >>> report.warnings
    ()
    >>> report.to_html().startswith("<!DOCTYPE html>")
    True
    """
    make_axes(None)  # refuses at once where matplotlib is missing
    if path is not None:
        check_place(path)
    try:
        check_is_fitted(estimator)
        model = estimator
    except NotFittedError:
        model = clone(estimator).fit(X, y)
    evaluation = cross_val_evaluate(estimator, X, y, feature_names=feature_names, **options)
    texts: dict[str, Any] = {"title": title, "command": command, "labels": labels}
    report = make_report(model, evaluation, X, y, feature_names=feature_names, **texts)
    if path is not None:
        report.save(path)
    return report


def make_report(
    model: Any,
    evaluation: Evaluation,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    command: str | None = None,
    labels: ArrayLike | None = None,
    feature_names: ArrayLike | None = None,
) -> Report:
    """Put an evaluation of a fitted model on a page; one of new bags leaves training out."""
    make_axes(None)
    bags, last = check_bag_target(y), last_step(model)
    with warnings.catch_warnings():
        # the page says so
        warnings.simplefilter("ignore", UserWarning)
        information = effective_sample_size(y)
    displays: dict[str, Any] = {}
    roc = None
    if evaluation.roc is not None:
        displays["roc"] = roc = RocDisplay.from_evaluation(evaluation, labels)
    displays["bags"] = shape = BagsDisplay(bags, information)
    tests = _show_checks(y, evaluation)
    displays |= {f"assumption, {d.feature}": d for d in tests}
    reliability = _show_reliability(y, evaluation, last)
    importance: ImportanceDisplay | str
    try:
        importance = ImportanceDisplay.from_estimator(model, X, y, feature_names=feature_names)
    except ValueError as error:
        importance = str(error)
    effects = _show_effects(model, X, feature_names)
    found = {"reliability": reliability, "importance": importance, "effects": effects}
    displays |= {name: one for name, one in found.items() if not isinstance(one, str | None)}
    training = evaluation.fold is not None
    performance = performance_section(evaluation, bags, roc, labels)
    if training and not getattr(last, "converged_", True):
        text = "The fit did not converge; raise max_iter, or scale the columns."
        findings = (*performance.findings, Finding(text, "warning"))
        performance = replace(performance, findings=findings)
    sections = [
        verdict_section(evaluation, tests, model, bags),
        performance,
        columns_section(effects, importance, model),
        reliability_section(reliability),
        bags_section(shape),
    ]
    if training and (learners := learners_section(last)) is not None:
        sections.append(learners)
    return Report(
        title=str(title) if title is not None else f"{type(last).__name__} from bags",
        estimator=model,
        evaluation=evaluation,
        displays=displays,
        sections=tuple(sections),
        facts=tuple(_facts(bags, X, evaluation, last).items()),
        tiles=(verdict_tile(evaluation), *performance_tiles(evaluation), bags_tile(information)),
        command=command,
        model=repr(model),
    )


def _facts(bags: Bags, X: Any, evaluation: Evaluation, last: Any) -> dict[str, str]:
    facts, sizes = {"Model": type(last).__name__}, bags.sizes[~bags.labelled]
    if len(sizes):
        size = " to ".join(dict.fromkeys((whole(sizes.min()), whole(sizes.max()))))
        facts["Bags"] = f"{counted(len(sizes), 'bag')} of {size} rows"
    facts["Rows"] = whole(bags.n_instances)
    if bags.labelled.any():
        facts["Of these with a label"] = whole(bags.sizes[bags.labelled].sum())
    if len(np.shape(X)) == 2:
        facts["Columns"] = whole(np.shape(X)[1])
    shares = ", ".join(
        f"{shown(name, 24)}: {percent(share)}"
        for name, share in zip(bags.class_names[:6], bags.class_shares[:6], strict=True)
    )
    facts["Classes"] = shares + (", …" if bags.n_classes > 6 else "")
    if evaluation.fold is not None:
        facts["Folds"] = whole(evaluation.fold.max() + 1)
    return facts


def _show_effects(model: Any, X: Any, feature_names: ArrayLike | None) -> EffectsDisplay | None:
    """Show the strongest effects of a mixed model with a posterior; None of any other."""
    if getattr(last_step(model), "n_features_in_", np.inf) > _MOST_COLUMNS:
        return None
    try:
        display = EffectsDisplay.from_estimator(model, X, feature_names=feature_names)
    except ValueError:
        return None
    strongest = sorted(display.effects, key=lambda effect: -np.ptp(effect.log_odds))
    return replace(display, effects=tuple(strongest[:_EFFECTS]))


def _show_reliability(y: Any, evaluation: Evaluation, last: Any) -> CalibrationDisplay | str:
    """Compare held-out probabilities with the bags, or say why that is not possible."""
    if evaluation.verdict.assumption in ("covariate_shift", "sensitivity"):
        return "the calibration curve rests on label shift, which these bags reject."
    if evaluation.log_odds is None:
        return (
            f"{type(last).__name__} gives scores and no probabilities; "
            "a classifier whose scores are log-odds, such as LLPClassifier, gives both."
        )
    probabilities = probabilities_of(by_output(evaluation.log_odds)).T
    prior = getattr(last, "class_prior_", None)
    if prior is not None:
        shares = check_bag_target(y).class_shares
        probabilities = adjust_probabilities(probabilities, prior, shares)
    try:
        return CalibrationDisplay.from_data(y, probabilities)
    except ValueError as error:
        return str(error)


def _show_checks(y: Any, evaluation: Evaluation) -> list[LabelShiftDisplay]:
    """Show for each test the column with the strongest evidence against label shift."""
    found = []
    for check in evaluation.rows.checks:
        columns, test = check.worst_column, check.test
        if columns is not None and not isinstance(test, str):
            name = str(columns.names[0]) if len(columns.names) == 1 else test.worst_feature
            found.append(show_test(columns, y, test, name))
    return found


# --- columns --------------------------------------------------------------------------------------


def columns_section(
    effects: EffectsDisplay | None, importance: ImportanceDisplay | str, model: Any
) -> Section:
    """Report how columns act on the log-odds, and how important they are."""
    findings, pictures, tables = [], [], []
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
        text = (
            "The curves show by how much the log-odds change with one column while the others stay "
            "at their medians or most frequent values, with "
            f"{percent(effects.confidence_level, None)} bands of the posterior."
        )
        findings.append(Finding(text))
        for effect in effects.effects:
            name = f"Effect of {shown(effect.column, 40)}"
            low, high = effect.log_odds.min(), effect.log_odds.max()
            alt = f"{name}: log-odds between {low:+.2f} and {high:+.2f} relative to the reference."
            draw = partial(draw_effect, effects, effect)
            pictures.append(Picture(draw, f"{name}.", alt, size=(3.4, 2.8)))
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
    probability, if_alike = stats.binom.sf(n_bins - np.array([agree, alike]) - 1, n_bins, _MISSES)
    if probability < _RARE or 2 * agree < n_bins:
        return [Finding(f"No: only {text}", "warning")]
    if if_alike >= _RARE:
        text += (
            " These bags could not have shown miscalibration: they would agree as well with the "
            "same probability for all rows."
        )
        return [Finding(f"Unclear: {text}", "note")]
    sure = probability >= _UNUSUAL
    return [Finding(f"Yes: {text}", "good") if sure else Finding(f"Yes, roughly: {text}")]


# --- bags and base models -------------------------------------------------------------------------


def bags_section(display: BagsDisplay) -> Section:
    """Report the effective sample size of the bags."""
    information, bags = display.information, display.bags
    answer = "No, hardly" if information.warning else "Yes"
    findings = [Finding(f"{answer}. {information.summary}")]
    if information.warning:
        findings.append(Finding(information.warning, "warning"))
    if bags.n_bags < _FEW_BAGS and not bags.labelled.all():
        text = f"There are only {counted(bags.n_bags, 'bag')}: intervals are rough."
        findings.append(Finding(text, "note"))
    if bags.noise is not None:
        text = "The proportions are noisy; estimates and intervals include the noise."
        findings.append(Finding(text, "note"))
    pictures = []
    if not bags.labelled.all():
        low, high = bags.proportions[:, -1].min(), bags.proportions[:, -1].max()
        what = "positives" if bags.n_classes == 2 else f"class {shown(bags.class_names[-1], 40)}"
        caption = "Distribution of the proportions over the bags. The wider, the more informative."
        alt = f"The proportion of {what} in a bag is between {percent(low)} and {percent(high)}."
        pictures.append(Picture(display.plot, caption, alt))
        small, large = whole(bags.sizes.min()), whole(bags.sizes.max())
        if small != large:
            sizes = BagsDisplay(bags, information, "sizes")
            alt = f"Histogram: bags have between {small} and {large} rows."
            pictures.append(Picture(sizes.plot, "Sizes of the bags.", alt))
    columns = {name: values[:_LISTED] for name, values in information.by_bag.items()}
    shares = [values for name, values in columns.items() if name not in ("bag", "size")]
    heads = [
        f"Proportion of {shown(name.removeprefix('proportion of '), 40)}"
        if bags.n_classes > 2
        else "Proportion of positives"
        for name in columns
        if name.startswith("proportion")
    ]
    rows = [
        (shown(bag, 60), whole(size), *(percent(share, 1) for share in own))
        for bag, size, *own in zip(columns["bag"], columns["size"], *shares, strict=True)
    ]
    n = len(information.by_bag["bag"])
    which = f"The {_LISTED} most informative of {whole(n)} bags" if n > _LISTED else "The bags"
    table = NumberTable(which, ("Bag", "Rows", *heads, "Information"), tuple(rows))
    return Section("bags", "Are the bags informative?", tuple(findings), tuple(pictures), (table,))


def bags_tile(information: EffectiveSampleSize) -> Tile:
    """Give the effective sample size."""
    detail = f"{percent(information.fraction_of_labels)} of what all labels would give"
    return Tile("effective sample size", rough(information.n_effective), detail)


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
    left_out = [(row["learner"], row["note"]) for row in leaderboard if row["note"]]
    findings = [Finding(text), *(Finding(f"Without {a}: {why}.", "note") for a, why in left_out)]
    rows = tuple(
        (row["learner"], f"{row['loss']:.5f}", percent(row["weight"]), f"{row['seconds']:.1f}")
        for row in tried
    )
    heads = ("base model", "negative log-likelihood per row", "weight", "seconds")
    table = NumberTable("Base models by held-out likelihood, the best first", heads, rows)
    return Section("learners", "Which base models are used?", tuple(findings), (), (table,))
