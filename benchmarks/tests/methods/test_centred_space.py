"""The centred space of a kernel with an intercept."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from unbag import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.count_likelihood import CountLikelihood
from unbag.paper.lbfgs import minimise
from unbag_bench.methods.centred_space import CentredKernelSpace

DATA = make_gaussian_bags(n_bags=16, bag_size=10, proportions=(0, 0.7), random_state=0)
K = rbf_kernel(DATA.X, gamma=0.5)
N = len(K)


@pytest.fixture(params=[1, 3])
def space(request):
    return CentredKernelSpace(K, request.param)


def draw(*shape):
    return np.random.default_rng(1).normal(size=shape)


def test_gradient_is_the_adjoint_of_the_scores(space):
    outputs = space.n_coefficients // (N + 1)
    theta, pull = draw(2, space.n_coefficients), draw(2, outputs, N)
    scores = space.scores(theta, space.dual(theta))
    inner = np.sum(space.gradient(pull) * space.dual(theta), axis=1)
    np.testing.assert_allclose(inner, np.sum(scores * pull, axis=(1, 2)), rtol=1e-9)


def test_solutions_are_functions_of_the_kernel_with_an_intercept(space):
    theta = draw(1, space.n_coefficients)
    w, b = space.read(theta)
    scores = space.scores(theta, space.dual(theta))
    np.testing.assert_allclose(scores[0], w @ K + b[:, None], rtol=1e-9)


def test_the_last_coefficient_moves_the_mean_of_the_scores_and_nothing_else_does():
    space = CentredKernelSpace(K, 1)
    theta = draw(4, space.n_coefficients)
    means = space.scores(theta, space.dual(theta)).mean(axis=(1, 2))
    np.testing.assert_allclose(means, theta[:, -1] * (1 + space.shift[-1]), atol=1e-12)


def test_the_likelihood_is_minimised():
    bags = check_bag_target(DATA.y)
    objective = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
    space, penalty = CentredKernelSpace(K, 1), np.array([1e-3, 1e-5])
    end = minimise(objective, space, penalty, np.zeros(2, dtype=int), tol=1e-6)
    assert end.converged.all()
    _, pull = objective.value_and_gradient(end.scores, np.zeros(2, dtype=int))
    gradient = space.gradient(pull) + 2 * penalty[:, None] * space.penalised(end.theta)
    assert np.abs(gradient).max() < 1e-3
