import numpy as np
import pytest
from scipy.special import expit, gammaln, logit, psi
from scipy.stats import betabinom, binom, norm

from unbag import LLPClassifier, bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood
from unbag.observations.forward import ForwardLikelihood
from unbag.observations.noise import Shares, allow_for_looks, shrunken_shares

ONE = np.zeros(1, dtype=int)


def noisy_bags(sizes, counts, noise):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    return check_bag_target(bag_target(bag, counts=np.asarray(counts)[bag], noise=noise))


def test_rows_that_keep_their_odds_leave_counts_and_noise_alone():
    bags = noisy_bags([5, 9, 12], [2.3, -0.4, 11.0], 1.5)
    assert allow_for_looks(bags, 0.0) is bags
    nearly = allow_for_looks(bags, 1e-9)
    np.testing.assert_allclose(nearly.proportions, bags.proportions, atol=1e-7)
    np.testing.assert_allclose(nearly.noise, bags.noise, atol=1e-7)


def test_shuffled_bags_belong_to_both_worlds():
    rng = np.random.default_rng(0)
    sizes = np.full(4000, 20)
    counts = rng.binomial(20, 0.3, len(sizes)) + rng.normal(size=len(sizes))
    bags = noisy_bags(sizes, counts, 1.0)
    told = allow_for_looks(bags, 1.0)
    assert np.abs(told.proportions - bags.proportions).max() < 0.01
    assert np.abs(told.noise / bags.noise - 1).max() < 0.05


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


def test_the_weight_of_counts_is_right_to_second_order():
    """log of the noise's density, times that of the count over bags, over the binomial one."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(10, 30, 300)
    counts = rng.binomial(sizes, rng.beta(2, 3, 300)) + rng.normal(size=300)
    bags = noisy_bags(sizes, counts, 1.0)
    shares, q = Shares.of(bags), bags.class_shares[1]
    a, b = shares.mean[::-1] * (1 / shares.spread - 1)
    told = allow_for_looks(bags, 1.0)

    def log_weight(m, bag):
        n = sizes[bag]
        over = betabinom.logpmf(np.round(m), n, a, b) - binom.logpmf(np.round(m), n, q)
        return norm.logpdf(counts[bag], m, 1) + over

    for bag in np.flatnonzero(np.abs(counts / sizes - 0.5) < 0.2)[:20]:
        n, target = sizes[bag], sizes[bag] * told.proportions[bag, 1]
        S = n**2 * told.noise[bag, 1, 1]
        m = np.round(counts[bag]) + np.arange(-1, 2)
        expected, found = log_weight(m, bag), -((m - target) ** 2) / (2 * S)
        np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=0.05)


def test_much_noise_gives_the_forward_likelihood_at_shrunken_shares():
    rng = np.random.default_rng(3)
    sizes = np.full(40, 200)
    counts = rng.binomial(200, rng.uniform(0.1, 0.9, 40)) + rng.normal(scale=30, size=40)
    bags = noisy_bags(sizes, counts, 30.0)
    f = rng.normal(size=(1, 1, sizes.sum())) * 0.3
    f += logit(bags.class_shares[1])
    every = np.ones(40, dtype=bool)
    slopes = CountLikelihood(every, bags, looks=1.0).value_and_gradient(f, ONE)[1]
    forward = ForwardLikelihood(every, bags).value_and_gradient(f, ONE)[1]
    assert np.corrcoef(slopes.ravel(), forward.ravel())[0, 1] > 0.999
    np.testing.assert_allclose(slopes, forward, atol=0.03 * np.abs(forward).max())


def test_shrunken_shares_lie_between_what_is_told_and_the_mean():
    bags = noisy_bags([10, 10, 10, 10], [-1.0, 2.0, 7.0, 11.0], 2.0)
    found = shrunken_shares(bags)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (np.diff(found[:, 1]) > 0).all()
    told = bags.proportions[:, 1]
    assert (np.abs(found[:, 1] - told.mean()) < np.abs(told - told.mean())).all()


def test_several_classes_are_pulled_along_their_noise():
    rng = np.random.default_rng(4)
    bag = np.repeat(np.arange(50), 40)
    counts = rng.multinomial(40, [0.5, 0.3, 0.2], 50) + rng.normal(size=(50, 3))
    y = bag_target(bag, counts[bag] / 40, noise=1 / 40)
    bags = check_bag_target(y)
    told = allow_for_looks(bags, 1.0)
    np.testing.assert_allclose(told.proportions.sum(axis=1), 1)
    np.testing.assert_allclose(told.noise.sum(axis=2), 0, atol=1e-12)
    assert (np.linalg.eigvalsh(told.noise) > -1e-12).all()
    # S(N⁻¹(k − m) + r') = k* − m
    shares = Shares.of(bags)
    k, n = 40 * bags.proportions, 40.0
    m = shares.shrink(k, np.full(50, n), n**2 * bags.noise)
    a = shares.mean * (1 / shares.spread - 1)
    pull = np.linalg.pinv(n**2 * bags.noise) @ (k - m)[:, :, None]
    pull[:, :, 0] += psi(m + a) - np.log(bags.class_shares)
    moved = (n**2 * told.noise @ pull)[:, :, 0]
    np.testing.assert_allclose(n * told.proportions - m, moved, atol=1e-8)


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize("world", ["looks", "odds"])
def test_the_world_is_found_and_the_slope_with_it(world, size):
    rng = np.random.default_rng(5)
    bag = np.repeat(np.arange(16384 // size), size)
    n_bags = bag[-1] + 1
    x = rng.normal(size=len(bag))
    if world == "looks":
        labels = rng.random(len(bag)) < rng.choice([0.2, 0.8], n_bags)[bag]
        x += labels - 0.5
    else:
        x += rng.normal(size=n_bags)[bag]
        labels = rng.random(len(bag)) < expit(x - 0.5)
    deviation = np.sqrt(size) / 2
    counts = np.bincount(bag, labels) + rng.normal(scale=deviation, size=n_bags)
    y = bag_target(bag, counts=counts[bag], noise=deviation)
    model = LLPClassifier(kernel=None).fit(x[:, None], y)
    assert model.objective_ == "likelihood"
    assert model.looks_ == (world == "looks")
    assert model.bag_effect_ == 0
    assert model.coef_[0, 0] == pytest.approx(1.0, abs=0.1)


def test_the_density_of_a_dirichlet_multinomial_over_a_multinomial_one():
    """Binomial coefficients cancel: what is left is r of the module, up to a constant."""
    n, a, b, q = 12, 1.3, 2.1, 0.35
    m = np.arange(n + 1)
    over = betabinom.logpmf(m, n, a, b) - binom.logpmf(m, n, q)
    r = gammaln(m + a) + gammaln(n - m + b) - m * np.log(q) - (n - m) * np.log(1 - q)
    np.testing.assert_allclose(np.diff(over), np.diff(r))
