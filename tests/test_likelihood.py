"""The count likelihood: its definition by enumeration, its gradient, its limits."""

from itertools import combinations
from math import comb, inf, log

import array_api_strict
import mpmath
import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import betabinom, binom

from unbag import bag_target, check_bag_target
from unbag.count_prior import CountPrior, fit_count_prior
from unbag.likelihood import CountLikelihood

ONE = np.zeros(1, dtype=np.intp)


def make_bags(counts, sizes, labels=None):
    """Bags with their instances mixed up, and labelled rows (if any) in between."""
    bag = np.repeat(np.arange(len(sizes)), sizes)
    known = np.full(len(bag), np.nan)
    if labels is not None:
        bag = np.concatenate([bag, np.full(len(labels), len(sizes))])
        known = np.concatenate([known, labels])
        counts = [*counts, sum(labels)]
    order = np.random.default_rng(5).permutation(len(bag))
    return check_bag_target(
        bag_target(bag[order], counts=np.asarray(counts)[bag[order]], labels=known[order])
    )


def set_prior(monkeypatch, *priors):
    """Fix the priors of the problems, which are otherwise fitted to the counts."""
    given = iter(priors)
    monkeypatch.setattr("unbag.likelihood.fit_count_prior", lambda *_: next(given))


def prior_chances(prior, n):
    """π_0, ..., π_n as SciPy has them."""
    if prior.concentration == inf:
        return binom.pmf(np.arange(n + 1), n, prior.mean)
    c = prior.concentration
    return betabinom.pmf(np.arange(n + 1), n, c * prior.mean, c * (1 - prior.mean))


def enumerated(f, prior):
    """P(k | x) for all k, and the posterior of each label given k, from all label subsets."""
    n, r = len(f), np.exp(f)
    e, marginal = np.zeros(n + 1), np.zeros((n + 1, n))
    for k in range(n + 1):
        for chosen in combinations(range(n), k):
            product = r[list(chosen)].prod()
            e[k] += product
            marginal[k, list(chosen)] += product
    joint = prior_chances(prior, n) * e / [comb(n, k) for k in range(n + 1)]
    return joint / joint.sum(), marginal / e[:, None]


def exact(f, prior, k):
    """−log P(k | x) and its gradient in many digits, by the recurrence of e_k."""
    with mpmath.workdps(60):
        n, r = len(f), [mpmath.exp(mpmath.mpf(float(t))) for t in f]

        def polynomial(odds):
            e = [mpmath.mpf(1)]
            for t in odds:
                e = [low + t * high for low, high in zip([*e, 0], [0, *e], strict=True)]
            return e

        def weight(m):
            m, mean, c = mpmath.mpf(m), mpmath.mpf(prior.mean), prior.concentration
            if c == inf:
                return mean**m * (1 - mean) ** (n - m)
            a, b = mean * c, (1 - mean) * c
            return mpmath.beta(m + a, n - m + b) / mpmath.beta(a, b)

        weights = [weight(m) for m in range(n + 1)]
        e = polynomial(r)
        total = sum(w * t for w, t in zip(weights, e, strict=True))
        gradient = []
        for j in range(n):
            rest = [0, *polynomial(r[:j] + r[j + 1 :])]
            chance = r[j] * sum(w * t for w, t in zip(weights, rest, strict=True)) / total
            gradient.append(float(chance - r[j] * rest[k] / e[k]))
        return float(mpmath.log(total) - mpmath.log(weights[k] * e[k])), np.array(gradient)


PRIORS = [
    CountPrior(0.5, 2.0),
    CountPrior(0.3, 0.4),
    CountPrior(0.07, 30.0),
    CountPrior(0.8, 1e4),
    CountPrior(0.25, inf),
]


# --- the definition -----------------------------------------------------------------------------


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 11])
def test_value_gradient_and_posteriors_are_those_of_an_enumeration(n, prior, monkeypatch):
    f = np.random.default_rng(n).normal(scale=3, size=n)
    chances, posteriors = enumerated(f, prior)
    found = []
    for k in range(n + 1):
        set_prior(monkeypatch, prior)
        likelihood = CountLikelihood(np.array([True]), make_bags([k], [n]))
        order = np.random.default_rng(5).permutation(n)
        scores = f[order][None, None]
        value, gradient = likelihood.value_and_gradient(scores, ONE)
        found.append(np.exp(-n * value[0]))
        np.testing.assert_allclose(
            likelihood.label_posteriors(scores)[0, 0], posteriors[k, order], atol=1e-12
        )
        expected = (chances @ posteriors - posteriors[k])[order] / n
        np.testing.assert_allclose(gradient[0, 0], expected, atol=1e-12)
    np.testing.assert_allclose(found, chances, rtol=1e-9)
    np.testing.assert_allclose(sum(found), 1, rtol=1e-10)


