"""Batched L-BFGS against closed forms, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from unbag import check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.observations.losses import get_loss
from unbag.paper.corrected_risk import CorrectedRisk
from unbag.paper.lbfgs import KernelSpace, LinearSpace, minimise
from unbag.weights import decontamination_weights

DATA = make_gaussian_bags(n_bags=16, bag_size=10, proportions=(0, 0.7), random_state=0)
THREE = make_gaussian_bags(n_bags=20, bag_size=8, n_classes=3, random_state=1)
PENALTIES = np.array([1.0, 1e-3, 0.1, 1e-2])
N = len(DATA.X)


def gram(X):
    return rbf_kernel(X, gamma=0.5)


def one_problem(penalties):
    return np.zeros(len(penalties), dtype=np.intp)


def risk_of(data, loss="logistic", correction="nonnegative", held_out=()):
    """Corrected risk of all bags, and of all without some of them, as problems."""
    bags = check_bag_target(data.y)
    tables = [decontamination_weights(bags)]
    for bag in held_out:
        rest = np.arange(bags.n_bags) != bag
        table = np.zeros_like(tables[0])
        table[rest] = decontamination_weights(bags.take(rest)[0])
        tables.append(table)
    prior = np.full(bags.n_classes, 1 / bags.n_classes)
    loss = get_loss(loss, bags.n_classes)
    return CorrectedRisk(np.stack(tables), bags, loss, prior, correction)


class Quadratic:
    """½ Σ c (f − b)² with c and b of the column's problem."""

    n_outputs = 1

    def __init__(self, curvature, target):
        self.curvature, self.target = curvature, target

    def value_and_gradient(self, scores, problem):
        c, b = self.curvature[problem][:, None], self.target[problem][:, None]
        value = np.sum(c * (scores - b) ** 2, axis=(1, 2), dtype=float) / 2
        return value, (c * (scores - b)).astype(scores.dtype)


def quadratic(n_problems=2, seed=0):
    rng = np.random.default_rng(seed)
    return Quadratic(rng.uniform(0.1, 1, (n_problems, N)) / N, rng.normal(size=(n_problems, N)))


