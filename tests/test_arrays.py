"""The layer under NumPy and torch: the same answers from every kind of array."""

import array_api_strict
import numpy as np
import pytest
import torch

from unbag._arrays import (
    Latest,
    Segments,
    beside,
    beside_in_double,
    index_beside,
    on_device,
    take,
    to_host,
)
from unbag.observations.losses import sigmoid

KINDS = {
    "numpy": np.asarray,
    "torch": lambda array: torch.from_numpy(np.array(array)),
    "strict": array_api_strict.asarray,
}


@pytest.fixture(params=list(KINDS))
def like(request):
    """An array (3, 2, 4) of some kind, in single precision."""
    return KINDS[request.param](np.arange(24, dtype=np.float32).reshape(3, 2, 4))


def test_numbers_travel_in_the_type_of_the_array(like):
    sent = beside(np.array([[1.5], [2.5]]), like)
    assert sent.dtype == like.dtype
    np.testing.assert_array_equal(to_host(sent), [[1.5], [2.5]])


def test_numbers_travel_in_double_precision_if_asked(like):
    numbers = np.array([[1 / 3], [2.5]])
    sent = beside_in_double(numbers, like)
    assert type(sent) is type(like)
    np.testing.assert_array_equal(to_host(sent), numbers)


SEGMENTS = [[1], [3], [1, 1, 1], [2, 5, 1, 4], [1, 7, 1]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SEGMENTS)
@pytest.mark.parametrize("before", [(), (3,), (3, 2)])
def test_segments_are_summed_and_spread(kind, dtype, sizes, before):
    sizes, rng = np.array(sizes), np.random.default_rng(0)
    values = rng.normal(size=(*before, sizes.sum())).astype(dtype)
    totals = rng.normal(size=(*before, len(sizes))).astype(dtype)
    there, theirs = KINDS[kind](values), KINDS[kind](totals)
    segments = Segments(sizes, there)
    found, spread = segments.sum(there), segments.spread(theirs)
    assert found.dtype == there.dtype
    assert spread.dtype == there.dtype
    ends = np.cumsum(sizes)
    parts = np.split(values.astype(float), ends[:-1], axis=-1)
    expected = np.stack([part.sum(axis=-1) for part in parts], axis=-1)
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-5, atol=1e-6)
    repeated = [totals[..., [i] * size] for i, size in enumerate(sizes)]
    np.testing.assert_array_equal(to_host(spread), np.concatenate(repeated, axis=-1))


def test_sums_over_segments_do_not_write_to_the_values(like):
    values = to_host(like).copy()
    segments = Segments(np.array([1, 3]), like)
    segments.sum(like)
    spread = segments.spread(like[..., :2])
    spread *= 2
    np.testing.assert_array_equal(to_host(like), values)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(like, axis):
    index = np.array([1, 0, 1])
    found = to_host(take(like, index_beside(index, like), axis))
    np.testing.assert_array_equal(found, np.take(to_host(like), index, axis))


def test_latest_is_made_again_for_another_array_only():
    made = []
    latest = Latest(lambda key, factor: made.append(key) or key * factor)
    one, equal = np.ones(3), np.ones(3)
    for key in (one, one, equal, equal, one):
        np.testing.assert_array_equal(latest(key, 2), 2 * key)
    assert [id(key) for key in made] == [id(one), id(equal), id(one)]


def test_no_device_leaves_an_array_alone():
    array = np.ones(3)
    assert on_device(array, None) is array


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match=r"^device='nowhere' cannot be used here"):
        on_device(np.ones(3), "nowhere")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_neither_overflows_nor_loses_small_probabilities(dtype):
    scores = np.array([-1e4, -80, -1, 0, 1, 80, 1e4], dtype=dtype)
    expected = [0, np.exp(-80), 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-1)), 1, 1]
    with np.errstate(over="raise", invalid="raise"):
        found = sigmoid(scores)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
