import numpy as np
import pandas as pd
import pytest
from scipy.sparse import random_array
from scipy.special import expit

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.models import mixed
from unbag.models.many_columns import lanczos
from unbag.models.newton import DesignLikelihood
from unbag.observations.information import CountObservation
from unbag.terms.columns import NumberTerm
from unbag.terms.design import Design
from unbag.terms.encoding import TableEncoder


def test_functions_of_a_matrix_times_vectors():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(6, 200))
    M = factor.T @ factor
    signs = rng.choice([-1.0, 1.0], size=(200, 200))
    krylov = lanczos(lambda x: x @ M, signs, 1e-6)
    solved = krylov.apply(lambda values: 1.0 / (1.0 + values))
    np.testing.assert_allclose(solved, signs @ np.linalg.inv(np.eye(200) + M), atol=1e-3)
    exact = np.linalg.slogdet(np.eye(200) + M)[1]
    assert krylov.form(np.log1p).mean() == pytest.approx(exact, rel=0.05)


def test_directions_in_which_the_likelihood_is_convex_count_as_unknown():
    M = np.diag([1.0, -3.0, 0.0])
    krylov = lanczos(lambda x: x @ M, np.array([[1.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    solved = krylov.apply(lambda values: 1.0 / (1.0 + values))
    np.testing.assert_allclose(solved, [[0.5, 0.0, 0.0], [0.5, 2.0, 3.0], [0.0] * 3], atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_products_are_those_of_the_matrix(n_classes, effect):
    data = make_gaussian_bags(8, 12, n_classes=n_classes, n_features=3, random_state=0)
    bags = check_bag_target(data.y)
    order = np.argsort(bags.index, kind="stable")
    rows = TableEncoder().fit(data.X).encode(data.X[order])
    term = NumberTerm("numbers", ["a", "b", "c"], [0, 1, 2])
    term.fit(rows)
    observation = CountObservation(bags.reordered(order))
    design = Design([term], rows, bags.sizes)
    likelihood = DesignLikelihood(design, observation).with_bag_effects(effect)
    K = observation.n_outputs
    rng = np.random.default_rng(1)
    theta, directions = rng.normal(size=(K, 4)) * 0.3, rng.normal(size=(5, K, 4))
    H = likelihood.derivatives(theta).information
    found = likelihood.products(theta)(directions)
    np.testing.assert_allclose(found.reshape(5, -1), directions.reshape(5, -1) @ H, atol=1e-8)


def table(n_bags=150, size=60, n_levels=40):
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(n_bags), size)
    X = rng.normal(size=(len(bag), 2)) + rng.normal(size=(n_bags, 2))[bag]
    level = (rng.integers(n_levels, size=len(bag)) + bag) % n_levels
    effects = 0.8 * rng.normal(size=n_levels)
    labels = rng.random(len(bag)) < expit(-0.5 + X @ (1.0, -0.7) + effects[level])
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(site=[f"s{i:03}" for i in level])
    return frame, bag_target(bag, counts=np.bincount(bag, labels, n_bags)[bag])


def test_the_model_is_that_of_matrices(monkeypatch):
    frame, y = table()
    settings = {"kernel": None, "bag_effect": 0.0, "variances": {"numbers": 0.5, "site": 0.01}}
    dense = LLPClassifier(**settings).fit(frame, y)
    monkeypatch.setattr(mixed, "MOST_COEFFICIENTS", 10)
    products = LLPClassifier(**settings).fit(frame, y)
    scores = dense.decision_function(frame)
    assert np.abs(products.decision_function(frame) - scores).max() < 0.05 * scores.std()
    for one, other in zip(products.terms_, dense.terms_, strict=True):
        assert one.degrees_of_freedom == pytest.approx(other.degrees_of_freedom, rel=0.3, abs=0.5)
    with pytest.raises(ValueError, match="standard deviations"):
        products.predict_interval(frame)


def test_three_classes_and_a_sparse_matrix_of_many_columns():
    rng = np.random.default_rng(2)
    X = random_array((900, 2000), density=0.01, format="csr", random_state=rng)
    scores = X @ rng.normal(size=(2000, 3)) * 3
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    model = LLPClassifier().fit(X, labels)
    assert model.converged_
    assert model.coef_.shape == (3, 2000)
    assert (model.predict(X) == labels).mean() > 0.6
    np.testing.assert_allclose(
        model.predict_proba(X).mean(axis=0), np.bincount(labels) / 900, atol=0.01
    )


def test_traces_of_a_category_of_many_levels_settle_and_are_right(monkeypatch):
    rng = np.random.default_rng(0)
    bag, level = np.arange(18_000) // 30, rng.integers(0, 1200, 18_000)
    x = rng.normal(size=18_000) + 0.5 * rng.normal(size=600)[bag]
    labels = rng.random(18_000) < expit(x + rng.normal(size=1200)[level] - 1)
    X = pd.DataFrame({"x": x, "level": [f"l{i}" for i in level]})
    y = bag_target(bag, counts=np.bincount(bag, labels)[bag])
    dense = LLPClassifier(kernel=None).fit(X, y)
    monkeypatch.setattr("unbag.models.mixed.MOST_COEFFICIENTS", 1000)
    model = LLPClassifier(kernel=None).fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 30
    found, expected = (one.terms_[1].degrees_of_freedom for one in (model, dense))
    # six random signs have a standard error of sqrt(2/6 df)
    assert found == pytest.approx(expected, abs=3 * np.sqrt(expected / 3))