def features(space, outputs=1):
    """Matrix A and mask p such that scores are Aβ and the penalty is Σ p β², for SciPy."""
    if isinstance(space, KernelSpace):
        values, vectors = np.linalg.eigh(space.K)
        A, p = vectors * np.sqrt(np.maximum(values, 0)), np.ones(len(values))
    else:
        basis = np.eye(space.n_coefficients // outputs)
        padded = np.zeros((len(basis), outputs, len(basis)))
        padded[:, 0] = basis
        theta = padded.reshape(len(basis), -1)
        A = space.scores(theta)[:, 0].T
        p = space.penalised(theta).reshape(len(basis), outputs, -1)[:, 0].sum(axis=1)
    return np.kron(np.eye(outputs), A), np.tile(p, outputs)


def by_scipy(objective, space, penalty, problem=0, outputs=1):
    A, p = features(space, outputs)

    def value_and_gradient(beta):
        scores = (A @ beta).reshape(1, outputs, -1)
        value, gradient = objective.value_and_gradient(scores, np.array([problem]))
        return value[0] + penalty * p @ beta**2, A.T @ gradient.ravel() + 2 * penalty * p * beta

    found = minimize(
        value_and_gradient,
        np.zeros(A.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0, "gtol": 1e-11, "maxcor": 30},
    )
    assert np.abs(found.jac).max() < 1e-6
    return found.fun, (A @ found.x).reshape(outputs, -1)


SPACES = {
    "kernel": lambda X, outputs=1: KernelSpace(gram(X), outputs),
    "linear": lambda X, outputs=1: LinearSpace(X, outputs),
    "sparse": lambda X, outputs=1: LinearSpace(csr_matrix(X), outputs),
}
ALL_SPACES = pytest.mark.parametrize("make_space", SPACES.values(), ids=SPACES)


@ALL_SPACES
def test_quadratic_is_solved_as_by_its_normal_equations(make_space):
    space, objective = make_space(DATA.X), quadratic()
    problem = np.array([0, 1, 1, 0])
    solution = minimise(objective, space, PENALTIES, problem, tol=1e-10)
    assert solution.converged.all()
    A, p = features(space)
    for column, (penalty, number) in enumerate(zip(PENALTIES, problem, strict=True)):
        c, b = objective.curvature[number], objective.target[number]
        beta = np.linalg.solve(A.T @ (c[:, None] * A) + 2 * penalty * np.diag(p), A.T @ (c * b))
        np.testing.assert_allclose(solution.scores[column, 0], A @ beta, atol=1e-7)
        value = c @ (A @ beta - b) ** 2 / 2 + penalty * p @ beta**2
        assert solution.value[column] == pytest.approx(value, rel=1e-12)


@ALL_SPACES
@pytest.mark.parametrize("correction", ["nonnegative", "none"])
@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
def test_corrected_risk_is_minimised_as_by_scipy(make_space, loss, correction):
    space, objective = make_space(DATA.X), risk_of(DATA, loss, correction, held_out=[0, 5])
    problem = np.array([0, 1, 2, 1])
    solution = minimise(objective, space, PENALTIES, problem, tol=1e-9)
    assert solution.converged.all()
    for column, (penalty, number) in enumerate(zip(PENALTIES, problem, strict=True)):
        value, scores = by_scipy(objective, space, penalty, number)
        assert solution.value[column] == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(solution.scores[column], scores, atol=1e-4)


@pytest.mark.parametrize("name", ["kernel", "linear"])
def test_three_classes_are_minimised_as_by_scipy(name):
    space, objective = SPACES[name](THREE.X, outputs=3), risk_of(THREE)
    penalty = np.array([0.1, 3e-3])
    solution = minimise(objective, space, penalty, one_problem(penalty), tol=1e-9)
    assert solution.converged.all()
    for column in range(2):
        value, scores = by_scipy(objective, space, penalty[column], outputs=3)
        assert solution.value[column] == pytest.approx(value, rel=1e-9)
        # adding the same to all scores of an instance changes nothing but the penalty
        centred = solution.scores[column] - solution.scores[column].mean(axis=0)
        np.testing.assert_allclose(centred, scores - scores.mean(axis=0), atol=1e-4)


def test_pure_bags_give_balanced_logistic_regression():
    bags = check_bag_target(DATA.labels)
    objective = CorrectedRisk(
        decontamination_weights(bags), bags, get_loss("logistic"), np.array([0.5, 0.5])
    )
    space = LinearSpace(DATA.X, 1)
    solution = minimise(objective, space, PENALTIES, one_problem(PENALTIES), tol=1e-10)
    for column, penalty in enumerate(PENALTIES):
        model = LogisticRegression(
            C=1 / (2 * penalty * N), class_weight="balanced", tol=1e-10, max_iter=10_000
        ).fit(DATA.X, DATA.labels)
        expected = [*model.coef_[0], model.intercept_[0]]
        np.testing.assert_allclose(solution.theta[column], expected, rtol=1e-5)


def test_hinge_loss_of_pure_bags_reaches_the_support_vector_machine_in_spite_of_its_kinks():
    bags = check_bag_target(DATA.labels)
    weight = (0.5 / bags.sizes)[DATA.labels]
    objective = CorrectedRisk(
        decontamination_weights(bags), bags, get_loss("hinge"), np.array([0.5, 0.5])
    )
    space, sign = LinearSpace(DATA.X, 1), 2 * DATA.labels - 1
    solution = minimise(objective, space, PENALTIES, one_problem(PENALTIES), max_iter=500)
    assert (solution.n_iter < 500).all()
    for column, penalty in enumerate(PENALTIES):
        machine = SVC(kernel="linear", C=1 / (2 * penalty), tol=1e-10)
        machine.fit(DATA.X, DATA.labels, sample_weight=weight)
        slack = np.maximum(0, 1 - sign * machine.decision_function(DATA.X))
        least = weight @ slack + penalty * np.sum(machine.coef_**2)
        assert solution.value[column] == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "ramp"])
@pytest.mark.parametrize("correction", ["nonnegative", "none"])
@pytest.mark.parametrize("name", ["kernel", "linear"])
def test_losses_with_kinks_end_and_improve_on_zero(name, loss, correction):
    space, objective = SPACES[name](DATA.X), risk_of(DATA, loss, correction)
    solution = minimise(objective, space, PENALTIES, one_problem(PENALTIES), max_iter=100)
    assert (solution.n_iter <= 100).all()
    at_zero, _ = objective.value_and_gradient(np.zeros((1, 1, N)), np.zeros(1, dtype=np.intp))
    assert (solution.value < at_zero).all()


