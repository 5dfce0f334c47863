"""A space whose scores are its coefficients."""

import numpy as np

from unbag.solvers import minimise
from unbag.solvers.parameters import ParameterSpace


class Quadratic:
    """½ Σ a (θ − c)², for every problem its own c."""

    n_outputs = 1

    def __init__(self, curvature, centres):
        self.curvature, self.centres = curvature, centres

    def value_and_gradient(self, scores, problem):
        away = scores[:, 0] - self.centres[problem]
        return 0.5 * away**2 @ self.curvature, (away * self.curvature)[:, None]


def test_minimises_with_only_some_coefficients_penalised():
    rng = np.random.default_rng(0)
    a, centres = rng.uniform(0.5, 5, 4), rng.normal(size=(2, 4))
    penalised = np.array([True, True, False, True])
    penalty, problem = np.array([0.1, 2.0, 0.1]), np.array([0, 0, 1])
    space = ParameterSpace(penalised)
    found = minimise(Quadratic(a, centres), space, penalty, problem, tol=1e-10)
    expected = a * centres[problem] / (a + 2 * penalty[:, None] * penalised)
    np.testing.assert_allclose(found.theta, expected, atol=1e-8)
    np.testing.assert_allclose(found.theta[:, 2], centres[problem, 2], atol=1e-8)
