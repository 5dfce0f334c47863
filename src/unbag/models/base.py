"""What classifiers trained from bags have in common.

`BagClassifier` checks its data and turns scores into predictions. `ObjectiveClassifier` is one
that minimises an objective in score space over a function space: the model gives the space, the
objective comes from another mixin, and `FitMixin` or `SearchMixin` bring the two together.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from unbag._arrays import to_host
from unbag.bags.bags import Bags, check_bag_target
from unbag.metrics.measures import Cost
from unbag.metrics.sample import make_sample
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.search import Fits, Problems, Training, search
from unbag.objectives.base import Objective
from unbag.objectives.losses import LOSSES, ClassLoss
from unbag.solvers import FunctionSpace
from unbag.weights.decontamination import check_contrast

# Folds in which effects of bags are looked for by a fit without a search.
EFFECT_FOLDS = 5

# Half decades from 1 to 1e-5: the paper's grid, twice as fine.
DEFAULT_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(11))


class BagClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Checks and predictions; a model adds its fit and its scores."""

    _accept_sparse: bool | str = False

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to instances and the proportions of their bags."""

    @abstractmethod
    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores (n_outputs, n_instances) of new instances."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            accept_sparse=self._accept_sparse,
            ensure_all_finite=False,
        )
        self._check_finite(X)
        return X

    def _check_finite(self, X: Any) -> None:
        sparse = bool(issparse(X))
        values = X.data if sparse else X
        # a finite sum is the rule, and much cheaper than looking at every entry
        if np.isfinite(np.sum(values, dtype=np.float64)) or np.isfinite(values).all():
            return
        row, *rest = np.argwhere(~np.isfinite(values))[0]
        if sparse:
            table = X.tocoo()
            row, rest = table.row[row], [table.col[row]]
        column = rest[0]
        names = getattr(self, "feature_names_in_", None)
        name = int(column) if names is None else repr(str(names[column]))
        raise ValueError(
            f"X holds NaN or infinity, first in row {row}, column {name}; fill such values in or "
            "leave these rows out before fitting."
        )

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = self._check_X(X, reset=True)
        bags = check_bag_target(y)
        if X.shape[0] != bags.n_instances:
            raise ValueError(
                f"X has {X.shape[0]} rows but y has {bags.n_instances}: inconsistent lengths."
            )
        check_contrast(bags)
        self.classes_ = bags.classes
        return X, bags

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of instances: positive for the second class, or one column per class."""
        check_is_fitted(self)
        scores = self._scores(self._check_X(X, reset=False))
        return scores[0] if len(scores) == 1 else scores.T

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each instance: that of the largest score, or of the sign of a single one."""
        scores = self.decision_function(X)
        number = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[number]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Balanced accuracy estimated from bags alone; on plain labels, the accuracy."""
        if getattr(getattr(y, "dtype", None), "names", None) is None:
            return float(super().score(X, y, sample_weight))
        sample = make_sample(y, self.decision_function(X), trusted=True)
        return Cost(complement=True).value(sample)


def _gives_probabilities(estimator: Any) -> bool:
    loss = LOSSES.get(estimator.loss) if isinstance(estimator.loss, str) else estimator.loss
    if loss is not None and not loss.gives_probabilities:
        raise AttributeError(
            f"loss={estimator.loss!r} gives scores but no probabilities; use loss='logistic'."
        )
    return True


