"""Training an ordinary classifier on Dask collections."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unbag.distributed.likelihood import (
    DistributedLikelihood,
    DistributedRows,
    encode_part,
    fit_encoder,
    make_likelihood,
)
from unbag.distributed.partitions import (
    Partitions,
    is_dask,
    is_frame,
    map_rows,
    memory_limits,
    partitions_of,
    share,
)
from unbag.distributed.whole_bags import bags_of, bring_some_bags, bring_together
from unbag.models.base import check_instances
from unbag.models.likelihoods import with_class_prior
from unbag.models.mixed import LLPClassifier, fit_to_rows
from unbag.models.newton import Likelihood
from unbag.terms.columns import Term
from unbag.terms.design import n_dense_columns
from unbag.terms.encoding import TableEncoder
from unbag.weights import check_contrast

# Of the memory of all workers, what data kept between passes may take.
_KEPT_SHARE = 0.4


class DistributedClassifier:
    """Train a classifier on Dask arrays and data frames.

    The mixed model is trained on all rows, which stay on the workers. Where the rows of a bag lie in
    several partitions they are brought together once. Workers then add up what their bags
    contribute to the likelihood, its gradient and its information; these sums and coefficients are
    what travels. The result is that of the same classifier on the same rows in memory, up to
    rounding, and is an ordinary classifier (`to_local`).

    Other classifiers are trained in this process, on whole bags drawn at random (``max_rows``).

    A Dask scheduler is used if one is set up (as with ``dask.distributed.Client``), and else the
    threads of this process: then data are read partition by partition, and need not fit into memory
    if bags lie in one partition each. This is not a scikit-learn estimator itself, since scikit-learn's
    tools split arrays in memory.

    Parameters
    ----------
    estimator : classifier, optional
        `unbag.LLPClassifier` (the default), or with ``max_rows`` any other classifier of this
        package.
    persist : {"auto", True, False}, default="auto"
        Whether workers keep what they compute from rows, or read these again in every pass. "auto"
        keeps it if it takes at most 40% of the memory of all workers. What had to be moved is kept
        always.
    max_rows : int, optional
        Rows of the whole bags, drawn at random, that the classifier is trained on in this process.
    random_state : int, RandomState or None, default=0
        Draws them.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.

    Examples
    --------
    >>> import dask.array as da
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.distributed import DistributedClassifier
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> X, y = da.from_array(data.X, chunks=(400, -1)), da.from_array(data.y, chunks=400)
    >>> model = DistributedClassifier(LLPClassifier(kernel=None)).fit(X, y)
    >>> predicted = model.predict(X)
    >>> predicted.numblocks
    (4,)
    >>> bool((predicted.compute() == data.labels).mean() > 0.8)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        persist: bool | str = "auto",
        max_rows: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.persist = persist
        self.max_rows = max_rows
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"DistributedClassifier({self.estimator!r}, persist={self.persist!r})"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : Dask array or data frame of n_instances rows
            Instances, one per row.
        y : Dask array of shape (n_instances,)
            In partitions of the same rows: chunks of what `unbag.bag_target` makes, or what
            `unbag.distributed.bags_from_frame` gives.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        estimator = LLPClassifier() if self.estimator is None else clone(self.estimator)
        collections, example = partitions_of(X, y), example_of(X)
        if self.max_rows is not None:
            some = bring_some_bags(collections, self.max_rows, self.random_state)
            self.estimator_ = estimator.fit(*some)
            return self
        if not isinstance(estimator, LLPClassifier):
            raise ValueError(
                f"Only LLPClassifier is trained on all rows of Dask collections; give max_rows=... "
                f"to train {type(estimator).__name__} on whole bags of so many rows, drawn at "
                "random, in this process."
            )
        check_instances(estimator, example, reset=True)
        self._train(estimator, collections, None if is_frame(X) else TableEncoder().fit(example))
        self.estimator_ = estimator
        return self

    def _train(
        self, estimator: LLPClassifier, collections: Partitions, encoder: TableEncoder | None
    ) -> None:
        check = partial(_check_rows, copy(estimator))
        parts, summary = bring_together(collections)
        bags = bags_of(summary)
        check_contrast(bags)
        estimator.classes_, estimator.empirical_prior_ = bags.class_names, bags.class_shares
        encoder = encoder or parts.reduce(fit_encoder, TableEncoder.join, check)
        encoded = parts.map(encode_part, check, share(encoder))
        if self._should_keep(summary.n_bytes):
            encoded = encoded.keep()
        rows = DistributedRows(parts, encoded, check, encoder, summary, bags)

        def likelihood_of(terms: list[Term]) -> Likelihood:
            made = encoded.map(make_likelihood, share(terms))
            n_bytes = summary.n_bytes + 8 * rows.n_instances * n_dense_columns(terms)
            n_bags = int((~bags.labelled).sum())
            found = DistributedLikelihood(made, n_bags, self._should_keep(n_bytes))
            return with_class_prior(found, bags)

        fit_to_rows(estimator, encoder, rows, likelihood_of)

    def _should_keep(self, n_bytes: float) -> bool:
        if self.persist == "auto":
            return n_bytes <= _KEPT_SHARE * sum(memory_limits())
        if not isinstance(self.persist, bool):
            raise ValueError(f"persist must be True, False or 'auto', not {self.persist!r}.")
        return self.persist

    def to_local(self) -> Any:
        """Return the fitted classifier without Dask."""
        if not hasattr(self, "estimator_"):
            raise NotFittedError("This DistributedClassifier is not fitted yet; call fit first.")
        return self.estimator_

    def decision_function(self, X: Any) -> Any:
        """Log-odds of each instance, as a Dask array for a Dask collection.

        Parameters
        ----------
        X : Dask array or data frame, or array-like, of n_instances rows
            Instances, one per row.

        Returns
        -------
        scores : Dask array or ndarray of shape (n_instances,) or (n_instances, n_classes)
            For two classes one score, above 0 for the second; for more, one column per class.
        """
        n_classes = len(self.to_local().classes_)
        return self._by_row("decision_function", X, np.empty((0, n_classes)[: 1 + (n_classes > 2)]))

    def predict(self, X: Any) -> Any:
        """Class of each instance, as a Dask array for a Dask collection.

        Parameters
        ----------
        X : Dask array or data frame, or array-like, of n_instances rows
            Instances, one per row.

        Returns
        -------
        labels : Dask array or ndarray of shape (n_instances,)
            One of the classes for each instance.
        """
        return self._by_row("predict", X, self.to_local().classes_[:0])

    def predict_proba(self, X: Any, class_prior: Any = None) -> Any:
        """Probability of each class, as a Dask array for a Dask collection.

        Parameters
        ----------
        X : Dask array or data frame, or array-like, of n_instances rows
            Instances, one per row.
        class_prior : {"empirical", "balanced"} or array-like, optional
            Shares of the classes where the model is used; by default those it was trained for.

        Returns
        -------
        probabilities : Dask array or ndarray of shape (n_instances, n_classes)
            Probability of each class.
        """
        like = np.empty((0, len(self.to_local().classes_)))
        return self._by_row("predict_proba", X, like, class_prior=class_prior)

    def _by_row(self, method: str, X: Any, like: NDArray[Any], **options: Any) -> Any:
        answer = partial(getattr(self.to_local(), method), **options)
        return map_rows(partial(_unless_empty, answer, like), X, like) if is_dask(X) else answer(X)


def _check_rows(estimator: LLPClassifier, X: Any) -> Any:
    # as rows to be fitted to, by a copy: threads of a worker share the estimator
    return check_instances(copy(estimator), X, reset=True)


def _unless_empty(answer: Callable[[Any], Any], like: NDArray[Any], X: Any) -> Any:
    """Answer for the rows of a partition, of which there may be none."""
    return answer(X) if X.shape[0] else like


def example_of(X: Any) -> Any:
    """A few rows with the columns of a Dask collection."""
    if is_frame(X):
        return X._meta_nonempty
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(f"X must have two dimensions and a known width; its shape is {X.shape}.")
    return np.zeros((1, X.shape[1]))
