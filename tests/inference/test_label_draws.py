"""Draws of labels against enumeration, repeated rows and closed forms."""

from itertools import product

import numpy as np
import pytest
from scipy.special import comb, expit

from unbag.inference.label_draws import (
    LabelSampler,
    draw_bag_counts,
    redraw_two_by_two,
    round_counts,
)


def enumerated(scores, counts):
    """Posterior probabilities of the classes of rows of one bag."""
    K, n = scores.shape
    found = np.zeros((K, n))
    for labels in product(range(K), repeat=n):
        if (np.bincount(labels, minlength=K) == counts).all():
            weight = np.exp(sum(scores[c, j] for j, c in enumerate(labels)))
            found[labels, np.arange(n)] += weight
    return found / found.sum(axis=0)


@pytest.mark.parametrize(
    ("K", "counts"), [(2, [[4, 2], [1, 3]]), (3, [[3, 1, 2], [1, 2, 1]])], ids=["two", "three"]
)
def test_draws_of_small_bags_are_those_of_enumeration(K, counts):
    rng = np.random.default_rng(0)
    scores = 1.5 * rng.normal(size=(K, 10))
    sampler = LabelSampler(np.array([6, 4]), np.ones(10, dtype=int), rng)
    drawn = np.stack([sampler.draw(scores, np.array(counts)) for _ in range(4000)])
    for part, known in ((slice(0, 6), counts[0]), (slice(6, 10), counts[1])):
        assert (drawn[:, :, part].sum(axis=2) == known).all()
        exact = enumerated(scores[:, part], known)
        # standard error of a mean of 4,000 draws is below .008
        np.testing.assert_allclose(drawn[:, :, part].mean(axis=0), exact, atol=0.035)


@pytest.mark.parametrize("K", [2, 3])
def test_rows_that_stand_for_several_are_drawn_as_if_repeated(K):
    rng, n_chains = np.random.default_rng(1), 100
    number, scores = np.array([30, 12, 5, 20, 20]), rng.normal(size=(K, 5))
    counts = np.array([[17, 30], [8, 32]] if K == 2 else [[7, 20, 20], [10, 12, 18]])
    row = np.repeat(np.arange(5), number)
    found = []
    for sizes, own in (([3, 2], np.arange(5)), ([47, 40], row)):
        times = number if len(own) == 5 else np.ones(87, dtype=int)
        sampler = LabelSampler(np.tile(sizes, n_chains), np.tile(times, n_chains), rng)
        several = np.tile(scores[:, own], n_chains)
        draws = [sampler.draw(several, np.tile(counts, (n_chains, 1))) for _ in range(15)]
        cell = np.repeat(np.arange(n_chains), len(own)) * 5 + np.tile(own, n_chains)
        added = [[np.bincount(cell, one).reshape(-1, 5) for one in draw] for draw in draws]
        found.append(np.moveaxis(np.array(added), 2, 1).reshape(-1, K, 5))
    one, other = found
    assert (one.sum(axis=1) == number).all()
    np.testing.assert_allclose(one.mean(axis=0), other.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(one.std(axis=0), other.std(axis=0), rtol=0.1)


def test_pairs_are_noncentral_hypergeometric():
    own, other, total, log_odds = 6, 9, 7, 0.8
    rng, n = np.random.default_rng(2), 20000
    x = np.full(n, 3)
    sizes = (np.full(n, one) for one in (own, other, total))
    sizes = list(sizes)
    for _ in range(15):
        x = redraw_two_by_two(x, *sizes, np.full(n, log_odds), rng)
    support = np.arange(7)
    exact = comb(own, support) * comb(other, total - support) * np.exp(log_odds * support)
    np.testing.assert_allclose(np.bincount(x, minlength=7) / n, exact / exact.sum(), atol=0.015)


def test_rounded_counts_have_their_totals_and_expectations():
    rng = np.random.default_rng(3)
    counts = np.tile([1.25, 3.5, 0.25], (8000, 1))
    found = round_counts(counts, np.full(8000, 5.0), rng)
    assert (found.sum(axis=1) == 5).all()
    assert (np.abs(found - counts) < 1).all()
    np.testing.assert_allclose(found.mean(axis=0), [1.25, 3.5, 0.25], atol=0.03)


def test_noisy_counts_have_the_posterior_of_a_normal_count():
    rng, n = np.random.default_rng(4), 60
    eta = rng.normal(size=n) - 0.3
    p = expit(eta)
    V, noise, known = float(p @ (1 - p)), 9.0, 30.0
    scores = np.stack([np.zeros(n), eta])
    S = noise * np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    count = np.array([[n - known, known]])
    args = scores, np.array([n]), np.ones(n, int), count, S, (count, count), 0.0, rng
    draws = [draw_bag_counts(*args)[0, 1] for _ in range(3000)]
    mean = (p.sum() / V + known / noise) / (1 / V + 1 / noise)
    assert np.mean(draws) == pytest.approx(mean, abs=0.2)
    # whole numbers add their own variance of about a sixth
    assert np.var(draws) == pytest.approx(1 / (1 / V + 1 / noise) + 1 / 6, rel=0.1)


@pytest.mark.parametrize(
    ("low", "high"), [([2, 1], [7, 6]), ([0, 8], [0, 8]), ([1, 0, 2], [5, 3, 4])], ids=str
)
def test_counts_in_sets_are_those_of_enumeration(low, high):
    n, K = 8, len(low)
    rng = np.random.default_rng(5)
    scores, wanted = rng.normal(size=(K, n)), {}
    for labels in product(range(K), repeat=n):
        count = np.bincount(labels, minlength=K)
        if (low <= count).all() and (count <= high).all():
            weight = np.exp(sum(scores[c, j] for j, c in enumerate(labels)))
            wanted[tuple(count)] = wanted.get(tuple(count), 0.0) + weight
    chains = 4000
    ends = tuple(np.tile(np.array(one, dtype=float), (chains, 1)) for one in (low, high))
    middle = 8.0 * (ends[0] + ends[1]) / (ends[0] + ends[1]).sum(axis=1, keepdims=True)
    args = np.tile(scores, chains), np.full(chains, n), np.ones(n * chains, int), middle
    found = draw_bag_counts(*args, np.zeros((chains, K, K)), ends, 0.0, rng)
    assert set(map(tuple, found.tolist())) <= set(wanted)
    exact = np.array(list(wanted.values())) / sum(wanted.values())
    share = [np.mean((found == count).all(axis=1)) for count in wanted]
    # the normal law of eight labels is an approximation
    np.testing.assert_allclose(share, exact, atol=0.04)