class ObjectiveClassifier(BagClassifier):
    """A classifier that minimises an objective over a function space."""

    loss: Any = "logistic"
    tol: Any
    max_iter: Any
    verbose: Any

    # whether it is yet to be found what keeps the same over bags, classes' look or rows' odds
    _wants_looks: bool = False

    bag_effect_: float
    class_prior_: NDArray[np.float64]
    _loss: ClassLoss

    @property
    def _free_intercept(self) -> bool:
        """Whether kernel functions get a constant that nothing penalises."""
        return False

    @abstractmethod
    def _make_space(self, X: Any, n_outputs: int) -> FunctionSpace:
        """Function space over the training instances."""

    @abstractmethod
    def _store(self, theta: NDArray[Any], n_outputs: int) -> None:
        """Keep what prediction needs of a solution."""

    @abstractmethod
    def _prepare(self, bags: Bags) -> None:
        """Check the settings, and set ``_loss`` and ``class_prior_``."""

    @abstractmethod
    def _weights(self, bags: Bags) -> NDArray[np.float64]:
        """Table of weights, one row per bag, that the objective works with."""

    @abstractmethod
    def _objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What is minimised."""

    def _criteria(self, problems: Problems, bags: Bags, like: Any) -> list[Objective]:
        """What penalties are chosen by."""
        return [self._objective(problems, bags, like)]

    def _finds_looks(self, bags: Bags, scores: NDArray[np.float64] | None) -> bool:  # noqa: ARG002
        """Whether held-out scores (outputs, instances) say that it is the look of classes."""
        return False

    @property
    def _wants_bag_effect(self) -> bool:
        """Whether effects of bags are to be looked for."""
        return False

    def _finds_bag_effect(self, bags: Bags, scores: NDArray[np.float64]) -> bool:  # noqa: ARG002
        """Whether scores (outputs, instances) show effects of bags, to be minimised with."""
        return False

    def _training(self, bags: Bags) -> Training:
        check_positive(self.tol, "tol")
        if not isinstance(self.max_iter, int | np.integer) or self.max_iter < 1:
            raise ValueError(
                f"max_iter must be a whole number of at least 1, not {self.max_iter!r}."
            )
        self._prepare(bags)
        return Training(
            make_weights=self._weights,
            make_objective=self._objective,
            make_criteria=self._criteria,
            tol=self.tol,
            max_iter=int(self.max_iter),
            verbose=self.verbose,
        )

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any, class_prior: ArrayLike | None = None) -> NDArray[np.float64]:
        """Chance of each class.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
        class_prior : array-like of shape (n_classes,), optional
            Shares of the classes where the model is used; by default those it was trained for,
            which are equal under ``class_prior="balanced"``.
        """
        scores = self.decision_function(X).astype(float)
        chance = self._loss.class_probabilities(scores)
        if class_prior is None:
            return chance
        wanted = np.asarray(class_prior, dtype=float)
        if wanted.shape != self.classes_.shape or not (wanted >= 0).all() or wanted.sum() <= 0:
            raise ValueError(
                f"class_prior must hold one share for each of the {len(self.classes_)} classes."
            )
        weighted = chance * (wanted / wanted.sum() / self.class_prior_)
        return weighted / weighted.sum(axis=1, keepdims=True)


class FitMixin(ObjectiveClassifier):
    """Fitting for one given penalty."""

    alpha: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
        y : structured array from `unbag.bag_target`, or plain labels (pure bags)
        """
        X, bags = self._check_Xy(X, y)
        check_positive(self.alpha, "alpha")
        training = self._training(bags)
        n_outputs = self._loss.n_outputs(bags.n_classes)
        space = self._make_space(X, n_outputs)
        fits, scores = self._fit_once(space, bags, training)
        # scores of rows that the model saw only raise the suspicion
        if self._wants_looks or self._finds_bag_effect(bags, scores):
            folds = min(EFFECT_FOLDS, bags.n_bags)
            cut, held = cut_by_folds(bags, check_cv(folds, X, np.asarray(y)))
            if self._learns_from_folds(space, cut, held, training):
                fits, _ = self._fit_once(space, bags, training)
        self._store(fits.theta[0], n_outputs)
        self.n_iter_ = int(max(1, fits.n_iter[0]))
        self.converged_ = bool(fits.converged[0])
        if not self.converged_:
            warn_not_converged(1, 1, self.max_iter)
        return self

    def _learns_from_folds(
        self, space: FunctionSpace, bags: Bags, held: NDArray[np.bool_], training: Training
    ) -> bool:
        """Whether bags held out show what the fit should have known."""

        def score() -> NDArray[np.float64]:
            found = search(space, bags, held, np.array([float(self.alpha)]), "pooled", training)
            return found.held_out.of_penalty(0)

        if self._wants_bag_effect:
            self.bag_effect_ = 0.0
        scores = score()
        looks = self._finds_looks(bags, scores)
        if looks and self._wants_bag_effect:
            scores = score()
        return self._finds_bag_effect(bags, scores) or looks

    def _fit_once(
        self, space: FunctionSpace, bags: Bags, training: Training
    ) -> tuple[Fits, NDArray[np.float64]]:
        """Minimise, and give the scores (outputs, instances) as well."""
        kept: list[NDArray[Any]] = []
        fits = training.solve(
            space,
            bags,
            training.whole(bags),
            np.array([float(self.alpha)]),
            np.zeros(1, dtype=np.intp),
            lambda _, scores: kept.append(to_host(scores)[0]),
        )
        return fits, kept[0].astype(float)


class SearchMixin(ObjectiveClassifier):
    """Fitting with a search over penalties."""

    alphas: Any
    cv: Any
    selection: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model for all penalties, on all bags and on each fold, and choose.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
        y : structured array from `unbag.bag_target`, or plain labels (pure bags)
        """
        X, bags = self._check_Xy(X, y)
        penalties = check_alphas(self.alphas)
        training = self._training(bags)
        bags, held = cut_by_folds(bags, check_cv(self.cv, X, np.asarray(y)))
        n_outputs = self._loss.n_outputs(bags.n_classes)
        space = self._make_space(X, n_outputs)
        found = search(space, bags, held, penalties, self.selection, training)
        once = found.held_out.once
        scores = found.held_out.of_penalty(found.best) if once else None
        if self._finds_looks(bags, scores):
            found = search(space, bags, held, penalties, self.selection, training)
        if once and self._finds_bag_effect(bags, found.held_out.of_penalty(found.best)):
            found = search(space, bags, held, penalties, self.selection, training)
        best = found.best
        self._store(found.fits.theta[best], n_outputs)
        self.alphas_, self.alpha_ = penalties, float(penalties[best])
        self.selection_risks_ = found.risks if len(found.risks) > 1 else found.risks[0]
        self.out_of_fold_scores_ = None
        if once:
            scores = found.held_out.of_penalty(best)
            self.out_of_fold_scores_ = scores[0] if n_outputs == 1 else scores.T
        self.n_iter_ = int(max(1, found.fits.n_iter[best]))
        self.converged_ = bool(found.fits.converged[best])
        if found.n_failed:
            warn_not_converged(found.n_failed, (len(held) + 1) * len(penalties), self.max_iter)
        return self


def check_positive(value: Any, name: str) -> None:
    """Refuse what is not a positive number."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number, not {value!r}.")


def check_alphas(alphas: Any) -> NDArray[np.float64]:
    """Penalties in falling order, so that of equals the strongest is chosen."""
    try:
        values = np.asarray(DEFAULT_ALPHAS if alphas is None else alphas, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values.min() <= 0:
        raise ValueError(f"alphas must be a list of positive numbers, not {alphas!r}.")
    return np.unique(values)[::-1]


def warn_not_converged(n_failed: int, n_fits: int, max_iter: int) -> None:
    """Say that fits were given up."""
    warnings.warn(
        f"{n_failed} of {n_fits} fit(s) did not converge within max_iter={max_iter} iterations; "
        "raise max_iter, or scale the features.",
        ConvergenceWarning,
        stacklevel=3,
    )
