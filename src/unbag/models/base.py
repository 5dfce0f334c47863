"""What all classifiers trained from bags have in common: they check data and predict by scores."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from unbag._arrays import Floats
from unbag._outputs import by_instance, by_output, scores_of_all
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.groupings import Groupings
from unbag.bags.labels import fields_of
from unbag.bags.priors import adjust_probabilities, prior_offset, resolve_class_prior
from unbag.evaluation.measures import Cost, make_sample
from unbag.evaluation.scorers import mean_log_likelihood
from unbag.terms.encoding import as_frame, is_sparse
from unbag.weights import check_contrast

Target = TypeVar("Target", Bags, Groupings)

_PRECISIONS = (np.float64, np.float32)

# What NumPy says of text among numbers.
_NO_NUMBER = re.compile(r"could not convert string to float: (?:np\.str_\()?(['\"].*['\"])\)?")

# Rows of a block: its numbers fit into cache-friendly tens of megabytes.
_ROWS = 1024


class BagClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Checks and predictions; a model adds its fit and its scores."""

    classes_: NDArray[Any]
    empirical_prior_: Floats
    class_prior_: Floats

    _accept_sparse: bool | str = False

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to instances and the proportions of their bags.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_instances, n_features)
            Instances, one per row; sparse only if the model takes that.
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; plain labels are pure bags.

        Returns
        -------
        self : estimator
            The fitted model.
        """

    @abstractmethod
    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores (n_outputs, n_instances) of new instances."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # what an evaluation after the fit needs of every row is not part of the model
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "out_of_fold_scores_"}

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        X = self._validate(X, reset, ensure_all_finite=False)
        self._check_finite(X)
        return X

    def _validate(self, X: Any, reset: bool, *, dtype: Any = _PRECISIONS, **how: Any) -> Any:
        """Validate X as scikit-learn does, and say what makes numbers of text and dates."""
        as_frame(X)  # a lazy one is refused
        if fields_of(X) or (isinstance(X, Mapping) and not is_sparse(X)):
            what = "the target of bag_target" if fields_of(X) else f"a {type(X).__name__}"
            raise ValueError(
                f"X is {what}; give an array or a data frame with a row for each instance."
            )
        how = {"dtype": dtype, "accept_sparse": self._accept_sparse, **how}
        try:
            found = validate_data(self, X, reset=reset, **how)
            return found.astype(float) if found.dtype == object else found
        except (ValueError, TypeError) as error:
            text = _NO_NUMBER.fullmatch(str(error))
            if text is None and "DateTime64" not in str(error):
                raise
            held = "dates or times" if text is None else f"the text {text[1]}"
            name = type(self).__name__
            raise ValueError(
                f"X holds {held}, and {name} takes numbers only; for columns of any kind "
                f"use make_pipeline(unbag.tables.features.make_features(), {name}())."
            ) from None

    def _check_finite(self, X: Any) -> None:
        values = X.data if is_sparse(X) else X
        # a finite sum is the rule, and much cheaper than looking at every entry
        if np.isfinite(np.sum(values, dtype=np.float64)) or np.isfinite(values).all():
            return
        row, *rest = np.argwhere(~np.isfinite(values))[0]
        column = rest[0] if rest else X.tocoo().col[row]
        row = row if rest else X.tocoo().row[row]
        names = getattr(self, "feature_names_in_", None)
        name = int(column) if names is None else repr(str(names[column]))
        raise ValueError(
            f"X holds NaN or infinity, first in row {row + 1}, column {name}; fill such values in "
            "or leave these rows out."
        )

    def _check_Xy(self, X: Any, y: Any) -> tuple[Any, Bags]:
        return self._check_both(X, y, check_bag_target, check_contrast)

    def _check_both(
        self, X: Any, y: Any, read: Callable[[Any], Target], check: Callable[[Target], None]
    ) -> tuple[Any, Target]:
        """Check X and y, which is read and checked by the kind of target it is."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = self._check_X(X, reset=True)
        target = read(y)
        n_rows = _num_samples(X)
        if n_rows != target.n_instances:
            raise ValueError(
                f"X has {n_rows} rows but y has {target.n_instances}: inconsistent lengths."
            )
        check(target)
        self.classes_, self.empirical_prior_ = target.class_names, target.class_shares
        if isinstance(target, Bags):
            target.warn_of_noise()
        return X, target

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of instances: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances, one per row; a sparse matrix if the model is fitted to one.

        Returns
        -------
        scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
            For two classes one score, above 0 for the second; for more, one column per class.
        """
        check_is_fitted(self)
        return by_instance(self._scores(self._check_X(X, reset=False)))

    def _at_prior(self, probabilities: Floats, class_prior: Any) -> Floats:
        """Probabilities at another class prior; None leaves them at ``class_prior_``."""
        if class_prior is None:
            return probabilities
        wanted = resolve_class_prior(class_prior, self.empirical_prior_)
        return adjust_probabilities(probabilities, self.class_prior_, wanted)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each instance: that of the largest score, or of the sign of a single one.

        Parameters
        ----------
        X : as in `decision_function`

        Returns
        -------
        labels : ndarray of shape (n_instances,)
            One of ``classes_`` for each instance.
        """
        scores = self.decision_function(X)
        number = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[number]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Balanced accuracy estimated from bags alone; on plain labels, the accuracy.

        Parameters
        ----------
        X : as in `decision_function`
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; or true labels, to score by.
        sample_weight : array-like of shape (n_instances,), optional
            Weights of the instances, for plain labels only.

        Returns
        -------
        score : float
            Balanced accuracy for bags, accuracy for labels; the larger, the better.
        """
        if self._scored_by_labels(y, sample_weight):
            return float(super().score(X, y, sample_weight))
        sample = make_sample(y, self.decision_function(X), trusted=True)
        return Cost(complement=True).value(sample)

    def _scored_by_labels(self, y: Any, sample_weight: Any) -> bool:
        if fields_of(y) and sample_weight is not None:
            raise ValueError(
                "sample_weight cannot be used with bags, whose counts are those of all their rows; "
                "set class_prior for classes that are more or less common elsewhere."
            )
        return not fields_of(y)


class LogOddsClassifier(BagClassifier):
    """A classifier whose scores are log-odds at ``class_prior_``."""

    @property
    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    @property
    def _prior_offset(self) -> Floats:
        """What is added to scores at the empirical class prior."""
        return prior_offset(self.empirical_prior_, self.class_prior_)

    def predict_proba(self, X: Any, class_prior: Any = None) -> Floats:
        """Probability of each class.

        Parameters
        ----------
        X : as in `decision_function`
        class_prior : {"empirical", "balanced"} or array-like, optional
            Class prior where the model is used; by default the one it was trained for,
            ``class_prior_``.

        Returns
        -------
        probabilities : ndarray of shape (n_instances, n_classes)
            Probability of each class, in the order of ``classes_``.
        """
        scores = scores_of_all(by_output(self.decision_function(X)))
        return self._at_prior(softmax(scores.T, axis=1), class_prior)

    def predict_log_proba(self, X: Any, class_prior: Any = None) -> Floats:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X, class_prior : as in `predict_proba`

        Returns
        -------
        log_probabilities : ndarray of shape (n_instances, n_classes)
            One column per class, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, class_prior))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Log-likelihood of the counts of bags per row; on plain labels, the accuracy.

        It is valid under label shift and under covariate shift, and what cross-validation scores
        without ``scoring``.

        Parameters
        ----------
        X : as in `decision_function`
        y : structured array from `unbag.bag_target`, or plain labels
            The bag of each instance and its proportions; or true labels, to score by.
        sample_weight : array-like of shape (n_instances,), optional
            Weights of the instances, for plain labels only.

        Returns
        -------
        score : float
            The larger, the better.
        """
        if self._scored_by_labels(y, sample_weight):
            return float(ClassifierMixin.score(self, X, y, sample_weight))
        scores = by_output(self.decision_function(X)) - self._prior_offset[:, None]
        return mean_log_likelihood(check_bag_target(y), by_instance(scores))


def row_blocks(n: int, size: int = _ROWS) -> list[slice]:
    """Cut n rows into blocks that are computed one after the other."""
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def linear_scores(X: Any, coef: Floats, intercept: Floats) -> Floats:
    """Scores xᵀw + b (n_outputs, n_instances), in double precision.

    Row by row: how BLAS rounds a row depends on how many others come with it, so that scores
    would depend on the chunks in which a table is read.
    """
    w = np.asarray(coef, dtype=float)
    if is_sparse(X):
        return (X @ w.T + intercept).T
    blocks = (np.ascontiguousarray(X[rows], dtype=float) for rows in row_blocks(X.shape[0]))
    parts = [np.einsum("ij,kj->ki", block, w) for block in blocks]
    return np.concatenate(parts, axis=1) + np.asarray(intercept)[:, None]


def check_instances(estimator: BagClassifier, X: Any, *, reset: bool) -> Any:
    """Check X as an estimator does, which learns its columns if ``reset``."""
    return estimator._check_X(X, reset=reset)
