"""Clusters first, classes later: k-means, and the probabilities of clusters that fit the bags best.

Clustering sees no proportions. With M_bk the share of cluster k in bag b, the bags then tell the
probabilities of the classes in every cluster,

    minimise Σ_b n_b |γ_b − Σ_k M_bk μ_k|² + r Σ_k |μ_k − q|²,    μ_k a distribution over classes,

where the small r settles what bags leave open. An instance has the probabilities of its cluster. That is
the idea of Chen et al. (2009) and of Stolpe and Morik (2011), who search weights of features by an
evolutionary algorithm as well; here held-out bags choose the number of clusters.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.optimize import nnls
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from unbag._arrays import Floats, Ints
from unbag._checks import check_count, check_grid, check_positive
from unbag.bags.bags import Bags
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.base import LogOddsClassifier

# r, in rows; and what probabilities must sum to one by.
_RIDGE = 1e-2
_SUM_WEIGHT = 1e3

# Probabilities of 0 and 1 have no odds.
_SMALLEST_PROBABILITY = 1e-6


class ClusterClassifier(LogOddsClassifier):
    """K-means, and the probabilities of clusters that fit the proportions of bags best.

    Parameters
    ----------
    n_clusters : tuple of int or int, default=(2, 5, 10, 20, 40)
        Numbers of clusters to choose from, by the error of held-out bags.
    cv : int, splitter or iterable, default=5
        An integer means that many folds of `unbag.BagKFold`. A fold that holds out part of a
        bag is an error.
    tol : float, default=1e-4
        When ``sklearn.cluster.KMeans`` has converged.
    max_iter : int, default=300
        Iterations of k-means, at most.
    random_state : int, RandomState or None, default=0
        Seed of the first centres.

    Attributes
    ----------
    clusters_ : KMeans
        The clusters.
    probabilities_ : ndarray of shape (n_clusters, n_classes)
        Probability of each class in each cluster, at ``class_prior_``.
    n_clusters_ : int
        The number that was chosen.
    cluster_errors_ : ndarray of shape (numbers,)
        Σ_b (n_b/N) ½Σ_c |p̂_bc − γ_bc| of held-out bags, for rising numbers of clusters.
    n_iter_ : int
        Iterations of k-means.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    empirical_prior_ : ndarray of shape (n_classes,)
        Share of each class in all bags together.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> from unbag_bench.methods import ClusterClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, bag_size=50, random_state=0)
    >>> model = ClusterClassifier().fit(data.X, data.y)
    >>> bool((model.predict(data.X) == data.labels).mean() > 0.8)
    True
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        n_clusters: Any = (2, 5, 10, 20, 40),
        *,
        cv: Any = 5,
        tol: float = 1e-4,
        max_iter: int = 300,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Find clusters, and the probabilities of classes in them."""
        X, bags = self._check_Xy(X, y)
        grid = check_grid(np.atleast_1d(self.n_clusters), "n_clusters")
        numbers = np.unique(np.minimum(grid, X.shape[0]))
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self.class_prior_ = bags.class_shares
        cut, held = cut_by_folds(bags, check_cv(self.cv, X, np.asarray(y)))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        found = []
        for number in numbers.astype(int).tolist():
            clusters = self._cluster(X, number, seed)
            cluster = clusters.predict(X)
            errors = [_held_out_error(cut, out, cluster, number) for out in held]
            found.append((float(np.sum(errors)), number, clusters, cluster))
        self.cluster_errors_ = np.array([error for error, *_ in found])
        _, self.n_clusters_, self.clusters_, cluster = min(found, key=lambda one: one[:2])
        self.n_iter_ = int(self.clusters_.n_iter_)
        self.probabilities_ = cluster_probabilities(bags, cluster, self.n_clusters_)
        return self

    def _cluster(self, X: Any, number: int, seed: int) -> KMeans:
        # centres are drawn by the place of rows, which should not depend on how these come
        order = np.argsort(X @ np.random.default_rng(seed).normal(size=X.shape[1]), kind="stable")
        means = KMeans(
            number, n_init=1, tol=self.tol, max_iter=int(self.max_iter), random_state=seed
        )
        return means.fit(X[order])

    def _scores(self, X: Any) -> Floats:
        logs = np.log(np.maximum(self.probabilities_, _SMALLEST_PROBABILITY))
        scores = logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs
        X = X.astype(self.clusters_.cluster_centers_.dtype, copy=False)
        return scores[self.clusters_.predict(X)].T


def cluster_probabilities(bags: Bags, cluster: Ints, n_clusters: int) -> Floats:
    """Probabilities μ of classes (n_clusters, n_classes) that fit the proportions of bags best."""
    units = bags.with_labelled_rows_apart()[0]
    M, C = _shares(units, cluster, n_clusters), bags.n_classes
    weighed = units.sizes[:, None] * M
    normal = weighed.T @ M + _RIDGE * np.eye(n_clusters)
    aim = weighed.T @ units.clipped_proportions + _RIDGE * bags.class_shares
    root = np.linalg.cholesky(normal)
    # all classes at once, that probabilities can be made to sum to one
    lines = np.kron(np.eye(C), root.T)
    right = np.linalg.solve(root, aim).T.reshape(-1)
    weight = _SUM_WEIGHT * np.sqrt(np.trace(normal) / n_clusters)
    sums = np.kron(np.ones((1, C)), weight * np.eye(n_clusters))
    found = nnls(np.vstack([lines, sums]), np.append(right, np.full(n_clusters, weight)))[0]
    probabilities: Floats = found.reshape(C, n_clusters).T
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def _held_out_error(bags: Bags, out: Any, cluster: Ints, n_clusters: int) -> float:
    """Part of the mean error of proportions that the bags of a fold have."""
    kept, rows = bags.take(~out)
    probabilities = cluster_probabilities(kept, cluster[rows], n_clusters)
    others, rows = bags.take(out)
    off = _shares(others, cluster[rows], n_clusters) @ probabilities - others.clipped_proportions
    return float(others.sizes @ np.abs(off).sum(axis=1) / 2 / bags.sizes.sum())


def _shares(bags: Bags, cluster: Ints, n_clusters: int) -> Floats:
    """M: share of each cluster in each bag."""
    return bags.tally(cluster, n_clusters) / bags.sizes[:, None]
