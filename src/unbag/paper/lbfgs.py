"""L-BFGS for many columns at once, in the geometry of a space of functions.

Minimises F(θ) = φ(scores(θ)) + λ⟨θ, Pθ⟩: each column has its own λ and its own problem (a fold,
say), and all share the space. In the inner product of the space, ⟨u, v⟩ = Σ u·dual(v), an iteration
takes one product with the kernel matrix for all columns together. A line search takes none: scores
are linear in θ and the penalty is quadratic. SciPy's L-BFGS-B, which takes one column at a time, finds
the same minima in some twenty times the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from unbag._arrays import Array, Bools, Floats, Ints


class Criterion(Protocol):
    """A function of scores (columns, outputs, rows); ``problem`` says which problem a column is of."""

    n_outputs: int

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value per column."""
        ...


class Objective(Criterion, Protocol):
    """What a solver minimises: a criterion with its gradient."""

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Any, Array]:
        """Value per column, and its derivatives by the scores."""
        ...


# --- spaces of functions --------------------------------------------------------------------------
#
# A row of coefficients θ is a function. ``dual`` is its image under the inner product of the space,
# ⟨u, θ⟩ = Σ u · dual(θ), from which ``scores`` (columns, outputs, instances) follow; ``gradient`` is
# that in this geometry of a function with a given gradient in the scores; ``penalised`` is Pθ.


class KernelSpace:
    """f = Σ_j α_j k(·, x_j) with ⟨u, v⟩ = uᵀKv: scores are the dual Kα, and gradients have no K."""

    def __init__(self, K: Floats, n_outputs: int) -> None:
        self.K, self._outputs = K, n_outputs
        self.n_coefficients = n_outputs * len(K)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return (theta.reshape(-1, len(self.K)) @ self.K).reshape(theta.shape)

    def scores(self, image: Array) -> Array:  # noqa: D102
        return image.reshape(-1, self._outputs, len(self.K))

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        return score_gradient.reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta


class LinearSpace:
    """f = Xw + b with the plain inner product; b is not penalised. X may be a sparse matrix."""

    def __init__(self, X: Any, n_outputs: int) -> None:
        self._X, self._outputs, self._d = X, n_outputs, X.shape[1]
        self.n_coefficients = n_outputs * (self._d + 1)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, image: Array) -> Array:  # noqa: D102
        rows = image.reshape(-1, self._d + 1)
        # Xw, which a sparse X has too, unlike wᵀXᵀ
        scores = (self._X @ rows[:, :-1].T).T + rows[:, -1:]
        return scores.reshape(len(image), self._outputs, -1)

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        rows = score_gradient.reshape(-1, self._X.shape[0])
        both = np.column_stack([rows @ self._X, rows.sum(axis=1)])
        return both.reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        kept = theta.copy()
        kept[:, self._d :: self._d + 1] = 0
        return kept


FunctionSpace = KernelSpace | LinearSpace

# --- iterations -----------------------------------------------------------------------------------

# Steps of which the solver remembers how the gradient changed.
_MEMORY = 20
# Conditions of Armijo and Wolfe for the length of a step, and trials until it is given up.
_ARMIJO, _WOLFE, _MOST_TRIALS = 1e-4, 0.9, 40
# So many steps in a row without visible progress end a column, as at a kink.
_PATIENCE = 5

# s, y and 1/⟨s, y⟩ of a step; vectors are (columns, 2, coefficients), each with its dual
_Pair = tuple[Array, Array, Floats]


class Solution(NamedTuple):
    """Minimisers of all columns, their scores and values, and whether each column converged."""

    theta: Array
    scores: Array
    value: Floats
    n_iter: Ints
    converged: Bools


def minimise(
    objective: Objective,
    space: FunctionSpace,
    penalty: Floats,
    problem: Ints,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: Array | None = None,
) -> Solution:
    """Minimise the penalised objective, for all columns together: penalties λ, each with its problem.

    A column has converged when the norm of its gradient is below ``tol`` times that at zero, when its
    value has stopped to fall, or when not even steepest descent finds a lower point (at a kink, or at
    the end of the precision). The search starts from the coefficients ``start``, by default zero.
    """
    task = _Task(objective, space, penalty, problem)
    theta = np.zeros((len(penalty), space.n_coefficients))
    here = task.at(space.scores(theta), np.zeros(len(penalty)))
    gradient = task.gradient(theta, here)
    smallest = tol**2 * _inner(gradient, gradient)
    if start is not None:
        theta, image = start.copy(), space.dual(start)
        here = task.at(space.scores(image), np.sum(space.penalised(theta) * image, axis=1))
        gradient = task.gradient(theta, here)

    memory: list[_Pair] = []
    n_iter, n_stalled = np.zeros(len(penalty), int), np.zeros(len(penalty), int)
    converged, unbounded, restarted = (np.full(len(penalty), b) for b in (False, False, True))
    for iteration in range(max_iter + 1):
        converged |= (_inner(gradient, gradient) <= smallest) | (n_stalled >= _PATIENCE)
        working = ~(converged | unbounded)
        if iteration == max_iter or not working.any():
            break
        n_iter += working
        direction = _direction(gradient, memory)
        slope = np.sum(gradient[:, 0] * direction[:, 1], axis=1)
        length, there, falls = task.search(theta, here, direction, slope, working)
        step = length[:, None, None] * direction
        stalled = here.value - there.value <= _rounding(here.value)
        n_stalled = np.where(stalled, n_stalled + 1, 0)
        theta, here, before = theta + step[:, 0], there, gradient
        gradient = task.gradient(theta, here)
        change = gradient - before
        memory = [*memory[1 - _MEMORY :], (step, change, _inverse(_inner(step, change)))]
        # a failed step is tried once more along steepest descent
        unbounded |= falls
        failed = working & (length == 0) & ~unbounded
        converged |= failed & restarted
        restarted = failed
        for _, _, inverse in memory:
            inverse[failed] = 0
    return Solution(theta, here.scores, here.value, n_iter, converged)


