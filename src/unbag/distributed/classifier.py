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

from unbag.distributed.backend import DistributedBackend, make_data
from unbag.distributed.instances import (
    CheckX,
    Description,
    RemoteRows,
    describe,
    join_descriptions,
    join_instances,
    read_instances,
)
from unbag.distributed.partitions import (
    Partitions,
    is_dask,
    is_frame,
    map_rows,
    partitions_of,
    share,
    should_keep,
)
from unbag.distributed.table import BagsById, make_table
from unbag.models.base import check_instances
from unbag.models.linear import LLPLinearClassifier
from unbag.models.minimising import check_on_partitions, functions_for, make_goal, train
from unbag.weights import check_contrast


class DistributedClassifier:
    """Trains a linear or kernel classifier on Dask arrays and data frames.

    The data stay where they are. A pass over them collects one entry for every bag, from which
    weights and folds are made here; workers then sum losses and gradients over their instances.
    Bags may span partitions. The result is that of the same classifier on the same rows in
    memory, up to rounding, however the rows are partitioned, and is an ordinary classifier
    (`to_local`).

    All computations are in double precision. A Dask scheduler is used if one is set up (as with
    ``dask.distributed.Client``), and else the threads of this process: then data are read
    partition by partition, and need not fit into memory. This is no scikit-learn estimator itself,
    since scikit-learn's tools split arrays in memory.

    Parameters
    ----------
    estimator : classifier, optional
        `unbag.LLPLinearClassifier` (the default), `unbag.LLPKernelClassifier` or their CV forms.
        Kernels are approximated: ``approximation="auto"`` stands for "nystroem". ``cv`` is a whole
        number or a `unbag.BagKFold`.
    persist : {"auto", True, False}, default="auto"
        Whether workers keep the instances in memory, or read them anew in every pass. "auto" keeps
        them if they take at most 40% of the memory of all workers.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier. ``out_of_fold_scores_`` of the CV forms is None.

    Examples
    --------
    >>> import dask.array as da
    >>> from unbag import LLPLinearClassifierCV
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.distributed import DistributedClassifier
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> X, y = da.from_array(data.X, chunks=(400, -1)), da.from_array(data.y, chunks=400)
    >>> model = DistributedClassifier(LLPLinearClassifierCV()).fit(X, y)
    >>> predicted = model.predict(X)
    >>> predicted.numblocks
    (4,)
    >>> bool((predicted.compute() == data.labels).mean() > 0.8)
    True
    """

    def __init__(self, estimator: Any = None, *, persist: bool | str = "auto") -> None:
        self.estimator = estimator
        self.persist = persist

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
        estimator = LLPLinearClassifier() if self.estimator is None else self.estimator
        check_on_partitions(estimator)
        estimator = clone(estimator)
        collections, check, description, table = read_collections(estimator, X, y, example_of(X))
        bags = table.bags
        goal = make_goal(estimator, bags)
        instances = collections.map(read_instances, check, share(table))
        kept = should_keep(self.persist, description.n_bytes)
        if kept:
            instances = instances.grouped(join_instances).keep()
        rows = RemoteRows(collections, check, description, estimator.n_features_in_)
        functions = functions_for(estimator, goal, bags).on_partitions()
        basis = functions.basis(rows, goal.free_intercept)
        data, space = make_data(instances, basis, goal.loss, goal.n_outputs(bags), kept)
        nobody = np.zeros((0, bags.n_bags), dtype=bool)
        solver = (estimator.tol, int(estimator.max_iter), estimator.verbose)
        backend = DistributedBackend(data, space, table, nobody, *solver)
        train(estimator, backend, goal, basis)
        self.estimator_ = estimator
        return self

    def to_local(self) -> Any:
        """Return the ordinary classifier that was fitted, to be saved or reported on.

        Returns
        -------
        estimator : classifier
            ``estimator_``.
        """
        if not hasattr(self, "estimator_"):
            raise NotFittedError("This DistributedClassifier is not fitted yet; call fit first.")
        return self.estimator_

    def decision_function(self, X: Any) -> Any:
        """Scores of instances: a Dask array for a Dask collection, to be computed when needed.

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
        """Chance of each class, as a Dask array for a Dask collection.

        Parameters
        ----------
        X : Dask array or data frame, or array-like, of n_instances rows
            Instances, one per row.
        class_prior : {"empirical", "balanced"} or array-like, optional
            Shares of the classes where the model is used; by default those it was trained for.

        Returns
        -------
        chances : Dask array or ndarray of shape (n_instances, n_classes)
            Chance of each class.
        """
        like = np.empty((0, len(self.to_local().classes_)))
        return self._by_row("predict_proba", X, like, class_prior=class_prior)

    def _by_row(self, method: str, X: Any, like: NDArray[Any], **options: Any) -> Any:
        answer = partial(getattr(self.to_local(), method), **options)
        return map_rows(partial(_unless_empty, answer, like), X, like) if is_dask(X) else answer(X)


def _unless_empty(answer: Callable[[Any], Any], like: NDArray[Any], X: Any) -> Any:
    """Answer for the rows of a partition, of which there may be none."""
    return answer(X) if len(X) else like


def read_collections(
    estimator: Any, X: Any, y: Any, example: Any
) -> tuple[Partitions, CheckX, Description, BagsById]:
    """Look through all partitions once; the estimator learns its columns and classes.

    Returns
    -------
    collections : Partitions
        Of X and y.
    check : callable
        By which workers check their rows of X.
    description : Description
        Of all rows.
    table : BagsById
        Of all bags.
    """
    collections = partitions_of(X, y)
    check_instances(estimator, example, reset=True)
    check = partial(check_instances, copy(estimator), reset=False)
    description = collections.reduce(describe, join_descriptions, check)
    table = make_table(description.bags)
    check_contrast(table.bags)
    estimator.classes_, estimator.empirical_prior_ = table.bags.classes, table.bags.class_shares
    return collections, check, description, table


def example_of(X: Any) -> Any:
    """One row with the columns of a Dask collection."""
    if is_frame(X):
        return X._meta.reindex([0]).fillna(0).astype(float)
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(f"X must have two dimensions and a known width; its shape is {X.shape}.")
    return np.zeros((1, X.shape[1]))
