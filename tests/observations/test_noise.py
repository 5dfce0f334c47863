import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import betabinom, binom

from unbag import bag_target, check_bag_target
from unbag.observations.noise import Shares, shrunken_shares

ONE = np.zeros(1, dtype=int)


def noisy_bags(sizes, counts, noise):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return check_bag_target(bag_target(bag, counts=np.asarray(counts)[bag], noise=noise))


def test_the_spread_of_shares_is_that_of_a_dirichlet_beyond_noise():
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 60, 4000)
    shares = rng.dirichlet([2.0, 1.0, 1.0], len(sizes))
    counts = np.array([rng.multinomial(n, p) for n, p in zip(sizes, shares, strict=True)])
    bag = np.repeat(np.arange(len(sizes)), sizes)
    noisy = counts + rng.normal(scale=2.0, size=counts.shape)
    bags = check_bag_target(bag_target(bag, noisy[bag] / sizes[bag, None], noise=2 / sizes[bag]))
    found = Shares.of(bags)
    np.testing.assert_allclose(found.mean, [0.5, 0.25, 0.25], atol=0.01)
    assert found.spread == pytest.approx(1 / 5, abs=0.01)


def test_shrunken_shares_lie_between_what_is_told_and_the_mean():
    bags = noisy_bags([10, 10, 10, 10], [-1.0, 2.0, 7.0, 11.0], 2.0)
    found = shrunken_shares(bags)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (np.diff(found[:, 1]) > 0).all()
    told = bags.proportions[:, 1]
    assert (np.abs(found[:, 1] - told.mean()) < np.abs(told - told.mean())).all()


def test_the_density_of_a_dirichlet_multinomial_over_a_multinomial_one():
    """Binomial coefficients cancel: what is left is r of the module, up to a constant."""
    n, a, b, q = 12, 1.3, 2.1, 0.35
    m = np.arange(n + 1)
    over = betabinom.logpmf(m, n, a, b) - binom.logpmf(m, n, q)
    r = gammaln(m + a) + gammaln(n - m + b) - m * np.log(q) - (n - m) * np.log(1 - q)
    np.testing.assert_allclose(np.diff(over), np.diff(r))
