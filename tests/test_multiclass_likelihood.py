"""The count likelihood of several classes: exact where it says so, and near where it does not."""

from dataclasses import replace
from itertools import product
from math import inf

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import gammaln, log_softmax, logsumexp, softmax, xlogy

from unbag import bag_target, check_bag_target
from unbag.count_prior import CountPrior, fit_count_prior
from unbag.likelihood import CountLikelihood
from unbag.multiclass_likelihood import OneAgainstRestLikelihood

ONE = np.zeros(1, dtype=np.intp)


def make_bags(counts, labels=(), seed=5):
    """Bags of these counts per class, their instances mixed up, with labelled rows in between."""
    counts = np.atleast_2d(counts)
    rows = np.eye(counts.shape[1], dtype=int)[list(labels)]
    counts = np.vstack([counts, rows])
    bag = np.random.default_rng(seed).permutation(np.repeat(range(len(counts)), counts.sum(axis=1)))
    return check_bag_target(bag_target(bag, (counts / counts.sum(axis=1, keepdims=True))[bag]))


def set_priors(monkeypatch, shares, concentration=inf):
    """Fix the priors, which are otherwise fitted, class by class."""
    given = iter([CountPrior(share, concentration) for share in shares])
    monkeypatch.setattr("unbag.likelihood.fit_count_prior", lambda *_: next(given))


def some_problem():
    """Bags of all sizes, pure ones and labelled rows among them; three problems, five columns."""
    counts = [[1, 1, 1], [0, 2, 3], [4, 0, 0], [3, 3, 2], [9, 4, 7], [0, 1, 4], [2, 0, 1]]
    bags = make_bags(counts, labels=[0, 0, 1, 2, 1])
    included = np.ones((3, bags.n_bags), dtype=bool)
    included[1, ::3] = False
    included[2, 1::2] = False
    scale = np.array([0.1, 1, 3, 10, 2])[:, None, None]
    scores = scale * np.random.default_rng(2).normal(size=(5, 3, bags.n_instances))
    return bags, included, np.array([0, 1, 2, 2, 1]), scores


# --- the definition -----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("counts", [[1, 0, 0], [2, 1, 1], [0, 3, 2], [6, 0, 0], [1, 1, 1, 2]])
def test_shuffled_bags_have_the_exact_likelihood_of_every_class(counts, scale, monkeypatch):
    """With independent labels, from all ways to label the instances, in logarithms."""
    n, n_classes = sum(counts), len(counts)
    shares = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    f = np.random.default_rng(n).uniform(-scale, scale, size=(n_classes, n))
    set_priors(monkeypatch, shares)
    likelihood = OneAgainstRestLikelihood(np.array([True]), make_bags(counts))
    value, gradient = likelihood.value_and_gradient(f[None], ONE)
    labels = np.array(list(product(range(n_classes), repeat=n)))
    log_chance = (f[labels, np.arange(n)] + np.log(shares)[labels]).sum(axis=1)
    is_class = labels[:, None, :] == np.arange(n_classes)[:, None]

    def posterior(chosen):
        part = log_chance[chosen]
        chance = np.exp(part - part.max())
        return np.einsum("y,ycj->cj", chance, is_class[chosen]) / chance.sum()

    expected, slope = 0.0, np.zeros_like(f)
    for c, k in enumerate(counts):
        chosen = is_class[:, c].sum(axis=1) == k
        expected += logsumexp(log_chance) - logsumexp(log_chance[chosen])
        slope += posterior(np.ones_like(chosen)) - posterior(chosen)
    factor = (n_classes - 1) / n_classes / n
    np.testing.assert_allclose(value[0], factor * expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient[0], factor * slope, atol=1e-9)


