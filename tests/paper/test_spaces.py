"""Function spaces: their maps are adjoint to each other in their own inner product."""

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array, csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

from unbag.paper.lbfgs import KernelSpace, LinearSpace

N, D = 17, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * (RNG.uniform(size=(N, D)) < 0.6)
K = rbf_kernel(RNG.normal(size=(N, 2)))

FORMS = {"dense": np.asarray, "csr": csr_matrix, "csc": csc_matrix, "csr array": csr_array}
SPACES = {"kernel": lambda outputs: KernelSpace(K, outputs)} | {
    f"linear, {form}": lambda outputs, make=make: LinearSpace(make(X), outputs)
    for form, make in FORMS.items()
}


@pytest.fixture(params=SPACES.values(), ids=SPACES)
def space_of(request):
    return request.param


def draw(*shape):
    return np.random.default_rng(1).normal(size=shape)


def inner(space, u, v):
    """⟨u, v⟩ per column."""
    return np.sum(u * space.dual(v), axis=1)


def scores_of(space, theta):
    return space.scores(space.dual(theta))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("columns", [1, 5])
def test_gradient_is_the_adjoint_of_the_scores(space_of, outputs, columns):
    space = space_of(outputs)
    theta, pull = draw(columns, space.n_coefficients), draw(columns, outputs, N)
    scores, gradient = scores_of(space, theta), space.gradient(pull)
    assert scores.shape == (columns, outputs, N)
    assert gradient.shape == theta.shape
    np.testing.assert_allclose(
        inner(space, gradient, theta), np.sum(pull * scores, axis=(1, 2)), rtol=1e-12
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_inner_product_is_symmetric_and_positive(space_of, outputs):
    space = space_of(outputs)
    u, v = draw(6, space.n_coefficients)[:3], draw(6, space.n_coefficients)[3:]
    np.testing.assert_allclose(inner(space, u, v), inner(space, v, u), rtol=1e-10)
    assert (inner(space, u, u) > 0).all()


def test_penalised_part_is_a_projection_that_the_inner_product_agrees_with(space_of):
    space = space_of(2)
    u, v = draw(2, space.n_coefficients)[:1], draw(2, space.n_coefficients)[1:]
    part = space.penalised(u)
    assert part.shape == u.shape
    np.testing.assert_array_equal(space.penalised(part), part)
    np.testing.assert_allclose(
        inner(space, part, v), inner(space, space.penalised(v), u), rtol=1e-10
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_kernel_scores_are_the_expansion_in_the_kernel(outputs):
    space = KernelSpace(K, outputs)
    theta = draw(2, space.n_coefficients)
    expected = np.einsum("ij,coj->coi", K, theta.reshape(2, outputs, N))
    np.testing.assert_allclose(scores_of(space, theta), expected, rtol=1e-12)


def test_kernel_penalty_is_the_norm_of_the_function():
    space = KernelSpace(K, 2)
    theta = draw(1, space.n_coefficients)
    alpha = theta.reshape(2, N)
    norm = sum(a @ K @ a for a in alpha)
    assert inner(space, space.penalised(theta), theta)[0] == pytest.approx(norm, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_linear_scores_and_penalty_with_intercept(form, outputs):
    space = LinearSpace(FORMS[form](X), outputs)
    w, b = draw(2, outputs, D + 1)[..., :D], draw(2, outputs, D + 1)[..., D:]
    theta = np.concatenate([w, b], axis=2).reshape(2, -1)
    expected = np.einsum("id,cod->coi", X, w) + b
    np.testing.assert_allclose(scores_of(space, theta), expected, rtol=1e-12)
    penalty = inner(space, space.penalised(theta), theta)
    np.testing.assert_allclose(penalty, np.sum(w**2, axis=(1, 2)), rtol=1e-12)
