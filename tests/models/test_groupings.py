"""LLPClassifier on several groupings of the same rows: one grouping, slopes, noise, mistakes."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from unbag import LLPClassifier, bag_target, multi_grouping_target
from unbag.bags.groupings import check_groupings_target
from unbag.models.likelihoods import GroupingsLikelihood
from unbag.observations.groupings import GroupingsObservation
from unbag.terms.columns import NumberTerm
from unbag.terms.design import Design
from unbag.terms.encoding import TableEncoder

SLOPES = np.array([1.0, -0.5])
# next to no prior
WIDE = {"numbers": 1e4}


def draw(seed, n=1500, sizes=(20, 12), noise=0.0):
    """Covariate shift, counted by groupings whose cells differ in the columns."""
    rng = np.random.default_rng(seed)
    cells = [rng.integers(0, size, n) for size in sizes]
    X = rng.normal(size=(n, 2))
    for cell, size in zip(cells, sizes, strict=True):
        X += 0.7 * rng.normal(size=(size, 2))[cell]
    labels = rng.random(n) < expit(X @ SLOPES - 0.5)
    targets = {}
    for g, cell in enumerate(cells):
        counts = np.bincount(cell, labels) + noise * rng.normal(size=sizes[g])
        targets[f"by {g}"] = bag_target(cell, counts=counts[cell], noise=noise or None)
    return X, labels, multi_grouping_target(targets)


def linear(**settings):
    return LLPClassifier(None, **{"variances": WIDE} | settings)


def likelihood_of(X, y):
    encoder = TableEncoder().fit(X)
    term = NumberTerm("numbers", encoder.number_names, list(range(X.shape[1])))
    rows = encoder.encode(X)
    term.fit(rows)
    design = Design([term], rows, np.array([len(X)]))
    return GroupingsLikelihood(design, GroupingsObservation(check_groupings_target(y)))


def differences(function, theta, step=1e-4):
    moves = step * np.eye(theta.size).reshape(-1, *theta.shape)
    return np.array([(function(theta + m) - function(theta - m)) / (2 * step) for m in moves])


def test_derivatives_are_finite_differences():
    X, _, y = draw(0, n=600)
    likelihood, theta = likelihood_of(X, y), np.array([[-0.3, 0.7, -0.2]])
    at = likelihood.derivatives(theta)
    np.testing.assert_allclose(at.gradient[0], differences(likelihood.value, theta), rtol=1e-5)
    slopes = differences(lambda t: likelihood.derivatives(t).gradient[0], theta)
    # the information is that of the saddlepoint to first order
    np.testing.assert_allclose(at.information, -slopes, rtol=0.06, atol=1)


def test_one_grouping_is_the_model_of_its_bags():
    X, _, y = draw(0)
    alone = linear().fit(X, y["by 0"])
    model = linear().fit(X, multi_grouping_target({"alone": y["by 0"]}))
    # except for dispersion and bag effects, which cells that share rows do not have
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=0.05)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=0.03)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_slopes_are_right_on_average_and_better_than_by_one_grouping(noise):
    shared, alone = [], []
    for seed in range(15):
        X, _, y = draw(seed, noise=noise)
        shared.append(linear().fit(X, y).coef_[0] - SLOPES)
        alone.append(linear().fit(X, y["by 0"]).coef_[0] - SLOPES)
    error = np.std(shared, axis=0, ddof=1) / np.sqrt(len(shared))
    assert (np.abs(np.mean(shared, axis=0)) < 3 * error + 0.02).all()
    assert np.mean(np.square(shared)) < 0.8 * np.mean(np.square(alone))


def test_the_same_grouping_twice_changes_nothing():
    X, _, y = draw(1, n=4000, sizes=(8, 12))
    twice = multi_grouping_target({"one": y["by 0"], "again": y["by 0"]})
    once = linear(bag_effect=0.0).fit(X, y["by 0"])
    np.testing.assert_allclose(linear().fit(X, twice).coef_, once.coef_, rtol=0.06)


def test_labels_make_a_grouping_too():
    X, labels, y = draw(2)
    some = np.where(np.arange(len(labels)) % 10 == 0, labels, np.nan)
    known = bag_target(y["by 0"]["bag"], y["by 0"]["proportion"], labels=some)
    model = linear().fit(X, multi_grouping_target({"by 0": known, "by 1": y["by 1"]}))
    assert np.abs(model.coef_[0] - SLOPES).max() < 0.25


def test_sparse_rows():
    X, _, y = draw(3)
    dense, sparse = linear().fit(X, y), linear().fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=2e-3)


def test_a_table_of_noise_is_ignored():
    X, _, y = draw(4)
    rng = np.random.default_rng(0)
    cell = y["by 1"]["bag"]
    nonsense = bag_target(cell, counts=(60 + 1e4 * rng.normal(size=12))[cell], noise=1e4)
    alone = linear().fit(X, y["by 0"])
    with_it = linear().fit(X, multi_grouping_target({"by 0": y["by 0"], "noise": nonsense}))
    np.testing.assert_allclose(with_it.coef_, alone.coef_, rtol=0.05)


def test_variances_shrink_columns_of_noise():
    X, _, y = draw(7, n=800)
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 20))])
    groups = {"signal": [0, 1], "noise": list(range(2, 22))}
    model = LLPClassifier(None, groups=groups).fit(wide, y)
    signal, noise = model.terms_
    assert noise.standard_deviation < 0.3 * signal.standard_deviation


def test_wrong_data_get_one_sentence():
    X, _, y = draw(9, n=200, sizes=(5, 4))
    with pytest.raises(ValueError, match="X has 199 rows but y has 200"):
        LLPClassifier(None).fit(X[1:], y)
    with pytest.raises(ValueError, match="In the grouping 'by 0': Bag"):
        LLPClassifier(None).fit(X[1:], y[1:])
    with pytest.raises(ValueError, match="whose cells share rows"):
        LLPClassifier(None).fit(X, y).score(X, y)