@ALL_SPACES
def test_columns_solved_together_equal_columns_solved_one_by_one(make_space):
    space, objective = make_space(DATA.X), risk_of(DATA, held_out=[1, 2, 3])
    penalty = np.tile([1.0, 1e-2, 1e-4], 4)
    problem = np.repeat(np.arange(4), 3)
    together = minimise(objective, space, penalty, problem, tol=1e-5)
    assert len(np.unique(together.n_iter)) > 2  # they leave at different times
    for i in range(12):
        alone = minimise(objective, space, penalty[i : i + 1], problem[i : i + 1], tol=1e-5)
        assert abs(alone.n_iter[0] - together.n_iter[i]) <= 2  # rounding may shift it
        assert alone.converged[0] == together.converged[i]
        assert alone.value[0] == pytest.approx(together.value[i], rel=1e-9)
        np.testing.assert_allclose(alone.scores[0], together.scores[i], atol=1e-5)
        np.testing.assert_allclose(alone.theta[0], together.theta[i], atol=1e-5)


@ALL_SPACES
def test_order_of_the_columns_does_not_matter(make_space):
    space, objective = make_space(DATA.X), risk_of(DATA)
    forth = minimise(objective, space, PENALTIES, one_problem(PENALTIES))
    back = minimise(objective, space, PENALTIES[::-1], one_problem(PENALTIES))
    np.testing.assert_allclose(forth.n_iter, back.n_iter[::-1], atol=2)
    np.testing.assert_allclose(forth.scores, back.scores[::-1], atol=1e-7)


@ALL_SPACES
def test_what_is_returned_belongs_together(make_space):
    space, objective = make_space(DATA.X), risk_of(DATA, held_out=[4])
    problem = np.array([0, 1, 0, 1])
    solution = minimise(objective, space, PENALTIES, problem, tol=1e-6)
    theta = solution.theta
    scores = space.scores(space.dual(theta))
    np.testing.assert_allclose(solution.scores, scores, atol=1e-10)
    norm = np.sum(space.penalised(theta) * space.dual(theta), axis=1)
    value = objective.value(scores, problem) + PENALTIES * norm
    np.testing.assert_allclose(solution.value, value, rtol=1e-10)


@ALL_SPACES
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8])
def test_converged_columns_have_a_gradient_below_the_tolerance(make_space, tol):
    space, objective = make_space(DATA.X), risk_of(DATA)

    def norms(scores, theta):
        _, pull = objective.value_and_gradient(scores, one_problem(PENALTIES))
        gradient = space.gradient(pull) + 2 * PENALTIES[:, None] * space.penalised(theta)
        return np.sqrt(np.sum(gradient * space.dual(gradient), axis=1))

    solution = minimise(objective, space, PENALTIES, one_problem(PENALTIES), tol=tol)
    at_zero = norms(0 * solution.scores, 0 * solution.theta)
    assert solution.converged.all()
    assert (norms(solution.scores, solution.theta) <= 1.001 * tol * at_zero).all()


def test_tighter_tolerance_takes_more_iterations_and_lowers_the_value():
    space, objective = KernelSpace(gram(DATA.X), 1), risk_of(DATA)
    loose, tight = (
        minimise(objective, space, PENALTIES, one_problem(PENALTIES), tol=tol)
        for tol in (1e-2, 1e-6)
    )
    assert (loose.n_iter < tight.n_iter).all()
    assert (loose.value > tight.value).all()


def test_columns_that_run_out_of_iterations_are_returned_and_marked():
    space, objective = KernelSpace(gram(DATA.X), 1), risk_of(DATA)
    free = minimise(objective, space, PENALTIES, one_problem(PENALTIES))
    limit = int(np.median(free.n_iter))
    cut = minimise(objective, space, PENALTIES, one_problem(PENALTIES), max_iter=limit)
    in_time = free.n_iter <= limit
    assert in_time.any()
    assert not in_time.all()
    np.testing.assert_array_equal(cut.converged, in_time)
    np.testing.assert_array_equal(cut.n_iter, np.minimum(free.n_iter, limit))
    np.testing.assert_allclose(cut.scores[in_time], free.scores[in_time], atol=1e-9)
    assert (cut.value[~in_time] > free.value[~in_time]).all()
    assert (cut.value[~in_time] < 1).all()


def test_every_iteration_lowers_the_value():
    space, objective = KernelSpace(gram(DATA.X), 1), risk_of(DATA)
    penalty = np.array([1e-3])
    values = [
        minimise(objective, space, penalty, one_problem(penalty), max_iter=limit).value[0]
        for limit in range(12)
    ]
    assert values[0] == pytest.approx(np.log(2))
    assert (np.diff(values) < 0).all()


