"""Everything about a classifier at once, from bags that it did not see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag.bags import BagModel
from unbag.metrics.curves import RocBand, make_roc_band
from unbag.metrics.measures import F1, Area, Cost, Measure, Precision, Rate
from unbag.metrics.sample import Sample, make_sample
from unbag.metrics.uncertainty import Estimate, IntervalMethod, Uncertainty
from unbag.model_selection import decision_scores, out_of_fold_scores


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good scores are, estimated from bags alone.

    Attributes
    ----------
    estimates : dict of str to Estimate
        Each measure with its interval.
    roc : RocBand or None
        The ROC curve with its band, for two classes.
    scores : ndarray
        What was evaluated: out-of-fold scores, if they come from `cross_val_evaluate`.
    fold : ndarray of shape (n_instances,) or None
        The fold that each row was held out in.
    threshold : float
    n_bags, n_instances : int
    """

    estimates: dict[str, Estimate]
    roc: RocBand | None
    scores: NDArray[np.float64]
    fold: NDArray[np.intp] | None
    threshold: float
    n_bags: int
    n_instances: int

    def __getitem__(self, measure: str) -> Estimate:
        if measure not in self.estimates:
            known = ", ".join(self.estimates)
            raise KeyError(f"There is no {measure!r} here; there are {known}.")
        return self.estimates[measure]

    def frame(self) -> Any:
        """One row per measure, as a pandas DataFrame."""
        import pandas as pd

        columns = ("value", "standard_error", "low", "high")
        rows = {name: [getattr(e, c) for c in columns] for name, e in self.estimates.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def __str__(self) -> str:
        level = next(iter(self.estimates.values())).level
        width = max(map(len, self.estimates))
        folds = (
            ""
            if self.fold is None
            else f", in {self.fold.max() + 1} folds, each scored by a model that did not see it"
        )
        lines = [
            f"Estimated from the proportions of {self.n_bags} bags "
            f"({self.n_instances} instances) without labels{folds}.",
            f"{'':{width}}  estimate  {100 * level:g}% interval",
        ]
        for name, e in self.estimates.items():
            value, low, high = np.clip([e.value, e.low, e.high], 0, 1)
            note = "" if 0 <= e.value <= 1 else f"  (clipped; the estimate is {e.value:.4f})"
            lines.append(f"{name:{width}}  {value:8.4f}  {low:.4f} to {high:.4f}{note}")
        return "\n".join(lines)


def evaluate(
    y: Any,
    scores: ArrayLike,
    *,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    method: IntervalMethod = "bootstrap",
    bag_model: BagModel = "bags",
    level: float = 0.95,
    n_draws: int = 1000,
    random_state: Any = 0,
) -> Evaluation:
    """Estimate from bags alone how good given scores are.

    The bags must be others than those that the model was trained on; `cross_val_evaluate` sees
    to that.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    threshold : float, default=0.0
        Above it the positive class is predicted.
    class_prior : {"empirical", "balanced"} or one number per class
        Shares of the classes where the classifier is used, for accuracy, precision and F1.
    method, bag_model, level, n_draws, random_state
        Of the intervals; see `unbag.metrics.estimate`.

    Returns
    -------
    evaluation : Evaluation
        Print it, or take ``evaluation["roc_auc"]``.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.metrics import evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> evaluation = evaluate(data.y, data.X[:, 0])
    >>> round(evaluation["roc_auc"].value, 1)
    0.9
    """
    uncertainty = Uncertainty(method, bag_model, level, n_draws, random_state)
    sample = make_sample(y, scores)
    return _evaluate(sample, sample, threshold, class_prior, uncertainty)


def _evaluate(
    sample: Sample, ranks: Sample, threshold: float, class_prior: Any, uncertainty: Uncertainty
) -> Evaluation:
    """Evaluate decisions by scores, and the ROC curve by ``ranks``, which order as scores do."""
    measures = _measures(sample, threshold, class_prior)
    estimates = {
        name: uncertainty.of(measure, ranks if name == "roc_auc" else sample)
        for name, measure in measures.items()
    }
    two = sample.bags.n_classes == 2
    return Evaluation(
        estimates=estimates,
        roc=make_roc_band(ranks, replace(uncertainty, method="bootstrap")) if two else None,
        scores=sample.scores,
        fold=None,
        threshold=threshold,
        n_bags=sample.bags.n_bags,
        n_instances=sample.bags.n_instances,
    )


def _measures(sample: Sample, threshold: float, class_prior: Any) -> dict[str, Measure]:
    classes = sample.bags.classes
    found: dict[str, Measure] = {
        "balanced_accuracy": Cost(threshold, complement=True),
        "accuracy": Cost(threshold, class_prior, complement=True),
    }
    if len(classes) > 2:
        recalls = {f"recall of {name}": Rate(threshold, c, c) for c, name in enumerate(classes)}
        return {**found, **recalls}
    return {
        "roc_auc": Area(),
        **found,
        "true_positive_rate": Rate(threshold, 1, 1),
        "false_positive_rate": Rate(threshold, 0, 1),
        "precision": Precision(threshold, class_prior),
        "f1": F1(threshold, class_prior),
    }


def cross_val_evaluate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    method: IntervalMethod = "bootstrap",
    bag_model: BagModel = "bags",
    level: float = 0.95,
    n_draws: int = 1000,
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
    y : structured array from `unbag.bag_target`, or plain labels
    cv : int, splitter or iterable, default=5
        Folds of whole bags, each bag held out once; a number stands for `unbag.BagKFold`.
    threshold, class_prior, method, bag_model, level, n_draws, random_state
        See `evaluate`.
    n_jobs : int, optional
        Folds fitted at the same time.
    verbose : int, default=0
        Whether to show a progress bar.

    Examples
    --------
    >>> from unbag import LinearMCMClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.metrics import cross_val_evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> evaluation = cross_val_evaluate(LinearMCMClassifier(), data.X, data.y)
    >>> evaluation["roc_auc"].standard_error < 0.02
    True
    """
    uncertainty = Uncertainty(method, bag_model, level, n_draws, random_state)
    columns, fold = out_of_fold_scores(
        estimator, X, y, cv=cv, score=ScoreAndRank(X), n_jobs=n_jobs, verbose=verbose
    )
    if columns.shape[1] > 2:
        sample = ranks = make_sample(y, columns)
    else:
        sample, ranks = (make_sample(y, column) for column in columns.T)
    evaluation = _evaluate(sample, ranks, threshold, class_prior, uncertainty)
    return replace(evaluation, fold=fold)


@dataclass(frozen=True, eq=False)
class ScoreAndRank:
    """Scores of held-out instances, and for two classes their rank among those of all.

    Models of different folds score on scales of their own. The ROC curve of all folds together
    compares instances by where their own model sees them among all instances.
    """

    X: Any

    def __call__(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Score and rank what a fold holds out: shape (n_instances, 2)."""
        scores = _one_column(decision_scores(model, X))
        if scores.ndim == 2:
            return scores
        everyone = np.sort(_one_column(decision_scores(model, self.X)))
        places = [np.searchsorted(everyone, scores, side) for side in ("left", "right")]
        return np.column_stack([scores, np.mean(places, axis=0) / len(everyone)])


def _one_column(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of two classes as one number each, of more as they are."""
    if scores.ndim == 1 or scores.shape[1] > 2:
        return scores
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
