"""Single numbers, called like their scikit-learn counterparts with bags in the place of labels.

Each returns the plain estimate; `unbag.evaluation.estimate` gives the same with an interval.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from unbag._arrays import Floats
from unbag._docstrings import as_in
from unbag.evaluation.measures import F1, Area, Cost, Precision, Rate, Risk, predicted_shares
from unbag.evaluation.sample import make_sample, refuse_sample_weight


@refuse_sample_weight
def corrected_risk(
    y: Any, scores: ArrayLike, *, loss: str = "logistic", class_prior: Any = "balanced"
) -> float:
    """Estimate the risk of scores from bags alone.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    loss : str, default="logistic"
        Name of the loss; ``"zero_one"`` gives the (balanced) error rate.
    class_prior : {"balanced", "empirical"} or one number per class, default="balanced"
        How much each class counts.

    Returns
    -------
    risk : float
        The estimate; it may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target
    >>> from unbag.evaluation import corrected_risk
    >>> y = bag_target([1, 1, 2, 2], [0.5, 0.5, 1.0, 1.0])
    >>> corrected_risk(y, np.array([-1.0, 1.0, 1.0, 1.0]), loss="zero_one")
    0.0
    """
    return Risk(loss, class_prior).value(make_sample(y, scores))


@refuse_sample_weight
def confusion_matrix(y: Any, scores: ArrayLike, *, threshold: float = 0.0) -> Floats:
    """Estimate P(predicted k | class c) from bags alone: one row per class.

    Like scikit-learn's with ``normalize="true"``. A score equal to the threshold counts half for
    either class; with one column of scores per class, the class with the largest is predicted.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    threshold : float, default=0.0
        Above it the positive class is predicted; for two classes.

    Returns
    -------
    matrix : ndarray of shape (n_classes, n_classes)
        One row per class, one column per prediction. Rows sum to 1; being unbiased, entries may
        lie outside [0, 1].

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import confusion_matrix
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> confusion_matrix(y, scores).round(3)
    array([[0.625, 0.375],
           [0.125, 0.875]])
    """
    sample = make_sample(y, scores)
    return sample.class_means(predicted_shares(sample, threshold)).T


@as_in(confusion_matrix)
@refuse_sample_weight
def balanced_accuracy_score(y: Any, scores: ArrayLike, *, threshold: float = 0.0) -> float:
    """Estimate the balanced accuracy of ``scores > threshold`` from bags alone.

    Parameters
    ----------
    y, scores, threshold : as in confusion_matrix

    Returns
    -------
    score : float
        The estimate, unbiased and so at times outside [0, 1].

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import balanced_accuracy_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(balanced_accuracy_score(y, scores), 4)
    0.75
    """
    return Cost(threshold, complement=True).value(make_sample(y, scores))


@as_in(balanced_accuracy_score)
@refuse_sample_weight
def accuracy_score(
    y: Any, scores: ArrayLike, *, threshold: float = 0.0, class_prior: Any = "empirical"
) -> float:
    """Estimate the accuracy of ``scores > threshold`` where classes have the given shares.

    Parameters
    ----------
    y, scores, threshold : as in balanced_accuracy_score
    class_prior : {"empirical", "balanced"} or one number per class, default="empirical"
        Shares of the classes where the classifier is used; ``"empirical"`` are those of all
        given bags together.

    Returns
    -------
    score : as in balanced_accuracy_score

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import accuracy_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(accuracy_score(y, scores), 4)
    0.75
    """
    return Cost(threshold, class_prior, complement=True).value(make_sample(y, scores))


@as_in(accuracy_score)
@refuse_sample_weight
def cost_score(
    y: Any, scores: ArrayLike, *, cost: Any, threshold: float = 0.0, class_prior: Any = "empirical"
) -> float:
    """Estimate the mean cost of the decisions ``scores > threshold``.

    Parameters
    ----------
    y, scores : as in accuracy_score
    cost : (cost of a false positive, cost of a false negative) or table
        Or one row per class and one column per prediction.
    threshold, class_prior : as in accuracy_score

    Returns
    -------
    cost : float
        The estimate of the mean cost of an instance.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import cost_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(cost_score(y, scores, cost=(1, 5)), 4)
    0.5
    """
    return Cost(threshold, class_prior, cost).value(make_sample(y, scores))


@as_in(balanced_accuracy_score)
@refuse_sample_weight
def recall_score(y: Any, scores: ArrayLike, *, threshold: float = 0.0, positive: int = 1) -> float:
    """Estimate the share of one class that is predicted as such: the true positive rate.

    Parameters
    ----------
    y, scores, threshold : as in balanced_accuracy_score
    positive : int, default=1
        Number of the class that is meant.

    Returns
    -------
    score : as in balanced_accuracy_score

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import recall_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(recall_score(y, scores), 4)
    0.875
    """
    return Rate(threshold, positive, positive).value(make_sample(y, scores))


@as_in(cost_score)
@refuse_sample_weight
def precision_score(
    y: Any,
    scores: ArrayLike,
    *,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    positive: int = 1,
) -> float:
    """Estimate how many of those predicted positive are, at given shares of the classes.

    Parameters
    ----------
    y, scores, threshold, class_prior : as in cost_score
    positive : int, default=1
        Number of the class that is meant.

    Returns
    -------
    score : float
        The estimate; not a number if nothing is predicted positive.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import precision_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(precision_score(y, scores), 4)
    0.7
    """
    return Precision(threshold, class_prior, positive).value(make_sample(y, scores))


@as_in(precision_score)
@refuse_sample_weight
def f1_score(
    y: Any,
    scores: ArrayLike,
    *,
    threshold: float = 0.0,
    class_prior: Any = "empirical",
    positive: int = 1,
) -> float:
    """Estimate the harmonic mean of precision and recall, at given shares of the classes.

    Parameters
    ----------
    y, scores, threshold, class_prior, positive : as in precision_score

    Returns
    -------
    score : float
        The estimate.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import f1_score
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> round(f1_score(y, scores), 4)
    0.7778
    """
    return F1(threshold, class_prior, positive).value(make_sample(y, scores))


@refuse_sample_weight
def roc_auc_score(y: Any, scores: ArrayLike) -> float:
    """Estimate the area under the ROC curve from bags alone, ties counted half.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,)
        Decision function of every instance.

    Returns
    -------
    score : float
        The estimate, unbiased and so at times outside [0, 1].

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import roc_auc_score
    >>> y = bag_target([1, 1, 2, 2], [0.0, 0.0, 0.5, 0.5])
    >>> roc_auc_score(y, [0.1, 0.2, 0.15, 0.9])
    1.0
    """
    return Area().value(make_sample(y, scores, binary="The area under the ROC curve"))
