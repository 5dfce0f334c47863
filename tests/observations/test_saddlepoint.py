"""The saddlepoint approximation: its tilt solves its equation, and its probabilities are near to the exact ones."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

from unbag._arrays import Segments
from unbag.observations.saddlepoint import (
    LARGEST_SCORE,
    TiltSearch,
    tilted_probabilities,
    two_class_loss,
)
from unbag.observations.several_classes import find_tilts, several_class_loss

SIZES = np.array([1, 2, 3, 8, 17, 64, 300])


def exact_loss(f, k):
    """−log Pr(K = k) of bags (columns, rows) of two classes, by convolution in logarithms."""
    log_probabilities = np.zeros((len(f), 1))
    nothing = np.full((len(f), 1), -np.inf)
    for up, down in zip(-np.logaddexp(0, -f.T), -np.logaddexp(0, f.T), strict=True):
        log_probabilities = np.logaddexp(
            np.hstack([log_probabilities, nothing]) + down[:, None],
            np.hstack([nothing, log_probabilities]) + up[:, None],
        )
    return -log_probabilities[:, k]


def found_tilt(f, k, n, S):
    """The tilts, and the number of steps that it took."""
    rows, search = Segments(n), TiltSearch(k, n.astype(float), S, len(f))
    for steps in range(1, 101):  # noqa: B007
        q, left = tilted_probabilities(np.exp(f), rows, search.tilt)
        if search.found(rows.sum(q), rows.sum(q * left), 1e-9):
            break
    return search.tilt, steps


# --- the tilt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.1, 1, 5, 30, 150])
@pytest.mark.parametrize("where", [0.02, 0.5, 0.98, "first", "last"])
def test_tilt_of_two_classes_solves_its_equation(where, spread):
    rng = np.random.default_rng(0)
    sizes = SIZES[1:]
    k = {"first": np.ones(len(sizes)), "last": sizes - 1.0}.get(where)
    k = sizes * where if k is None else k
    f = np.clip(spread * rng.normal(size=(3, sizes.sum())), -LARGEST_SCORE, LARGEST_SCORE)
    tilt, steps = found_tilt(f, k, sizes, np.zeros(len(sizes)))
    mean = Segments(sizes).sum(expit(f + np.repeat(tilt, sizes, axis=1)))
    np.testing.assert_allclose(mean, np.tile(k, (3, 1)), atol=1e-7)
    assert steps <= (10 if spread <= 1 else 50)


@pytest.mark.parametrize("spread", [0.1, 1, 5, 30, 150])
@pytest.mark.parametrize("where", [-0.6, 0.0, 0.3, 1.0, 1.7])
def test_tilt_with_noise_solves_its_equation_for_any_count(where, spread):
    rng = np.random.default_rng(1)
    k, S = SIZES * where, 0.3 + rng.uniform(size=len(SIZES)) * SIZES**2
    f = np.clip(spread * rng.normal(size=(3, SIZES.sum())), -LARGEST_SCORE, LARGEST_SCORE)
    tilt, _ = found_tilt(f, k, SIZES, S)
    mean = Segments(SIZES).sum(expit(f + np.repeat(tilt, SIZES, axis=1)))
    np.testing.assert_allclose(mean + S * tilt, np.tile(k, (3, 1)), rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("spread", [0.1, 1, 5, 30, 1000])
def test_tilt_of_several_classes_solves_its_equation(spread, noisy):
    rng = np.random.default_rng(2)
    counts = np.array([[1, 1, 1, 1], [9, 0, 2, 1], [0, 5, 0, 0], [30, 12, 20, 2]], dtype=float)
    S = np.zeros((4, 4, 4))
    if noisy:
        counts[:2] += np.array([1.3, -2.8, 0.9, 0.6])
        S[:2] = 2.0 * (np.eye(4) - 0.25)
    sizes = np.round(counts.sum(axis=1)).astype(int)
    real = (np.arange(64) < sizes[:, None])[:, None, :].astype(float)
    f = spread * rng.normal(size=(3, 4, 4, 64))
    found = find_tilts(f, counts, real, S)
    tilt = found.tilt + np.where(found.present > 0, 0, -np.inf)
    q = softmax(f + tilt[..., None], axis=2)
    reached = (real * q).sum(axis=-1) + np.einsum("bcd,tbd->tbc", S, found.tilt)
    np.testing.assert_allclose(reached, np.tile(counts, (3, 1, 1)), atol=1e-6)


# --- two classes --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16, 17, 33, 64])
def test_two_classes_are_off_by_little_whatever_the_scores(n):
    rng = np.random.default_rng(n)
    off = []
    for k in np.unique([1, n // 4, n // 2, n - 1]):
        if k == 0:
            continue
        spread = np.exp(rng.uniform(np.log(0.05), np.log(60), size=(60, 1)))
        f = np.clip(spread * rng.normal(size=(60, n)) + 3 * rng.normal(size=(60, 1)), -250, 250)
        rows, zero = Segments(np.array([n])), np.zeros(1)
        value, gradient = two_class_loss(
            np.exp(f), rows, np.array([float(k)]), np.array([float(n)]), zero
        )
        assert two_class_loss(np.exp(f), rows, zero + k, zero + n, zero, False)[1] is None
        off.append(value[:, 0] - exact_loss(f, k))
        # a constant added to all scores moves the tilt, and nothing else
        np.testing.assert_allclose((expit(f) - gradient).sum(axis=1), k, atol=1e-6)
    assert np.abs(off).max() < 0.035
    assert np.abs(off).mean() < (0.02 if n == 2 else 0.01)


def test_two_classes_are_exact_for_large_bags_of_uncertain_rows():
    f = np.random.default_rng(0).normal(size=(5, 1000))
    rows, n = Segments(np.array([1000])), np.array([1000.0])
    for k in (200, 500):
        value, _ = two_class_loss(np.exp(f), rows, np.array([float(k)]), n, np.zeros(1))
        np.testing.assert_allclose(value[:, 0], exact_loss(f, k), atol=1e-5)


# --- several classes ----------------------------------------------------------------------------


def one_bag(counts, spread, seed=0):
    counts = np.asarray(counts, dtype=float)[None]
    n, n_classes = int(counts.sum()), counts.shape[1]
    f = spread * np.random.default_rng(seed).normal(size=(2, 1, n_classes, n))
    return f, counts, np.ones((1, 1, n)), np.zeros((1, n_classes, n_classes))


@pytest.mark.parametrize("spread", [0.3, 3.0])
@pytest.mark.parametrize("counts", [[1, 1], [3, 1], [12, 20]])
def test_two_of_several_classes_have_the_first_order(counts, spread):
    f, k, real, S = one_bag(counts, spread)
    value, gradient = several_class_loss(f, k, real, S)
    odds = f[:, 0, 1] - f[:, 0, 0]
    sizes = np.array([odds.shape[1]])
    tilt, _ = found_tilt(odds, k[0, 1:], sizes, np.zeros(1))
    tilted = expit(odds + tilt)
    moved = np.logaddexp(0, odds) - np.logaddexp(0, odds + tilt)
    variance = np.sum(tilted * (1 - tilted), axis=1)
    expected = moved.sum(axis=1) + tilt[:, 0] * counts[1] + 0.5 * np.log(1 + 2 * np.pi * variance)
    np.testing.assert_allclose(value[:, 0], expected, rtol=1e-9)
    np.testing.assert_allclose(gradient[:, 0, 0], -gradient[:, 0, 1], atol=1e-9)


@pytest.mark.parametrize("spread", [0.3, 3.0, 300.0])
@pytest.mark.parametrize("counts", [[3, 0, 2, 4], [0, 0, 5, 1], [0, 6, 0, 0]])
def test_classes_of_count_zero_are_left_out(counts, spread):
    """The probability that no row is of these classes, times that of the others' counts."""
    f, k, real, S = one_bag(counts, spread)
    value, gradient = several_class_loss(f, k, real, S)
    kept = np.flatnonzero(counts)
    part = several_class_loss(f[:, :, kept], k[:, kept], real, S[:, kept][:, :, kept])
    without = logsumexp(f, axis=2) - logsumexp(f[:, :, kept], axis=2)
    np.testing.assert_allclose(value, part[0] + without.sum(axis=-1), rtol=1e-10, atol=1e-10)
    moved = softmax(f, axis=2)
    moved[:, :, kept] -= softmax(f[:, :, kept], axis=2)
    moved[:, :, kept] += part[1]
    np.testing.assert_allclose(gradient, moved, atol=1e-8)


