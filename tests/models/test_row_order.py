"""Many rows are trained bag after bag, and nobody can tell."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from unbag import LLPLinearClassifierCV, bag_target
from unbag.bags.bags import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models import row_order
from unbag.models.row_order import order_by_bag

DATA = make_gaussian_bags(n_bags=24, bag_size=12, random_state=3)
MIXED = np.random.default_rng(0).permutation(len(DATA.labels))


def test_bags_lie_together_and_pure_ones_come_last(monkeypatch):
    monkeypatch.setattr(row_order, "_ROWS_IN_CACHE", 0)
    y = DATA.y[MIXED].copy()
    y["proportion"][y["bag"] == y["bag"][0]] = 1.0
    bags = check_bag_target(y)
    for X in (DATA.X[MIXED], csr_matrix(DATA.X[MIXED])):
        order = order_by_bag(X, bags)
        index = order.arrange(bags.index)
        assert (np.diff(index) != 0).sum() == bags.n_bags - 1
        assert bags.proportions[index[-1]].max() == 1
        np.testing.assert_array_equal(order.restore(index), bags.index)


def test_rows_that_lie_bag_after_bag_are_not_copied(monkeypatch):
    monkeypatch.setattr(row_order, "_ROWS_IN_CACHE", 0)
    y = DATA.y[::-1].copy()
    y["proportion"][y["bag"] == y["bag"][0]] = 1.0
    assert order_by_bag(DATA.X, check_bag_target(y)).places is None


def test_few_rows_and_too_many_stay_where_they_are(monkeypatch):
    bags = check_bag_target(DATA.y)
    assert order_by_bag(DATA.X, bags).places is None
    monkeypatch.setattr(row_order, "_ROWS_IN_CACHE", 0)
    monkeypatch.setattr(row_order, "_LARGEST_COPY", DATA.X.nbytes - 1)
    assert order_by_bag(DATA.X, bags).places is None


@pytest.mark.parametrize("labelled", [False, True])
def test_models_and_what_they_say_of_rows_are_the_same(labelled, monkeypatch):
    model = LLPLinearClassifierCV(alphas=[0.1, 0.01], store_folds=True)
    X, y = DATA.X[MIXED], DATA.y[MIXED]
    fold = y["bag"] % 3
    if labelled:  # which folds may divide
        known = np.where(np.arange(len(y)) < 9, DATA.labels[MIXED].astype(float), np.nan)
        y = bag_target(y["bag"], y["proportion"], labels=known)
        fold[:9] = np.arange(9) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    model.set_params(cv=splits)
    found = []
    for fewest in (10**9, 0):
        monkeypatch.setattr(row_order, "_ROWS_IN_CACHE", fewest)
        model.fit(X, y)
        found.append((model.decision_function(X), model.out_of_fold_scores_, model.folds_))
    (one, held_out, folds), (other, held_out_too, folds_too) = found
    np.testing.assert_allclose(other, one, atol=1e-6)
    np.testing.assert_allclose(held_out_too, held_out, atol=1e-6)
    np.testing.assert_array_equal(folds_too.fold, folds.fold)
    np.testing.assert_allclose(folds_too.scores, folds.scores, atol=1e-5)
