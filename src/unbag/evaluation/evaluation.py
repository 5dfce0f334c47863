"""Everything about a classifier at once, from bags that it did not see.

First a verdict on what estimates without labels assume (`unbag.evaluation.checks`), then what can be
said: estimates by the weights W where that is borne out, and else ranges that need less
(`unbag.evaluation.sensitivity`).

What an evaluation found: a verdict, what is said of each measure, and what else could be.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._text import WIDTH
from unbag.evaluation.bag_effects import BagEffect
from unbag.evaluation.checks import (
    Check,
    check_columns,
    check_features,
    check_scores,
    judge,
    labels_verdict,
)
from unbag.evaluation.curves import RocBand, make_roc_band, soft_roc_band, span_bands
from unbag.evaluation.held_out import OutOfFold, ScoredRows, cross_fit
from unbag.evaluation.identification import IdentificationBounds, bounds_of
from unbag.evaluation.label_shift import LabelShiftTest
from unbag.evaluation.labelled import enough_labels, estimates_from_labels
from unbag.evaluation.measures import RowMeasure, get_measure, usual_measures
from unbag.evaluation.sample import make_sample
from unbag.evaluation.sensitivity import MAX_SLOPE_RATIO, HeldOutLogOdds, SlopeRange
from unbag.evaluation.uncertainty import (
    Assumption,
    Estimate,
    IntervalMethod,
    Uncertainty,
    Verdict,
    find_estimate,
)
from unbag.model_selection.fitted import log_odds_of

# What estimates rest on, in words.
_ASSUMPTIONS = {
    "label_shift": "under label shift",
    "covariate_shift": "under covariate shift",
    "sensitivity": f"within-bag log-odds between 1/{MAX_SLOPE_RATIO:g} and {MAX_SLOPE_RATIO:g} "
    "times the fitted ones",
}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good scores are, estimated from bags alone.

    Attributes
    ----------
    verdict : Verdict
        Whether the bags bear out what estimates without labels assume.
    estimates : dict of str to Estimate
        What can be said of each measure: by the weights W where the verdict is "not_rejected", a
        range that needs no such assumption where it is "rejected", and what spans both where it is
        "inconclusive"; from labels, where there are some and the verdict is not "not_rejected".
    by_assumption : dict of str to dict of str to Estimate
        The same as each kind of bags would have it: "label_shift", if classes look the same in all
        bags; "covariate_shift", if rows of the same look have the same odds in all of them; "sensitivity", with room
        for effects of bags that go along with scores; "labels", from rows of known label.
    roc : RocBand or None
        The ROC curve with its band, for two classes.
    scores : ndarray
        What was evaluated: out-of-fold scores, if they come from `cross_val_evaluate`.
    fold : ndarray of shape (n_instances,) or None
        The fold that each row was held out in.
    threshold : float
        Above it the positive class is predicted.
    n_bags : int
        Number of bags.
    n_instances : int
        Number of instances.
    checks : tuple of Check
        Tests of the assumption, on scores and on features.
    effect : BagEffect or None
        How the shares of held-out bags follow what the scores promise.
    bounds : dict of str to IdentificationBounds
        What each measure of these very rows can be at all, over all labels that agree with the
        counts.
    log_odds : ndarray or None
        What the probabilities of the model say of the same rows; None if it gives none.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate
    >>> data = make_gaussian_bags(n_bags=30, bag_size=30, n_features=1, random_state=0)
    >>> evaluation = evaluate(data.y, data.X[:, 0], n_resamples=100)
    >>> evaluation.verdict.name, evaluation.n_bags
    ('not_rejected', 30)
    >>> sorted(evaluation.estimates)[:3]
    ['accuracy', 'balanced_accuracy', 'f1']
    """

    verdict: Verdict
    estimates: dict[str, Estimate]
    by_assumption: dict[str, dict[str, Estimate]]
    roc: RocBand | None
    scores: NDArray[np.float64]
    fold: NDArray[np.intp] | None
    threshold: float
    n_bags: int
    n_instances: int
    checks: tuple[Check, ...] = ()
    effect: BagEffect | None = None
    bounds: dict[str, IdentificationBounds] = field(default_factory=dict)
    log_odds: NDArray[np.float64] | None = None

    def __getitem__(self, measure: str) -> Estimate:
        return find_estimate(self.estimates, measure)

    @property
    def tests(self) -> dict[str, LabelShiftTest | str]:
        """Tests of the assumption by what was tested, or why there is none."""
        return {check.what: check.test for check in self.checks}

    def frame(self) -> Any:
        """One row per measure, as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns ``value``, ``standard_error``, ``low``, ``high`` and ``assumption``.
        """
        import pandas as pd

        columns = ("value", "standard_error", "low", "high", "assumption")
        rows = {name: [getattr(e, c) for c in columns] for name, e in self.estimates.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def __str__(self) -> str:
        confidence_level = next(iter(self.estimates.values())).confidence_level
        width = max(map(len, self.estimates))
        folds = (
            ""
            if self.fold is None
            else f", in {self.fold.max() + 1} folds, each scored by a model that did not see it"
        )
        lines = [
            str(self.verdict),
            "",
            f"Estimated from the proportions of {self.n_bags} bags "
            f"({self.n_instances} instances) without labels{folds}.",
            *self._assumption_lines(),
            f"{'':{width}}  estimate  {100 * confidence_level:g}% interval",
        ]
        for name, e in self.estimates.items():
            low, high = e.shown_limits
            lines.append(f"{name:{width}}  {e.value:8.4f}  {low:.4f} to {high:.4f}")
        return "\n".join(lines)

    def _assumption_lines(self) -> list[str]:
        assumption = next(iter(self.estimates.values())).assumption
        if assumption == "labels" and len(self.by_assumption) > 1:
            return ["From the labelled rows, without an assumption on bags:"]
        if assumption == "sensitivity":
            return textwrap.wrap(f"Sensitivity range: {_ASSUMPTIONS['sensitivity']}.", WIDTH)
        if assumption == "either":
            text = f"Range over label shift and {_ASSUMPTIONS['sensitivity']}."
            return textwrap.wrap(text, WIDTH)
        return []


def what_to_say(
    verdict: Verdict, by_assumption: dict[str, dict[str, Estimate]]
) -> dict[str, Estimate]:
    """Choose, by the verdict, what is said of each measure."""
    if verdict.name == "not_rejected":
        said = by_assumption["label_shift"]
    elif "labels" in by_assumption:
        said = by_assumption["labels"]
    elif verdict.name == "rejected":
        said = by_assumption["sensitivity"]
    else:
        said = {
            name: _span(one, by_assumption["sensitivity"][name])
            for name, one in by_assumption["label_shift"].items()
        }
    return {name: replace(one, verdict=verdict) for name, one in said.items()}


def _span(looks: Estimate, other: Estimate) -> Estimate:
    """What holds whichever of two estimates is right."""
    low, high = min(looks.low, other.low), max(looks.high, other.high)
    possible = 0 <= looks.value <= 1 or not looks.bounded
    value = looks.value if possible else other.value
    error = looks.standard_error if possible else other.standard_error
    return Estimate(value, error, low, high, looks.confidence_level, looks.bounded, "either")


def estimate(
    measure: str | RowMeasure,
    y: Any,
    scores: ArrayLike,
    *,
    method: IntervalMethod = "bootstrap",
    cluster_by_bag: bool = True,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
    **options: Any,
) -> Estimate:
    """Estimate a measure of given scores from bags alone, with an interval.

    What it rests on is checked, as far as scores alone can tell; `evaluate` with ``X`` sees more.

    Parameters
    ----------
    measure : str
        ``"roc_auc"``, ``"balanced_accuracy"``, ``"balanced_error"``, ``"accuracy"``, ``"cost"``,
        ``"recall"``, ``"true_positive_rate"``, ``"false_positive_rate"``, ``"precision"``,
        ``"f1"`` or ``"corrected_risk"``.
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function, by a model that did not see these bags; see `cross_val_evaluate`.
    method : {"bootstrap", "analytic"}, default="bootstrap"
        Draw bags anew, or compute the variance by a formula.
    cluster_by_bag : bool, default=True
        Whether intervals allow for any dependence of the instances of a bag: whole bags are
        resampled. False assumes that instances are independent, which is too narrow if they are
        not. Noisy proportions are always clustered by bag.
    confidence_level : float, default=0.95
        How often the interval should hold the truth.
    n_resamples : int, default=1000
        Draws of the bootstrap.
    random_state : int, RandomState or None, default=0
        Of the bootstrap.
    **options
        Of the measure: ``threshold`` (default 0), ``class_prior``, ``cost``, ``loss``,
        ``positive``.

    Returns
    -------
    estimate : Estimate
        With ``value``, ``standard_error``, ``low``, ``high``, and the ``verdict`` on what it
        assumes. Where that is refuted, value and limits are those of a range that needs less
        (`Evaluation`).

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import estimate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> auc = estimate("roc_auc", data.y, data.X[:, 0])
    >>> bool(auc.low < auc.value < auc.high)
    True
    """
    uncertainty = Uncertainty(method, cluster_by_bag, confidence_level, n_resamples, random_state)
    sample = make_sample(y, scores)
    chosen = get_measure(measure, options)
    bounded = measure not in ("cost", "corrected_risk")
    looks = uncertainty.of(chosen, sample, bounded=bounded)
    if sample.bags.labelled.all():
        return replace(looks, assumption="labels", verdict=labels_verdict())
    promise = HeldOutLogOdds(sample.bags, sample.scores)
    check = check_scores(y, sample.scores)
    verdict = judge({str(measure): looks}, {check.what: check.test}, promise.effect)
    if verdict.name == "not_rejected":
        return replace(looks, verdict=verdict)
    bootstrap = replace(uncertainty, method="bootstrap")
    wide = SlopeRange.sensitivity(promise).estimate(chosen, sample, bootstrap, bounded=bounded)
    by_assumption = {
        "label_shift": {"it": looks},
        "sensitivity": {"it": replace(wide, assumption="sensitivity")},
    }
    return what_to_say(verdict, by_assumption)["it"]


def evaluate(
    y: Any,
    scores: ArrayLike,
    *,
    X: Any = None,
    feature_names: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    method: IntervalMethod = "bootstrap",
    cluster_by_bag: bool = True,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> Evaluation:
    """Estimate from bags alone how good given scores are.

    The bags must be others than those that the model was trained on; `cross_val_evaluate` sees
    to that.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    X : array, sparse matrix or data frame, optional
        Features of the instances. Their bag means are the sharpest test of what estimates assume.
    feature_names : sequence of str, optional
        Names of the columns of an array.
    probabilities : array-like of shape (n_instances,) or (n_instances, n_classes), optional
        What the model takes the chances of the classes to be. Without them scores are taken for
        log-odds, as decision functions of models trained by a logistic loss are.
    threshold : float, default=0.0
        Above it the positive class is predicted.
    class_prior : {"empirical", "balanced"} or one number per class, default="empirical"
        Shares of the classes where the classifier is used, for accuracy, precision and F1.
    method : {"bootstrap", "analytic"}, default="bootstrap"
        Draw bags anew, or compute the variance by a formula.
    cluster_by_bag : bool, default=True
        Whether intervals allow for any dependence of the instances of a bag: whole bags are
        resampled. False assumes that instances are independent, which is too narrow if they are
        not. Noisy proportions are always clustered by bag.
    confidence_level : float, default=0.95
        How often the interval should hold the truth.
    n_resamples : int, default=1000
        Draws of the bootstrap.
    random_state : int, RandomState or None, default=0
        Of the bootstrap.

    Returns
    -------
    evaluation : Evaluation
        Print it, or take ``evaluation["roc_auc"]``.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> evaluation = evaluate(data.y, data.X[:, 0])
    >>> round(evaluation["roc_auc"].value, 1)
    0.9
    """
    uncertainty = Uncertainty(method, cluster_by_bag, confidence_level, n_resamples, random_state)
    sample = make_sample(y, scores)
    log_odds = sample.scores if probabilities is None else log_odds_of(probabilities)
    checks = [check_scores(y, sample.scores)]
    if X is not None:
        checks.append(check_columns(y, X, feature_names))
    rows = ScoredRows(sample, sample, HeldOutLogOdds(sample.bags, log_odds), tuple(checks))
    return evaluate_rows(rows, threshold, class_prior, uncertainty)


def evaluate_rows(
    rows: ScoredRows, threshold: float, class_prior: Any, uncertainty: Uncertainty
) -> Evaluation:
    """Judge what the rows bear out, and say what follows."""
    sample = rows.sample
    measures = usual_measures(sample.bags, threshold, class_prior)
    looks = {
        name: uncertainty.of(one, rows.of(name)).widened(rows.more_spread)
        for name, one in measures.items()
    }
    two = sample.bags.n_classes == 2
    bootstrap = replace(uncertainty, method="bootstrap")
    evaluation = Evaluation(
        verdict=labels_verdict(),
        estimates=looks,
        by_assumption={"label_shift": looks},
        roc=make_roc_band(rows.ranks, bootstrap) if two else None,
        scores=sample.scores,
        fold=None,
        threshold=threshold,
        n_bags=sample.bags.n_bags,
        n_instances=sample.bags.n_instances,
        log_odds=rows.promise.log_odds if rows.promise.scaled else None,
    )
    if sample.bags.labelled.all():
        said = {name: replace(one, assumption="labels") for name, one in looks.items()}
        return replace(evaluation, estimates=what_to_say(evaluation.verdict, {"label_shift": said}))
    effect = rows.promise.effect if rows.promise.scaled else None
    verdict = judge(looks, {one.what: one.test for one in rows.checks}, effect)
    likely = SlopeRange.under_covariate_shift(rows.promise)
    wide = SlopeRange.sensitivity(rows.promise)
    by_assumption = {
        "label_shift": looks,
        "covariate_shift": _estimate(
            rows, measures, likely, "covariate_shift", bootstrap, rows.more_spread
        ),
        "sensitivity": _estimate(rows, measures, wide, "sensitivity", bootstrap),
    }
    if enough_labels(sample.bags):
        by_assumption["labels"] = estimates_from_labels(
            {name: (one, rows.of(name)) for name, one in measures.items()},
            uncertainty.confidence_level,
        )
    roc = evaluation.roc
    if verdict.name != "not_rejected" and roc is not None:
        soft = soft_roc_band(rows.ranks, wide, confidence_level=uncertainty.confidence_level)
        roc = soft if verdict.name == "rejected" else span_bands(roc, soft)
    return replace(
        evaluation,
        verdict=verdict,
        estimates=what_to_say(verdict, by_assumption),
        by_assumption=by_assumption,
        roc=roc,
        checks=rows.checks,
        effect=effect,
        bounds={
            name: bounds_of(one, rows.of(name), uncertainty.confidence_level)
            for name, one in measures.items()
        },
    )


def _estimate(
    rows: ScoredRows,
    measures: dict[str, RowMeasure],
    kappas: SlopeRange,
    assumption: Assumption,
    uncertainty: Uncertainty,
    more_spread: float = 1.0,
) -> dict[str, Estimate]:
    of_rows = {name: (measure, rows.of(name)) for name, measure in measures.items()}
    found = kappas.estimates(of_rows, uncertainty, more_spread=more_spread)
    return {name: replace(one, assumption=assumption) for name, one in found.items()}


def cross_val_evaluate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    out_of_fold: OutOfFold | None = None,
    feature_names: ArrayLike | None = None,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    method: IntervalMethod = "bootstrap",
    cluster_by_bag: bool = True,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Evaluation:
    """Estimate from bags alone how good a classifier is on bags that it did not see.

    The estimator is fitted to all folds but one, and scores the bags of that one; the scores of
    all folds together are evaluated. A model trained on all bags is, if anything, better. For the
    ROC curve instances of different folds are compared by their rank among the scores that
    their own model gives to all instances, since models score on scales of their own.

    Parameters
    ----------
    estimator : classifier or pipeline
        Anything that can be fitted to ``X`` and ``y`` and gives a ``decision_function`` or
        probabilities; it is cloned and stays as it is.
    X : array, sparse matrix or data frame with n_instances rows
        The instances.
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    cv : int, splitter or iterable, default=5
        Folds of whole bags, each bag held out once; a number stands for `unbag.BagKFold`, with no
        more folds than there are bags.
    out_of_fold : OutOfFold, optional
        From `cross_fit`, if scores of the folds are known already; by default they are computed.
    feature_names : sequence of str, optional
        Names of what the model sees, for the test of the assumption; by default those of the data
        frame or of the steps before it.
    threshold : float, default=0.0
        Above it the positive class is predicted.
    class_prior : {"empirical", "balanced"} or one number per class, default="empirical"
        Shares of the classes where the classifier is used, for accuracy, precision and F1.
    method : {"bootstrap", "analytic"}, default="bootstrap"
        Draw bags anew, or compute the variance by a formula.
    cluster_by_bag : bool, default=True
        Whether intervals allow for any dependence of the instances of a bag: whole bags are
        resampled. False assumes that instances are independent, which is too narrow if they are
        not. Noisy proportions are always clustered by bag.
    confidence_level : float, default=0.95
        How often the interval should hold the truth.
    n_resamples : int, default=1000
        Draws of the bootstrap.
    random_state : int, RandomState or None, default=0
        Of the bootstrap.
    n_jobs : int, optional
        Folds fitted at the same time.
    verbose : int, default=0
        Whether to show a progress bar.

    Returns
    -------
    evaluation : Evaluation
        Print it, or take ``evaluation["roc_auc"]``.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import cross_val_evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> evaluation = cross_val_evaluate(LLPClassifier(kernel=None), data.X, data.y)
    >>> evaluation["roc_auc"].standard_error < 0.02
    True
    """
    uncertainty = Uncertainty(method, cluster_by_bag, confidence_level, n_resamples, random_state)
    if out_of_fold is None:
        out_of_fold = cross_fit(estimator, X, y, cv=cv, n_jobs=n_jobs, verbose=verbose)
    rows = ScoredRows.held_out(y, out_of_fold, check_features(y, X, estimator, feature_names))
    evaluation = evaluate_rows(rows, threshold, class_prior, uncertainty)
    return replace(evaluation, fold=out_of_fold.fold)
