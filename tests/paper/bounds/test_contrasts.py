"""How far apart merging brings bags on average: enumeration, a double sum, and simulation."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from unbag.paper.bounds.merged import expected_contrasts
from unbag.paper.weights import MERGERS


def halves_apart(shares):
    """Mean of the larger half less that of the smaller half, along the last axis."""
    ordered = np.sort(shares, axis=-1)
    half = shares.shape[-1] // 2
    return ordered[..., half:].mean(axis=-1) - ordered[..., :half].mean(axis=-1)


@pytest.mark.parametrize(("n", "K"), [(1, 3), (2, 2), (3, 1)])
def test_contrast_of_blockwise_max_by_enumeration(n, K):
    gamma = np.random.default_rng(0).random(2 * K)
    expected = 0.0
    for counts in product(range(n + 1), repeat=2 * K):
        probability = binom.pmf(counts, n, gamma).prod()
        expected += probability * halves_apart(np.array(counts) / n)
    found = expected_contrasts(gamma, K, n, scheme="blockwise_max")
    assert found == pytest.approx([expected])


def test_blockwise_max_has_the_larger_contrast():
    """The figures of the page: bags of 8, at .45 or .55 with equal probability."""
    gamma = np.random.default_rng(0).choice([0.45, 0.55], 20_000)
    by_pairs = expected_contrasts(gamma, 100, 8).mean()
    by_max = expected_contrasts(gamma, 100, 8, scheme="blockwise_max").mean()
    assert by_pairs == pytest.approx(0.204, abs=0.001)
    assert by_max == pytest.approx(0.284, abs=0.001)


def test_contrast_of_the_true_proportions_is_a_lower_bound():
    """The contrast is convex in the shares, and under (CIBM) only their means are known."""
    gamma = np.random.default_rng(0).random(40)
    for scheme in MERGERS:
        least = expected_contrasts(gamma, 5, model="CIBM", scheme=scheme)
        for n in (1, 4, 50):
            assert (least <= expected_contrasts(gamma, 5, n, scheme=scheme) + 1e-12).all()
    by_max = expected_contrasts(gamma, 5, model="CIBM", scheme="blockwise_max")
    assert by_max == pytest.approx(halves_apart(gamma.reshape(4, 10)))


def test_one_share_moves_the_contrast_of_blockwise_max_by_one_over_k():
    """The bounded difference of McDiarmid's inequality, and that it is attained."""
    rng = np.random.default_rng(0)
    K, moved = 4, []
    for _ in range(2000):
        shares = rng.choice([0.0, 0.3, 1.0, rng.random()], 2 * K)
        other = shares.copy()
        other[rng.integers(2 * K)] = rng.choice([0.0, 1.0])
        moved.append(abs(halves_apart(shares) - halves_apart(other)))
    assert max(moved) <= 1 / K + 1e-12
    assert max(moved) > 0.99 / K


@pytest.mark.parametrize(("K", "n"), [(1, 1), (5, 1), (20, 1), (20, 8), (100, 2)])
def test_contrast_of_blockwise_max_seldom_falls_short(K, n):
    """P(short by ε) ≤ e^{−Kε²}, in 20,000 blocks of bags as different as can be."""
    rng = np.random.default_rng(K)
    gamma = np.tile([0.5, 0.9], K)
    mean = expected_contrasts(gamma, K, n, scheme="blockwise_max")[0]
    contrast = halves_apart(rng.binomial(n, gamma, (20_000, 2 * K)) / n)
    error = contrast.std() / np.sqrt(len(contrast))
    assert contrast.mean() == pytest.approx(mean, abs=4 * error + 1e-12)
    for epsilon in (0.02, 0.05, 0.1, 0.2, 0.4):
        assert np.mean(contrast <= mean - epsilon) <= np.exp(-K * epsilon**2)


def test_expected_contrast_is_the_double_sum():
    rng = np.random.default_rng(0)
    gamma, n = np.append(rng.random(10), [0.0, 1.0]), 5
    counts = np.arange(n + 1)
    distance = np.abs(counts[:, None] - counts) / n
    pairs = [
        binom.pmf(counts, n, left) @ distance @ binom.pmf(counts, n, right)
        for left, right in zip(gamma[::2], gamma[1::2], strict=True)
    ]
    found = expected_contrasts(gamma, merge_size=3, bag_size=n)
    assert found == pytest.approx(np.reshape(pairs, (2, 3)).mean(axis=1))
    # what is known without independent labels is a lower bound
    assert (expected_contrasts(gamma, merge_size=3, model="CIBM") < found).all()


def test_mistakes_in_proportions_are_named():
    with pytest.raises(ValueError, match="multiple of 2K = 4"):
        expected_contrasts([0.1, 0.2], 2, 8)
    with pytest.raises(ValueError, match=r"0 ≤ γ ≤ 1 fails: the proportion is 1\.2 for bag 1"):
        expected_contrasts([0.1, 1.2], 1, 8)
    with pytest.raises(ValueError, match="bag_size must be a whole number"):
        expected_contrasts([0.1, 0.2], 1)
    with pytest.raises(ValueError, match="scheme must be one of"):
        expected_contrasts([0.1, 0.2], 1, 8, scheme="dominating")