def test_two_classes_are_the_count_likelihood(monkeypatch):
    counts = np.array([[1, 0], [2, 1], [0, 3], [5, 4], [10, 20], [8, 0]])
    bags = make_bags(counts, labels=[0, 1, 1])
    # the same prior for both classes, seen from either side
    monkeypatch.setattr(
        "unbag.likelihood.fit_count_prior", lambda k, n: CountPrior(k.sum() / n.sum(), 3.0)
    )
    included = np.ones((2, bags.n_bags), dtype=bool)
    included[1, 2:4] = False
    problem = np.array([0, 1, 1])
    scores = 3 * np.random.default_rng(0).normal(size=(3, 2, bags.n_instances))
    value, gradient = OneAgainstRestLikelihood(included, bags).value_and_gradient(scores, problem)
    two = CountLikelihood(included, bags)
    expected, slope = two.value_and_gradient(scores[:, 1:] - scores[:, :1], problem)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, np.concatenate([-slope, slope], axis=1), atol=1e-12)


def test_gradient_is_the_finite_difference():
    bags, included, problem, scores = some_problem()
    likelihood = OneAgainstRestLikelihood(included, bags)
    assert bags.labelled.any()
    assert likelihood.n_outputs == 3
    value, gradient = likelihood.value_and_gradient(scores, problem)
    np.testing.assert_array_equal(value, likelihood.value(scores, problem))
    step, size = 1e-5, scores[0].size
    shifts = np.concatenate([np.eye(size), -np.eye(size)]).reshape(-1, *scores[0].shape)
    for column, p in enumerate(problem):
        values = likelihood.value(scores[column] + step * shifts, np.full(2 * size, p))
        expected = (values[:size] - values[size:]) / (2 * step)
        np.testing.assert_allclose(gradient[column].reshape(-1), expected, atol=2e-9)


def test_a_constant_added_to_all_scores_of_an_instance_changes_nothing():
    bags, included, problem, scores = some_problem()
    likelihood = OneAgainstRestLikelihood(included, bags)
    constant = 100 * np.random.default_rng(3).normal(size=(5, 1, bags.n_instances))
    value, gradient = likelihood.value_and_gradient(scores, problem)
    moved_value, moved_gradient = likelihood.value_and_gradient(scores + constant, problem)
    np.testing.assert_allclose(moved_value, value, rtol=1e-10)
    np.testing.assert_allclose(moved_gradient, gradient, atol=1e-12)
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-14)


def test_classes_in_another_order_give_the_same():
    bags, included, problem, scores = some_problem()
    order = [2, 0, 1]
    other = replace(bags, proportions=bags.proportions[:, order])
    value, gradient = OneAgainstRestLikelihood(included, bags).value_and_gradient(scores, problem)
    again = OneAgainstRestLikelihood(included, other)
    other_value, other_gradient = again.value_and_gradient(scores[:, order], problem)
    np.testing.assert_allclose(other_value, value, rtol=1e-10)
    np.testing.assert_allclose(other_gradient, gradient[:, order], atol=1e-12)


def test_a_bag_held_out_is_a_bag_that_is_not_there():
    bags, included, problem, scores = some_problem()
    value, gradient = OneAgainstRestLikelihood(included, bags).value_and_gradient(scores, problem)
    for column, p in enumerate(problem):
        kept, rows = bags.take(included[p])
        alone = OneAgainstRestLikelihood(np.ones(kept.n_bags, dtype=bool), kept)
        one = alone.value_and_gradient(scores[column : column + 1, :, rows], problem[:1])
        np.testing.assert_allclose(one[0], value[column], rtol=1e-12)
        np.testing.assert_allclose(one[1][0], gradient[column][:, rows], atol=1e-13)
        assert not np.delete(gradient[column], rows, axis=1).any()


# --- the scale ----------------------------------------------------------------------------------


