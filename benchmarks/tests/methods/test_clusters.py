"""Clusters whose probabilities fit the bags."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag_bench.methods import ClusterClassifier
from unbag_bench.methods.clusters import cluster_probabilities


def make_clusters(n_bags=20, size=40, n_clusters=3, random_state=0):
    """Bags whose rows are in clusters, and the clusters in bags in different shares."""
    rng = np.random.default_rng(random_state)
    bag = np.repeat(np.arange(n_bags), size)
    shares = rng.dirichlet(np.ones(n_clusters), size=n_bags)
    cluster = np.concatenate([rng.choice(n_clusters, size, p=share) for share in shares])
    return bag, cluster, rng


def test_probabilities_are_those_of_bounded_least_squares():
    bag, cluster, rng = make_clusters()
    share = rng.uniform(size=20)
    bags = check_bag_target(bag_target(bag, share[bag]))
    M = np.stack([np.bincount(cluster[bag == b], minlength=3) / 40 for b in range(20)])
    expected = lsq_linear(M, share, bounds=(0, 1), tol=1e-12).x
    found = cluster_probabilities(bags, cluster, 3)
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_bags_made_of_pure_clusters_are_told_apart():
    bag, cluster, _ = make_clusters(n_clusters=4)
    labels = np.array([0, 1, 2, 1])[cluster]
    shares = np.stack([np.bincount(labels[bag == b], minlength=3) / 40 for b in range(20)])
    found = cluster_probabilities(check_bag_target(bag_target(bag, shares[bag])), cluster, 4)
    np.testing.assert_allclose(found, np.eye(3)[[0, 1, 2, 1]], atol=1e-3)


def test_labels_give_the_shares_of_classes_in_clusters():
    rng = np.random.default_rng(0)
    cluster, labels = rng.integers(0, 3, size=500), rng.integers(0, 2, size=500)
    found = cluster_probabilities(check_bag_target(labels), cluster, 3)
    expected = [labels[cluster == k].mean() for k in range(3)]
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-3)


def test_number_of_clusters_is_that_of_least_error():
    data = make_gaussian_bags(n_bags=30, bag_size=30, random_state=0)
    model = ClusterClassifier((2, 10), cv=3).fit(data.X, data.y)
    alone = [ClusterClassifier((k,), cv=3).fit(data.X, data.y).cluster_errors_[0] for k in (2, 10)]
    np.testing.assert_allclose(model.cluster_errors_, alone)
    assert model.n_clusters_ == (2, 10)[int(np.argmin(alone))]
    assert (model.predict(data.X) == data.labels).mean() > 0.8


def test_three_classes():
    data = make_gaussian_bags(n_bags=40, bag_size=12, n_classes=3, separation=4.0, random_state=0)
    model = ClusterClassifier((6,), cv=2).fit(data.X, data.y)
    assert (model.predict(data.X) == data.labels).mean() > 0.75


def test_numbers_of_clusters_must_be_numbers():
    data = make_gaussian_bags(n_bags=6, bag_size=5, random_state=0)
    with pytest.raises(ValueError, match="n_clusters must be a list of positive numbers"):
        ClusterClassifier("many").fit(data.X, data.y)
