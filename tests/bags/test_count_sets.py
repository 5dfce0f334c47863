"""Targets whose counts are known as sets, and the cells of tables that name them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.bags.bag_table import read_cells, read_set
from unbag.bags.count_sets import expected_shares

BAG = [1] * 20 + [2] * 4


@pytest.mark.parametrize(
    ("low", "high", "parts"),
    [
        ({1: 5, 2: 3}, {1: 9, 2: 1}, ["bag 2", "empty", "3", "1"]),
        ({1: 5, 2: 5}, {1: 9, 2: None}, ["bag 2", "No count", "5"]),
        ({1: 5, 2: -5}, {1: 9, 2: -1}, ["bag 2", "No count"]),
        ({1: 1.2, 2: 0}, {1: 1.8, 2: 1}, ["bag 1", "empty"]),
        ([[0, 0, 0]] * 24, [[1, 1, 1]] * 24, ["bag 1", "contradict"]),
        ([[0]] * 24, [[1]] * 24, ["positive class", "column for each"]),
        ({1: [0, 0], 2: [0, 0]}, {1: [5, 9], 2: [4, 4]}, ["bag 1", "20 instances", "contradict"]),
    ],
)
def test_sets_that_cannot_be_are_refused(low, high, parts):
    with pytest.raises(ValueError, match=parts[0]) as error:
        bag_target(BAG, low=low, high=high)
    assert all(part in str(error.value) for part in parts)


def test_limits_of_both_classes_are_joined():
    y = bag_target(BAG, low={1: [12, 0], 2: [0, 1]}, high={1: [20, 9], 2: [9, 9]})
    assert y[["low", "high"]][[0, 20]].tolist() == [(0, 8), (1, 4)]


def test_limits_may_be_shares_numbers_or_series():
    y = bag_target(BAG, low=0.5, limits="shares")
    assert y[["low", "high"]][[0, 20]].tolist() == [(10, 20), (2, 4)]
    y = bag_target(BAG, low=1, high=pd.Series({1: 9, 2: np.nan}))
    assert y[["low", "high"]][[0, 20]].tolist() == [(1, 9), (1, 4)]


def test_one_kind_of_knowledge_at_a_time():
    with pytest.raises(ValueError, match=r"counts.*low and high"):
        bag_target(BAG, counts={1: 3, 2: 1}, low=0)


def test_shares_to_be_expected_follow_the_other_bags():
    rng = np.random.default_rng(0)
    sizes = rng.integers(40, 120, 2000)
    counts = rng.binomial(sizes, rng.beta(1, 12, 2000)).astype(float)
    hidden = (counts >= 1) & (counts <= 9)
    low, high = np.where(hidden, 1, counts), np.where(hidden, 9, counts)
    shares = expected_shares(low, high, sizes)
    np.testing.assert_array_equal(shares[~hidden], (counts / sizes)[~hidden])
    mean = (counts / sizes)[hidden].mean()
    assert shares[hidden].mean() == pytest.approx(mean, rel=0.03)


def test_noisy_counts_that_are_known_stay_beyond_their_bags():
    low, high = {1: -2, 2: 1, 3: 22}, {1: -2, 2: 9, 3: 22}
    y = bag_target(np.repeat([1, 2, 3], 20), low=low, high=high, noise=2)
    np.testing.assert_allclose(y["proportion"][[0, 40]], [-0.1, 1.1])
    assert y[["low", "high"]][[0, 20]].tolist() == [(-2, -2), (1, 9)]


def test_what_cannot_use_sets_says_so():
    y = bag_target(BAG, low=1, high=3)
    with pytest.raises(ValueError, match=r"sets.*LLPClassifier"):
        check_bag_target(y)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("<10", (np.nan, 9)),
        ("≤ 4", (np.nan, 4)),
        (">=1", (1, np.nan)),
        ("> 5", (6, np.nan)),
        ("1-9", (1, 9)),
        ("10 to 19", (10, 19)),
        ("20+", (20, np.nan)),
        ("Suppressed", (np.nan, np.nan)),
    ],
)
def test_cells_that_name_sets(text, limits):
    np.testing.assert_array_equal(read_set(text), limits)


@pytest.mark.parametrize("text", ["12", "-3", "1.5-2", "", "n/a", 7, None, "2013-01-05"])
def test_cells_that_name_no_set(text):
    assert read_set(text) is None


def test_bags_with_any_positive_teach_which_rows_are_positive():
    """Multiple-instance learning: of each bag it is known whether it has any positive."""
    rng = np.random.default_rng(1)
    bag = np.repeat(np.arange(300), 8)
    X = rng.normal(size=(len(bag), 3))
    labels = rng.random(len(bag)) < 1 / (1 + np.exp(4 - 2 * X[:, 0] + X[:, 1]))
    positive = np.bincount(bag, labels) > 0
    y = bag_target(
        bag,
        low=dict(enumerate(positive * 1)),
        high={b: None if p else 0 for b, p in enumerate(positive)},
    )
    model = LLPClassifier(kernel=None).fit(X, y)
    possible = roc_auc_score(labels, X @ [2, -1, 0])
    assert roc_auc_score(labels, model.decision_function(X)) > possible - 0.005
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(labels.mean(), abs=0.02)


@pytest.mark.parametrize(("n_hidden", "advised"), [(19, True), (10, False)])
def test_totals_are_advised_where_nearly_all_counts_are_hidden(n_hidden, advised):
    (note,) = read_cells(["<10"] * n_hidden + ["12"] * (20 - n_hidden), "late", None)[1]
    assert ("larger groups" in note) == advised
