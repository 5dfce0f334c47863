"""Accuracy of a classifier, estimated from bags that it did not see.

First the verdicts on label shift and covariate shift (`unbag.evaluation.checks`), then estimates:
by unmixing weights under label shift, by the posterior of the labels given the counts under
covariate shift, and a sensitivity range with them (`unbag.evaluation.sensitivity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from unbag._checks import check_number
from unbag.bags.bags import Bags
from unbag.evaluation.checks import (
    check_columns,
    check_features,
    check_scores,
    judge_covariate_shift,
    judge_label_shift,
    overall_verdict,
    signal_for_range,
    signal_within_bags,
)
from unbag.evaluation.curves import (
    RocBand,
    labelled_roc_band,
    make_roc_band,
    posterior_roc_band,
)
from unbag.evaluation.drift import MonitoringReference
from unbag.evaluation.held_out import OutOfFold, ScoredRows, cross_fit, posterior_draws
from unbag.evaluation.labelled import draw_of, enough_labels, estimates_from_labels
from unbag.evaluation.measures import (
    F1,
    Area,
    Cost,
    Measure,
    Precision,
    Rate,
    get_measure,
    make_sample,
)
from unbag.evaluation.monitoring import drift_notes
from unbag.evaluation.results import Evaluation
from unbag.evaluation.sensitivity import (
    HeldOutLogOdds,
    SignalName,
    Slopes,
    estimates_by_slope,
    estimates_of_draws,
)
from unbag.evaluation.uncertainty import (
    Assumption,
    Estimate,
    Uncertainty,
    Verdict,
    widen,
    with_limits,
)
from unbag.model_selection.fitted import last_step, log_odds_of

ByAssumption = dict[str, dict[str, Estimate]]


def evaluate_rows(
    rows: ScoredRows,
    measures: Mapping[str, Measure],
    uncertainty: Uncertainty,
    threshold: float = 0.0,
    *,
    curve: bool = True,
) -> Evaluation:
    """Check the assumptions, estimate measures under each, and choose; see `evaluate`."""
    sample, held_out, spread = rows.sample, rows.log_odds, rows.more_spread
    of_rows = {name: (measure, rows.of(name)) for name, measure in measures.items()}
    found = {name: widen(uncertainty.of(*one), spread) for name, one in of_rows.items()}
    by_assumption: ByAssumption = {"label_shift": found}
    verdict = Verdict("not_rejected", "labels", ("All rows have labels.",))
    verdicts: dict[str, Verdict] = {}
    effect = None
    signal: SignalName = "found"
    slopes: dict[Assumption, Slopes] = {}
    if sample.bags.labelled.all():
        by_assumption["label_shift"] = _resting_on("labels", found)
    else:
        effect = held_out.effect if held_out.scaled else None
        within = signal_within_bags(sample.bags, rows.ranks.scores)
        tests = {one.what: one.test for one in rows.checks}
        label_shift = judge_label_shift(tests, effect, within)
        covariate_shift = judge_covariate_shift(effect, within)
        verdicts = {"label_shift": label_shift, "covariate_shift": covariate_shift}
        verdict = overall_verdict(label_shift, covariate_shift)
        if effect is None or effect.shift_type != "covariate_shift":
            signal = signal_for_range(within, label_shift)
        slopes = {
            "covariate_shift": held_out.covariate_shift_slopes,
            "sensitivity": held_out.sensitivity_slopes(signal),
        }
        for assumption, kappas in slopes.items():
            covariate = assumption == "covariate_shift"
            factor = spread if covariate else 1.0
            found = estimates_by_slope(held_out, kappas, of_rows, uncertainty, factor)
            if covariate and held_out.draws is not None:
                found = estimates_of_draws(held_out, of_rows, found)
            by_assumption[assumption] = _resting_on(assumption, found)
        if rows.labels is not None or enough_labels(sample.bags):
            given = rows.labels, rows.label_weights
            level = uncertainty.confidence_level
            by_assumption["labels"] = dict(estimates_from_labels(of_rows, level, *given))
    chosen = _choose(verdict, verdicts, by_assumption, labels_first=rows.labels is not None)
    by_labels = chosen is by_assumption.get("labels")
    if by_labels:
        verdict = replace(verdict, advice=())
    roc = None
    if curve and sample.bags.n_classes == 2:
        roc = _roc(rows, "labels" if by_labels else verdict.assumption, slopes, uncertainty)
    return Evaluation(
        verdict=verdict,
        estimates={name: replace(one, verdict=verdict) for name, one in chosen.items()},
        by_assumption=by_assumption,
        roc=roc,
        threshold=threshold,
        verdicts=verdicts,
        effect=effect,
        signal=signal,
        factors=None if not slopes else (slopes["sensitivity"][0], slopes["sensitivity"][2]),
        rows=rows,
        measures=measures,
    )


def _resting_on(assumption: Assumption, found: Mapping[str, Estimate]) -> dict[str, Estimate]:
    return {name: replace(one, assumption=assumption) for name, one in found.items()}


def _choose(
    verdict: Verdict,
    verdicts: Mapping[str, Verdict],
    by_assumption: ByAssumption,
    *,
    labels_first: bool,
) -> dict[str, Estimate]:
    """Take the estimates of the assumption that the verdict names, or those from labels.

    Of several assumptions it is their range; its value is that of the first one that is possible.
    """
    rests = verdict.assumption
    if "labels" in by_assumption and (labels_first or rests != "label_shift"):
        return by_assumption["labels"]
    if rests != "either":
        return by_assumption["label_shift" if rests == "labels" else rests]
    rejected = {name for name, one in verdicts.items() if one.name == "rejected"}
    spanned = [found for name, found in by_assumption.items() if name not in rejected]
    chosen = {}
    for name in spanned[0]:
        each = [found[name] for found in spanned]
        first = next((e for e in each if 0 <= e.value <= 1 or not e.bounded), each[0])
        low, high = zip(*(e.shown_limits for e in each), strict=True)
        chosen[name] = replace(with_limits(first, min(low), max(high)), assumption="either")
    return chosen


def _roc(
    rows: ScoredRows,
    rests: Assumption,
    slopes: Mapping[Assumption, Slopes],
    uncertainty: Uncertainty,
) -> RocBand:
    """The ROC curve under the assumption that estimates rest on."""
    if rests == "labels" and slopes:
        drawn = draw_of(rows.ranks, rows.labels, rows.label_weights)
        return labelled_roc_band(rows.ranks, drawn, uncertainty)
    level = uncertainty.confidence_level
    if rests in slopes:
        return posterior_roc_band(rows.ranks, rows.log_odds, slopes[rests], level)
    band = make_roc_band(rows.ranks, uncertainty)
    if rests != "either":
        return band
    wide = posterior_roc_band(rows.ranks, rows.log_odds, slopes["sensitivity"], level)
    low, high = np.minimum(band.low, wide.low), np.maximum(band.high, wide.high)
    return replace(band, low=low, high=high)


def usual_measures(bags: Bags, threshold: float, class_prior: Any) -> dict[str, Measure]:
    """Measures of an evaluation, by name."""
    check_number(threshold, "threshold")
    found: dict[str, Measure] = {
        "balanced_accuracy": Cost(threshold, complement=True),
        "accuracy": Cost(threshold, class_prior, complement=True),
    }
    if bags.n_classes > 2:
        recalls = {f"recall of {c}": Rate(threshold, i, i) for i, c in enumerate(bags.class_names)}
        return {**found, **recalls}
    return {
        "roc_auc": Area(),
        **found,
        "true_positive_rate": Rate(threshold, 1, 1),
        "false_positive_rate": Rate(threshold, 0, 1),
        "precision": Precision(threshold, class_prior),
        "f1": F1(threshold, class_prior),
    }


def estimate(
    measure: str | Measure,
    y: Any,
    scores: ArrayLike,
    *,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
    **options: Any,
) -> Estimate:
    """Estimate one measure of given scores from the proportions of bags, with an interval.

    Its assumption is checked by the scores; `evaluate` with ``X`` checks the features, too.

    Parameters
    ----------
    measure : str
        ``"roc_auc"``, ``"balanced_accuracy"``, ``"balanced_error"``, ``"accuracy"``, ``"cost"``,
        ``"recall"``, ``"true_positive_rate"``, ``"false_positive_rate"``, ``"precision"``,
        ``"f1"`` or ``"corrected_risk"``.
    y, scores : as in `evaluate`
    confidence_level, n_resamples, random_state : as in `evaluate`
    **options
        Of the measure: ``threshold`` (default 0), ``class_prior``, ``cost``, ``loss``,
        ``positive``.

    Returns
    -------
    estimate : Estimate
        With ``value``, ``standard_error``, ``low``, ``high``, the ``assumption`` it rests on and
        the ``verdict`` on that. Where label shift is rejected, it is estimated under covariate
        shift, or value and limits are those of the sensitivity range (`Evaluation`).

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
    uncertainty = Uncertainty(confidence_level, n_resamples, random_state)
    sample, name = make_sample(y, scores), str(measure)
    checks = (check_scores(y, sample.scores),) if not sample.bags.labelled.all() else ()
    rows = ScoredRows(sample, sample, HeldOutLogOdds(sample.bags, sample.scores), checks)
    measures = {name: get_measure(measure, options)}
    return evaluate_rows(rows, measures, uncertainty, curve=False)[name]


