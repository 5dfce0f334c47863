"""Batched L-BFGS in the geometry of a function space.

Minimises F(θ) = φ(scores(θ)) + λ⟨θ, Pθ⟩ for many columns at once: each column has its own λ and
its own problem (a fold, say), and all share the space. Written in the inner product of the
space, ⟨u, v⟩ = Σ u·dual(v), it needs one product with the space's operator an iteration for all
columns together (`unbag.solvers.history` and `unbag.solvers.line_search` need none), and
columns that have converged leave it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag.arrays import Array, put
from unbag.objectives import Objective
from unbag.solvers.columns import Numbers, Rows, factor, inner, inners, noise, select
from unbag.solvers.history import History
from unbag.solvers.line_search import Line
from unbag.solvers.spaces import FunctionSpace

# This many steps in a row without visible progress end a column. A value averages the rounding
# of many scores, so that progress shows below the resolution of a single one.
_PATIENCE = 5
_VISIBLE = 0.01


@dataclass(frozen=True, eq=False)
class Solution:
    """Minimisers of all columns.

    Attributes
    ----------
    theta : array of shape (columns, coefficients)
    scores : array of shape (columns, outputs, instances)
    value : ndarray of shape (columns,)
        Objective with its penalty.
    n_iter : ndarray of int, shape (columns,)
    converged : ndarray of bool, shape (columns,)
    """

    theta: Array
    scores: Array
    value: Numbers
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]


def minimise(
    objective: Objective,
    space: FunctionSpace,
    penalty: Numbers,
    problem: Rows,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int = 20,
    callback: Callable[[int, int], None] | None = None,
) -> Solution:
    """Minimise the penalised objective from zero, for all columns together.

    Parameters
    ----------
    objective : Objective
        Value and gradient in score space.
    space : FunctionSpace
        Where the functions live.
    penalty, problem : ndarray of shape (columns,)
        λ of each column, and the problem of the objective that it belongs to.
    tol : float
        A column has converged when the norm of its gradient is below ``tol`` times that at zero,
        when its value has stopped to fall, or when not even steepest descent finds a lower point
        (at a kink, or at the end of the precision).
    max_iter : int
        Iterations after which a column is given up.
    memory : int
        Steps that L-BFGS remembers.
    callback : callable, optional
        Called after each iteration with its number and the number of columns left.
    """
    columns = _Columns.at_zero(objective, space, penalty, problem, memory)
    solution = _empty_solution(columns)
    start = columns.gradient_norm()
    for iteration in range(max_iter + 1):
        share = columns.gradient_norm() / np.where(start > 0, start, 1)
        converged = (share <= tol) | (columns.idle >= _PATIENCE)
        converged |= columns.stuck
        done = converged | columns.ill_posed | (iteration == max_iter)
        if done.any():
            _store(solution, columns, done, converged, iteration)
            if done.all():
                break
            columns, start = columns.keep(np.flatnonzero(~done)), start[~done]
        columns.step(objective, space)
        if callback is not None:
            callback(iteration + 1, len(columns.number))
    return solution


def _empty_solution(columns: _Columns) -> Solution:
    xp, n = array_namespace(columns.theta), len(columns.number)
    return Solution(
        theta=xp.zeros_like(columns.theta),
        scores=xp.zeros_like(columns.scores),
        value=np.zeros(n),
        n_iter=np.zeros(n, dtype=np.int64),
        converged=np.zeros(n, dtype=bool),
    )


def _store(
    solution: Solution,
    columns: _Columns,
    done: NDArray[np.bool_],
    converged: NDArray[np.bool_],
    iteration: int,
) -> None:
    """Write the columns that leave to where they belong."""
    here, there = np.flatnonzero(done), columns.number[done]
    put(solution.theta, there, select(columns.theta, here))
    put(solution.scores, there, select(columns.scores, here))
    solution.value[there] = columns.value[here]
    solution.n_iter[there] = iteration
    solution.converged[there] = converged[here]


@dataclass
class _Columns:
    """The state of all columns that are still on their way."""

    number: Rows
    penalty: Numbers
    problem: Rows
    theta: Array
    image: Array
    scores: Array
    value: Numbers
    squared_norm: Numbers
    gradient: Array
    gradient_image: Array
    gradient_square: Numbers
    lowest: Numbers
    idle: NDArray[np.int64]
    afresh: NDArray[np.bool_]
    stuck: NDArray[np.bool_]
    ill_posed: NDArray[np.bool_]
    history: History

    @classmethod
    def at_zero(
        cls,
        objective: Objective,
        space: FunctionSpace,
        penalty: Numbers,
        problem: Rows,
        memory: int,
    ) -> Self:
        xp, n = array_namespace(space.like), len(penalty)
        like = space.like
        theta = xp.zeros((n, space.n_coefficients), dtype=like.dtype, device=device(like))
        image = theta if space.self_dual else xp.zeros_like(theta)
        scores = space.scores(theta, image)
        value, score_gradient = objective.value_and_gradient(scores, problem)
        gradient = space.gradient(score_gradient)
        gradient_image = space.dual(gradient)
        return cls(
            number=np.arange(n),
            penalty=penalty,
            problem=problem,
            theta=theta,
            image=image,
            scores=scores,
            value=value,
            squared_norm=np.zeros(n),
            gradient=gradient,
            gradient_image=gradient_image,
            gradient_square=inner(gradient, gradient_image),
            lowest=value,
            idle=np.zeros(n, dtype=np.int64),
            afresh=np.ones(n, dtype=bool),
            stuck=np.zeros(n, dtype=bool),
            ill_posed=np.zeros(n, dtype=bool),
            history=History.empty(theta, memory, space.self_dual),
        )

    def gradient_norm(self) -> Numbers:
        return np.sqrt(np.maximum(self.gradient_square, 0))

    def keep(self, rows: Rows) -> Self:
        """Go on with some of the columns."""
        own = {name: value for name, value in vars(self).items() if name != "history"}
        kept = {name: select(value, rows) for name, value in own.items()}
        return replace(self, **kept, history=self.history.keep(rows))

    def step(self, objective: Objective, space: FunctionSpace) -> None:
        """One iteration of L-BFGS."""
        direction, direction_image = self.history.direction(self.gradient, self.gradient_image)
        inside = space.penalised(direction)
        slope, linear, quadratic = inners(
            (direction, self.gradient_image), (inside, self.image), (inside, direction_image)
        )
        line = Line(
            objective=objective,
            problem=self.problem,
            penalty=self.penalty,
            scores=self.scores,
            direction=space.scores(direction, direction_image),
            value=self.value,
            slope=slope,
            norm=(self.squared_norm, linear, quadratic),
        )
        end = line.search()
        failed = (end.length == 0) & ~end.ill_posed
        # a failed step is tried once more along steepest descent
        self.stuck, self.afresh, self.ill_posed = failed & self.afresh, failed, end.ill_posed
        progress = self.lowest - end.value
        self.lowest = np.minimum(self.lowest, end.value)
        invisible = _VISIBLE * noise(end.value, end.scores)
        self.idle = np.where(progress <= invisible, self.idle + 1, 0)
        moved = _move(end.length, direction, direction_image)
        self.theta = self.theta + moved[0]
        self.image = self.theta if space.self_dual else self.image + moved[1]
        self.value, self.scores, self.squared_norm = end.value, end.scores, end.squared_norm
        old, old_image, old_square = self.gradient, self.gradient_image, self.gradient_square
        pull = factor(2 * self.penalty, self.theta) * space.penalised(self.theta)
        self.gradient = space.gradient(end.score_gradient) + pull
        self.gradient_image = space.dual(self.gradient)
        self.gradient_square, cross = inners(
            (self.gradient, self.gradient_image), (old, self.gradient_image)
        )
        self.history.add(
            step=moved,
            change=(self.gradient - old, self.gradient_image - old_image),
            gradient_image=self.gradient_image,
            step_slopes=(end.length * slope, end.length * end.slope),
            squares=(old_square, cross, self.gradient_square),
        )
        if failed.any():
            self.history.forget(failed)


def _move(length: Numbers, *directions: Array) -> tuple[Array, ...]:
    """Steps of some length along each, where no length is no step even if d is not finite."""
    step = factor(length, directions[0])
    moved = tuple(step * d for d in directions)
    if (length > 0).all():
        return moved
    xp = array_namespace(step)
    return tuple(xp.where(step > 0, m, xp.zeros_like(m)) for m in moved)