def test_binomial_prior_gives_the_poisson_binomial(monkeypatch):
    n, mean = 70, 0.3
    f = np.random.default_rng(0).normal(scale=2, size=n)
    expected = np.ones(1)
    for chance in expit(f + logit(mean)):
        expected = np.convolve(expected, [1 - chance, chance])
    for k in (0, 1, 10, 30, 69, 70):
        set_prior(monkeypatch, CountPrior(mean, inf))
        likelihood = CountLikelihood(np.array([True]), make_bags([k], [n]))
        value = likelihood.value(f[None, None], ONE)[0]
        np.testing.assert_allclose(n * value, -np.log(expected[k]), rtol=1e-9)


def some_bags():
    """Sizes of all kinds, pure bags and labelled rows among them."""
    sizes = [1, 1, 2, 3, 8, 8, 17, 18, 30, 40]
    counts = [0, 1, 1, 3, 0, 2, 5, 12, 29, 7]
    return make_bags(counts, sizes, labels=[0, 1, 1, 0, 0])


def some_problem():
    bags = some_bags()
    included = np.ones((3, bags.n_bags), dtype=bool)
    included[1, ::3] = False
    included[2, 1::2] = False
    rng = np.random.default_rng(2)
    problem = np.array([0, 1, 2, 2, 1])
    scale = np.array([0.1, 1, 3, 10, 2])[:, None, None]
    return bags, included, problem, scale * rng.normal(size=(5, 1, bags.n_instances))


def test_gradient_is_the_finite_difference():
    bags, included, problem, scores = some_problem()
    likelihood = CountLikelihood(included, bags)
    assert bags.labelled.any()
    assert likelihood.n_outputs == 1
    value, gradient = likelihood.value_and_gradient(scores, problem)
    np.testing.assert_array_equal(value, likelihood.value(scores, problem))
    step, n = 1e-5, bags.n_instances
    shifts = np.concatenate([np.eye(n), -np.eye(n)])[:, None]
    for column, p in enumerate(problem):
        values = likelihood.value(scores[column] + step * shifts, np.full(2 * n, p))
        expected = (values[:n] - values[n:]) / (2 * step)
        np.testing.assert_allclose(gradient[column, 0], expected, atol=1e-9)


def test_a_bag_held_out_is_a_bag_that_is_not_there():
    bags, included, problem, scores = some_problem()
    value, gradient = CountLikelihood(included, bags).value_and_gradient(scores, problem)
    for column, p in enumerate(problem):
        kept, rows = bags.take(included[p])
        alone = CountLikelihood(np.ones(kept.n_bags, dtype=bool), kept)
        one = alone.value_and_gradient(scores[column : column + 1, :, rows], problem[:1])
        np.testing.assert_allclose(one[0], value[column], rtol=1e-12)
        np.testing.assert_allclose(one[1][0, 0], gradient[column, 0, rows], atol=1e-13)
        assert not np.delete(gradient[column, 0], rows).any()


def test_value_is_the_sum_over_the_bags_alone(monkeypatch):
    bags, *_, scores = some_problem()
    prior = CountPrior(0.3, 1.5)
    set_prior(monkeypatch, prior)
    whole = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
    zero = np.zeros(len(scores), dtype=np.intp)
    total = 0.0
    for bag in range(bags.n_bags):
        alone, rows = bags.take(np.array([bag]))
        set_prior(monkeypatch, prior)
        likelihood = CountLikelihood(np.array([True]), alone)
        total += len(rows) * likelihood.value(scores[:, :, rows], zero)
    np.testing.assert_allclose(bags.n_instances * whole.value(scores, zero), total, rtol=1e-10)


def test_labelled_rows_are_logistic_regression_with_the_prior_odds():
    labels = np.array([0, 1, 1, 0, 0, 0, 0, 1])
    bags = check_bag_target(labels)
    scores = np.random.default_rng(0).normal(scale=3, size=(2, 1, 8))
    likelihood = CountLikelihood(np.ones(2, dtype=bool), bags)
    margin = np.where(labels, 1, -1) * (scores[:, 0] + log(3 / 5))
    expected = np.logaddexp(0, -margin).mean(axis=1)
    value = likelihood.value(scores, np.zeros(2, dtype=np.intp))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_array_equal(likelihood.label_posteriors(scores), [[labels]] * 2)