def evaluate(
    y: Any,
    scores: ArrayLike,
    *,
    X: Any = None,
    feature_names: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    draws: ArrayLike | None = None,
    reference: MonitoringReference | None = None,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> Evaluation:
    """Estimate the accuracy of given scores from the proportions of bags, without labels.

    The model must not have been trained on these bags; `cross_val_evaluate` holds bags out.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    X : array, sparse matrix or data frame, optional
        Features of the instances. Their bag means are the most powerful test of label shift.
    feature_names : sequence of str, optional
        Names of the columns of an array.
    probabilities : array-like of shape (n_instances,) or (n_instances, n_classes), optional
        Predicted probabilities of the classes. Without them scores are treated as log-odds, as the
        decision functions of models trained with a logistic loss are.
    draws : array-like of shape (n_draws, n_instances) or (n_draws, n_instances, n_classes), optional
        Of the log-odds from the posterior of the model, by
        `LLPClassifier.sample_decision_function`: intervals under covariate shift then include
        the uncertainty of the model.
    reference : MonitoringReference, optional
        From `make_monitoring_reference` on the training bags: drift of the rows and of the counts
        since then is reported, if ``probabilities`` are given.
    labels : array-like of shape (n_instances,), optional
        Labels of some rows as class numbers 0, 1, ..., missing (None or NaN) where unknown, drawn
        at random or by `sample_rows_to_label`. Estimates from them and the bags then come first,
        and are about these rows only.
    weights : array-like of shape (n_instances,), optional
        Inverse sampling probability of each labelled row, from `sample_rows_to_label`.
    threshold : float, default=0.0
        Above it the positive class is predicted.
    class_prior : {"empirical", "balanced"} or one number per class, default="empirical"
        Class prior of the population where the classifier is used, for accuracy, precision and F1.
    confidence_level : float, default=0.95
        Probability with which the interval should cover the true value.
    n_resamples : int, default=1000
        Number of bootstrap resamples.
    random_state : int, RandomState or None, default=0
        Seed of the bootstrap.

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
    uncertainty = Uncertainty(confidence_level, n_resamples, random_state)
    sample = make_sample(y, scores)
    log_odds = sample.scores if probabilities is None else log_odds_of(probabilities)
    checks = [] if sample.bags.labelled.all() else [check_scores(y, sample.scores)]
    if X is not None and checks:
        checks.append(check_columns(y, X, feature_names))
    drawn = None if draws is None else np.asarray(draws, dtype=float)
    held_out = HeldOutLogOdds(sample.bags, log_odds, draws=drawn)
    rows = ScoredRows(sample, sample, held_out, tuple(checks), labels=labels, label_weights=weights)
    measures = usual_measures(sample.bags, threshold, class_prior)
    found = evaluate_rows(rows, measures, uncertainty, threshold)
    if reference is None or probabilities is None or not checks:
        return found
    return replace(found, drift=drift_notes(reference, y, probabilities, X))


def cross_val_evaluate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    out_of_fold: OutOfFold | None = None,
    draws: ArrayLike | None = None,
    feature_names: ArrayLike | None = None,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Evaluation:
    """Estimate the accuracy of a classifier by cross-validation over bags, without labels.

    For each fold, the estimator is fitted to the other folds and scores the bags of that fold. The
    scores of all folds together are evaluated. A model trained on all bags is at least as accurate on
    average. For the ROC curve, instances of different folds are compared by their rank among the
    scores that the model of their fold gives to all instances, because models differ in scale.

    Parameters
    ----------
    estimator, X, y, cv : as in `cross_fit`
    out_of_fold : OutOfFold, optional
        From `cross_fit`, if scores of the folds are known already; by default they are computed.
    draws : array-like, optional
        Of the log-odds by the posterior of the model of all bags, as in `evaluate`. By default an
        `LLPClassifier` is fitted to all bags for them.
    feature_names : sequence of str, optional
        Names of what the model sees, for the test of the assumption; by default those of the data
        frame or of the steps before it.
    threshold, class_prior, confidence_level, n_resamples, random_state : as in `evaluate`
    n_jobs, verbose : as in `cross_fit`

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
    uncertainty = Uncertainty(confidence_level, n_resamples, random_state)
    if out_of_fold is None:
        out_of_fold = cross_fit(estimator, X, y, cv=cv, n_jobs=n_jobs, verbose=verbose)
    if draws is None and hasattr(last_step(estimator), "sample_decision_function"):
        draws = posterior_draws(clone(estimator).fit(X, y), X)
    features = check_features(y, X, estimator, feature_names)
    drawn = None if draws is None else np.asarray(draws, dtype=float)
    rows = ScoredRows.from_folds(y, out_of_fold, features, drawn)
    measures = usual_measures(rows.sample.bags, threshold, class_prior)
    return evaluate_rows(rows, measures, uncertainty, threshold)
