"""Help for testing estimators of this package, and of packages built on it."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

import unbag
from unbag.datasets import make_gaussian_bags


def all_estimators() -> list[tuple[str, type[BaseEstimator]]]:
    """List every public estimator of the package by name.

    Returns
    -------
    estimators : list of (str, class)
        In the order of their names.

    See Also
    --------
    unbag.testing.check_bag_classifier : Check that a classifier trained from bags means by its
        attributes what all others mean.

    Examples
    --------
    >>> from unbag.testing import all_estimators
    >>> "KernelMCMClassifier" in dict(all_estimators())
    True
    """
    found = {}
    for module_info in walk_packages(unbag.__path__, "unbag."):
        module = import_module(module_info.name)
        for name, item in inspect.getmembers(module, inspect.isclass):
            public = not name.startswith("_") and item.__module__.startswith("unbag.")
            if public and issubclass(item, BaseEstimator) and not inspect.isabstract(item):
                found[name] = item
    return sorted(found.items())


def check_bag_classifier(estimator: Any) -> None:
    """Check that a classifier trained from bags means by its attributes what all others mean.

    What scikit-learn asks of any estimator is checked by
    ``sklearn.utils.estimator_checks.check_estimator``. This is what bags add: the shares of classes
    that were learned from and that probabilities are for, classes that agree with the signs of
    scores and with probabilities, scores of bags that were held out, kernel expansions. An
    AssertionError says what is broken.

    Parameters
    ----------
    estimator : classifier
        Not fitted; a clone of it is, to 24 small bags of two classes.

    See Also
    --------
    unbag.testing.all_estimators : List every public estimator of the package by name.

    Examples
    --------
    >>> from unbag import LinearMCMClassifierCV
    >>> from unbag.testing import check_bag_classifier
    >>> check_bag_classifier(LinearMCMClassifierCV())
    """
    data = make_gaussian_bags(n_bags=24, bag_size=15, n_features=3, random_state=0)
    assert estimator.get_params().get("random_state", 0) == 0, "random_state is 0 by default"
    model = clone(estimator).fit(data.X, data.y)
    shares = np.array([1 - data.y["proportion"].mean(), data.y["proportion"].mean()])
    np.testing.assert_allclose(
        model.class_shares_, shares, atol=1e-9, err_msg="class_shares_ are those of all instances"
    )
    _check_predictions(model, data.X)
    _check_search(model, len(data.y))
    _check_expansion(model, data.X)


def _check_predictions(model: Any, X: Any) -> None:
    scores = model.decision_function(X)
    assert scores.shape == (len(X),), "two classes have one score"
    np.testing.assert_array_equal(
        model.predict(X),
        model.classes_[(scores > 0).astype(int)],
        err_msg="predict gives the class of the sign of the score",
    )
    if not hasattr(model, "predict_proba"):
        assert not hasattr(model, "class_prior_"), "class_prior_ is what probabilities are for"
        return
    chances = model.predict_proba(X)
    np.testing.assert_array_equal(
        model.predict(X),
        model.classes_[chances.argmax(axis=1)],
        err_msg="predict gives the class of the largest chance",
    )
    order = np.argsort(scores)
    assert (np.diff(chances[order, 1]) >= -1e-12).all(), "chances rise with scores"
    np.testing.assert_allclose(
        model.predict_proba(X, class_prior=model.class_prior_), chances, atol=1e-9
    )
    for wanted in ([0.9, 0.1], "balanced", "empirical"):
        prior = {"balanced": np.full(2, 0.5), "empirical": model.class_shares_}.get(
            str(wanted), wanted
        )
        moved = model.predict_proba(X, class_prior=wanted)
        # Bayes: odds change by the ratio of the priors
        odds = chances[:, 1] * prior[1] * model.class_prior_[0]
        against = chances[:, 0] * prior[0] * model.class_prior_[1]
        np.testing.assert_allclose(moved[:, 1], odds / (odds + against), atol=1e-9)


def _check_search(model: Any, n_rows: int) -> None:
    assert isinstance(getattr(model, "objective_", ""), str), "objective_ is a name"
    assert isinstance(getattr(model, "n_iter_", 1), int), "n_iter_ is a number of iterations"
    assert isinstance(getattr(model, "converged_", True), bool), "converged_ is True or False"
    if hasattr(model, "alphas_"):
        assert (np.diff(model.alphas_) < 0).all(), "alphas_ fall"
        assert model.alpha_ in model.alphas_, "alpha_ is one of alphas_"
        assert model.selection_risks_.shape[-1] == len(model.alphas_)
    if hasattr(model, "out_of_fold_scores_"):
        assert model.out_of_fold_scores_.shape == (n_rows,), "one score by a model without the bag"
    if hasattr(model, "bag_errors_"):
        assert model.bag_errors_.shape[-1] == len(model.gammas_), "widths come last in bag_errors_"


def _check_expansion(model: Any, X: Any) -> None:
    """f(x) = Σ_j α_j k(x, z_j) + b with public parts, for all kernel models."""
    if hasattr(model, "coef_"):
        np.testing.assert_allclose(
            X @ model.coef_[0] + model.intercept_[0], model.decision_function(X), atol=1e-6
        )
    if hasattr(model, "dual_coef_"):
        expanded = model.kernel_.expand(X, model.points_, model.dual_coef_)
        np.testing.assert_allclose(
            expanded[0] + model.intercept_[0], model.decision_function(X), atol=1e-6
        )
