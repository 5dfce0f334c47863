"""Curves over all thresholds: ROC with its band, precision and recall, the best threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from unbag._arrays import Floats
from unbag.bags.priors import resolve_class_prior
from unbag.evaluation.measures import CellTally, cell_shares, check_cost, score_cells
from unbag.evaluation.sample import Sample, make_sample
from unbag.evaluation.sensitivity import PosteriorSample, SlopeRange
from unbag.evaluation.uncertainty import Uncertainty


def roc_curve(y: Any, scores: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Estimate the ROC curve of the scores from bags alone.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,)
        Decision function of every instance.

    Returns
    -------
    fpr, tpr : ndarray
        Estimated rates of false and of true positives among scores at or above each threshold.
        They need not rise steadily, because some weights are negative.
    thresholds : ndarray
        Decreasing, the first one infinite.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import roc_curve
    >>> y = bag_target([1, 1, 1, 1, 2, 2, 2, 2], [0.25] * 4 + [0.75] * 4)
    >>> scores = [-2.0, -1.0, 0.5, 1.0, -1.5, 0.5, 1.5, 2.0]
    >>> fpr, tpr, thresholds = roc_curve(y, scores)
    >>> thresholds
    array([ inf,  2. ,  1.5,  1. ,  0.5, -1. , -1.5, -2. ])
    >>> fpr.round(3) + 0.0
    array([ 0.   , -0.125, -0.25 ,  0.125,  0.375,  0.75 ,  0.625,  1.   ])
    >>> tpr.round(3) + 0.0
    array([0.   , 0.375, 0.75 , 0.625, 0.875, 0.75 , 1.125, 1.   ])
    """
    rates, thresholds = _rates(make_sample(y, scores, binary="The ROC curve"))
    return rates[0], rates[1], thresholds


@dataclass(frozen=True, eq=False)
class RocBand:
    """A label-free ROC curve with its band.

    Attributes
    ----------
    fpr : ndarray of shape (n_points,)
        Rates of false positives, from 0 to 1.
    tpr : ndarray of shape (n_points,)
        Estimated rate of true positives at each, rising steadily.
    low : ndarray of shape (n_points,)
        Lower limit of the rate of true positives, at each point by itself.
    high : ndarray of shape (n_points,)
        Upper limit.
    confidence_level : float
        How often limits should cover the true value.
    """

    fpr: Floats
    tpr: Floats
    low: Floats
    high: Floats
    confidence_level: float


def make_roc_band(sample: Sample, uncertainty: Uncertainty, n_points: int = 101) -> RocBand:
    """Estimate the ROC curve of a sample with its band."""
    grid = np.linspace(0, 1, n_points)
    (fpr, tpr), _ = _rates(sample)
    curve = tpr_at(grid, fpr, tpr)
    sample = sample.with_labelled_rows_apart()
    # from the highest scores down
    shares = cell_shares(sample.bags, score_cells(-sample.scores))
    draws = uncertainty.draw_class_means(sample, CellTally(shares, lambda means: means))
    return band_around(curve, draws, sample, uncertainty)


def band_around(curve: Floats, draws: Floats, sample: Sample, uncertainty: Uncertainty) -> RocBand:
    """The band of a curve at even rates, by draws of cells from the highest scores down."""
    grid = np.linspace(0, 1, len(curve))
    curves = np.stack([tpr_at(grid, *pair) for pair in rates_of_cells(draws)])
    low, high = uncertainty.limits(curves, sample)
    return RocBand(
        grid, curve, np.clip(low, 0, 1), np.clip(high, 0, 1), uncertainty.confidence_level
    )


def rates_of_cells(shares: Floats) -> Floats:
    """How much of each class lies in the first cells, from none of them to all."""
    rates = np.cumsum(shares, axis=-1)
    return np.concatenate([np.zeros((*rates.shape[:-1], 1)), rates], axis=-1)


def posterior_roc_band(sample: Sample, slopes: SlopeRange, *, confidence_level: float) -> RocBand:
    """Estimate the ROC curve for a range of κ (`unbag.evaluation.sensitivity`)."""
    grid = np.linspace(0, 1, 101)
    curves = []
    for p in slopes.posteriors():
        (fpr, tpr), _ = _rates(PosteriorSample(sample.bags, sample.scores, posterior=p))
        curves.append(tpr_at(grid, fpr, tpr))
    low, high = np.min(curves, axis=0), np.max(curves, axis=0)
    return RocBand(grid, curves[1], low, high, confidence_level)


def span_bands(one: RocBand, other: RocBand) -> RocBand:
    """Widen a band by another one."""
    return replace(one, low=np.minimum(one.low, other.low), high=np.maximum(one.high, other.high))


def best_threshold(
    y: Any, scores: ArrayLike, *, cost: Any = None, class_prior: Any = "balanced"
) -> float:
    """Find the threshold at which ``scores > threshold`` costs least, from bags alone.

    Valid under label shift; see `label_shift_test`.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        The bag of each instance and its proportions; plain labels are pure bags.
    scores : array-like of shape (n_instances,)
        Decision function of every instance.
    cost : (cost of a false positive, cost of a false negative), optional
        By default both cost the same.
    class_prior : {"balanced", "empirical"} or (negative, positive), default="balanced"
        Class prior where the classifier is used. The default, with equal costs, gives the
        threshold of the least balanced error.

    Returns
    -------
    threshold : float
        ``estimate("cost", ..., threshold=threshold)`` on other bags says what it costs; on the
        same ones it looks a little better than it is.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation import best_threshold
    >>> y = bag_target([1, 1, 1, 2, 2, 2], [0.0] * 3 + [2 / 3] * 3)
    >>> best_threshold(y, [0.1, 0.2, 0.4, 0.15, 0.7, 0.9])
    0.55
    """
    sample = make_sample(y, scores, binary="A threshold")
    prior = resolve_class_prior(class_prior, sample.bags.class_shares)
    table = check_cost(cost, sample.bags)
    # what one more instance above the threshold adds, by class
    charge = prior * (table[:, 1] - table[:, 0])
    rates, thresholds = _rates(sample)
    return float(_between(thresholds)[int(np.argmin(charge @ rates))])


def _between(thresholds: Floats) -> Floats:
    """Thresholds halfway to the next lower score: what lies above them is the same."""
    scores = thresholds[1:]
    step = np.abs(scores).max() * 1e-3 + 1e-12
    padded = np.concatenate([[scores[0] + step], scores, [scores[-1] - step]])
    return (padded[1:] + padded[:-1]) / 2


def tpr_at(grid: Floats, fpr: Floats, tpr: Floats) -> Floats:
    """TPR at given FPR, of the nearest curve that rises steadily from 0 to 1."""
    x, y = (np.clip(isotonic_regression(rate).x, 0, 1) for rate in (fpr, tpr))
    return np.interp(grid, x, y)


def _rates(sample: Sample) -> tuple[Floats, Floats]:
    """Estimated share of each class at or above every distinct score, from none to all."""
    sample.check_order()
    order = np.argsort(-sample.scores, kind="stable")
    ordered = sample.scores[order]
    last_of_tie = np.append(ordered[1:] != ordered[:-1], True)
    sums = (np.cumsum(row[order])[last_of_tie] for row in sample.row_weights())
    rates = np.stack([np.append(0.0, own) for own in sums])
    return rates, np.append(np.inf, ordered[last_of_tie])
