"""Logistic regression from sums: scikit-learn's on labels, errors by simulation, mistakes."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from unbag import logistic_from_sufficient_statistics


def draw(seed=0, n=800):
    """Three columns of categories, and labels that depend on two of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "campaign": rng.choice(list("abcd"), n),
            "day": rng.integers(1, 4, n),
            "region": rng.choice(["north", "south"], n),
        }
    )
    odds = -1 + 0.8 * (frame["campaign"] == "a") - 0.7 * (frame["day"] == 2)
    return frame, rng.random(n) < expit(odds)


def one_hot(frame):
    return OneHotEncoder(drop="first", dtype=float).fit_transform(frame)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_is_the_model_of_labels(C, fit_intercept, sparse):
    frame, labels = draw()
    X = one_hot(frame)
    X = X if sparse else X.toarray()
    reference = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000)
    reference.fit(X, labels)
    total = labels.sum() if fit_intercept else None
    fit = logistic_from_sufficient_statistics(
        X, X.T @ labels, total, C=C, fit_intercept=fit_intercept
    )
    np.testing.assert_allclose(fit.model.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(fit.model.intercept_, reference.intercept_, atol=1e-5)
    np.testing.assert_allclose(fit.model.predict_proba(X), reference.predict_proba(X), atol=1e-6)


def test_tables_of_counts_are_such_sums():
    frame, labels = draw(1)
    X = pd.get_dummies(frame, columns=list(frame.columns), dtype=float)
    sums = {}
    for name in frame:
        table = pd.Series(labels).groupby(frame[name]).sum()
        sums |= {f"{name}_{value}": count for value, count in table.items()}
    fit = logistic_from_sufficient_statistics(X, sums, labels.sum())
    reference = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, labels)
    np.testing.assert_allclose(fit.model.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_array_equal(fit.model.predict(X), reference.predict(X))
    shuffled = pd.Series(sums).sample(frac=1, random_state=0)
    again = logistic_from_sufficient_statistics(X, shuffled, labels.sum())
    np.testing.assert_allclose(again.model.coef_, fit.model.coef_)


@pytest.mark.parametrize("noise", [0.0, 6.0])
def test_errors_are_what_they_are_said_to_be(noise):
    """Over draws of labels and noise, on the same rows."""
    frame, _ = draw(2, n=1500)
    X = one_hot(frame).toarray()
    truth = np.array([0.8, 0.0, 0.4, -0.7, 0.5, 0.3])
    chances, rng = expit(X @ truth - 0.5), np.random.default_rng(0)
    off, said = [], []
    for _ in range(300):
        labels = rng.random(len(X)) < chances
        sums = X.T @ labels + noise * rng.normal(size=6)
        total = labels.sum() + noise * rng.normal()
        fit = logistic_from_sufficient_statistics(
            X, sums, total, C=1e6, noise=noise, total_noise=noise
        )
        off.append(np.append(fit.model.coef_[0] - truth, fit.model.intercept_ + 0.5))
        said.append(fit.standard_errors)
    # the error of a standard deviation of 300 is 4%
    ratio = np.std(off, axis=0) / np.mean(said, axis=0)
    assert (np.abs(ratio - 1) < 0.13).all()
    covered = (np.abs(off) < 1.96 * np.array(said)).mean()
    assert abs(covered - 0.95) < 0.02


def test_a_covariance_of_noise_is_that_of_deviations():
    frame, labels = draw(3)
    X = one_hot(frame)
    deviations = np.arange(1.0, 7.0)
    one = logistic_from_sufficient_statistics(
        X, X.T @ labels, labels.sum(), noise=deviations, total_noise=2.0
    )
    other = logistic_from_sufficient_statistics(
        X, X.T @ labels, labels.sum(), noise=np.diag(np.append(deviations, 2.0) ** 2)
    )
    np.testing.assert_allclose(one.covariance, other.covariance)
    exact = logistic_from_sufficient_statistics(X, X.T @ labels, labels.sum())
    assert (one.standard_errors > exact.standard_errors).all()


def test_noisy_sums_may_lie_beyond_what_labels_give():
    X = np.eye(3)[np.repeat([0, 1, 2], 20)]
    sums = [-2.0, 10.0, 21.0]
    fit = logistic_from_sufficient_statistics(X, sums, 29.0, noise=3.0, total_noise=5.0)
    assert np.isfinite(fit.model.coef_).all()
    assert np.isfinite(fit.standard_errors).all()
    with pytest.warns(ConvergenceWarning, match="without a penalty there may be none"):
        logistic_from_sufficient_statistics(X, sums, 29.0, noise=3.0, total_noise=5.0, C=np.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sums": [1.0, 2.0]}, "one number for each of the 3 columns of X; its shape is (2,)."),
        ({"sums": [1.0, 2.0, np.nan]}, "sums must be finite numbers."),
        ({"sums": {"a": 1}}, "sums by the names of columns need X to be a DataFrame."),
        (
            {"sums": [5.0, 2.0, 1.0]},
            "The sum of column 0 is 5, and labels of these rows give 0 to 4; if it is noisy",
        ),
        ({"sums": ["1", "2", "x"]}, "sums must be numbers: could not convert string to float"),
        ({"sums": [True, True, False]}, "sums are true or false, as NumPy and pandas make"),
        ({"total": 5}, "columns of X add up to others, and their sums do not (0, 1, 2, the total)"),
        ({"total": None}, "total, the number of positive rows, is needed for the intercept"),
        ({"total": 13}, "The total is 13, and labels of these rows give 0 to 12"),
        ({"C": 0}, "C must be a positive number, or np.inf for no penalty, not 0."),
        ({"noise": [1.0, 2.0]}, "noise must hold one number for each of the 3 sums"),
        ({"noise": -1.0}, "they must be finite and not negative"),
        ({"noise": np.eye(3)}, "must be of shape (4, 4), for all sums and the total, not (3, 3)"),
    ],
)
def test_mistakes_get_one_sentence(change, message):
    good = {"X": np.eye(3)[np.repeat([0, 1, 2], 4)], "sums": [1.0, 2.0, 1.0], "total": 4}
    with pytest.raises(ValueError, match=re.escape(message)):
        logistic_from_sufficient_statistics(**(good | change))


@pytest.mark.parametrize("sparse", [False, True])
def test_tables_that_disagree_are_refused_and_noisy_ones_taken(sparse):
    frame, labels = draw()
    X = pd.get_dummies(frame, columns=list(frame)).astype(float)
    sums = X.T @ labels
    given = csr_array(X.to_numpy()) if sparse else X
    logistic_from_sufficient_statistics(given, sums.to_numpy(), labels.sum())
    sums["day_1"] += 1
    with pytest.raises(
        ValueError, match=r"The sums contradict each other: .*say how much by noise"
    ):
        logistic_from_sufficient_statistics(given, sums.to_numpy(), labels.sum())
    logistic_from_sufficient_statistics(given, sums.to_numpy(), labels.sum(), noise=1.0)


def test_what_is_fitted_is_shown_without_its_rows():
    fit = logistic_from_sufficient_statistics([[0.0], [1.0], [2.0], [3.0]], sums=[5.0], total=2)
    assert repr(fit).startswith("SumsFit(model=LogisticRegression(")
    assert "array" not in repr(fit)


def test_a_column_without_a_sum_is_named():
    X = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    with pytest.raises(ValueError, match="There is no sum for the column 'b' of X"):
        logistic_from_sufficient_statistics(X, {"a": 1}, 1)