def test_labels_that_scores_do_not_tell_apart_are_softmax_regression():
    """Of equally many rows per class: the same gradient at zero, and the same curvature."""
    labels = np.tile(np.arange(4), 3)
    likelihood = OneAgainstRestLikelihood(np.ones(4, dtype=bool), check_bag_target(labels))
    gradient = likelihood.value_and_gradient(np.zeros((1, 4, 12)), ONE)[1]
    one_hot = np.eye(4)[labels].T
    np.testing.assert_allclose(gradient[0], (0.25 - one_hot) / 12, atol=1e-12)
    step = 1e-3 * np.random.default_rng(0).normal(size=(6, 4))
    points = np.concatenate([step, np.zeros((1, 4)), -step])
    scores = np.repeat(points[:, :, None], 12, axis=2)
    value = likelihood.value(scores, np.zeros(13, dtype=np.intp))
    expected = -log_softmax(points, axis=1).mean(axis=1)
    np.testing.assert_allclose(_bend(value), _bend(expected), rtol=1e-4)


def _bend(values):
    """Second differences of values at steps ahead, none, and steps back."""
    return values[:6] - 2 * values[6] + values[7:]


# --- the approximation --------------------------------------------------------------------------

# Chance of each of four kinds of instances (columns) in each of three classes.
KINDS = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.5, 0.3, 0.1], [0.1, 0.2, 0.2, 0.5]])


def all_bags(n, shares, concentration):
    """Every bag there can be, with its chance if proportions are drawn from a Dirichlet.

    Returns the kinds of the instances, the counts of the classes, and the chances.
    """
    kinds = np.array(list(product(range(4), repeat=n)))
    labels = np.array(list(product(range(3), repeat=n)))
    counts = (labels[:, :, None] == np.arange(3)).sum(axis=1)
    if concentration == inf:
        log_chance = xlogy(counts, shares).sum(axis=1)
    else:
        a = concentration * np.asarray(shares)
        log_chance = (gammaln(counts + a) - gammaln(a)).sum(axis=1)
        log_chance += gammaln(concentration) - gammaln(n + concentration)
    chances = KINDS[labels[:, None, :], kinds].prod(axis=2) * np.exp(log_chance)[:, None]
    np.testing.assert_allclose(chances.sum(), 1)
    n_labels, n_kinds = chances.shape
    return np.tile(kinds, (n_labels, 1)), np.repeat(counts, n_kinds, axis=0), chances.reshape(-1)


def expected_gradient(n, shares, concentration, monkeypatch):
    """Mean gradient over all bags, as a function of the scores of the kinds."""
    kinds, counts, chances = all_bags(n, shares, concentration)
    bag = np.repeat(np.arange(len(kinds)), n)
    bags = check_bag_target(bag_target(bag, (counts / n)[bag]))
    set_priors(monkeypatch, shares, concentration)
    likelihood = OneAgainstRestLikelihood(np.ones(len(kinds), dtype=bool), bags)
    weights = len(kinds) * chances[bag]

    def gradient(f):
        by_row = likelihood.value_and_gradient(f[:, kinds.reshape(-1)][None], ONE)[1][0]
        return np.stack([np.bincount(kinds.reshape(-1), row * weights, 4) for row in by_row])

    return gradient


@pytest.mark.parametrize(("n", "shares"), [(2, (0.5, 0.3, 0.2)), (3, (0.2, 0.2, 0.6))])
def test_in_shuffled_bags_the_truth_is_best(n, shares, monkeypatch):
    gradient = expected_gradient(n, shares, inf, monkeypatch)
    np.testing.assert_allclose(gradient(np.log(KINDS)), 0, atol=1e-12)


@pytest.mark.parametrize(("concentration", "most"), [(30.0, 0.0005), (6.0, 0.002), (2.0, 0.006)])
def test_where_proportions_vary_the_best_is_near_the_truth(concentration, most, monkeypatch):
    """In the chances of the classes of each kind, at equal priors."""
    gradient = expected_gradient(3, (0.5, 0.3, 0.2), concentration, monkeypatch)

    def scores(odds):
        return np.vstack([np.zeros(4), odds.reshape(2, 4)])

    truth = np.log(KINDS) - np.log(KINDS[0])
    found = root(lambda odds: gradient(scores(odds))[1:].reshape(-1), truth[1:].reshape(-1))
    assert found.success
    error = np.abs(softmax(scores(found.x), axis=0) - softmax(truth, axis=0)).max()
    assert 0 < error < most


