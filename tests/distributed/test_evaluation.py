"""Evaluation of Dask collections is that of the same rows in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from unbag import bag_target
from unbag import evaluation as local
from unbag.datasets import make_gaussian_bags
from unbag.distributed import evaluate

pytestmark = pytest.mark.usefixtures("in_this_thread")

DATA = make_gaussian_bags(n_bags=30, bag_size=40, n_features=1, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
SCORES, y = DATA.X[ORDER, 0], DATA.y[ORDER]


def assert_same(y, scores, rows=111, **options):
    chunked = da.from_array(y, chunks=rows), da.from_array(scores, chunks=(rows, *scores.shape[1:]))
    one, other = evaluate(*chunked, **options), local.evaluate(y, scores, **options)
    assert one.verdict.name == other.verdict.name
    assert list(one.estimates) == list(other.estimates)
    for name, estimate in one.estimates.items():
        for field in ("value", "standard_error", "low", "high"):
            assert getattr(estimate, field) == getattr(other[name], field)


@pytest.mark.parametrize("rows", [111, 1200])
def test_all_options(rows):
    assert_same(
        y, SCORES, rows, threshold=0.1, class_prior="balanced", confidence_level=0.9, n_resamples=50
    )


def test_three_classes():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(20), 30)
    target = bag_target(bag, rng.dirichlet(np.ones(3), 20)[bag])
    assert_same(target, rng.normal(size=(600, 3)))


def test_names_of_classes_stay():
    named = bag_target(y["bag"], y["proportion"], class_names=["no", "yes"])
    found = evaluate(da.from_array(named, chunks=500), da.from_array(SCORES, chunks=500))
    assert str(found) == str(local.evaluate(named, SCORES))


def test_scores_of_unknown_length():
    frame = dd.from_pandas(pd.DataFrame({"score": SCORES}), npartitions=4)
    rows = tuple(len(part) for part in frame.partitions)
    found = evaluate(da.from_array(y, chunks=(rows,)), frame["score"].to_dask_array())
    assert found["roc_auc"] == local.evaluate(y, SCORES)["roc_auc"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES, "must be a Dask array, not ndarray"),
        (da.from_array(np.where(SCORES.max() - 1e-9 < SCORES, np.inf, SCORES)), "finite"),
        (da.from_array(SCORES[:-1]), "1199 rows but y has 1200"),
    ],
)
def test_mistakes(scores, message):
    with pytest.raises(ValueError, match=message):
        evaluate(da.from_array(y), scores)
