"""Evaluation by the folds of a search: what nested cross-validation says, without a fit."""

import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbag import (
    BagKFold,
    LLPBoostingClassifier,
    LLPKernelClassifierCV,
    LLPLinearClassifier,
    LLPLinearClassifierCV,
    bag_target,
)
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import cross_val_evaluate, evaluate_cv

DATA = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=24, bag_size=20, n_features=3, n_classes=3, random_state=0)
SEARCHES = {
    "linear": LLPLinearClassifierCV(store_folds=True),
    "kernel": LLPKernelClassifierCV(store_folds=True, alphas=[1e-1, 1e-3]),
    "boosted": LLPBoostingClassifier((2, 4), cv=4, store_folds=True),
}


@pytest.mark.parametrize("data", [DATA, THREE], ids=["two classes", "three"])
def test_of_one_penalty_it_is_the_nested_evaluation(data):
    settings = {"tol": 1e-9, "bag_effect": 0.0}
    search = LLPLinearClassifierCV([0.01], store_folds=True, **settings).fit(data.X, data.y)
    own = evaluate_cv(search, data.X, data.y, n_resamples=50)
    nested = cross_val_evaluate(
        LLPLinearClassifier(0.01, **settings), data.X, data.y, n_resamples=50
    )
    assert own.verdict.name == nested.verdict.name
    np.testing.assert_array_equal(own.fold, nested.fold)
    np.testing.assert_allclose(own.scores, nested.scores, atol=1e-4)
    for name, found in nested.estimates.items():
        expected = [found.value, found.low, found.high]
        assert [own[name].value, own[name].low, own[name].high] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("name", SEARCHES)
def test_folds_choose_without_the_bags_they_hold_out(name):
    """A fold whose own counts are turned round chooses, and scores, as before."""
    model = SEARCHES[name]
    if "bag_effect" in model.get_params():
        model.set_params(bag_effect=0.0)
    fold = model.fit(DATA.X, DATA.y).folds_.fold
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    turned = DATA.y.copy()
    turned["proportion"][fold == 0] = 1 - turned["proportion"][fold == 0]
    before, after = (model.set_params(cv=splits).fit(DATA.X, y).folds_ for y in (DATA.y, turned))
    own = fold == 0
    one, other = (found.scores[0, 0] for found in (before, after))
    # trained on the same bags; what the others were chosen by differs by models that saw the fold
    assert np.corrcoef(one[own], other[own])[0, 1] > 0.9
    assert not np.allclose(before.scores[1], after.scores[1])


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_tells_how_good_it_is(name):
    model = SEARCHES[name].set_params(cv=4).fit(DATA.X, DATA.y)
    found = evaluate_cv(model, DATA.X, DATA.y, n_resamples=50)
    assert 0.75 < found["roc_auc"].value < 1.05
    np.testing.assert_array_equal(found.fold, model.folds_.fold)
    held_out = model.folds_.held_out[0]
    assert np.corrcoef(held_out, model.out_of_fold_scores_)[0, 1] > 0.9


def test_folds_are_not_saved_with_the_model():
    model = LLPLinearClassifierCV([0.01], store_folds=True).fit(DATA.X, DATA.y)
    assert not hasattr(pickle.loads(pickle.dumps(model)), "folds_")


def test_features_are_those_of_the_fitted_steps():
    model = make_pipeline(StandardScaler(), LLPLinearClassifierCV([0.01], store_folds=True))
    model.fit(DATA.X, DATA.y)
    found = evaluate_cv(model, DATA.X, DATA.y, n_resamples=50)
    assert set(found.tests) == {"The scores", "The features"}


def test_what_kept_nothing_says_so():
    with pytest.raises(ValueError, match="LLPLinearClassifierCV kept nothing of its search: fit"):
        evaluate_cv(LLPLinearClassifierCV([0.1]).fit(DATA.X, DATA.y), DATA.X, DATA.y)
    model = LLPLinearClassifierCV([0.1], store_folds=True).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match="was fitted to 480 rows and y has 20"):
        evaluate_cv(model, DATA.X[:20], bag_target([0] * 20, counts=[3] * 20))
    repeated = [*BagKFold(3).split(DATA.X, DATA.y), *BagKFold(4).split(DATA.X, DATA.y)]
    again = LLPLinearClassifierCV([0.1], cv=repeated, selection="folds", store_folds=True)
    with pytest.raises(ValueError, match="folds that hold out every bag once"):
        evaluate_cv(again.fit(DATA.X, DATA.y), DATA.X, DATA.y)
