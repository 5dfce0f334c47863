"""Likelihoods of bags in pieces are those of whole bags."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest

from unbag import (
    LLPKernelClassifierCV,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
    check_bag_target,
)
from unbag.datasets import add_count_noise, make_gaussian_bags
from unbag.distributed import DistributedClassifier
from unbag.distributed.count_pieces import count_instances, find_spanning
from unbag.distributed.count_table import make_count_table
from unbag.distributed.instances import Instances

pytestmark = pytest.mark.usefixtures("in_this_thread")

TWO = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
SMALL = make_gaussian_bags(n_bags=60, bag_size=6, n_features=3, random_state=1)
THREE = make_gaussian_bags(n_bags=16, bag_size=12, n_features=3, n_classes=3, random_state=0)
FEW_THREE = make_gaussian_bags(n_bags=12, bag_size=6, n_features=3, n_classes=3, random_state=0)
LARGE_THREE = make_gaussian_bags(n_bags=9, bag_size=20, n_features=3, n_classes=3, random_state=0)
# every step is that of the fit in memory, so that few of them show as much as many
TOL = 1e-4
FIVE = make_gaussian_bags(n_bags=16, bag_size=12, n_features=4, n_classes=5, random_state=0)


def unequal():
    """Bags of 1 to 80 rows, some of them pure, and a few rows of known label."""
    rng = np.random.default_rng(3)
    sizes = np.array([1, 2, 3, 5, 8, 15, 16, 17, 30, 80, 9, 12])
    bag = np.repeat(np.arange(len(sizes)), sizes)
    labels = (rng.random(len(bag)) < 0.4).astype(int)
    labels[bag == 4] = 0
    labels[bag == 8] = 1
    X = rng.normal(size=(len(bag), 2)) + labels[:, None]
    known = np.where(rng.random(len(bag)) < 0.05, labels, np.nan)
    counts = np.bincount(bag, labels)
    return X, bag_target(bag, counts=counts[bag], labels=known)


def fit_both(estimator, X, y, rows, mixed, **options):
    order = np.random.default_rng(0).permutation(len(y)) if mixed else np.arange(len(y))
    X, y = X[order], y[order]
    collections = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)
    distributed = DistributedClassifier(estimator, **options).fit(*collections).to_local()
    return distributed, estimator.fit(X, y), X


def assert_same(distributed, local, X):
    np.testing.assert_allclose(
        distributed.decision_function(X), local.decision_function(X), atol=1e-6
    )
    assert distributed.objective_ == local.objective_
    assert distributed.bag_effect_ == pytest.approx(local.bag_effect_, abs=1e-8)


@pytest.mark.parametrize(
    ("mixed", "effect"),
    [(False, 0), (True, 0), (True, 0.05)],
    ids=["bags at the seams", "all bags in pieces", "with an effect of bags"],
)
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (TWO.X, TWO.y),
        (SMALL.X, SMALL.y),
        unequal(),
        (THREE.X, THREE.y),
        (LARGE_THREE.X, LARGE_THREE.y),
        (FIVE.X, FIVE.y),
    ],
    ids=["large", "small", "unequal", "three classes", "large of three", "five classes"],
)
def test_same_model_as_in_memory(X, y, mixed, effect):
    estimator = LLPLinearClassifier(alpha=1e-1, bag_effect=effect, tol=TOL)
    assert_same(*fit_both(estimator, X, y, 50, mixed))


@pytest.mark.parametrize("data", [TWO, SMALL, FEW_THREE], ids=["large", "small", "three classes"])
def test_noisy_counts(data):
    y = add_count_noise(data.y, 0.7, random_state=0)
    estimator = LLPLinearClassifier(alpha=1e-1, tol=TOL)
    distributed, local, X = fit_both(estimator, data.X, y, 45, True)
    assert_same(distributed, local, X)
    assert distributed.looks_ == local.looks_ == 1


@pytest.mark.parametrize("selection", ["pooled", "folds"])
@pytest.mark.parametrize("objective", ["likelihood", "forward"])
def test_same_search(objective, selection):
    estimator = LLPLinearClassifierCV(
        [1e-1, 1e-2, 1e-3], cv=3, objective=objective, selection=selection, tol=TOL
    )
    distributed, local, X = fit_both(estimator, TWO.X, TWO.y, 100, True)
    assert_same(distributed, local, X)
    assert distributed.alpha_ == local.alpha_
    np.testing.assert_allclose(distributed.selection_risks_, local.selection_risks_, atol=1e-7)


def test_kernel_features_with_a_free_intercept():
    estimator = LLPKernelClassifierCV(
        [1e-2, 1e-3], cv=3, approximation="nystroem", n_components=20, precision="double", tol=TOL
    )
    distributed, local, X = fit_both(estimator, TWO.X, TWO.y, 100, True)
    assert_same(distributed, local, X)
    np.testing.assert_allclose(distributed.intercept_, local.intercept_, atol=1e-6)


@pytest.mark.parametrize("search", [True, False])
def test_effects_of_bags_are_found(search):
    rng = np.random.default_rng(5)
    bag = np.repeat(np.arange(60), 40)
    X = rng.normal(size=(len(bag), 2)) + rng.normal(size=60)[bag, None] * [1, 0]
    odds = X @ [1.5, 0.5] + rng.normal(scale=0.7, size=60)[bag]
    labels = rng.random(len(bag)) < 1 / (1 + np.exp(-odds))
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    estimator = LLPLinearClassifier(1e-3, tol=TOL)
    if search:
        estimator = LLPLinearClassifierCV([1e-2, 1e-3], cv=3, tol=TOL)
    distributed, local, X = fit_both(estimator, X, y, 700, True)
    assert local.bag_effect_ > 0.005
    assert_same(distributed, local, X)
    np.testing.assert_allclose(distributed.bag_effect_interval_, local.bag_effect_interval_)


def test_instances_that_are_read_anew_in_every_pass():
    estimator = LLPLinearClassifier(alpha=1e-2, tol=TOL)
    assert_same(*fit_both(estimator, SMALL.X, SMALL.y, 100, True, persist=False))


def test_only_bags_in_pieces_are_left_to_the_driver():
    bags = check_bag_target(bag_target(["a"] * 3 + ["b"] * 2 + ["c"] * 2, [1 / 3] * 3 + [0.5] * 4))
    entries = replace(bags, index=np.arange(3))
    table = make_count_table(
        entries, bags.sizes, np.ones((1, 3), dtype=bool), np.zeros((1, 1)), bag_effect=0.0
    )
    X = np.zeros((7, 1))
    first = count_instances([Instances(X[:4], bags.index[:4])], table)
    second = count_instances([Instances(X[4:], bags.index[4:])], table)
    np.testing.assert_array_equal(find_spanning(first), [1])
    np.testing.assert_array_equal(find_spanning(second), [1])
    assert [len(rows) for rows, _ in first[0].whole + second[0].whole] == [3, 2]


def test_counts_that_no_labels_can_give():
    y = bag_target(TWO.y["bag"], np.where(TWO.y["bag"] == TWO.y["bag"][0], 0.33, 0.5))
    estimator = LLPLinearClassifier(objective="likelihood")
    X = da.from_array(TWO.X, chunks=(100, -1))
    with pytest.raises(ValueError, match="which no labels can give"):
        DistributedClassifier(estimator).fit(X, da.from_array(y, chunks=100))