@ALL_SPACES
def test_start_that_is_a_minimum_is_returned_at_once(make_space):
    space = make_space(DATA.X)
    objective = Quadratic(np.ones((2, N)), np.stack([np.zeros(N), DATA.X[:, 0]]))
    solution = minimise(objective, space, np.array([0.1, 0.1]), np.array([0, 1]))
    assert solution.n_iter[0] == 0
    assert solution.converged.all()
    assert not solution.theta[0].any()
    assert solution.value[0] == 0
    assert solution.n_iter[1] > 0


def test_column_ends_as_converged_after_five_steps_without_visible_progress():
    class Coarse(Quadratic):
        def value_and_gradient(self, scores, problem):
            value, gradient = super().value_and_gradient(scores, problem)
            return np.round(value, 3), gradient

    exact = quadratic()
    space, objective = KernelSpace(gram(DATA.X), 1), Coarse(exact.curvature, exact.target)
    penalty = np.zeros(1)

    def solve(limit):
        return minimise(objective, space, penalty, one_problem(penalty), tol=1e-12, max_iter=limit)

    whole = solve(1000)
    assert whole.converged[0]
    last = int(whole.n_iter[0])
    values = np.array([solve(limit).value[0] for limit in range(last + 1)])
    still = np.convolve(np.diff(values) == 0, np.ones(5), "valid") == 5
    assert np.flatnonzero(still).tolist() == [last - 5]


def test_objective_without_lower_bound_ends_unconverged_and_finite():
    """Squared loss with bags of negative total weight falls for ever where α is small."""
    data = make_gaussian_bags(n_bags=16, bag_size=10, proportions=(0, 0.3), random_state=0)
    assert decontamination_weights(check_bag_target(data.y)).sum(axis=1).min() < 0
    objective = risk_of(data, "squared", "none")
    space = KernelSpace(gram(data.X), 1)
    solution = minimise(objective, space, np.array([1e-6, 10.0]), np.zeros(2, dtype=np.intp))
    np.testing.assert_array_equal(solution.converged, [False, True])
    assert np.isfinite(solution.theta).all()
    assert np.isfinite(solution.value).all()


def test_objective_that_turns_nan_ends_unconverged_and_leaves_other_columns_alone():
    class Broken(Quadratic):
        def value_and_gradient(self, scores, problem):
            value, gradient = super().value_and_gradient(scores, problem)
            value[problem == 1] = np.nan
            gradient[problem == 1] = np.nan
            return value, gradient

    whole = quadratic()
    broken = Broken(whole.curvature, whole.target)
    space, penalty = LinearSpace(DATA.X, 1), np.array([0.1, 0.1])
    solution = minimise(broken, space, penalty, np.array([0, 1]))
    np.testing.assert_array_equal(solution.converged, [True, False])
    alone = minimise(whole, space, penalty[:1], np.array([0]))
    np.testing.assert_allclose(solution.theta[0], alone.theta[0], rtol=1e-9)


def test_same_input_gives_the_same_bits():
    space, objective = KernelSpace(gram(DATA.X), 1), risk_of(DATA)
    one, two = (minimise(objective, space, PENALTIES, one_problem(PENALTIES)) for _ in range(2))
    np.testing.assert_array_equal(one.theta, two.theta)


@pytest.mark.parametrize("make", [lambda X: LinearSpace(X, 1), lambda X: KernelSpace(gram(X), 1)])
def test_a_start_elsewhere_leads_to_the_same_end(make):
    """A convex objective has one minimum; where one starts there, nothing is left to do."""
    space, problem = make(DATA.X), one_problem(PENALTIES)
    objective = risk_of(DATA, correction="none")
    settings = {"penalty": PENALTIES, "problem": problem, "tol": 1e-8}
    ends = minimise(objective, space, **settings)
    away = ends.theta + np.random.default_rng(0).normal(scale=0.1, size=ends.theta.shape)
    again = minimise(objective, space, **settings, start=away)
    np.testing.assert_allclose(again.value, ends.value, rtol=1e-9)
    np.testing.assert_allclose(again.scores, ends.scores, atol=1e-5)
    stay = minimise(objective, space, **settings, start=ends.theta)
    np.testing.assert_allclose(stay.value, ends.value, rtol=1e-12)
