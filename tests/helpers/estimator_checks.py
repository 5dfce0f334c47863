"""What every estimator that is trained from bags must satisfy."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

import unbag
from unbag._outputs import by_output
from unbag.bags.bags import Bags, check_bag_target
from unbag.datasets import make_gaussian_bags


def all_estimators() -> list[tuple[str, type[BaseEstimator]]]:
    """Every public estimator of the package by name, in the order of names."""
    found = {}
    for module_info in walk_packages(unbag.__path__, "unbag."):
        module = import_module(module_info.name)
        for name, item in inspect.getmembers(module, inspect.isclass):
            public = not name.startswith("_") and item.__module__.startswith("unbag.")
            if public and issubclass(item, BaseEstimator) and not inspect.isabstract(item):
                found[name] = item
    return sorted(found.items())


def check_bag_classifier(estimator: Any) -> None:
    """Check the attributes and predictions of a classifier trained from bags.

    What scikit-learn asks of any estimator is checked by
    ``sklearn.utils.estimator_checks.check_estimator``. This is what bags add: the shares of classes
    that were learned from and that probabilities are for, classes that agree with scores and with
    probabilities, choices that are among what was tried, scores of bags that were held out,
    bag effects, posteriors that add up to counts, linear and kernel expansions. An
    AssertionError says what is broken.
    Clones are fitted to 24 small bags of two classes, and of three if it takes them.
    """
    assert estimator.get_params().get("random_state", 0) == 0, "random_state is 0 by default"
    several = get_tags(estimator).classifier_tags.multi_class
    for n_classes in (2, 3) if several else (2,):
        data = make_gaussian_bags(24, 15, n_classes=n_classes, n_features=3, random_state=0)
        model, bags = clone(estimator).fit(data.X, data.y), check_bag_target(data.y)
        np.testing.assert_array_equal(model.classes_, bags.classes)
        np.testing.assert_allclose(
            model.empirical_prior_,
            bags.class_shares,
            atol=1e-9,
            err_msg="empirical_prior_ are those of all instances",
        )
        scores = model.decision_function(data.X)
        shape = (len(data.X),) if n_classes == 2 else (len(data.X), n_classes)
        assert scores.shape == shape, "two classes have one score, several have one each"
        _check_predictions(model, data.X, scores)
        _check_search(model, shape)
        _check_effects(model, bags, shape)
        _check_expansion(model, data.X, by_output(scores))


def _check_predictions(model: Any, X: Any, scores: Any) -> None:
    number = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[number], err_msg="predict gives the class of the score"
    )
    if not hasattr(model, "predict_proba"):
        assert not hasattr(model, "class_prior_"), "class_prior_ is what probabilities are for"
        return
    probabilities = model.predict_proba(X)
    np.testing.assert_array_equal(
        model.predict(X),
        model.classes_[probabilities.argmax(axis=1)],
        err_msg="predict gives the class of the largest probability",
    )
    if scores.ndim == 1:
        order = np.argsort(scores)
        assert (np.diff(probabilities[order, 1]) >= -1e-12).all(), "probabilities rise with scores"
    prior, n_classes = model.class_prior_, len(model.classes_)
    assert prior.shape == (n_classes,), "class_prior_ has one share per class"
    assert abs(prior.sum() - 1) < 1e-9, "class_prior_ sums to one"
    even, uneven = np.full(n_classes, 1 / n_classes), np.arange(n_classes, 0, -1.0)
    wanted: list[tuple[Any, Any]] = [(prior, prior), (uneven / uneven.sum(),) * 2]
    for asked, meant in (*wanted, ("balanced", even), ("empirical", model.empirical_prior_)):
        # Bayes: odds change by the ratio of the priors
        moved = probabilities * meant / prior
        np.testing.assert_allclose(
            model.predict_proba(X, class_prior=asked),
            moved / moved.sum(axis=1, keepdims=True),
            atol=1e-9,
            err_msg="class_prior shifts probabilities by Bayes' rule",
        )


def _check_search(model: Any, shape: tuple[int, ...]) -> None:
    assert isinstance(getattr(model, "n_iter_", 1), int), "n_iter_ is a number of iterations"
    assert isinstance(getattr(model, "converged_", True), bool), "converged_ is True or False"
    for name, tried in vars(model).items():
        chosen = f"{name.removesuffix('s_')}_"
        if name.endswith("s_") and hasattr(model, chosen):
            assert getattr(model, chosen) in tried, f"{chosen} is one of {name}"
    if hasattr(model, "alphas_"):
        assert (np.diff(model.alphas_) < 0).all(), "alphas_ fall"
        assert model.selection_risks_.shape[-1] == len(model.alphas_), "alphas_ come last"
    if hasattr(model, "out_of_fold_scores_"):
        assert model.out_of_fold_scores_.shape == shape, "scores by models without the bag"
    if hasattr(model, "bag_errors_"):
        assert model.bag_errors_.shape[-1] == len(model.gammas_), "widths come last in bag_errors_"


def _check_effects(model: Any, bags: Bags, shape: tuple[int, ...]) -> None:
    """What bags differ by beyond their rows, and what their counts say of rows."""
    effect = getattr(model, "bag_effect_", 0.0)
    assert isinstance(effect, float), "bag_effect_ is one number"
    assert 0 <= effect < np.inf, "bag_effect_ is a variance"
    assert getattr(model, "dispersion_", 1.0) >= 1, "dispersion_ is a factor of variances"
    parts = [term.variance_share for term in getattr(model, "terms_", [])]
    if parts:
        np.testing.assert_allclose(sum(parts), 1, err_msg="shares of terms add up")
    if hasattr(model, "label_posteriors_"):
        found = model.label_posteriors_
        assert found.shape == shape, "two classes have one posterior, several have one each"
        shares = bags.means(by_output(found)).T
        counted = bags.proportions[:, 1:] if found.ndim == 1 else bags.proportions
        np.testing.assert_allclose(
            shares, counted, atol=1e-6, err_msg="posteriors add up to the counts of bags"
        )


def _check_expansion(model: Any, X: Any, scores: Any) -> None:
    """f(x) = xᵀw + b, or Σ_j α_j k(x, z_j) + b, with public parts: one row per score."""
    parts = {}
    # coefficients of a mixed model belong to the columns that its terms make
    if hasattr(model, "coef_") and not hasattr(model, "terms_"):
        parts["coef_"] = model.coef_ @ X.T
    if hasattr(model, "dual_coef_"):
        parts["dual_coef_"] = model.kernel_.expand(X, model.points_, model.dual_coef_)
    for name, expanded in parts.items():
        np.testing.assert_allclose(
            expanded + model.intercept_[:, None],
            scores,
            atol=1e-6,
            err_msg=f"{name} and intercept_ make the scores",
        )
