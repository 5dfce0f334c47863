"""The likelihood of counts: its definition by enumeration, its gradient, its limits."""

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.special import expit, logit, rel_entr, softmax

from unbag import bag_target, check_bag_target
from unbag.observations.count_likelihood import CountLikelihood, label_posteriors

ONE = np.zeros(1, dtype=np.intp)


def make_bags(counts, labels=(), noise=None):
    """Bags of these counts per class with their rows mixed up, and labelled rows in between."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    counts = np.vstack([counts, np.eye(counts.shape[1])[list(labels)]])
    sizes = np.round(counts.sum(axis=1)).astype(int)
    bag = np.random.default_rng(5).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if noise is not None:
        noise = np.where(np.arange(len(sizes)) < len(sizes) - len(labels), noise, 0.0)[bag]
        noise = np.stack([noise / sizes[bag]] * counts.shape[1], axis=1)
    shares = (counts / sizes[:, None])[bag]
    if counts.shape[1] == 2:
        shares, noise = shares[:, 1], None if noise is None else noise[:, 1]
    return check_bag_target(bag_target(bag, shares, noise=noise))


def all_of(bags, **settings):
    return CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags, **settings)


def enumerated(f, counts):
    """−log Pr(K = k), and the probability of each class given k, from all labellings of a bag."""
    outputs, n = f.shape
    p = softmax(f if outputs > 1 else np.concatenate([0 * f, f]), axis=0)
    labels = np.array(list(product(range(len(p)), repeat=n)))
    is_class = labels[:, None, :] == np.arange(len(p))[:, None]
    fits = (is_class.sum(axis=2) == counts).all(axis=1)
    probability = p[labels[fits], np.arange(n)].prod(axis=1)
    posterior = np.tensordot(probability, is_class[fits], 1) / probability.sum()
    return -np.log(probability.sum()), posterior if outputs > 1 else posterior[1:], p[-outputs:]


def problem_of(n_classes):
    """Bags of all kinds of sizes, pure ones and labelled rows among them; three problems."""
    if n_classes == 2:
        counts = [[1, 1], [0, 2], [3, 2], [5, 0], [9, 7], [16, 1], [2, 15], [30, 10], [0, 40]]
        counts += [[200, 100]]
    else:
        counts = [[1, 1, 0], [0, 2, 0], [2, 1, 2], [9, 2, 5], [16, 0, 1], [20, 10, 10]]
    bags = make_bags(counts, labels=[0, 1, 1, 0, n_classes - 1])
    included = np.ones((3, bags.n_bags), dtype=bool)
    included[1, ::3] = False
    included[2, 1::2] = False
    outputs = 1 if n_classes == 2 else n_classes
    scale = np.array([0.1, 1, 3, 10, 2])[:, None, None]
    scores = scale * np.random.default_rng(2).normal(size=(5, outputs, bags.n_instances))
    return bags, included, np.array([0, 1, 2, 2, 1]), scores


def numerical_gradient(likelihood, scores, step=1e-4):
    """Gradient of one column by differences of the fourth order."""
    shifts = step * np.eye(scores.size).reshape(-1, *scores.shape)
    problem = np.zeros(len(shifts), dtype=np.intp)
    near = likelihood.value(scores + shifts, problem) - likelihood.value(scores - shifts, problem)
    shifts *= 2
    far = likelihood.value(scores + shifts, problem) - likelihood.value(scores - shifts, problem)
    return ((8 * near - far) / (12 * step)).reshape(scores.shape)


# --- the definition -----------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.3, 3.0])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_two_classes_are_those_of_an_enumeration(n, spread):
    f = spread * np.random.default_rng(n).normal(size=(1, n))
    for k in range(n + 1):
        bags = make_bags([n - k, k])
        expected, posterior, p = enumerated(f, [n - k, k])
        value, gradient = all_of(bags).value_and_gradient(f[None], ONE)
        np.testing.assert_allclose(n * value[0], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(n * gradient[0], p - posterior, atol=1e-10)
        np.testing.assert_allclose(label_posteriors(f[None], bags)[0], posterior, atol=1e-10)
        by_saddle_point = all_of(bags, exact_size=0).value(f[None], ONE)
        np.testing.assert_allclose(n * by_saddle_point[0], expected, atol=0.04)


# For three classes the saddlepoint approximation is of the first order. It was found to be off by these at most,
# in the value of a bag (by a third of it on average) and in the probabilities of its rows.
@pytest.mark.parametrize(("spread", "off", "off_probability"), [(0.3, 0.09, 0.08), (3, 0.45, 0.15)])
@pytest.mark.parametrize("n", [2, 4, 7])
def test_three_classes_are_near_to_an_enumeration(n, spread, off, off_probability):
    for seed in range(20):
        rng = np.random.default_rng([n, seed])
        f = spread * rng.normal(size=(3, n))
        counts = np.bincount(rng.integers(3, size=n), minlength=3)
        bags = make_bags(counts)
        expected, posterior, p = enumerated(f, counts)
        value, gradient = all_of(bags, exact_size=0).value_and_gradient(f[None], ONE)
        np.testing.assert_allclose(n * value[0], expected, atol=off)
        np.testing.assert_allclose(n * gradient[0], p - posterior, atol=off_probability)


@pytest.mark.parametrize("spread", [0, 0.3, 3, 30])
@pytest.mark.parametrize(("n_classes", "n"), [(3, 2), (3, 4), (3, 7), (4, 3), (4, 6)])
def test_small_bags_of_several_classes_are_those_of_an_enumeration(n_classes, n, spread):
    for seed in range(10):
        rng = np.random.default_rng([n, seed])
        f = spread * rng.normal(size=(n_classes, n))
        counts = np.bincount(rng.integers(n_classes, size=n), minlength=n_classes)
        bags = make_bags(counts)
        expected, posterior, p = enumerated(f, counts)
        value, gradient = all_of(bags).value_and_gradient(f[None], ONE)
        np.testing.assert_allclose(n * value[0], expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(n * gradient[0], p - posterior, atol=1e-9)
        probabilities = label_posteriors(f[None], bags)[0]
        np.testing.assert_allclose(probabilities, posterior, atol=1e-9)
        np.testing.assert_allclose(probabilities.sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_bag_held_out_is_a_bag_that_is_not_there(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    likelihood = CountLikelihood(included, bags)
    assert likelihood.n_outputs == scores.shape[1]
    value, gradient = likelihood.value_and_gradient(scores, problem)
    np.testing.assert_allclose(likelihood.value(scores, problem), value, rtol=1e-14)
    for column, p in enumerate(problem):
        kept, rows = bags.take(included[p])
        one = all_of(kept).value_and_gradient(scores[column : column + 1, :, rows], ONE)
        np.testing.assert_allclose(one[0], value[column], rtol=1e-10)
        np.testing.assert_allclose(one[1][0], gradient[column][:, rows], atol=1e-11)
        assert not np.delete(gradient[column], rows, axis=1).any()


def test_counts_a_little_off_are_those_of_whole_rows():
    """As shares of two printed digits are, in small bags."""
    near = make_bags([[3.98, 3.02], [6.96, 0.04], [0.1, 6.9]])
    whole = make_bags([[4, 3], [7, 0], [0, 7]])
    scores = np.random.default_rng(0).normal(size=(1, 1, 21))
    first, second = (all_of(bags).value_and_gradient(scores, ONE) for bags in (near, whole))
    np.testing.assert_allclose(first[0], second[0], rtol=1e-14)
    np.testing.assert_allclose(first[1], second[1], atol=1e-14)


@pytest.mark.parametrize("count", [-2.0, 0.0, 2.6, 7.0, 9.5])
def test_noise_weighs_all_counts_by_its_density(count):
    f, variance = np.random.default_rng(0).normal(scale=2, size=(1, 7)), 1.7**2
    bags = make_bags([7 - count, count], noise=1.7)
    probabilities = np.exp([-enumerated(f, [7 - m, m])[0] for m in range(8)])
    density = np.exp(-((np.arange(8) - count) ** 2) / (2 * variance))
    expected = -np.log(probabilities @ density / np.sqrt(1 + 2 * np.pi * variance))
    exact, saddle_point = (
        all_of(bags, exact_size=size).value_and_gradient(f[None], ONE) for size in (16, 0)
    )
    assert 7 * exact[0][0] == pytest.approx(expected, rel=1e-12)
    assert 7 * saddle_point[0][0] == pytest.approx(expected, abs=0.03)
    np.testing.assert_allclose(7 * saddle_point[1], 7 * exact[1], atol=1e-3)


def test_a_count_that_noise_does_not_explain_leaves_everything_finite():
    scores = np.random.default_rng(0).normal(size=(1, 1, 8))
    found = all_of(make_bags([11, -3], noise=0.01)).value_and_gradient(scores, ONE)
    # the nearest count is that of no positive row
    np.testing.assert_allclose(8 * found[1][0, 0], expit(scores[0, 0]), atol=1e-12)
    assert np.isfinite(found[0]).all()


# --- the gradient -------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.3, 1, 3, 8])
@pytest.mark.parametrize("n", [17, 32, 64, 128])
def test_saddle_point_is_near_to_the_exact_sum(n, spread):
    for k in (1, n // 4, n // 2, n - 1):
        bags = make_bags([n - k, k])
        scores = spread * np.random.default_rng([n, k]).normal(size=(10, 1, n))
        problem = np.zeros(10, dtype=np.intp)
        exact = all_of(bags, exact_size=200).value_and_gradient(scores, problem)
        found = all_of(bags).value_and_gradient(scores, problem)
        few = min(k, n - k) == 1 or spread > 1
        np.testing.assert_allclose(n * found[0], n * exact[0], atol=0.035 if few else 0.002)
        np.testing.assert_allclose(n * found[1], n * exact[1], atol=0.035 if few else 0.002)


# --- limits -------------------------------------------------------------------------------------


def in_many_digits(f, k):
    """−log Pr(K = k) and its gradient, by convolution in 50 digits."""
    with mpmath.workdps(50):
        r = [mpmath.exp(mpmath.mpf(float(t))) for t in f]
        whole = sum(mpmath.log(1 + t) for t in r)

        def polynomial(odds):
            e = [mpmath.mpf(1)] + [mpmath.mpf(0)] * k
            for t in odds:
                e = [e[0]] + [e[i] + t * e[i - 1] for i in range(1, k + 1)]
            return e

        e = polynomial(r)[k]
        rest = [polynomial(r[:j] + r[j + 1 :])[k - 1] if k else 0 for j in range(len(r))]
        slope = [float(t / (1 + t) - t * other / e) for t, other in zip(r, rest, strict=True)]
        return float(whole - mpmath.log(e)), np.array(slope)


@pytest.mark.parametrize("scale", [30.0, 500.0, 1e4])
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (2, 1), (9, 0), (9, 1), (9, 8), (9, 9), (16, 7), (20, 0), (20, 20)]
)
def test_extreme_scores_against_many_digits(n, k, scale):
    f = np.random.default_rng(n + k).uniform(-scale, scale, size=n)
    f[: 2 + n // 3] = scale
    value, gradient = all_of(make_bags([n - k, k])).value_and_gradient(f[None, None], ONE)
    expected, slope = in_many_digits(f, k)
    np.testing.assert_allclose(n * value[0], expected, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(n * gradient[0, 0], slope, atol=1e-10)


@pytest.mark.parametrize("exact_size", [16, 200])
@pytest.mark.parametrize("scale", [30.0, 500.0, 1e4])
@pytest.mark.parametrize("k", [1, 10, 29])
def test_extreme_scores_of_larger_bags(k, scale, exact_size):
    """The middle rows lie close together, and the others far off."""
    f = np.random.default_rng(k).uniform(-scale, scale, size=30)
    f[:3] = np.sort(f)[-k] + np.array([-1.0, 0.5, 2.0])
    likelihood = all_of(make_bags([30 - k, k]), exact_size=exact_size)
    value, gradient = likelihood.value_and_gradient(f[None, None], ONE)
    expected, slope = in_many_digits(f, k)
    atol = 1e-9 if exact_size > 30 else 0.035
    np.testing.assert_allclose(30 * value[0], expected, rtol=1e-10, atol=atol)
    np.testing.assert_allclose(30 * gradient[0, 0], slope, atol=atol)


@pytest.mark.parametrize("counts", [[1, 1, 1], [4, 0, 3], [0, 0, 9], [10, 20, 15]])
def test_three_classes_far_apart_leave_nothing_to_learn_or_everything(counts):
    bags = make_bags(counts)
    labels = np.repeat(np.arange(3), counts)
    perfect = 1e4 * (np.eye(3)[labels].T - 0.5)
    scores = np.stack([perfect, np.roll(perfect, 1, axis=0)])
    value, gradient = all_of(bags).value_and_gradient(scores, np.zeros(2, dtype=np.intp))
    assert value[0] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(gradient[0], 0, atol=1e-12)
    # as many rows must change their class, at least, as classes have too few; for 1e4 each
    counts = np.array(counts)
    wrong = np.maximum(counts - np.roll(counts, 1), 0).sum()
    assert len(labels) * value[1] == pytest.approx(1e4 * wrong, abs=20)
    probabilities = label_posteriors(scores, bags)
    np.testing.assert_allclose(probabilities.sum(axis=2), [counts] * 2, atol=1e-3)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_large_bags_come_near_to_the_forward_likelihood(share):
    """Under label shift, n(G − F) = n KL(γ‖q) + log(2πV)/2 + (k − Σp)²/2V.

    F is at its best near the tilt that leads from q to γ; p are the probabilities there, V their
    variance. So G − F less what no model changes is of the order of log(n)/n.
    """
    n, shares = 4000, np.array([0.2, 0.6])
    labels = np.concatenate([np.arange(n) < n * s for s in shares]).astype(float)
    x = np.random.default_rng(0).normal(size=2 * n) + 2 * labels - 1
    bags = check_bag_target(bag_target(np.repeat([0, 1], n), np.repeat(shares, n)))
    f, own = 2 * x + logit(shares.mean()), np.repeat(shares, n) == share
    included = (shares == share)[None]
    count = CountLikelihood(included, bags).value(f[None, None], ONE)[0]
    p = expit(f[own])
    tilted = expit(f[own] + logit(share) - logit(shares.mean()))
    single = -np.log(share / 0.4 * p + (1 - share) / 0.6 * (1 - p)).mean()
    apart = rel_entr([share, 1 - share], [0.4, 0.6]).sum()
    V, gap = np.sum(tilted * (1 - tilted)), n * share - tilted.sum()
    rest = 0.5 * np.log(2 * np.pi * V) + gap**2 / (2 * V)
    assert n * (count - single - apart) == pytest.approx(rest, abs=0.02)
    assert count - single - apart < 2 * np.log(n) / n


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("size", [1, 40, 500])
def test_what_is_worked_on_together_changes_nothing(monkeypatch, size, n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    value, gradient = CountLikelihood(included, bags).value_and_gradient(scores, problem)
    monkeypatch.setattr("unbag.observations.bag_losses._CACHE", size)
    other = CountLikelihood(included, bags).value_and_gradient(scores, problem)
    np.testing.assert_allclose(other[0], value, rtol=1e-10)
    np.testing.assert_allclose(other[1], gradient, atol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_change_not_even_a_bit(monkeypatch, n_classes):
    monkeypatch.setattr("unbag.observations.bag_losses._CACHE", 40)
    bags, included, problem, scores = problem_of(n_classes)
    value, gradient = CountLikelihood(included, bags).value_and_gradient(scores, problem)
    monkeypatch.setattr("unbag.observations.count_likelihood._MANY_ROWS", 1)
    monkeypatch.setattr("unbag.observations.count_likelihood.allowed_threads", lambda: 3)
    other = CountLikelihood(included, bags).value_and_gradient(scores, problem)
    np.testing.assert_array_equal(other[0], value)
    np.testing.assert_array_equal(other[1], gradient)


# --- what is refused ----------------------------------------------------------------------------


def test_half_a_row_is_nothing_in_a_large_bag():
    """The value at a fraction of a row lies between those of the whole counts beside it."""
    scores = np.random.default_rng(0).normal(size=(1, 1, 101))
    low, between, high = (
        all_of(make_bags([101 - k, k])).value(scores, ONE)[0] for k in (30, 30.5, 31)
    )
    assert low > between > high
    assert between == pytest.approx((low + high) / 2, abs=1e-3)
