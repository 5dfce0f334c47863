"""What a model loses without a column, by what is known of how the bags were made."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from unbag import LLPClassifier
from unbag.datasets import make_gaussian_bags
from unbag.evaluation import bag_permutation_importance
from unbag.paper import LMMCMClassifier
from unbag.reports import ImportanceDisplay

DATA = make_gaussian_bags(n_bags=30, bag_size=30, n_features=2, random_state=0)
NOISE = np.random.default_rng(0).normal(size=len(DATA.X))
TABLE = np.column_stack([DATA.X, NOISE])
MODEL = LLPClassifier(kernel=None).fit(TABLE, DATA.y)


class Linear:
    """Log-odds by given coefficients."""

    def __init__(self, coef):
        self.coef = np.asarray(coef)

    def predict_proba(self, X):
        p = expit(np.asarray(X) @ self.coef)
        return np.column_stack([1 - p, p])


def by_column(found):
    return dict(zip(found.columns, found.loss, strict=True))


def test_a_column_that_the_model_ignores_costs_nothing():
    model = Linear([MODEL.coef_[0, 0], 0.0, MODEL.coef_[0, 2]])
    assert by_column(bag_permutation_importance(model, TABLE, DATA.y))["column 1"] == 0


def test_the_only_column_costs_all_that_was_explained_and_more():
    model = LLPClassifier(kernel=None).fit(TABLE[:, :1], DATA.y)
    found = bag_permutation_importance(model, TABLE[:, :1], DATA.y)
    # shuffled scores are worse than none: they say what is not so
    assert found.loss[0] > 1


def test_noise_comes_last():
    for model in (MODEL, LLPClassifier().fit(TABLE, DATA.y)):
        found = bag_permutation_importance(model, TABLE, DATA.y, feature_names=["a", "b", "noise"])
        assert found.columns[-1] == "noise"
        assert abs(found.loss[-1]) < 0.1 < found.loss[0]


def test_shuffling_within_bags_would_see_next_to_nothing():
    """Why columns are shuffled over all rows."""
    found = bag_permutation_importance(MODEL, TABLE, DATA.y).loss.max()
    rng = np.random.default_rng(0)
    bag, within = DATA.y["bag"], TABLE.copy()
    for one in np.unique(bag):
        rows = np.flatnonzero(bag == one)
        within[rows] = TABLE[rng.permutation(rows)]
    # bag means of the scores, which the likelihood depends on, are the same
    for X in (TABLE, within):
        means = np.bincount(bag, MODEL.decision_function(X)) / np.bincount(bag)
        np.testing.assert_allclose(means, np.bincount(bag, MODEL.decision_function(TABLE)) / 30)
    assert found > 0.3


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: pd.DataFrame(X, columns=["column 0", "column 1", "column 2"]).sort_index(),
        lambda X: pl.DataFrame(X, schema=["column 0", "column 1", "column 2"]),
        csr_array,
    ],
)
def test_tables_of_any_kind(convert):
    X = convert(TABLE)
    model = LLPClassifier(kernel=None).fit(X, DATA.y)
    expected = bag_permutation_importance(MODEL, TABLE, DATA.y)
    assert by_column(bag_permutation_importance(model, X, DATA.y)) == pytest.approx(
        by_column(expected), rel=0.1, abs=1e-3
    )


def test_there_is_one_name_for_each_column():
    said = "X has 3 columns, but there are 2 feature_names"
    for look in (bag_permutation_importance, ImportanceDisplay.from_estimator):
        with pytest.raises(ValueError, match=said):
            look(MODEL, TABLE, DATA.y, feature_names=["a", "b"])


def test_what_is_refused():
    hinge = LMMCMClassifier(kernel="linear", loss="hinge").fit(TABLE, DATA.y)
    with pytest.raises(ValueError, match="gives no probabilities"):
        bag_permutation_importance(hinge, TABLE, DATA.y)
    with pytest.raises(ValueError, match="There are 300 columns, and this takes 200 at most"):
        bag_permutation_importance(MODEL, np.ones((len(TABLE), 300)), DATA.y)
    wrong = Linear(-MODEL.coef_[0])
    with pytest.raises(ValueError, match="no more probable than the shares alone"):
        bag_permutation_importance(wrong, TABLE, DATA.y)