# --- stability and arrays -----------------------------------------------------------------------


def test_perfect_scores_leave_nothing_to_learn_and_opposite_ones_everything():
    counts = [[4, 3, 5], [0, 9, 2], [30, 1, 7]]
    bags = make_bags(counts)
    whole = np.round(bags.proportions * bags.sizes[:, None]).astype(int)
    labels = np.empty(bags.n_instances, dtype=int)
    for i, k in enumerate(whole):
        labels[bags.index == i] = np.repeat(np.arange(3), k)
    perfect = 1e4 * (np.eye(3)[labels].T - 0.5)
    likelihood = OneAgainstRestLikelihood(np.ones(3, dtype=bool), bags)
    value, gradient = likelihood.value_and_gradient(
        np.stack([perfect, -perfect]), np.zeros(2, dtype=np.intp)
    )
    np.testing.assert_allclose(value[0], 0, atol=1e-10)
    np.testing.assert_allclose(gradient[0], 0, atol=1e-12)
    assert 100 < value[1] < inf
    assert np.isfinite(gradient).all()


def test_other_namespaces_and_float32_give_the_same():
    bags, included, problem, scores = some_problem()
    single = scores.astype(np.float32)
    likelihood = OneAgainstRestLikelihood(included, bags)
    value, gradient = likelihood.value_and_gradient(single.astype(float), problem)
    value_of_single, gradient_of_single = likelihood.value_and_gradient(single, problem)
    assert gradient_of_single.dtype == np.float32
    np.testing.assert_array_equal(value_of_single, value)
    np.testing.assert_array_equal(gradient_of_single, gradient.astype(np.float32))
    for given in (single, single.astype(float)):
        strict = array_api_strict.asarray(given)
        other = OneAgainstRestLikelihood(included, bags, like=strict)
        other_value, other_gradient = other.value_and_gradient(strict, problem)
        assert other_gradient.dtype == strict.dtype
        np.testing.assert_allclose(other_value, value, rtol=1e-13)
        np.testing.assert_allclose(np.asarray(other_gradient), gradient, rtol=1e-6, atol=1e-14)


# --- what is fitted, and what is refused --------------------------------------------------------


def test_priors_are_those_of_every_class_in_the_included_bags():
    bags, included, *_ = some_problem()
    likelihood = OneAgainstRestLikelihood(included, bags)
    counts = np.round(bags.proportions * bags.sizes[:, None])
    expected = []
    for row in included:
        used = row & ~bags.labelled
        expected.append([fit_count_prior(k, bags.sizes[used]) for k in counts[used].T])
    assert likelihood.priors == expected


def test_a_class_that_no_included_bag_holds_leaves_everything_finite():
    bags = make_bags([[2, 3, 0], [4, 0, 0], [1, 1, 2]])
    likelihood = OneAgainstRestLikelihood(
        np.array([[True, True, False], [False, True, False]]), bags
    )
    scores = np.random.default_rng(0).normal(size=(2, 3, bags.n_instances))
    value, gradient = likelihood.value_and_gradient(scores, np.arange(2))
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()


def test_mistakes_are_named():
    bags = make_bags([[1, 1, 1], [2, 1, 0]])
    with pytest.raises(ValueError, match="each of the 2 bags"):
        OneAgainstRestLikelihood(np.ones(3, dtype=bool), bags)
    with pytest.raises(ValueError, match="holds out every bag"):
        OneAgainstRestLikelihood(np.array([[True, True], [False, False]]), bags)