def test_posteriors_given_the_count_sum_to_the_count():
    bags, included, _, scores = some_problem()
    chances = CountLikelihood(included, bags).label_posteriors(scores)
    assert chances.shape == scores.shape
    assert chances.min() >= 0
    assert chances.max() <= 1
    np.testing.assert_allclose(
        bags.means(chances[:, 0]), np.tile(bags.proportions[:, 1], (5, 1)), atol=1e-12
    )


# --- stability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [CountPrior(0.3, 2.0), CountPrior(0.4, inf)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1000.0, 10000.0])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (9, 1), (9, 8), (24, 12), (40, 3)])
def test_extreme_scores_against_many_digits(n, k, scale, prior, monkeypatch):
    f = np.random.default_rng(n + k).uniform(-scale, scale, size=n)
    f[:2] = scale
    set_prior(monkeypatch, prior)
    bags = make_bags([k], [n])
    likelihood = CountLikelihood(np.array([True]), bags)
    value, gradient = likelihood.value_and_gradient(f[None, None], ONE)
    expected, slope = exact(f, prior, k)
    np.testing.assert_allclose(n * value[0], expected, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(n * gradient[0, 0], slope, atol=1e-10)


@pytest.mark.parametrize("k", [1, 40, 2000, 4090, 4095, 0, 4096])
def test_large_bags_have_the_right_limits(k):
    n = 4096
    bags = make_bags([k, 1], [n, n])
    likelihood = CountLikelihood(np.array([True, False]), bags)
    own = np.flatnonzero(bags.index == 0)
    sign = np.full(2 * n, -1.0)
    sign[own[:k]] = 1
    scores = np.stack([np.zeros(2 * n), 1e4 * sign, -1e4 * sign, 1e4 * np.sin(np.arange(2 * n))])
    problem = np.zeros(4, dtype=np.intp)
    value, gradient = likelihood.value_and_gradient(scores[:, None], problem)
    chances = likelihood.label_posteriors(scores[:, None])[:, 0, own]
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(chances.sum(axis=1), k, rtol=1e-9)
    # scores that say nothing leave the prior; perfect scores leave nothing to learn
    prior = likelihood.priors[0]
    np.testing.assert_allclose(n * value[0], -log(prior_chances(prior, n)[k]), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(chances[0], k / n, rtol=1e-9)
    np.testing.assert_allclose(value[1], 0, atol=1e-10)
    np.testing.assert_allclose(gradient[1], 0, atol=1e-14)
    np.testing.assert_allclose(chances[1], sign[own] > 0, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(300, 20), (401, 200)])
def test_large_bags_against_many_digits(n, k, monkeypatch):
    prior = CountPrior(0.3, 3.0)
    f = np.random.default_rng(n).normal(scale=2, size=n)
    set_prior(monkeypatch, prior)
    likelihood = CountLikelihood(np.array([True]), make_bags([k], [n]))
    value, gradient = likelihood.value_and_gradient(f[None, None], ONE)
    with mpmath.workdps(30):
        a, b = mpmath.mpf(prior.mean) * 3, mpmath.mpf(1 - prior.mean) * 3
        r = [mpmath.exp(mpmath.mpf(t)) for t in f]
        rest = np.array([mpmath.mpf(1)], dtype=object)
        for t in r[1:]:
            rest = np.append(rest, 0) + np.append([0], rest) * t
        first = np.append([0], rest) * r[0]
        e = np.append(rest, 0) + first
        weights = np.array([mpmath.beta(m + a, n - m + b) for m in range(n + 1)])
        total = weights @ e
        expected = float(mpmath.log(total / (weights[k] * e[k])))
        slope = float(weights @ first / total - first[k] / e[k])
    np.testing.assert_allclose(n * value[0], expected, rtol=1e-9)
    np.testing.assert_allclose(n * gradient[0, 0, 0], slope, atol=1e-9)


# --- arrays -------------------------------------------------------------------------------------


def test_other_namespaces_and_float32_give_the_same():
    bags, included, problem, scores = some_problem()
    single = scores.astype(np.float32)
    likelihood = CountLikelihood(included, bags)
    value, gradient = likelihood.value_and_gradient(single.astype(float), problem)
    value_of_single, gradient_of_single = likelihood.value_and_gradient(single, problem)
    assert gradient_of_single.dtype == np.float32
    np.testing.assert_array_equal(value_of_single, value)
    np.testing.assert_array_equal(gradient_of_single, gradient.astype(np.float32))
    for given in (single, single.astype(float)):
        strict = array_api_strict.asarray(given)
        other = CountLikelihood(included, bags, like=strict)
        other_value, other_gradient = other.value_and_gradient(strict, problem)
        assert other_gradient.dtype == strict.dtype
        np.testing.assert_allclose(other_value, value, rtol=1e-13)
        np.testing.assert_allclose(np.asarray(other_gradient), gradient, rtol=1e-6, atol=1e-14)
        posteriors = np.asarray(other.label_posteriors(strict))
        np.testing.assert_allclose(posteriors, likelihood.label_posteriors(given), atol=1e-7)


def test_size_of_the_chunks_changes_nothing(monkeypatch):
    bags, included, problem, scores = some_problem()
    likelihood = CountLikelihood(included, bags)
    value, gradient = likelihood.value_and_gradient(scores, problem)
    monkeypatch.setattr("unbag.likelihood._FEWEST_ROWS", 1)
    for size in (1, 40, 10**6):
        monkeypatch.setattr("unbag.likelihood._CHUNK", (size, size))
        other = likelihood.value_and_gradient(scores, problem)
        np.testing.assert_allclose(other[0], value, rtol=1e-13)
        np.testing.assert_allclose(other[1], gradient, atol=1e-14)


def test_shares_are_rounded_to_counts():
    bag = np.repeat([0, 1], 7)
    rounded = check_bag_target(bag_target(bag, np.where(bag, 0.43, 0.7)))
    whole = check_bag_target(bag_target(bag, counts=np.where(bag, 3, 5)))
    scores = np.random.default_rng(0).normal(size=(1, 1, 14))
    first, second = (
        CountLikelihood(np.ones(2, dtype=bool), b).value_and_gradient(scores, ONE)
        for b in (rounded, whole)
    )
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_mistakes_are_named():
    bags = make_bags([1, 2], [3, 3])
    three = check_bag_target(bag_target([0, 0, 1, 1], [[0.5, 0.5, 0]] * 2 + [[0, 0.5, 0.5]] * 2))
    with pytest.raises(ValueError, match="two classes and there are 3"):
        CountLikelihood(np.ones(2, dtype=bool), three)
    with pytest.raises(ValueError, match="each of the 2 bags"):
        CountLikelihood(np.ones(3, dtype=bool), bags)
    with pytest.raises(ValueError, match="holds out every bag"):
        CountLikelihood(np.array([[True, True], [False, False]]), bags)


# --- the prior ----------------------------------------------------------------------------------


def test_prior_is_fitted_to_the_bags_and_not_to_labelled_rows():
    """As many rows may have been labelled of one class as of the other, however rare it is."""
    counts, sizes = [0, 1, 2, 0], [8, 8, 8, 8]
    bags = make_bags(counts, sizes, labels=[0, 1] * 20)
    included = np.ones((2, bags.n_bags), dtype=bool)
    included[1, :2] = False
    likelihood = CountLikelihood(included, bags)
    kept = [counts[i] for i in range(4) if included[1, i]]
    assert likelihood.priors == [fit_count_prior(counts, sizes), fit_count_prior(kept, [8] * 2)]


def test_prior_of_labelled_rows_alone_is_that_of_their_labels():
    bags = make_bags([4, 2], [8, 8], labels=[0, 1, 1, 1])
    likelihood = CountLikelihood(bags.labelled, bags)
    assert likelihood.priors == [CountPrior(0.75, inf)]


def test_prior_can_be_given():
    bags, included, problem, scores = some_problem()
    fitted = CountLikelihood(included[:1], bags)
    given = CountLikelihood(included, bags, prior=fitted.priors[0])
    assert given.priors == fitted.priors * 3
    np.testing.assert_array_equal(
        given.value(scores[:1], problem[:1]), fitted.value(scores[:1], problem[:1])
    )


def test_pure_bags_leave_everything_finite():
    bags = make_bags([0, 8, 8, 0, 8], [8] * 5)
    value, gradient = CountLikelihood(np.ones(5, dtype=bool), bags).value_and_gradient(
        np.full((1, 1, 40), 50.0), ONE
    )
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