def test_slots_that_only_fill_up_change_nothing():
    f, k, real, S = one_bag([3, 2, 4], 2.0)
    value, gradient = several_class_loss(f, k, real, S)
    wide = np.concatenate([f, 7 + np.ones((2, 1, 3, 5))], axis=-1)
    filled = np.concatenate([real, np.zeros((1, 1, 5))], axis=-1)
    other, slope = several_class_loss(wide, k, filled, S)
    np.testing.assert_allclose(other, value, rtol=1e-12)
    np.testing.assert_allclose(slope[..., :9], gradient, atol=1e-12)
    assert not slope[..., 9:].any()


@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_order_of_classes_and_constants_of_rows_change_nothing(spread):
    f, k, real, S = one_bag([3, 2, 4, 1], spread)
    value, gradient = several_class_loss(f, k, real, S)
    order = [2, 0, 3, 1]
    constant = 50 * np.random.default_rng(1).normal(size=(2, 1, 1, 10))
    other, slope = several_class_loss((f + constant)[:, :, order], k[:, order], real, S)
    np.testing.assert_allclose(other, value, rtol=1e-9)
    np.testing.assert_allclose(slope, gradient[:, :, order], atol=1e-8)
    np.testing.assert_allclose(gradient.sum(axis=2), 0, atol=1e-10)
