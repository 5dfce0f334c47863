"""The same bags give the same scores, whatever the threads and the order of rows, bags and columns."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from unbag import bag_target
from unbag.tables import make_classifier

N_BAGS, SIZE = 40, 25
# Largest difference of log-odds, of which the standard deviation is 1.3. Rounding, except for the order of
# rows with a kernel: its landmarks are drawn from rows as they come.
ROUNDING, LANDMARKS = 1e-8, 0.02


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    n = N_BAGS * SIZE
    bag = np.repeat(np.arange(N_BAGS), SIZE)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n) + rng.normal(size=N_BAGS)[bag],
            "b": rng.normal(size=n),
            "c": rng.choice(["x", "y", "z"], n),
            "d": rng.gamma(2.0, size=n),
        }
    )
    odds = np.exp(X["a"] + 0.7 * X["b"] ** 2 - 1 + (X["c"] == "x"))
    counts = np.bincount(bag, rng.uniform(size=n) < odds / (1 + odds)).astype(int)
    return X, bag, counts


def scores_of(kind, X, bag, counts, X_new):
    model = make_classifier(kind).fit(X, bag_target(bag, counts=counts[bag]))
    return model.decision_function(X_new)


@pytest.fixture(scope="module", params=["linear", "auto", "boosted"])
def usual(request, bags):
    if request.param == "boosted":
        pytest.importorskip("lightgbm")
    X, bag, counts = bags
    return request.param, scores_of(request.param, X, bag, counts, X[:200])


def test_threads_do_not_matter(usual, bags):
    kind, expected = usual
    for threads in (1, 2):
        with threadpool_limits(threads):
            found = scores_of(kind, *bags, bags[0][:200])
        np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_the_order_of_rows_and_bags_does_not_matter(usual, bags):
    (kind, expected), (X, bag, counts) = usual, bags
    rows = np.random.default_rng(1).permutation(len(X))
    found = scores_of(kind, X.iloc[rows], bag[rows], counts, X[:200])
    tolerance = LANDMARKS if kind == "auto" else ROUNDING
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_the_order_of_columns_does_not_matter(usual, bags):
    (kind, expected), (X, bag, counts) = usual, bags
    X = X[["d", "c", "b", "a"]]
    np.testing.assert_allclose(scores_of(kind, X, bag, counts, X[:200]), expected, atol=ROUNDING)


def test_rows_score_the_same_alone_and_among_others(bags):
    X, bag, counts = bags
    for kind in ("linear", "auto"):
        model = make_classifier(kind).fit(X, bag_target(bag, counts=counts[bag]))
        parts = [model.decision_function(X[i : i + 1]) for i in range(20)]
        whole = model.decision_function(X)
        np.testing.assert_allclose(np.concatenate(parts), whole[:20], atol=ROUNDING)


def test_several_fits_and_predictions_at_once_in_one_process(usual, bags):
    (kind, expected), (X, bag, counts) = usual, bags
    model = make_classifier(kind).fit(X, bag_target(bag, counts=counts[bag]))
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(scores_of, kind, X, bag, counts, X[:200]) for _ in range(2)]
        predictions = [pool.submit(model.decision_function, X[:200]) for _ in range(6)]
        for found in (*fits, *predictions):
            np.testing.assert_allclose(found.result(), expected, atol=ROUNDING)


def test_processes_that_start_afresh_fit_the_same(usual, bags):
    """As they do on macOS and Windows."""
    kind, expected = usual
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        model = make_classifier(kind)
        X, bag, counts = bags
        fitted = pool.submit(model.fit, X, bag_target(bag, counts=counts[bag])).result()
    np.testing.assert_allclose(fitted.decision_function(X[:200]), expected, atol=ROUNDING)
