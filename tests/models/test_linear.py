"""Linear models: on pure bags they are logistic regression."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from unbag import LLPLinearClassifier, LLPLinearClassifierCV, bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models.base import linear_scores
from unbag.solvers import LinearSpace, minimise

ALPHA = 1e-3


def labelled(n_classes):
    return make_classification(
        n_samples=600,
        n_features=8,
        n_informative=5,
        n_classes=n_classes,
        weights=[0.7] + [0.3 / (n_classes - 1)] * (n_classes - 1),
        flip_y=0.1,
        random_state=0,
    )


def logistic_regression(X, y, **settings):
    model = LogisticRegression(C=1 / (2 * ALPHA * len(y)), tol=1e-12, max_iter=10_000, **settings)
    return model.fit(X, y)


def centred(scores):
    return scores if scores.ndim == 1 else scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("objective", ["likelihood"])
def test_empirical_prior_equals_plain_logistic_regression(objective):
    X, y = labelled(2)
    ours = LLPLinearClassifier(ALPHA, objective=objective, tol=1e-10, class_prior="empirical")
    np.testing.assert_allclose(ours.fit(X, y).coef_, logistic_regression(X, y).coef_, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_likelihood_of_labels_is_plain_logistic_regression_moved_to_equal_priors(n_classes):
    X, y = labelled(n_classes)
    ours = LLPLinearClassifier(ALPHA, tol=1e-10).fit(X, y)
    assert ours.objective_ == "likelihood"
    theirs = logistic_regression(X, y)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(
        ours.predict_proba(X, class_prior=shares), theirs.predict_proba(X), atol=1e-6
    )
    even = theirs.predict_proba(X) / shares
    np.testing.assert_allclose(
        ours.predict_proba(X), even / even.sum(axis=1, keepdims=True), atol=1e-6
    )


def test_labels_as_a_target_equal_plain_labels():
    X, y = labelled(2)
    target = bag_target([None] * len(y), {}, labels=y)
    ours, plain = (LLPLinearClassifier(tol=1e-10).fit(X, t) for t in (target, y))
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=1e-9)


def test_balanced_model_reweighted_to_a_prior_equals_training_for_it():
    # only the intercept knows the prior in the limit of many data; here, roughly
    data = make_gaussian_bags(n_bags=200, bag_size=50, random_state=0)
    balanced = LLPLinearClassifier(1e-6).fit(data.X, data.y)
    rare = LLPLinearClassifier(1e-6, class_prior=[0.8, 0.2]).fit(data.X, data.y)
    np.testing.assert_allclose(
        balanced.predict_proba(data.X, class_prior=[0.8, 0.2]),
        rare.predict_proba(data.X),
        atol=0.06,
    )
    np.testing.assert_allclose(rare.class_prior_, [0.8, 0.2])


@pytest.mark.parametrize("estimator", [LLPLinearClassifier, LLPLinearClassifierCV])
def test_sparse_equals_dense(estimator):
    data = make_gaussian_bags(n_bags=20, bag_size=20, n_features=4, random_state=1)
    X = np.where(np.abs(data.X) < 0.5, 0, data.X)
    dense, sparse = (estimator(tol=1e-9).fit(table, data.y) for table in (X, csr_array(X)))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(sparse.decision_function(csr_array(X)), dense.decision_function(X))


@pytest.mark.parametrize("columns", [4, 7])
def test_many_columns_are_solved_in_batches(monkeypatch, columns):
    """Of fewer columns than one penalty has, or of as many, each from where the last has ended."""
    data = make_gaussian_bags(n_bags=20, bag_size=20, random_state=1)
    whole = LLPLinearClassifierCV(tol=1e-9).fit(data.X, data.y)
    monkeypatch.setattr("unbag.models.local._BATCH_SCORES", columns * len(data.X))
    batched = LLPLinearClassifierCV(tol=1e-9).fit(data.X, data.y)
    np.testing.assert_allclose(batched.coef_, whole.coef_, atol=1e-9)
    np.testing.assert_allclose(batched.selection_risks_, whole.selection_risks_)


@pytest.fixture
def noted(monkeypatch):
    """Settings that `minimise` is called with, call by call."""
    calls = []

    def note(*args, **settings):
        calls.append(settings)
        return minimise(*args, **settings)

    monkeypatch.setattr("unbag.models.local.minimise", note)
    return calls


def test_penalties_come_one_after_the_other_where_rows_stay_in_the_cache(monkeypatch, noted):
    data = make_gaussian_bags(n_bags=20, bag_size=20, random_state=1)
    whole = LLPLinearClassifierCV(tol=1e-9).fit(data.X, data.y)
    assert [call["start"] for call in noted] == [None]
    monkeypatch.setattr("unbag.models.local._ENOUGH_SCORES", 6 * len(data.X))
    each = LLPLinearClassifierCV(tol=1e-9).fit(data.X, data.y)
    afresh = [call["start"] is None for call in noted[1:]]
    assert afresh == [True] + [False] * (len(each.alphas_) - 1)
    np.testing.assert_allclose(each.coef_, whole.coef_, atol=1e-9)
    np.testing.assert_allclose(each.selection_risks_, whole.selection_risks_)
    monkeypatch.setattr("unbag.models.local._BYTES_IN_CACHE", data.X.nbytes - 1)
    assert LLPLinearClassifierCV().fit(data.X, data.y).alpha_ == whole.alpha_
    assert len(noted) == 1 + len(each.alphas_) + 1


def test_fits_of_one_penalty_have_the_tolerance_they_ask_for(monkeypatch, noted):
    """Those that start from another one end as near to the minimum by a smaller one."""
    data = make_gaussian_bags(n_bags=20, bag_size=20, random_state=1)
    monkeypatch.setattr("unbag.models.local._ENOUGH_SCORES", 1)
    LLPLinearClassifier(tol=1e-3).fit(data.X, data.y)
    assert {call["tol"] for call in noted} == {1e-3}
    LLPLinearClassifierCV(tol=1e-3).fit(data.X, data.y)
    assert noted[-1]["tol"] < 1e-3


@pytest.mark.parametrize(("share", "kind"), [(0.05, csr_array), (0.2, np.ndarray)])
def test_tables_of_zeros_are_multiplied_as_sparse_matrices(monkeypatch, share, kind):
    """As one-hot columns are; the model is the same, and predicts for tables as before."""
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3 == 0
    X = (rng.normal(size=(600, 70)) + labels[:, None]) * (rng.random((600, 70)) < share)
    y = bag_target(np.repeat(np.arange(30), 20), counts=labels.reshape(30, 20).sum(1).repeat(20))
    kinds = []

    def noted(rows, *args):
        kinds.append(type(rows))
        return LinearSpace(rows, *args)

    monkeypatch.setattr("unbag.models.functions.LinearSpace", noted)
    fast = LLPLinearClassifier(tol=1e-9).fit(X, y)
    monkeypatch.setattr("unbag.models.functions._MANY_COLUMNS", 71)
    plain = LLPLinearClassifier(tol=1e-9).fit(X, y)
    assert kinds == [kind, np.ndarray]
    np.testing.assert_allclose(fast.coef_, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(fast.decision_function(X), plain.decision_function(X), atol=1e-7)


def test_single_precision_data_stay_in_single_precision():
    data = make_gaussian_bags(n_bags=20, bag_size=20, random_state=1)
    single = LLPLinearClassifier().fit(data.X.astype(np.float32), data.y)
    double = LLPLinearClassifier().fit(data.X, data.y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(
        single.decision_function(data.X.astype(np.float32)),
        double.decision_function(data.X),
        atol=1e-3,
    )


def test_missing_values_in_sparse_data_are_found():
    data = make_gaussian_bags(n_bags=5, bag_size=4, n_features=3, random_state=1)
    X = np.where(np.abs(data.X) < 0.3, 0, data.X)
    X[7, 2] = np.inf
    with pytest.raises(ValueError, match="first in row 8, column 2"):
        LLPLinearClassifier().fit(csr_array(X), data.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_scores_of_a_row_do_not_depend_on_the_others(dtype, n_outputs):
    """BLAS rounds by the size of the table, and in the precision of what it is given."""
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(5000, 43)).astype(dtype), rng.normal(size=(n_outputs, 43))
    intercept = np.arange(float(n_outputs))
    whole = linear_scores(X, coef, intercept)
    for size in (37, 1001):
        parts = [linear_scores(X[i : i + size], coef, intercept) for i in range(0, 5000, size)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    np.testing.assert_allclose(whole, coef @ X.astype(float).T + intercept[:, None], atol=1e-12)
    np.testing.assert_allclose(linear_scores(csr_array(X), coef, intercept), whole, atol=1e-12)
