"""Which rows to label, and how many, for `unbag.evaluation.evaluate` with ``labels``.

By the differences that it takes (`unbag.evaluation.labelled`), a row of probabilities p adds to the
error of a measure in proportion to the deviation of Σ_c y_c a_c, where a_c is what the row changes
if it is of class c. The probabilities are the model's own here: scores are taken as log-odds,
shifted in every bag to add up to its counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils import check_random_state

from unbag._arrays import Floats, Ints
from unbag._checks import check_inside, check_positive
from unbag._outputs import probabilities_of_all
from unbag.evaluation.identification import in_these_rows
from unbag.evaluation.labelled import estimates_from_labels, imputed_means
from unbag.evaluation.measures import Area, Cost, Measure, Sample, get_measure, make_sample
from unbag.observations.count_likelihood import LabelPosteriors

# Part of the sampling probability that is the same for all rows: what a model is sure of, and wrong,
# must be found as well.
_EVEN = 0.5
_N_STRATA = 10
_ROUNDING = 1e-12


def required_labels(
    precision: float,
    y: Any,
    scores: ArrayLike,
    *,
    measure: str | Measure = "roc_auc",
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    **options: Any,
) -> int:
    """Return the number of random labels that gives an interval of some half width.

    Parameters
    ----------
    precision : float
        Half the width of the interval: 0.02 for ±0.02.
    y : structured array from `unbag.bag_target`
        The bag of each instance and its proportions.
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function. Without ``labels`` it is taken to be log-odds, as that of models
        trained by the likelihood is; for an overconfident model the number is too small.
    measure : as in `estimate`
    labels : array-like of shape (n_instances,), optional
        Some labels that are known already, drawn at random: fifty are better than the model's probabilities.
    confidence_level : float, default=0.95
        How often the interval should cover the true value.
    **options
        Of the measure: ``threshold`` (default 0), ``class_prior``, ``cost``, ``loss``,
        ``positive``.

    Returns
    -------
    n_labels : int
        At most the number of rows.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import required_labels
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> few, many = (required_labels(p, data.y, data.X[:, 0]) for p in (0.02, 0.01))
    >>> 50 < few < many < 2000
    True
    """
    check_positive(precision, "precision")
    check_inside(confidence_level, "confidence_level")
    sample, chosen = make_sample(y, scores), get_measure(measure, options)
    n = sample.bags.n_instances
    if labels is None:
        spread = float(np.mean(_deviations(chosen, sample) ** 2))
    else:
        pilot = estimates_from_labels({"": (chosen, sample)}, confidence_level, labels)[""]
        spread = pilot.standard_error**2 / max(1 / pilot.n_labels - 1 / n, 1e-300)
    wanted = (precision / stats.norm.ppf((1 + confidence_level) / 2)) ** 2
    return min(int(np.ceil(1 / (wanted / max(spread, 1e-300) + 1 / n))), n)


def sample_rows_to_label(
    n: int, y: Any, scores: ArrayLike, *, random_state: Any = None
) -> tuple[Ints, Floats]:
    """Choose rows whose labels are most informative, with sampling weights.

    Rows are drawn from strata of similar scores, and within those spread over the bags. Every row
    has a probability of being drawn, half of it the same for all; the other half goes to rows that are
    uncertain and influential, by the model's own probabilities.

    Parameters
    ----------
    n : int
        How many rows.
    y, scores : as in `estimate`
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.

    Returns
    -------
    rows : ndarray of shape (n,)
        Their positions, rising.
    weights : ndarray of shape (n,)
        Inverse sampling probability of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate, sample_rows_to_label
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> rows, weights = sample_rows_to_label(100, data.y, data.X[:, 0], random_state=0)
    >>> labels, weight = np.full((2, 2000), np.nan)
    >>> labels[rows], weight[rows] = data.labels[rows], weights
    >>> found = evaluate(data.y, data.X[:, 0], labels=labels, weights=weight, n_resamples=100)
    >>> bool(found["roc_auc"].low < 0.9 < found["roc_auc"].high)
    True
    """
    sample = make_sample(y, scores)
    size = sample.bags.n_instances
    if not isinstance(n, int | np.integer) or not 1 <= n <= size:
        raise ValueError(f"n must be a whole number from 1 to the {size} rows, not {n!r}.")
    rng = check_random_state(random_state)
    two = sample.bags.n_classes == 2
    drawn = _sampling_probabilities(int(n), _deviations(Area() if two else Cost(), sample))
    order = np.lexsort((rng.uniform(size=size), sample.bags.index, _strata(sample.scores)))
    # equal steps from a random start through the rows laid out by their probabilities
    total = np.cumsum(drawn[order])
    total[-1] = n
    rows = np.sort(order[np.diff(np.floor(total + rng.uniform()), prepend=0.0) > 0])
    return rows, 1 / drawn[rows]


def _deviations(measure: Measure, sample: Sample) -> Floats:
    """Standard deviation of what each row adds to a measure, times the number of rows."""
    function, bags = in_these_rows(measure), sample.bags
    scores = sample.scores
    log_odds = scores[None] if scores.ndim == 1 else scores.T
    probabilities = probabilities_of_all(LabelPosteriors(bags)(log_odds[None])[0])
    statistics = function.statistics(sample)
    means, centres = imputed_means(probabilities, statistics, bags)
    slopes = function.gradient(means, bags) / bags.class_shares[:, None]
    apart = statistics[None] - centres[:, :, bags.index]
    change = np.sum(slopes[..., None] * apart, axis=1)
    variance = (
        np.sum(probabilities * change**2, axis=0) - np.sum(probabilities * change, axis=0) ** 2
    )
    return np.sqrt(np.where(variance > _ROUNDING, variance, 0.0))


def _sampling_probabilities(n: int, deviations: Floats) -> Floats:
    """Probability that each row is drawn: they sum to n, and none is above 1."""
    size, total = len(deviations), deviations.sum()
    share = np.full(size, 1 / size)
    if total > 0:
        share = _EVEN / size + (1 - _EVEN) * deviations / total
    drawn = n * share
    while (drawn > 1).any():
        sure = drawn >= 1
        left = n - np.count_nonzero(sure)
        drawn = np.where(sure, 1.0, left * share / share[~sure].sum() if left else 0.0)
    return drawn


def _strata(scores: Floats) -> Ints:
    """Number rows by similar scores; of several classes, by that which is predicted as well."""
    if scores.ndim == 1:
        place = (stats.rankdata(scores, method="ordinal") - 1) / len(scores)
        return np.floor(place * _N_STRATA).astype(np.intp)
    best = scores.argmax(axis=1)
    return best * _N_STRATA + _strata(scores.max(axis=1))
