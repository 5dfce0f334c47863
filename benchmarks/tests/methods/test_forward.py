"""The forward likelihood: its definition, its gradient, and what it must agree with."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from unbag import bag_target, check_bag_target
from unbag_bench.methods.forward import ForwardLikelihood, Shares, shrunken_shares

ONE = np.zeros(1, dtype=np.intp)


def make_bags(n_classes, noise=None):
    """Bags of several sizes and shares, mixed up; with a pure one and one without a class."""
    rng = np.random.default_rng(n_classes)
    sizes = np.array([1, 2, 5, 9, 30, 13])
    shares = rng.dirichlet(np.ones(n_classes), size=6)
    shares[1] = np.eye(n_classes)[0]
    if n_classes == 3:
        shares[2] = [0.3, 0.0, 0.7]
    bag = rng.permutation(np.repeat(np.arange(6), sizes))
    y = bag_target(bag, shares[bag, 1] if n_classes == 2 else shares[bag], noise=noise)
    return check_bag_target(y)


def problem_of(n_classes):
    bags = make_bags(n_classes)
    included = np.ones((3, 6), dtype=bool)
    included[1, ::3] = False
    included[2, 3] = False
    scale = np.array([0.1, 1, 3, 2])[:, None, None]
    outputs = 1 if n_classes == 2 else n_classes
    scores = scale * np.random.default_rng(2).normal(size=(4, outputs, bags.n_instances))
    return bags, included, np.array([0, 1, 2, 1]), scores


def defined(bags, included, scores):
    """−(1/T) Σ_j log Σ_c (γ_c/q_c) p_c of one column, row by row.

    Classes that a bag does not hold count a millionth of their share.
    """
    powers = np.concatenate([0 * scores, scores]) if len(scores) == 1 else scores
    p = softmax(powers, axis=0)
    sizes = bags.sizes * included
    q = sizes @ bags.proportions / sizes.sum()
    total = 0.0
    for j, bag in enumerate(bags.index):
        if included[bag]:
            total -= np.log(np.maximum(bags.proportions[bag] / q, 1e-6) @ p[:, j])
    return total / sizes.sum()


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_value_is_that_of_the_definition(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    likelihood = ForwardLikelihood(included, bags)
    assert likelihood.n_outputs == scores.shape[1]
    value = likelihood.value(scores, problem)
    expected = [defined(bags, included[p], f) for p, f in zip(problem, scores, strict=True)]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(likelihood.value_and_gradient(scores, problem)[0], value, rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient_is_the_finite_difference(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    likelihood = ForwardLikelihood(included, bags)
    gradient = likelihood.value_and_gradient(scores, problem)[1]
    step, size = 1e-5, scores[0].size
    shifts = step * np.eye(size).reshape(-1, *scores[0].shape)
    for column, p in enumerate(problem):
        up, down = (
            likelihood.value(scores[column] + sign * shifts, np.full(size, p)) for sign in (1, -1)
        )
        np.testing.assert_allclose(
            gradient[column].reshape(-1), (up - down) / (2 * step), atol=1e-10
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_bag_held_out_is_a_bag_that_is_not_there(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    value, gradient = ForwardLikelihood(included, bags).value_and_gradient(scores, problem)
    for column, p in enumerate(problem):
        kept, rows = bags.take(included[p])
        alone = ForwardLikelihood(np.ones(kept.n_bags, dtype=bool), kept)
        one = alone.value_and_gradient(scores[column : column + 1, :, rows], ONE)
        np.testing.assert_allclose(one[0], value[column], rtol=1e-12)
        np.testing.assert_allclose(one[1][0], gradient[column][:, rows], atol=1e-15)
        assert not np.delete(gradient[column], rows, axis=1).any()


def test_two_classes_are_a_softmax_of_two():
    """A third class that no bag holds, and no score favours, changes nothing."""
    bags, included, problem, scores = problem_of(2)
    rng = np.random.default_rng(0)
    base = rng.normal(size=scores.shape)
    three = np.concatenate([base, base + scores, np.full_like(base, -1e3)], axis=1)
    shares = np.column_stack([bags.proportions, np.zeros(6)])
    wide = check_bag_target(bag_target(bags.index, shares[bags.index]))
    value, gradient = ForwardLikelihood(included, bags).value_and_gradient(scores, problem)
    other = ForwardLikelihood(included, wide).value_and_gradient(three, problem)
    np.testing.assert_allclose(other[0], value, rtol=1e-12)
    np.testing.assert_allclose(other[1][:, 1:2], gradient, atol=1e-15)
    np.testing.assert_allclose(other[1][:, :1], -gradient, atol=1e-15)


def test_pure_bags_are_the_logistic_loss():
    """Up to the logarithm of the class shares, which no model changes."""
    labels = np.arange(40) % 5 == 0
    scores = np.random.default_rng(0).uniform(-3, 3, size=(1, 1, 40))
    bags = check_bag_target(bag_target(labels.astype(int), labels.astype(float)))
    value, gradient = ForwardLikelihood(np.ones(2, dtype=bool), bags).value_and_gradient(
        scores, ONE
    )
    loss = np.logaddexp(0, np.where(labels, -1, 1) * scores[0, 0])
    expected = np.mean(loss + np.log(np.where(labels, 0.2, 0.8)))
    assert value[0] == pytest.approx(expected, abs=1e-4)
    np.testing.assert_allclose(40 * gradient[0, 0], expit(scores[0, 0]) - labels, atol=1e-4)


def test_bags_that_are_all_alike_say_nothing():
    bags = check_bag_target(bag_target(np.repeat([0, 1], 5), np.full(10, 0.3)))
    scores = np.random.default_rng(0).normal(size=(1, 1, 10))
    value, gradient = ForwardLikelihood(np.ones(2, dtype=bool), bags).value_and_gradient(
        scores, ONE
    )
    np.testing.assert_allclose(value, 0, atol=1e-15)
    np.testing.assert_allclose(gradient, 0, atol=1e-16)


def test_the_truth_is_best_where_labels_are_drawn_from_the_shares():
    """The mean gradient over all rows there can be vanishes at the log-odds at the overall class prior."""
    shares, kinds = np.array([0.1, 0.4, 0.8]), np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    bag, kind = (x.reshape(-1) for x in np.meshgrid(range(3), range(3), indexing="ij"))
    bags = check_bag_target(bag_target(bag, shares[bag]))
    q = shares.mean()
    probability = (1 - shares[bag]) * kinds[0, kind] + shares[bag] * kinds[1, kind]
    f = np.log(kinds[1, kind] / kinds[0, kind]) + logit(q)
    likelihood = ForwardLikelihood(np.ones(3, dtype=bool), bags)
    slope = likelihood.value_and_gradient(f[None, None], ONE)[1][0, 0] * probability
    np.testing.assert_allclose(np.bincount(kind, slope), 0, atol=1e-16)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_extreme_scores_stay_finite(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    for dtype in (np.float32, np.float64):
        likelihood = ForwardLikelihood(included, bags)
        value, gradient = likelihood.value_and_gradient((1e4 * scores).astype(dtype), problem)
        assert np.isfinite(value).all()
        assert np.isfinite(gradient).all()
        # a row costs no more than the least ratio of shares
        assert value.max() < -np.log(1e-6) + 1e-3


def test_noisy_shares_are_shrunken_to_what_is_to_be_expected():
    noisy = check_bag_target(bag_target(np.repeat([0, 1], 4), np.repeat([-0.2, 1.1], 4), noise=0.1))
    shares = shrunken_shares(noisy)
    assert (shares > 0).all()
    scores = np.random.default_rng(0).normal(size=(1, 1, 8))
    both = np.ones(2, dtype=bool)
    slopes = ForwardLikelihood(both, noisy).value_and_gradient(scores, ONE)[1][0, 0]
    # the overall class prior is that of the noisy ones
    odds = np.exp(scores[0, 0]) * (shares[:, 1] / shares[:, 0])[noisy.index] * 0.55 / 0.45
    np.testing.assert_allclose(8 * slopes, expit(scores[0, 0]) - odds / (1 + odds), atol=1e-6)


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_blocks_do_not_matter(monkeypatch, n_classes, size):
    bags, included, problem, scores = problem_of(n_classes)
    likelihood = ForwardLikelihood(included, bags)
    value, gradient = likelihood.value_and_gradient(scores, problem)
    monkeypatch.setattr("unbag_bench.methods.forward._BLOCK_SCORES", size)
    np.testing.assert_allclose(likelihood.value(scores, problem), value, rtol=1e-13)
    other = likelihood.value_and_gradient(scores, problem)
    np.testing.assert_allclose(other[0], value, rtol=1e-13)
    np.testing.assert_array_equal(other[1], gradient)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_gives_the_same(n_classes):
    bags, included, problem, scores = problem_of(n_classes)
    single = scores.astype(np.float32)
    value, gradient = ForwardLikelihood(included, bags).value_and_gradient(
        single.astype(float), problem
    )
    other = ForwardLikelihood(included, bags)
    found = other.value_and_gradient(single, problem)
    assert found[1].dtype == np.float32
    np.testing.assert_allclose(found[0], value, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.value(single, problem), found[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], gradient, atol=1e-7)


def test_mistakes_are_named():
    bags = make_bags(2)
    with pytest.raises(ValueError, match="each of the 6 bags"):
        ForwardLikelihood(np.ones(5, dtype=bool), bags)
    with pytest.raises(ValueError, match="holds out every bag"):
        ForwardLikelihood(np.zeros(6, dtype=bool), bags)


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


def test_shrunken_shares_lie_between_those_reported_and_the_mean():
    counts = np.array([-1.0, 2.0, 7.0, 11.0])
    y = bag_target(np.repeat(np.arange(4), 10), counts=np.repeat(counts, 10), noise=2.0)
    found = shrunken_shares(check_bag_target(y))
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (np.diff(found[:, 1]) > 0).all()
    reported = counts / 10
    assert (np.abs(found[:, 1] - reported.mean()) < np.abs(reported - reported.mean())).all()
