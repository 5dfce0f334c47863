"""Exact sums over counts: against convolution and leave-one-out."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from unbag.observations.bag_losses import weighed_counts


def count_probabilities(p):
    """Probabilities of the counts 0, ..., n of rows with probabilities p."""
    probabilities = np.ones(1)
    for one in p:
        probabilities = np.convolve(probabilities, [1 - one, one])
    return probabilities


def draw(n, shape=(), spread=2.0):
    return spread * np.random.default_rng(n).normal(size=(n, *shape))


@pytest.mark.parametrize("n", [1, 2, 5, 16, 60])
def test_every_count_has_the_probability_of_a_convolution(n):
    f = draw(n)
    final = np.eye(n + 1)
    mean, _ = weighed_counts(np.broadcast_to(f[:, None], (n, n + 1)), final, gradient=False)
    np.testing.assert_allclose(mean, count_probabilities(expit(f)), rtol=1e-12)
    assert mean.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("n", [1, 4, 9, 30])
def test_posteriors_are_those_of_leaving_one_row_out(n):
    """P(row j positive | K = k) = p_j Pr(K of the others = k − 1) / Pr(K = k)."""
    f = draw(n)
    p, final = expit(f), np.eye(n + 1)
    _, gains = weighed_counts(np.broadcast_to(f[:, None], (n, n + 1)), final)
    whole = count_probabilities(p)
    for j in range(n):
        others = np.concatenate([[0], count_probabilities(np.delete(p, j))])
        np.testing.assert_allclose(gains[j] + p[j], p[j] * others / whole, rtol=1e-9, atol=1e-12)
    # posteriors add up to the count
    np.testing.assert_allclose((gains + p[:, None]).sum(axis=0), np.arange(n + 1), atol=1e-9)


@pytest.mark.parametrize("count", [-1.0, 0.4, 3.0, 9.0])
def test_weights_of_counts_are_averaged(count):
    n, f = 7, draw(7)
    p, density = expit(f), norm.pdf(np.arange(8), count, 1.3)
    mean, gains = weighed_counts(f, density)
    whole = count_probabilities(p)
    assert mean == pytest.approx(whole @ density, rel=1e-12)
    for j in range(n):
        others = np.concatenate([[0], count_probabilities(np.delete(p, j))])
        posterior = p[j] * (others @ density) / (whole @ density)
        assert gains[j] == pytest.approx(posterior - p[j], rel=1e-9)


def test_few_counts_are_enough_if_larger_ones_have_no_weight():
    f, final = draw(9), np.zeros(10)
    final[2] = 1.0
    whole, short = weighed_counts(f, final), weighed_counts(f, final[:3])
    np.testing.assert_allclose(short[0], whole[0], rtol=1e-13)
    np.testing.assert_allclose(short[1], whole[1], atol=1e-13)


def test_slots_without_a_row_are_never_positive():
    f, final = draw(6), np.eye(7)[3]
    wide = np.concatenate([f[:2], [-1e30, -1e30], f[2:]])
    whole, filled = weighed_counts(f, final), weighed_counts(wide, final)
    np.testing.assert_allclose(filled[0], whole[0], rtol=1e-13)
    np.testing.assert_allclose(np.delete(filled[1], [2, 3]), whole[1], atol=1e-13)
    assert not filled[1][2:4].any()


def test_gains_are_the_gradient_of_the_logarithm():
    n, step = 8, 1e-6
    f, final = draw(n), np.random.default_rng(0).uniform(size=n + 1)
    _, gains = weighed_counts(f, final)
    shifts = step * np.eye(n)
    up, down = (
        weighed_counts(f[:, None] + sign * shifts, np.tile(final[:, None], n), gradient=False)[0]
        for sign in (1, -1)
    )
    np.testing.assert_allclose(gains, (np.log(up) - np.log(down)) / (2 * step), atol=1e-9)


def test_extreme_odds_keep_small_probabilities():
    """Nothing is subtracted: probabilities of 1e-300 are as exact as any."""
    f = np.array([-340.0, -345.0, 700.0, 2e3])
    mean, gains = weighed_counts(f, np.eye(5)[3])
    assert mean == pytest.approx(np.exp(-340) + np.exp(-345), rel=1e-12)
    share = expit(5.0)
    np.testing.assert_allclose(gains, [share, 1 - share, 0, 0], atol=1e-12)


def test_columns_side_by_side_are_columns_alone():
    f, final = draw(5, (3, 4)), np.random.default_rng(1).uniform(size=(6, 3, 4))
    mean, gains = weighed_counts(f, final)
    for column in np.ndindex(3, 4):
        one = weighed_counts(f[:, *column], final[:, *column])
        np.testing.assert_allclose(one[0], mean[column], rtol=1e-13)
        np.testing.assert_allclose(one[1], gains[:, *column], atol=1e-14)
