"""The line search ends at points where the weak Wolfe conditions hold."""

import numpy as np
import pytest

from unbag.paper.lbfgs import Line, rounding

ARMIJO, WOLFE = 1e-4, 0.9
N = 6


class Sum:
    """Σ h(f) over instances, times the factor of the column's problem."""

    n_outputs = 1

    def __init__(self, value, derivative, factors=(1.0,)):
        self.value, self.derivative = value, derivative
        self.factors = np.asarray(factors)
        self.calls = 0

    def value_and_gradient(self, scores, problem):
        self.calls += 1
        factor = self.factors[problem]
        total = np.sum(self.value(scores), axis=(1, 2), dtype=float)
        gradient = factor[:, None, None] * self.derivative(scores)
        return factor * total, gradient.astype(scores.dtype)


CONVEX = {
    "quadratic": (lambda f: (f - 3) ** 2, lambda f: 2 * (f - 3)),
    "logistic": (lambda f: np.logaddexp(0, -f), lambda f: -1 / (1 + np.exp(f))),
    "absolute value": (lambda f: np.abs(f - 0.3), lambda f: np.sign(f - 0.3)),
    "quartic": (lambda f: (f - 1) ** 4, lambda f: 4 * (f - 1) ** 3),
}
NOT_CONVEX = {
    "double well": (lambda f: (f**2 - 1) ** 2, lambda f: 4 * f * (f**2 - 1)),
    "wave": (lambda f: np.sin(3 * f) + 0.1 * f**2, lambda f: 3 * np.cos(3 * f) + 0.2 * f),
    "well": (lambda f: -np.exp(-((f - 1) ** 2)), lambda f: 2 * (f - 1) * np.exp(-((f - 1) ** 2))),
}
FUNCTIONS = CONVEX | NOT_CONVEX


def line_from(objective, start, direction, penalty, problem=None):
    """A line in the plain space where coefficients are the scores themselves."""
    problem = np.zeros(len(start), dtype=np.intp) if problem is None else problem
    value, gradient = objective.value_and_gradient(start[:, None, :], problem)
    square, linear, quadratic = (
        np.sum(a.astype(float) * b, axis=1)
        for a, b in ((start, start), (direction, start), (direction, direction))
    )
    slope = np.sum(gradient[:, 0].astype(float) * direction, axis=1) + 2 * penalty * linear
    return Line(
        objective=objective,
        problem=problem,
        penalty=penalty,
        scores=start[:, None, :],
        direction=direction[:, None, :],
        value=value + penalty * square,
        squared_norm=square,
        products=np.stack([slope, linear, quadratic], axis=1),
    )


def descent(objective, start, penalty, problem=None, scale=1.0):
    """A line along the negative gradient, turned a little, of the given lengths."""
    problem = np.zeros(len(start), dtype=np.intp) if problem is None else problem
    gradient = objective.value_and_gradient(start[:, None, :], problem)[1][:, 0]
    gradient = gradient + 2 * penalty[:, None] * start
    turned = np.random.default_rng(5).uniform(0.5, 2, size=start.shape)
    along = (-gradient * turned * scale).astype(start.dtype)
    return line_from(objective, start, along, penalty, problem)


def starts(columns, seed=0):
    return np.random.default_rng(seed).normal(size=(columns, N))


def check_point(line, point):
    """What is returned is what the objective says at the end of the step."""
    length = point.length[:, None, None]
    scores = line.scores + length * line.direction
    value, gradient = line.objective.value_and_gradient(scores, line.problem)
    theta, along = scores[:, 0], line.direction[:, 0]
    penalty = line.penalty
    np.testing.assert_allclose(point.scores, scores, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(point.score_gradient, gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(point.squared_norm, np.sum(theta**2, axis=1), rtol=1e-11)
    np.testing.assert_allclose(
        point.value, value + penalty * np.sum(theta**2, axis=1), rtol=1e-11, atol=1e-12
    )
    slope = np.sum((gradient[:, 0] + 2 * penalty[:, None] * theta) * along, axis=1)
    np.testing.assert_allclose(point.slope, slope, rtol=1e-9, atol=1e-9 * np.abs(line.slope).max())


def check_wolfe(line, point):
    assert (point.length > 0).all()
    enough = line.value + ARMIJO * point.length * line.slope
    assert (point.value <= enough + rounding(line.value, line.scores)).all()
    assert (point.slope >= WOLFE * line.slope).all()


@pytest.mark.parametrize("penalty", [0.0, 0.1])
@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_weak_wolfe_conditions_hold(name, columns, penalty):
    objective = Sum(*FUNCTIONS[name])
    line = descent(objective, starts(columns), np.full(columns, penalty))
    assert (line.slope < 0).all()
    point = line.search()
    check_wolfe(line, point)
    check_point(line, point)


@pytest.mark.parametrize("name", ["quadratic", "quartic", "double well", "wave"])
def test_steps_far_too_long_and_far_too_short_are_mended_each_on_its_own(name):
    objective = Sum(*FUNCTIONS[name])
    scale = np.array([1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6])[:, None]
    start = np.repeat(starts(1), 7, axis=0)
    line = descent(objective, start, np.zeros(7), scale=scale)
    point = line.search()
    check_wolfe(line, point)
    check_point(line, point)
    assert point.length[0] > 1 > point.length[-1]


def test_each_column_has_its_own_problem_and_penalty():
    penalty, problem = np.array([0.0, 1.0, 10.0, 0.0]), np.array([2, 0, 1, 1])
    objective = Sum(*FUNCTIONS["quadratic"], factors=[1.0, 50.0, 1e-3])
    line = descent(objective, starts(4), penalty, problem)
    together = line.search()
    check_wolfe(line, together)
    check_point(line, together)
    for i in range(4):
        one = slice(i, i + 1)
        alone = line_from(
            objective, line.scores[one, 0], line.direction[one, 0], penalty[one], problem[one]
        ).search()
        assert alone.length[0] == together.length[i]
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])


