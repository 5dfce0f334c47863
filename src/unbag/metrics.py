"""Label-free evaluation: what the decontamination weights say about given scores.

With W from all bags, Σ_i W[i, c] · (mean of h over bag i) estimates E[h(X) | class c]. For h a
loss this is the corrected risk, for h = 1[f(x) > t] the rates of the ROC curve. The functions
are called like their scikit-learn counterparts, with bags in the place of labels. Estimates are
unbiased and so may fall outside [0, 1]; they are reported as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag.bags import Bags, check_bag_target
from unbag.decontamination import decontamination_weights
from unbag.losses import get_loss
from unbag.risk import CorrectedRisk, resolve_class_prior


def corrected_risk(
    y: Any, scores: ArrayLike, *, loss: str = "logistic", class_prior: Any = "balanced"
) -> float:
    """Estimate the risk of scores from bags alone.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function of every instance.
    loss : str
        Name of the loss; ``"zero_one"`` gives the (balanced) error rate.
    class_prior : {"balanced", "empirical"} or one number per class
        How much each class counts.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target
    >>> from unbag.metrics import corrected_risk
    >>> y = bag_target([1, 1, 2, 2], [0.5, 0.5, 1.0, 1.0])
    >>> corrected_risk(y, np.array([-1.0, 1.0, 1.0, 1.0]), loss="zero_one")
    0.0
    """
    bags, values = _check(y, scores)
    prior = resolve_class_prior(class_prior, bags)
    W = decontamination_weights(bags)
    risk = CorrectedRisk(W, bags, get_loss(loss, bags.n_classes), prior, "none")
    columns = values.T[None] if values.ndim == 2 else values[None, None]
    return float(risk.value(columns, np.zeros(1, dtype=np.intp))[0])


def balanced_accuracy_score(y: Any, scores: ArrayLike, *, threshold: float = 0.0) -> float:
    """Estimate the balanced accuracy of ``scores > threshold`` from bags alone.

    A score equal to the threshold counts half for either class. With one column of scores per
    class, the class with the largest score is chosen.
    """
    bags, values = _check(y, scores)
    W = decontamination_weights(bags)
    if values.ndim == 1:
        hits = np.stack([_above(-values, -threshold), _above(values, threshold)])
    else:
        hits = (values.argmax(axis=1) == np.arange(bags.n_classes)[:, None]).astype(float)
    return float(np.mean(np.sum(bags.means(hits) * W.T, axis=1)))


def roc_curve(
    y: Any, scores: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Estimate the ROC curve of the scores from bags alone.

    Returns
    -------
    fpr, tpr : ndarray
        Estimated rates of false and of true positives among scores at or above each threshold.
        They need not rise steadily, because some weights are negative.
    thresholds : ndarray
        Decreasing, the first one infinite.
    """
    bags, values = _check(y, scores)
    _check_binary(bags, "The ROC curve")
    rates, thresholds = _cumulative_rates(bags, values)
    return rates[0], rates[1], thresholds


def roc_auc_score(y: Any, scores: ArrayLike) -> float:
    """Estimate the area under the ROC curve from bags alone, ties counted half.

    Signed weights make it Σ W₊(x) W₋(z) (1[f(x) > f(z)] + ½ 1[f(x) = f(z)]) over all instances,
    which sorting gives in O(n log n). Pairs inside a bag add what they are expected to add,
    since each counts together with its mirror image: the estimate is unbiased.
    """
    bags, values = _check(y, scores)
    _check_binary(bags, "The area under the ROC curve")
    (fpr, tpr), _ = _cumulative_rates(bags, values)
    # trapezoids, which count ties half
    return float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2))


def _check(y: Any, scores: ArrayLike) -> tuple[Bags, NDArray[np.float64]]:
    bags = check_bag_target(y)
    values = np.asarray(scores, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != bags.n_instances:
        raise ValueError(
            f"There are {bags.n_instances} instances but scores of shape {values.shape}."
        )
    if values.ndim == 2 and values.shape[1] != bags.n_classes:
        raise ValueError(f"{bags.n_classes} classes need as many columns of scores.")
    if values.ndim == 2 and bags.n_classes == 2:
        values = values[:, 1] - values[:, 0]
    if values.ndim == 1:
        _check_binary(bags, "A single column of scores")
    if not np.isfinite(values).all():
        raise ValueError("Scores must be finite numbers.")
    return bags, values


def _check_binary(bags: Bags, what: str) -> None:
    if bags.n_classes != 2:
        raise ValueError(f"{what} is for two classes and there are {bags.n_classes}.")


def _above(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    return (values > threshold) + 0.5 * (values == threshold)


def _cumulative_rates(
    bags: Bags, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimated share of each class at or above every distinct score, from none to all."""
    W = decontamination_weights(bags) / bags.sizes[:, None]
    order = np.argsort(-values, kind="stable")
    sums = np.cumsum(W[bags.index[order]], axis=0)
    ordered = values[order]
    last_of_tie = np.append(ordered[1:] != ordered[:-1], True)
    rates = np.vstack([np.zeros(2), sums[last_of_tie]]).T
    return rates, np.append(np.inf, ordered[last_of_tie])
