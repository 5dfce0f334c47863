"""Support vector machines against SVC, from any start."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from unbag.paper.support_vectors import Machine, train_machine

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 3))
LABELS = X[:, 0] + RANDOM.normal(size=120) > 0.3
OTHERS = RANDOM.random(120) < 0.4
KERNELS = {
    "linear": linear_kernel(X),
    "poly": polynomial_kernel(X, degree=2),
    "smooth": rbf_kernel(X, gamma=0.01),
    "rbf": rbf_kernel(X, gamma=0.5),
    "rough": rbf_kernel(X, gamma=20.0),
    "duplicates": rbf_kernel(X[np.arange(120) // 3], gamma=0.5),
    "constant": np.ones((120, 120)),
}
CS = [1e-4, 1e-2, 1.0, 10.0]


def train(K, labels, C, near=None, accuracy=1e-7):
    return train_machine(K, labels, C, accuracy * min(1.0, C * K.trace() / len(K)), near)


def dual(machine):
    sign = np.where(machine.labels, 1.0, -1.0)
    return sign @ machine.coef - machine.coef @ machine.expansion / 2


def primal(K, machine):
    sign = np.where(machine.labels, 1.0, -1.0)
    hinge = np.maximum(0, 1 - sign * (K @ machine.coef + machine.intercept)).sum()
    return machine.coef @ K @ machine.coef / 2 + machine.C * hinge


def assert_is_solution(K, machine, labels, C):
    """Feasible, and without a gap between the two problems."""
    np.testing.assert_array_equal(machine.labels, labels)
    assert machine.C == C
    size = np.where(labels, 1.0, -1.0) * machine.coef
    assert size.min() >= 0
    assert size.max() <= C
    assert machine.coef.sum() == pytest.approx(0, abs=1e-9 * C * len(labels))
    scale = np.abs(K).max() * C * len(labels)
    np.testing.assert_allclose(machine.expansion, K @ machine.coef, atol=1e-12 * scale)
    assert primal(K, machine) == pytest.approx(dual(machine), rel=1e-5)


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize("name", KERNELS)
def test_equals_SVC(name, C):
    K = KERNELS[name]
    machine = train(K, LABELS, C)
    assert_is_solution(K, machine, LABELS, C)
    svc = SVC(C=C, kernel="precomputed", tol=1e-7 * min(1, C)).fit(K, LABELS)
    support, coef = svc.support_, svc.dual_coef_[0]
    theirs = np.abs(coef).sum() - coef @ K[np.ix_(support, support)] @ coef / 2
    assert dual(machine) == pytest.approx(theirs, rel=1e-6)
    atol = 1e-4 * min(1, 10 * C)
    np.testing.assert_allclose(machine.expansion, K[:, support] @ coef, rtol=1e-4, atol=atol)
    if ((np.abs(coef) > 1e-6 * C) & (np.abs(coef) < C * (1 - 1e-6))).any():
        # else any intercept between two values is a solution
        np.testing.assert_allclose(machine.scores, svc.decision_function(K), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("labels", "C_near"),
    [(LABELS, 0.5), (OTHERS, 0.02), (~LABELS, 1.0), (LABELS ^ (np.arange(120) == 7), 2.0)],
    ids=["other C", "other labels", "all flipped", "one flipped"],
)
def test_start_does_not_matter(name, C, labels, C_near):
    K = KERNELS[name]
    near = train(K, labels, C_near * C, accuracy=1e-3)
    before = near.coef.copy(), near.expansion.copy()
    cold, warm = train(K, LABELS, C), train(K, LABELS, C, near)
    assert_is_solution(K, warm, LABELS, C)
    assert dual(warm) == pytest.approx(dual(cold), rel=1e-6)
    atol = 1e-4 * min(1, 10 * C)
    np.testing.assert_allclose(warm.expansion, cold.expansion, rtol=1e-4, atol=atol)
    np.testing.assert_array_equal(near.coef, before[0])
    np.testing.assert_array_equal(near.expansion, before[1])


@pytest.mark.parametrize("score", [-1.0, 1.0])
def test_start_from_labels_of_one_class(score):
    K, nothing = KERNELS["rbf"], np.zeros(120)
    near = Machine(np.full(120, score > 0), 0.1, nothing, nothing, score)
    assert_is_solution(K, train(K, LABELS, 1.0, near), LABELS, 1.0)


def test_a_close_start_spares_steps():
    K = KERNELS["rbf"]
    near = train(K, LABELS ^ (np.arange(120) == 7), 1.0)
    with pytest.warns(ConvergenceWarning):
        train_machine(K, LABELS, 1.0, 1e-3, max_steps=120)
    train_machine(K, LABELS, 1.0, 1e-3, near, max_steps=120)


def test_long_chains_do_not_drift():
    K, near = KERNELS["rbf"], None
    for seed in range(200):
        flipped = np.random.default_rng(seed).random(120) < 0.05
        near = train(K, LABELS ^ flipped, 1.0 + seed % 3, near, accuracy=1e-3)
    np.testing.assert_allclose(near.expansion, K @ near.coef, atol=1e-5)


@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0])
def test_two_rows(C):
    K = np.array([[4.0, 0.0], [0.0, 4.0]])
    machine = train(K, np.array([True, False]), C)
    size = min(C, 0.25)  # half of 2 / (4 + 4 − 0) at most
    np.testing.assert_allclose(machine.coef, [size, -size])
    assert machine.intercept == pytest.approx(0, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), C=st.sampled_from([1e-3, 0.3, 5.0]), C_near=st.sampled_from([1e-3, 1.0]))
def test_small_problems(data, C, C_near):
    n = data.draw(st.integers(2, 7))
    x = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), dtype=float)
    both = st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < n)
    labels, old = (np.array(data.draw(both)) for _ in range(2))
    K = np.outer(x, x) + np.exp(-((x[:, None] - x) ** 2))
    assert_is_solution(K, train(K, labels, C, train(K, old, C_near)), labels, C)


def test_too_few_steps_are_told():
    with pytest.warns(ConvergenceWarning, match=r"C=1 was left after 3 steps"):
        machine = train_machine(KERNELS["rbf"], LABELS, 1.0, 1e-6, max_steps=3)
    assert np.count_nonzero(machine.coef) <= 6


def test_a_tolerance_below_rounding_ends():
    K = 1e6 * KERNELS["linear"]
    near = train_machine(K, LABELS, 1e-9, 1e-12)
    assert_is_solution(K, near, LABELS, 1e-9)