def test_full_step_that_fits_costs_one_evaluation():
    objective = Sum(*FUNCTIONS["quadratic"])
    start = starts(3)
    line = line_from(objective, start, 3 - start, np.zeros(3))
    objective.calls = 0
    point = line.search()
    assert objective.calls == 1
    np.testing.assert_array_equal(point.length, 1)
    np.testing.assert_allclose(point.value, 0, atol=1e-28)


@pytest.mark.parametrize("times", [0.02, 1.95, 3.0, 9.0])
def test_step_of_the_wrong_length_costs_two_evaluations_on_a_quadratic(times):
    objective = Sum(*FUNCTIONS["quadratic"])
    start = starts(3)
    line = line_from(objective, start, times * (3 - start), np.zeros(3))
    objective.calls = 0
    point = line.search()
    assert objective.calls == (1 if times == 1.95 else 2)
    check_wolfe(line, point)
    if times > 2:  # where the slopes cross zero is the minimum
        np.testing.assert_allclose(point.length, 1 / times)
        np.testing.assert_allclose(point.value, 0, atol=1e-24)


@pytest.mark.parametrize("name", CONVEX)
def test_column_without_descent_gets_length_zero_and_stays(name):
    objective = Sum(*CONVEX[name])
    down = descent(objective, starts(3), np.full(3, 0.1))
    along = down.direction[:, 0] * np.array([1, -1, 1])[:, None]
    line = line_from(objective, starts(3), along, np.full(3, 0.1))
    point = line.search()
    assert point.length[1] == 0
    np.testing.assert_array_equal(point.scores[1], line.scores[1])
    assert point.value[1] == pytest.approx(line.value[1], rel=1e-14)
    check_point(line, point)
    # and the others are not disturbed
    assert (point.length[[0, 2]] > 0).all()
    assert (point.value[[0, 2]] < line.value[[0, 2]]).all()


@pytest.mark.parametrize("beyond", [np.inf, np.nan, -np.inf])
def test_values_that_are_not_finite_are_backed_away_from(beyond):
    def value(f):
        return np.where(f < 1, -np.log(np.where(f < 1, 1 - f, 1)) - 3 * f, beyond)

    def derivative(f):
        return np.where(f < 1, 1 / np.where(f < 1, 1 - f, 1) - 3, beyond)

    line = line_from(Sum(value, derivative), np.zeros((2, N)), np.full((2, N), 5.0), np.zeros(2))
    point = line.search()
    check_wolfe(line, point)
    assert (point.scores < 1).all()


def test_function_that_falls_for_ever_ends_with_a_finite_point_no_worse():
    objective = Sum(lambda f: -f, lambda f: -np.ones_like(f))
    line = line_from(objective, np.zeros((2, N)), np.ones((2, N)), np.zeros(2))
    point = line.search()
    assert np.isfinite(point.value).all()
    assert (point.value <= line.value).all()
    check_point(line, point)


def test_objective_that_is_nan_everywhere_ends_with_length_zero():
    objective = Sum(lambda f: np.full_like(f, np.nan), lambda f: np.full_like(f, np.nan))
    line = line_from(objective, starts(2), starts(2, seed=1), np.zeros(2))
    point = line.search()
    np.testing.assert_array_equal(point.length, 0)
    np.testing.assert_array_equal(point.scores, line.scores)


def test_differences_below_rounding_are_judged_by_slopes():
    """Near the minimum values say nothing, and a good step is still taken."""
    objective = Sum(lambda f: 1e6 + (f - 3) ** 2, lambda f: 2 * (f - 3))
    start = np.full((1, N), 3 + 1e-7)
    line = line_from(objective, start, 3 - start, np.zeros(1))
    at_minimum, _ = objective.value_and_gradient(np.full((1, 1, N), 3.0), line.problem)
    assert line.value[0] == at_minimum[0]
    point = line.search()
    assert point.length[0] == 1
    assert abs(point.slope[0]) < abs(line.slope[0])


def test_single_precision_scores_stay_single():
    objective = Sum(*FUNCTIONS["logistic"])
    line = descent(objective, starts(4).astype(np.float32), np.full(4, 0.1, dtype=np.float32))
    point = line.search()
    assert point.scores.dtype == point.score_gradient.dtype == np.float32
    assert point.value.dtype == point.length.dtype == np.float64
    check_wolfe(line, point)
