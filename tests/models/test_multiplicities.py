"""Rows that stand for several instances give the model of the repeated rows."""

import numpy as np
import pandas as pd
import pytest

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood

EXACT = {"rtol": 1e-9, "atol": 1e-9}


def cells(seed=0, n_bags=30, n_rows=6, n_classes=2, most=9):
    """A table of cells, the number of rows in each, and counts of bags by a known model."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n_bags), n_rows)
    table = pd.DataFrame(
        {
            "age": rng.integers(0, 8, len(bag)) + rng.normal(size=n_bags)[bag],
            "sex": rng.integers(0, 2, len(bag)).astype(float),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], len(bag)),
        }
    )
    number = rng.integers(1, most, len(bag))
    scores = np.column_stack([0 * table.age, 0.5 * table.age - 2 + table.sex])
    if n_classes == 3:
        scores = np.column_stack([scores, 0.3 * table.age])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    held = np.array([rng.multinomial(n, p) for n, p in zip(number, shares, strict=False)])
    counts = np.array([held[bag == b].sum(axis=0) for b in range(n_bags)])
    if n_classes == 2:
        counts = counts[:, 1]
    return table, bag, number, {b: counts[b].tolist() for b in range(n_bags)}


def both_targets(bag, number, **known):
    """The target of the cells, and that of their rows."""
    return bag_target(bag, multiplicity=number, **known), bag_target(
        np.repeat(bag, number), **known
    )


@pytest.mark.parametrize(
    ("n_classes", "n_rows", "noise", "kernel"),
    [
        (2, 6, None, None),
        (2, 2, None, "rbf"),
        (2, 6, 2.0, None),
        (3, 6, None, None),
        (3, 2, 1.5, None),
    ],
)
def test_model_of_cells_is_that_of_rows(n_classes, n_rows, noise, kernel):
    table, bag, number, counts = cells(n_classes=n_classes, n_rows=n_rows, most=5)
    y, y_rows = both_targets(bag, number, counts=counts, noise=noise)
    model = LLPClassifier(kernel=kernel, n_landmarks=20).fit(table, y)
    rows = table.loc[table.index.repeat(number)]
    repeated = LLPClassifier(kernel=kernel, n_landmarks=20).fit(rows, y_rows)
    assert model.n_iter_ == repeated.n_iter_
    # of several classes, a flat prior of constants makes eigenvalues of H lose digits
    close = EXACT if n_classes == 2 else {"rtol": 1e-5, "atol": 1e-5}
    for name in ("coef_", "intercept_", "covariance_", "dispersion_", "bag_effect_"):
        np.testing.assert_allclose(getattr(model, name), getattr(repeated, name), **close)
    for name in ("log_marginal_likelihood_", "n_informative_bags_", "empirical_prior_"):
        np.testing.assert_allclose(getattr(model, name), getattr(repeated, name), **close)
    for own, other in zip(model.terms_, repeated.terms_, strict=True):
        np.testing.assert_allclose(own[2:], other[2:], **close)
    np.testing.assert_array_equal(model.predict(table.iloc[:5]), repeated.predict(table.iloc[:5]))


def test_labelled_rows_with_multiplicities_are_so_many_labels():
    table, bag, number, counts = cells(n_bags=20)
    labels = np.full(len(bag), np.nan)
    labels[bag < 4] = (table.age[bag < 4] > 4).astype(float)
    for b in range(4):
        counts[b] = int((number * (labels == 1))[bag == b].sum())
    y = bag_target(bag, counts=counts, labels=labels, multiplicity=number)
    repeated = bag_target(np.repeat(bag, number), counts=counts, labels=np.repeat(labels, number))
    model = LLPClassifier(kernel=None).fit(table, y)
    rows = LLPClassifier(kernel=None).fit(table.loc[table.index.repeat(number)], repeated)
    for name in ("coef_", "covariance_", "dispersion_", "log_marginal_likelihood_"):
        np.testing.assert_allclose(getattr(model, name), getattr(rows, name), **EXACT)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_count_likelihood_multiplies_losses_and_gradients(n_classes, scale):
    _, bag, number, counts = cells(n_classes=n_classes, most=4)
    # cells in any order, bags of 6 to 24 rows and a pure one
    order = np.random.default_rng(1).permutation(len(bag))
    bag, number = bag[order], number[order]
    n = int(number[bag == 3].sum())
    counts[3] = n if n_classes == 2 else [0, n, 0]
    bags, rows = (
        check_bag_target(y, accept=["multiplicity"])
        for y in both_targets(bag, number, counts=counts)
    )
    scores = scale * np.random.default_rng(2).normal(
        size=(2, 1 if n_classes == 2 else n_classes, len(bag))
    )
    problem, all_bags = np.zeros(2, dtype=int), np.ones(bags.n_bags, dtype=bool)
    value, gradient = CountLikelihood(all_bags, bags).value_and_gradient(scores, problem)
    repeated = np.repeat(scores, number, axis=-1)
    other, slopes = CountLikelihood(all_bags, rows).value_and_gradient(repeated, problem)
    np.testing.assert_allclose(value, other, **EXACT)
    starts = np.cumsum(number) - number
    np.testing.assert_allclose(gradient, np.add.reduceat(slopes, starts, axis=-1), **EXACT)


@pytest.mark.parametrize("wrong", [-1, 0, 1.5, np.nan, "two"])
def test_multiplicities_that_are_not_whole_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="multiplicity"):
        bag_target([1, 1, 2], counts={1: 1, 2: 1}, multiplicity=[1, wrong, 1])
    with pytest.raises(ValueError, match="multiplicity must hold 3"):
        bag_target([1, 1, 2], counts={1: 1, 2: 1}, multiplicity=[1, 1])


def test_counts_are_checked_against_instances():
    assert bag_target([1, 2], counts={1: 3, 2: 1}, multiplicity=[4, 2])["proportion"][0] == 0.75
    with pytest.raises(ValueError, match="5 positives but 4"):
        bag_target([1, 2], counts={1: 5, 2: 1}, multiplicity=[4, 2])


def test_what_cannot_multiply_says_so():
    y = bag_target([1, 2], counts={1: 3, 2: 1}, multiplicity=[4, 2])
    with pytest.raises(ValueError, match=r"multiplicities.*LLPClassifier"):
        check_bag_target(y)
