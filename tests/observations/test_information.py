from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from unbag import bag_target, check_bag_target
from unbag.observations.information import CountObservation


def observe(counts, sizes, **options):
    """An observation of bags with so many positives, or with so many of each class."""
    bag = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.asarray(counts, dtype=float)
    return CountObservation(check_bag_target(bag_target(bag, counts=counts[bag], **options)))


def information_matrix(found):
    """The observed information of one bag as a matrix of (output, row) by (output, row)."""
    K, _, n = found.weights.shape
    dense = np.einsum("arj,cri->ajci", found.factors, found.factors)
    for j in range(n):
        dense[:, j, :, j] += found.weights[:, :, j]
    return dense.reshape(K * n, K * n)


def by_differences(observation, scores, h=1e-4):
    """−∂²ℓ/∂η∂ηᵀ by differences of the exact residual."""
    columns = []
    for i in range(scores.size):
        move = np.zeros(scores.size)
        move[i] = h
        move = move.reshape(scores.shape)
        ends = [observation.value_and_residual(scores + sign * move)[1] for sign in (1, -1)]
        columns.append((ends[1] - ends[0]).ravel() / (2 * h))
    return np.array(columns)


def enumerated(scores, count):
    """Log-probability of a count and posterior covariance of the labels, over all labels."""
    labels = np.array(list(product([0, 1], repeat=len(scores))))
    labels = labels[labels.sum(axis=1) == count]
    logs = labels @ scores - np.log1p(np.exp(scores)).sum()
    weights = np.exp(logs - logsumexp(logs))
    mean = weights @ labels
    return logsumexp(logs), mean, (labels.T * weights) @ labels - np.outer(mean, mean)


@pytest.mark.parametrize(("n", "count"), [(1, 0), (2, 1), (3, 1), (3, 2), (5, 1), (6, 5)])
def test_exact_where_few_rows_are_free(n, count):
    scores = np.random.default_rng(n).normal(size=n)
    value, mean, covariance = enumerated(scores, count)
    observation = observe([count], [n])
    found, residual = observation.value_and_residual(scores[None])
    p = expit(scores)
    assert found == pytest.approx(value)
    np.testing.assert_allclose(p + residual[0], mean)
    exact = np.diag(p * (1 - p)) - covariance
    matrix = information_matrix(observation.information(scores[None], residual))
    np.testing.assert_allclose(matrix, exact, atol=1e-2)


@pytest.mark.parametrize("n", [2, 7, 16, 60])
def test_exact_where_rows_are_equal(n):
    observation, scores = observe([n // 2], [n]), np.full((1, n), 0.7)
    _, residual = observation.value_and_residual(scores)
    matrix = information_matrix(observation.information(scores, residual))
    p, w = expit(0.7), (n // 2) / n * (1 - n // 2 / n)
    covariance = w * n / (n - 1) * (np.eye(n) - 1 / n)
    np.testing.assert_allclose(matrix, p * (1 - p) * np.eye(n) - covariance, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"noise": 2.0}])
@pytest.mark.parametrize("n", [10, 16, 17, 40])
def test_close_to_differences_of_the_gradient(n, options):
    rng = np.random.default_rng(n)
    observation, scores = observe([n // 3], [n], **options), rng.normal(size=(1, n))
    _, residual = observation.value_and_residual(scores)
    matrix = information_matrix(observation.information(scores, residual))
    exact = by_differences(observation, scores)
    assert np.linalg.norm(matrix - exact, 2) < 0.04 * np.linalg.norm(exact, 2)


@pytest.mark.parametrize("options", [{}, {"noise": 2.0}])
@pytest.mark.parametrize("n", [4, 12, 30])
def test_several_classes_are_close_to_differences(n, options):
    rng = np.random.default_rng(n)
    counts = [[n // 2, n // 4, n - n // 2 - n // 4]]
    if options:
        options = {"noise": [[2.0, 2.0, 2.0]] * n}
    observation, scores = observe(counts, [n], **options), rng.normal(size=(3, n))
    _, residual = observation.value_and_residual(scores)
    matrix = information_matrix(observation.information(scores, residual))
    exact = by_differences(observation, scores)
    assert np.linalg.norm(matrix - exact, 2) < (0.2 if n == 4 else 0.08) * np.linalg.norm(exact, 2)


def test_two_classes_as_several():
    rng = np.random.default_rng(0)
    sizes, positives = [5, 20, 9], np.array([2, 11, 9])
    scores = rng.normal(size=34)
    one = observe(positives, sizes)
    _, residual = one.value_and_residual(scores[None])
    found = one.information(scores[None], residual)
    classes = CountObservation.__new__(CountObservation)
    classes.__dict__ = one.__dict__ | {"n_outputs": 2}
    both = classes._of_several_classes(
        np.stack([0 * scores, scores]), np.concatenate([-residual, residual])
    )
    np.testing.assert_allclose(both.weights[1, 1], found.weights[0, 0], atol=1e-4)
    rank_one = np.einsum("rj,ri->ji", both.factors[1], both.factors[1])
    np.testing.assert_allclose(
        rank_one[5:25, 5:25], np.outer(*[found.factors[0, 0, 5:25]] * 2), atol=1e-4
    )


def test_noise_without_bounds_leaves_no_information():
    n = 14
    observation, scores = (
        observe([3.0], [n], noise=1e4),
        np.random.default_rng(0).normal(size=(1, n)),
    )
    _, residual = observation.value_and_residual(scores)
    assert np.abs(residual).max() < 1e-4
    assert np.abs(information_matrix(observation.information(scores, residual))).max() < 1e-4


def test_rows_of_known_label_have_complete_information():
    observation = CountObservation(check_bag_target([0, 0, 1, 1]).with_labelled_rows_apart()[0])
    scores = np.array([[0.3, -1.0, 2.0, 0.0]])
    _, residual = observation.value_and_residual(scores)
    p = expit(scores)
    np.testing.assert_allclose(residual, [[0, 0, 1, 1]] - p)
    found = observation.information(scores, residual)
    np.testing.assert_allclose(found.weights[0], p * (1 - p), atol=1e-9)
    assert np.abs(found.factors).max() < 1e-5


def test_rows_in_another_order_are_refused():
    bags = check_bag_target(bag_target([1, 2, 1, 2], counts=[1, 1, 1, 1]))
    with pytest.raises(ValueError, match="order of their bags"):
        CountObservation(bags)
