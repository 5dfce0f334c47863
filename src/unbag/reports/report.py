"""Report of a fitted classifier from bags alone, as one page."""

from __future__ import annotations

import html
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unbag._files import check_place, write_whole
from unbag._provenance import provenance, versions_line
from unbag._text import counted, percent, shown, whole
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation import Evaluation, cross_val_evaluate
from unbag.evaluation.sample_size import effective_sample_size
from unbag.model_selection.fitted import last_step
from unbag.reports.bags import BagsDisplay
from unbag.reports.drawing import Display, make_axes_available
from unbag.reports.importance import ImportanceDisplay, importance_section
from unbag.reports.label_shift import LabelShiftDisplay
from unbag.reports.page import Finding, Origin, Section, Tile, make_page
from unbag.reports.performance import (
    performance_section,
    performance_tiles,
    reliability_section,
    show_reliability,
    verdict_section,
    verdict_tile,
)
from unbag.reports.roc import RocDisplay
from unbag.reports.sections import (
    assumption_section,
    bags_section,
    bags_tile,
    effect_findings,
    learners_section,
)


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `model_report` found; printing it shows the sentences.

    Attributes
    ----------
    title : str
        Title of the page.
    estimator : classifier
        Fitted to all bags.
    evaluation : Evaluation
        How good it is on bags that it did not see.
    displays : dict of str to display
        The pictures, each with its ``plot()`` and ``frame()``.
    sections : tuple of Section
        The parts of the page.
    """

    title: str
    estimator: Any
    evaluation: Evaluation
    displays: dict[str, Display]
    sections: tuple[Section, ...]
    _facts: tuple[tuple[str, str], ...]
    _tiles: tuple[Tile, ...]
    _origin: Origin

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that the report warns of."""
        return tuple(text for section in self.sections for text in section.warnings)

    def to_html(self) -> str:
        """Return one self-contained HTML page, without scripts and without links to elsewhere."""
        return make_page(self.title, self._facts, self._tiles, self.sections, self._origin)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; a file of that name is replaced at once, or not at all.

        Parameters
        ----------
        path : str or path
            Name of the file.

        Returns
        -------
        path : pathlib.Path
            The path.
        """
        return write_whole(check_place(path), self.to_html())

    def __str__(self) -> str:
        return "\n\n".join([shown(self.title), *map(str, self.sections)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html())
        return (
            f'<iframe srcdoc="{page}" sandbox title="{html.escape(shown(self.title))}" '
            'style="width:100%;height:40rem;border:0"></iframe>'
        )


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
    """Fit a classifier, and report from bags alone how good it is and how far to trust that.

    Parameters
    ----------
    estimator : classifier or pipeline
        Fitted to all bags if it is not yet; a clone is, so that yours stays as it is.
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
        True labels, if they are known after all; shown for comparison and used for nothing else.
    feature_names : sequence of str, optional
        Names of the columns of X, if that is no data frame.
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
    make_axes_available()
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
    make_axes_available()
    bags = check_bag_target(y)
    with warnings.catch_warnings():
        # the page says so
        warnings.simplefilter("ignore", UserWarning)
        information = effective_sample_size(y)
    displays: dict[str, Display] = {}
    roc = None
    if evaluation.roc is not None:
        displays["roc"] = roc = RocDisplay.from_evaluation(evaluation, labels)
    displays["bags"] = shape = BagsDisplay(bags, information)
    tests = _show_checks(y, evaluation)
    displays |= {f"assumption, {d.feature}": d for d in tests}
    reliability = show_reliability(y, evaluation, model)
    importance: ImportanceDisplay | str
    try:
        importance = ImportanceDisplay.from_estimator(model, X, y, feature_names=feature_names)
    except ValueError as error:
        importance = str(error)
    found = {"reliability": reliability, "importance": importance}
    displays |= {name: one for name, one in found.items() if not isinstance(one, str)}
    training = evaluation.fold is not None
    effects = effect_findings(last_step(model), bags) if training else []
    performance = performance_section(evaluation, bags, roc, labels)
    if training and not getattr(last_step(model), "converged_", True):
        text = "The fit did not converge; raise max_iter, or scale the columns."
        findings = (*performance.findings, Finding(text, "warning"))
        performance = replace(performance, findings=findings)
    sections = [
        verdict_section(evaluation),
        assumption_section(evaluation, tests, effects),
        performance,
        reliability_section(reliability),
        importance_section(importance),
        bags_section(shape),
    ]
    if training and (learners := learners_section(last_step(model))) is not None:
        sections.append(learners)
    origin = provenance()
    return Report(
        title=str(title) if title is not None else f"{type(last_step(model)).__name__} from bags",
        estimator=model,
        evaluation=evaluation,
        displays=displays,
        sections=tuple(sections),
        _facts=_facts(bags, X, evaluation, model, origin),
        _tiles=(
            verdict_tile(evaluation),
            *performance_tiles(evaluation),
            bags_tile(information),
        ),
        _origin=Origin(
            command=command,
            model=repr(model),
            versions=f"{versions_line(origin)}; {origin['machine']}; {origin['date']}",
        ),
    )


def _fitted(estimator: Any, X: Any, y: Any) -> Any:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        pass
    else:
        return estimator
    return clone(estimator).fit(X, y)


def _facts(
    bags: Bags, X: Any, evaluation: Evaluation, model: Any, origin: dict[str, str]
) -> tuple[tuple[str, str], ...]:
    columns = np.shape(X)[1] if len(np.shape(X)) == 2 else None
    n_bags = int((~bags.labelled).sum())
    n_labelled = int(bags.sizes[bags.labelled].sum())
    sizes = bags.sizes[~bags.labelled]
    facts = [("Model", type(last_step(model)).__name__)]
    if n_bags:
        size = "" if len(sizes) == 0 else f" of {whole(sizes.min())}"
        size += "" if sizes.min() == sizes.max() else f" to {whole(sizes.max())}"
        facts.append(("Bags", f"{counted(n_bags, 'bag')}{size} instances"))
    facts.append(("Instances", whole(bags.n_instances)))
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
    return (*facts, ("Date", origin["date"]))


def _show_checks(y: Any, evaluation: Evaluation) -> list[LabelShiftDisplay]:
    """Show for each test the column with the strongest evidence against label shift."""
    found = []
    for check in evaluation.rows.checks:
        columns, test = check.worst_column, check.test
        if columns is not None and not isinstance(test, str):
            name = str(columns.names[0]) if len(columns.names) == 1 else None
            found.append(LabelShiftDisplay.of_test(columns, y, test, name))
    return found
