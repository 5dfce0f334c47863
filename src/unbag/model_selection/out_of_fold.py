"""What models say about bags that they did not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from unbag._arrays import Bools, Floats, Ints
from unbag._progress import progress_bar
from unbag.bags.bags import check_bag_target
from unbag.model_selection.fitted import log_odds_of
from unbag.model_selection.splitters import check_cv, check_held_once, cut_by_folds


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


def out_of_fold_scores(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    score: Callable[[Any, Any], Floats] = decision_scores,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[Floats, Ints]:
    """Score every bag by a clone of the estimator that was trained without it.

    Parameters
    ----------
    estimator : classifier
        Clones of it are fitted.
    X : array-like of shape (n_instances, n_features)
        Instances.
    y : structured array from `unbag.bag_target`, or plain labels
        Their bags.
    cv : int, splitter or iterable of splits, default=5
        Folds of whole bags that hold out every bag exactly once; an integer means so many folds of
        `unbag.BagKFold`.
    score : callable, default=decision_scores
        From a fitted model and instances to their scores.
    n_jobs : int, default=None
        Number of folds to fit at a time, as in joblib.
    verbose : int, default=0
        Whether joblib reports its progress.

    Returns
    -------
    scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
        Scores of each row by the model that did not see its bag.
    fold : ndarray of shape (n_instances,)
        The fold that held each row out.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.model_selection import out_of_fold_scores
    >>> data = make_gaussian_bags(n_bags=20, bag_size=10, random_state=0)
    >>> scores, fold = out_of_fold_scores(LLPClassifier(kernel=None), data.X, data.y, cv=4)
    >>> scores.shape, sorted(set(fold.tolist()))
    ((200,), [0, 1, 2, 3])
    """
    parts, fold = look_at_folds(estimator, X, y, score, cv=cv, n_jobs=n_jobs, verbose=verbose)
    scores = np.empty((len(y), *parts[0].shape[1:]))
    for number, part in enumerate(parts):
        scores[fold == number] = part
    return scores, fold


def look_at_folds(
    estimator: Any,
    X: Any,
    y: Any,
    look: Callable[[Any, Any], Any],
    *,
    cv: Any = 5,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[list[Any], Ints]:
    """Look at every fold with a clone of the estimator that was trained on the others."""
    held = check_cv(cv, X, y)
    cut_by_folds(check_bag_target(y), held)
    check_held_once(held)
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fit_and_look)(estimator, X, y, out, look) for out in held
    )
    found = list(progress_bar(jobs, verbose=verbose, total=len(held), desc="folds", unit="fold"))
    return found, held.argmax(axis=0)


def _fit_and_look(
    estimator: Any, X: Any, y: Any, out: Bools, look: Callable[[Any, Any], Any]
) -> Any:
    train, test = np.flatnonzero(~out), np.flatnonzero(out)
    model = clone(estimator).fit(_safe_indexing(X, train), y[train])
    return look(model, _safe_indexing(X, test))
