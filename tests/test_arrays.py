"""Sums over rows that follow each other, and the sigmoid."""

import numpy as np
import pytest

from unbag._arrays import Segments
from unbag.observations.losses import sigmoid


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [[1], [3], [1, 1, 1], [2, 5, 1, 4], [1, 7, 1]])
@pytest.mark.parametrize("before", [(), (3,), (3, 2)])
def test_segments_are_summed_and_spread(dtype, sizes, before):
    sizes, rng = np.array(sizes), np.random.default_rng(0)
    values = rng.normal(size=(*before, sizes.sum())).astype(dtype)
    totals = rng.normal(size=(*before, len(sizes))).astype(dtype)
    segments = Segments(sizes)
    found, spread = segments.sum(values), segments.spread(totals)
    assert found.dtype == spread.dtype == dtype
    parts = np.split(values.astype(float), np.cumsum(sizes)[:-1], axis=-1)
    expected = np.stack([part.sum(axis=-1) for part in parts], axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    repeated = [totals[..., [i] * size] for i, size in enumerate(sizes)]
    np.testing.assert_array_equal(spread, np.concatenate(repeated, axis=-1))


def test_rows_count_as_often_as_they_stand_for_instances():
    values, times = np.array([[1.0, 2.0, 5.0]]), np.array([3, 1, 2])
    segments = Segments(np.array([2, 1]), times)
    np.testing.assert_array_equal(segments.sum(values), [[5.0, 10.0]])
    np.testing.assert_array_equal(segments.spread(np.array([[1.0, 2.0]])), [[1, 1, 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_neither_overflows_nor_loses_small_probabilities(dtype):
    scores = np.array([-1e4, -80, -1, 0, 1, 80, 1e4], dtype=dtype)
    expected = [0, np.exp(-80), 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-1)), 1, 1]
    with np.errstate(over="raise", invalid="raise"):
        found = sigmoid(scores)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
