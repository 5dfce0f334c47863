"""What can be asked of any fitted model, alone or at the end of a pipeline."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from unbag._arrays import Floats


def last_step(model: Any) -> Any:
    """Give the model at the end of a pipeline, or the model itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def train_again(model: Any, X: Any, y: Any) -> Any:
    """Train a fitted model on other bags: by `refit` with its features if it has that, or a clone."""
    last = last_step(model)
    if not hasattr(last, "refit"):
        return clone(model).fit(X, y)
    if last is model:
        return model.refit(X, y)
    again = copy(model)
    again.steps = [*model.steps[:-1], (model.steps[-1][0], last.refit(model[:-1].transform(X), y))]
    return again


def check_gives_probabilities(model: Any) -> None:
    """Refuse a model without probabilities."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"{type(model).__name__} gives no probabilities to hold counts against.")


def log_odds_of(probabilities: ArrayLike) -> Floats:
    """Log-odds of two classes, or logarithms of the probabilities of several."""
    clipped = np.clip(np.asarray(probabilities, dtype=float), 1e-15, 1 - 1e-15)
    if clipped.ndim == 1:
        return np.log(clipped) - np.log1p(-clipped)
    logs = np.log(clipped)
    return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs


def decision_scores(model: Any, X: Any) -> Floats:
    """Decision function of a fitted model, or the log-odds of its probabilities.

    Parameters
    ----------
    model : classifier
        Fitted, with ``decision_function`` or ``predict_proba``.
    X : array-like of shape (n_instances, n_features)
        Instances.

    Returns
    -------
    scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
        For two classes one score, for more one column per class.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.model_selection import decision_scores
    >>> data = make_gaussian_bags(n_bags=20, bag_size=10, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> decision_scores(model, data.X).shape
    (200,)
    """
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=float)
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} gives neither a decision_function nor probabilities."
        )
    return log_odds_of(model.predict_proba(X))


def names_behind(steps: Any) -> Any:
    """Names of the columns that fitted steps make of theirs; None if they know none."""
    with suppress(AttributeError, ValueError):
        return steps.get_feature_names_out()
    return None
