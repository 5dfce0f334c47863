"""Report of a fitted classifier from bags alone, as one page."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unbag._arrays import Floats
from unbag._files import check_place
from unbag._outputs import by_output
from unbag._text import counted, percent, shown, whole
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities, probabilities_of
from unbag.evaluation import Evaluation, cross_val_evaluate
from unbag.evaluation.sample_size import effective_sample_size
from unbag.model_selection.fitted import last_step
from unbag.reports.accuracy import (
    performance_section,
    performance_tiles,
    verdict_section,
    verdict_tile,
)
from unbag.reports.bags import BagsDisplay
from unbag.reports.calibration import CalibrationDisplay
from unbag.reports.drawing import make_axes
from unbag.reports.effects import EffectsDisplay
from unbag.reports.importance import ImportanceDisplay
from unbag.reports.label_shift import LabelShiftDisplay, show_test
from unbag.reports.page import Finding, Page
from unbag.reports.roc import RocDisplay
from unbag.reports.sections import (
    bags_section,
    bags_tile,
    columns_section,
    learners_section,
    reliability_section,
)

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
    model = _fitted(estimator, X, y)
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
    """Put an evaluation of a fitted model on a page; see `model_report`.

    Without folds, the evaluation is one of new bags, and training is left out.
    """
    make_axes(None)
    bags = check_bag_target(y)
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
    reliability = _show_reliability(y, evaluation, model)
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
    if training and not getattr(last_step(model), "converged_", True):
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
    if training and (learners := learners_section(last_step(model))) is not None:
        sections.append(learners)
    return Report(
        title=str(title) if title is not None else f"{type(last_step(model)).__name__} from bags",
        estimator=model,
        evaluation=evaluation,
        displays=displays,
        sections=tuple(sections),
        facts=_facts(bags, X, evaluation, model),
        tiles=(verdict_tile(evaluation), *performance_tiles(evaluation), bags_tile(information)),
        command=command,
        model=repr(model),
    )


def _fitted(estimator: Any, X: Any, y: Any) -> Any:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        pass
    else:
        return estimator
    return clone(estimator).fit(X, y)


def _facts(bags: Bags, X: Any, evaluation: Evaluation, model: Any) -> tuple[tuple[str, str], ...]:
    columns = np.shape(X)[1] if len(np.shape(X)) == 2 else None
    n_bags = int((~bags.labelled).sum())
    n_labelled = int(bags.sizes[bags.labelled].sum())
    sizes = bags.sizes[~bags.labelled]
    facts = [("Model", type(last_step(model)).__name__)]
    if n_bags:
        size = " to ".join(dict.fromkeys((whole(sizes.min()), whole(sizes.max()))))
        facts.append(("Bags", f"{counted(n_bags, 'bag')} of {size} rows"))
    facts.append(("Rows", whole(bags.n_instances)))
    if n_labelled:
        facts.append(("Of these with a label", whole(n_labelled)))
    if columns is not None:
        facts.append(("Columns", whole(columns)))
    shares = ", ".join(
        f"{shown(name, 24)}: {percent(share)}"
        for name, share in zip(bags.class_names[:6], bags.class_shares[:6], strict=True)
    )
    facts.append(("Classes", shares + (", …" if bags.n_classes > 6 else "")))
    if evaluation.fold is not None:
        facts.append(("Folds", whole(evaluation.fold.max() + 1)))
    return tuple(facts)


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


def _held_out_probabilities(y: Any, evaluation: Evaluation, model: Any) -> Floats:
    """Probabilities of every row by a model that did not see its bag, at the prior of the bags."""
    last = last_step(model)
    if evaluation.log_odds is None:
        raise ValueError(
            f"{type(last).__name__} gives scores and no probabilities; "
            "a classifier whose scores are log-odds, such as LLPClassifier, gives both."
        )
    found = probabilities_of(by_output(evaluation.log_odds)).T
    prior = getattr(last, "class_prior_", None)
    shares = check_bag_target(y).class_shares
    return found if prior is None else adjust_probabilities(found, prior, shares)


def _show_reliability(y: Any, evaluation: Evaluation, model: Any) -> CalibrationDisplay | str:
    """Compare probabilities with the bags, or say why that is not possible."""
    if evaluation.verdict.assumption in ("covariate_shift", "sensitivity"):
        return "the calibration curve rests on label shift, which these bags reject."
    try:
        return CalibrationDisplay.from_data(y, _held_out_probabilities(y, evaluation, model))
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
