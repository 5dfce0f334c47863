"""Shares of the classes in a new sample, of whose bags nothing is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils import _safe_indexing, gen_batches

from unbag._arrays import Floats
from unbag._checks import check_count, check_inside, check_one_each
from unbag.inference.grouped_rows import ROWS_AT_A_TIME
from unbag.inference.posterior import PosteriorScores, interval


class Prevalence(NamedTuple):
    """Shares of the classes: posterior means, and limits of intervals."""

    classes: NDArray[Any]
    share: Floats
    low: Floats
    high: Floats


def prevalence(
    model: Any,
    X: Any,
    *,
    bag: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    n_draws: int = 200,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Prevalence:
    """Estimate the share of each class in a new sample, under covariate shift.

    Intervals allow for the uncertainty of coefficients, the random intercepts of new bags (of two
    classes; not for the dispersion of several), and labels given their probabilities.

    Parameters
    ----------
    model : LLPClassifier, or a pipeline that ends with one
        Fitted.
    X : array or data frame with n_instances rows
        The sample.
    bag : array-like of shape (n_instances,), optional
        The bag of each row; by default the sample is one bag.
    weights : array-like of shape (n_instances,), optional
        Weights of the rows.
    n_draws : int, default=200
        Draws from the posterior.
    confidence_level : float, default=0.95
        Posterior probability of intervals.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    prevalence : Prevalence
        Shares and intervals.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.inference import prevalence
    >>> data = make_gaussian_bags(n_bags=60, bag_size=50, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> found = prevalence(model, data.X)
    >>> bool(found.low[1] < data.labels.mean() < found.high[1])
    True
    """
    check_inside(confidence_level, "confidence_level")
    check_count(n_draws, "n_draws", 10)
    n = X.shape[0]
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    check_one_each(weight, n, "weights", "instances")
    code = np.zeros(n, dtype=np.intp)
    if bag is not None:
        check_one_each(np.asarray(bag), n, "bag", "instances", "bag")
        code = np.unique(np.asarray(bag), return_inverse=True)[1]
    posterior = PosteriorScores(model, None, n_draws, random_state)
    rng = np.random.default_rng(random_state)
    effect = float(posterior.model.bag_effect_)
    shift = np.sqrt(effect) * rng.normal(size=(n_draws, int(code.max()) + 1))
    totals = np.zeros((n_draws, len(posterior.model.classes_)))
    for part in gen_batches(n, ROWS_AT_A_TIME):
        scores = posterior(_safe_indexing(X, part))
        scores[:, -1] += shift[:, code[part]]
        edges = softmax(scores, axis=1).cumsum(axis=1)[:, :-1]
        label = (edges < rng.random((n_draws, 1, part.stop - part.start))).sum(axis=1)
        for c in range(totals.shape[1]):
            totals[:, c] += (label == c) @ weight[part]
    shares = totals / weight.sum()
    low, high = interval(shares, confidence_level)
    return Prevalence(posterior.model.classes_, shares.mean(axis=0), low, high)