def _direction(gradient: Array, memory: list[_Pair]) -> Array:
    """−Hg by the two loops of L-BFGS."""
    direction, shares = -gradient, []
    for step, change, inverse in reversed(memory):
        shares.append(inverse * _inner(step, direction))
        direction = direction - shares[-1][:, None, None] * change
    if memory:
        step, change, inverse = memory[-1]
        scale = _inner(step, change) * _inverse(_inner(change, change))
        direction = direction * np.where(inverse > 0, scale, 1.0)[:, None, None]
    for (step, change, inverse), share in zip(memory, reversed(shares), strict=True):
        rest = share - inverse * _inner(change, direction)
        direction = direction + rest[:, None, None] * step
    return direction


class _Point(NamedTuple):
    """Scores of all columns, ⟨θ, Pθ⟩, the penalised value, and the gradient of φ in the scores."""

    scores: Array
    norm: Floats
    value: Floats
    score_gradient: Array


class _Task(NamedTuple):
    """What `minimise` minimises."""

    objective: Objective
    space: FunctionSpace
    penalty: Floats
    problem: Ints

    def at(self, scores: Array, norm: Floats) -> _Point:
        value, score_gradient = self.objective.value_and_gradient(scores, self.problem)
        return _Point(scores, norm, value + self.penalty * norm, score_gradient)

    def gradient(self, theta: Array, point: _Point) -> Array:
        """Gradient in θ, and its dual."""
        found = self.space.gradient(point.score_gradient)
        found = found + 2 * self.penalty[:, None] * self.space.penalised(theta)
        return np.stack([found, self.space.dual(found)], axis=1)

    def search(
        self, theta: Array, start: _Point, direction: Array, slope: Floats, working: Bools
    ) -> tuple[Floats, _Point, Bools]:
        """Lengths of a step at which the weak Wolfe conditions hold, and where they lead to.

        Columns that do not work, or that no length makes better, have the length 0. The last result
        says where the objective falls without end or is not finite.
        """
        along, image = direction[:, 0], direction[:, 1]
        way = self.space.scores(image)
        linear = np.sum(self.space.penalised(theta) * image, axis=1)
        quadratic = np.sum(self.space.penalised(along) * image, axis=1)

        def move(t: Floats) -> _Point:
            norm = start.norm + 2 * t * linear + t**2 * quadratic
            return self.at(start.scores + t[:, None, None] * way, norm)

        low, high = np.zeros(len(slope)), np.full(len(slope), np.inf)
        length = np.where(working, 1.0, 0.0)
        for _ in range(_MOST_TRIALS):
            end = move(length)
            end_slope = np.sum(end.score_gradient * way, axis=(1, 2))
            end_slope = end_slope + 2 * self.penalty * (linear + length * quadratic)
            # sufficient decrease, judged by slopes where values differ by rounding only
            fell = end.value <= start.value + _ARMIJO * length * slope
            close = end.value <= start.value + _rounding(start.value)
            fell |= close & (end_slope <= (2 * _ARMIJO - 1) * slope)
            fell &= np.isfinite(end.value)
            left = working & ~(fell & (end_slope >= _WOLFE * slope))
            if not left.any():
                return length, end, left
            low, high = np.where(left & fell, length, low), np.where(left & ~fell, length, high)
            further = np.where(np.isinf(high), 10 * low, (low + high) / 2)
            length = np.where(left, further, length)
        # the longest step that went down far enough, where there is one
        falls = left & (np.isinf(high) | ~np.isfinite(end.value))
        length = np.where(falls, 0.0, np.where(left, low, length))
        return length, move(length), falls


def _inner(u: Array, v: Array) -> Floats:
    """⟨u, v⟩ of vectors with their duals, per column."""
    return np.einsum("ij,ij->i", u[:, 0], v[:, 1])


def _inverse(numbers: Floats) -> Floats:
    """1/x of positive numbers and 0 of others: pairs that rounding has spoilt are passed over."""
    return np.where(numbers > 0, 1 / np.where(numbers > 0, numbers, 1.0), 0.0)


def _rounding(values: Floats) -> Floats:
    """Differences of values up to this size are rounding."""
    return float(np.finfo(float).eps) * np.maximum(np.abs(values), 1e-3)
