"""Evaluation from partitions equals that in memory."""

import dask.array as da
import numpy as np
import pytest

import unbag.distributed.metrics as module
from unbag import bag_target
from unbag import evaluation as metrics
from unbag.datasets import make_gaussian_bags
from unbag.distributed import evaluate

pytestmark = pytest.mark.usefixtures("in_this_thread")

DATA = make_gaussian_bags(n_bags=30, bag_size=40, n_features=1, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
# rounded, so that there are ties, also with the threshold
SCORES, y = DATA.X[ORDER, 0].round(2), DATA.y[ORDER]


def both(y, scores, rows=111, **options):
    chunked = da.from_array(y, chunks=rows), da.from_array(scores, chunks=(rows, *scores.shape[1:]))
    return evaluate(*chunked, **options), metrics.evaluate(y, scores, **options)


def assert_same(one, other):
    assert list(one.estimates) == list(other.estimates)
    for name, estimate in one.estimates.items():
        for field in ("value", "standard_error", "low", "high"):
            expected = getattr(other[name], field)
            np.testing.assert_allclose(getattr(estimate, field), expected, atol=1e-8, err_msg=name)
    assert (one.n_bags, one.n_instances) == (other.n_bags, other.n_instances)


@pytest.mark.parametrize("bag_model", ["bags", "instances"])
@pytest.mark.parametrize("rows", [111, 1200])
def test_all_measures(bag_model, rows):
    options = {"bag_model": bag_model, "threshold": 0.1, "class_prior": "balanced"}
    one, other = both(y, SCORES, rows, **options)
    assert_same(one, other)
    np.testing.assert_allclose(one.roc.tpr, other.roc.tpr, atol=1e-8)
    np.testing.assert_allclose(one.roc.low, other.roc.low, atol=0.05)


def test_rows_of_known_label():
    labels = np.full(len(y), np.nan)
    labels[::5] = DATA.labels[ORDER][::5]
    assert_same(*both(bag_target(y["bag"], y["proportion"], labels=labels), SCORES))


def test_two_columns_are_their_difference():
    assert_same(*both(y, np.column_stack([-SCORES, SCORES])))


def test_three_classes():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(20), 30)
    target = bag_target(bag, rng.dirichlet(np.ones(3), 20)[bag])
    one, other = both(target, rng.normal(size=(600, 3)))
    assert one.roc is None
    assert_same(one, other)


def test_fewer_cells_than_scores(monkeypatch):
    monkeypatch.setattr(module, "_FINE_CELLS", 256)
    scores = DATA.X[ORDER, 0]
    one, other = both(y, scores)
    assert one["roc_auc"].value != other["roc_auc"].value
    # instances of one cell count as tied: 1/256 of the pairs, of which about half are in order
    assert abs(one["roc_auc"].value - other["roc_auc"].value) < 1 / 256
    ratio = one["roc_auc"].standard_error / other["roc_auc"].standard_error
    assert 0.95 < ratio < 1.05
    assert one["balanced_accuracy"] == pytest.approx(other["balanced_accuracy"])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES, "must be a Dask array, not ndarray"),
        (da.from_array(np.where(SCORES.max() - 1e-9 < SCORES, np.inf, SCORES)), "finite"),
        (da.from_array(np.zeros((1200, 3))), r"2 classes do not go with scores of shape \(1200, 3"),
        (da.from_array(SCORES[:-1]), "1199 rows but y has 1200"),
    ],
)
def test_mistakes(scores, message):
    with pytest.raises(ValueError, match=message):
        evaluate(da.from_array(y), scores)
