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
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Ints, put, to_host, untracked
from unbag.observations.base import Objective
from unbag.solvers.batches import Numbers, factor, inner, inners, noise, selection, stretch
from unbag.solvers.history import History
from unbag.solvers.line_search import Line
from unbag.solvers.spaces import FunctionSpace

# This many steps in a row without visible progress end a column. A value averages the rounding
# of many scores, so that progress shows below the resolution of a single one.
_PATIENCE = 5
_VISIBLE = 0.01

# How many steps are remembered: the more, the fewer iterations, up to a hundred if all columns
# together would then keep at most so many numbers (1 GB).
_LEAST_MEMORY, _MOST_MEMORY, _MOST_NUMBERS = 20, 100, 2**27

# On a device of torch it is the number of operations that takes the time, not their size: columns
# that have ended come along at rest until they are half of all.
_MEMORY_ON_DEVICE = 40
_LEAVING_ON_DEVICE = 0.5


@dataclass(frozen=True, eq=False)
class Solution:
    """Minimisers of all columns.

    Attributes
    ----------
    theta : array of shape (columns, coefficients)
        The minimisers.
    scores : array of shape (columns, outputs, instances)
        Their scores.
    value : ndarray of shape (columns,)
        Objective with its penalty.
    n_iter : ndarray of int, shape (columns,)
        Number of iterations.
    converged : ndarray of bool, shape (columns,)
        Whether each column converged.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.forward import ForwardLikelihood
    >>> from unbag.solvers.lbfgs import minimise
    >>> from unbag.solvers.spaces import LinearSpace
    >>> y = bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75])
    >>> objective = ForwardLikelihood(np.array([True, True]), check_bag_target(y))
    >>> space = LinearSpace(np.array([[0.0], [1.0], [1.0], [2.0]]), n_outputs=1, fit_intercept=True)
    >>> penalty = np.array([1.0, 0.01])  # two fits at once
    >>> solution = minimise(objective, space, penalty, problem=np.zeros(2, dtype=int))
    >>> solution.converged.tolist(), solution.scores.shape
    ([True, True], (2, 1, 4))
    """

    theta: Array
    scores: Array
    value: Numbers
    n_iter: NDArray[np.int64]
    converged: Bools


def minimise(
    objective: Objective,
    space: FunctionSpace,
    penalty: Numbers,
    problem: Ints,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int | None = None,
    callback: Callable[[int, int], None] | None = None,
    start: Array | None = None,
) -> Solution:
    """Minimise the penalised objective, for all columns together.

    Parameters
    ----------
    objective : Objective
        Value and gradient in score space.
    space : FunctionSpace
        Where the functions live.
    penalty : ndarray of shape (columns,)
        λ of each column.
    problem : ndarray of int, shape (columns,)
        The problem of the objective that each column belongs to.
    tol : float, default=1e-4
        A column has converged when the norm of its gradient is below ``tol`` times that at zero,
        when its value has stopped to fall, or when not even steepest descent finds a lower point
        (at a kink, or at the end of the precision).
    max_iter : int, default=1000
        Iterations after which a column is given up.
    memory : int, optional
        Steps that L-BFGS remembers, by default 100, or as many from 20 on as 1 GB holds; 40 on a
        device of torch.
    callback : callable, optional
        Called after each iteration with its number and the number of columns left.
    start : array of shape (columns, coefficients), optional
        Where to start from, by default zero.

    Returns
    -------
    solution : Solution
        Minimisers of all columns.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.forward import ForwardLikelihood
    >>> from unbag.solvers.lbfgs import minimise
    >>> from unbag.solvers.spaces import LinearSpace
    >>> y = bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75])
    >>> objective = ForwardLikelihood(np.array([True, True]), check_bag_target(y))
    >>> space = LinearSpace(np.array([[0.0], [1.0], [1.0], [2.0]]), n_outputs=1, fit_intercept=True)
    >>> penalty = np.array([1.0, 0.01])  # two fits at once
    >>> solution = minimise(objective, space, penalty, problem=np.zeros(2, dtype=int))
    >>> bool(solution.theta[0, 0] < solution.theta[1, 0])
    True
    """
    on_device = is_torch_array(space.like)
    if memory is None:
        memory = _MEMORY_ON_DEVICE if on_device else _affordable_memory(space, len(penalty))
    leaving = _LEAVING_ON_DEVICE if on_device else 0.0
    with untracked(space.like):
        columns = _Columns.at_zero(objective, space, penalty, problem, memory)
        if start is not None:
            columns = columns.moved_to(start, objective, space, memory)
        solution = _empty_solution(columns)
        for iteration in range(max_iter + 1):
            converged = columns.converged(tol)
            ending = converged | columns.ill_posed | (iteration == max_iter)
            ending &= ~columns.ended
            columns.ended |= ending
            number = columns.number[ending]
            solution.n_iter[number], solution.converged[number] = iteration, converged[ending]
            # what is not finite cannot rest: zero times it is not zero
            share = 1.0 if columns.ill_posed.any() else columns.ended.mean()
            if share > 0 and share >= leaving:
                _store(solution, columns)
                if columns.ended.all():
                    break
                columns = columns.keep(np.flatnonzero(~columns.ended))
            columns.step(objective, space)
            if callback is not None:
                callback(iteration + 1, int((~columns.ended).sum()))
    return solution


def _affordable_memory(space: FunctionSpace, n_columns: int) -> int:
    """How many steps of all columns can be remembered, each with its change of the gradient."""
    numbers = 2 * n_columns * space.n_coefficients * (1 if space.self_dual else 2)
    return min(max(_MOST_NUMBERS // max(numbers, 1), _LEAST_MEMORY), _MOST_MEMORY)


def _empty_solution(columns: _Columns) -> Solution:
    xp, n = array_namespace(columns.theta), len(columns.number)
    return Solution(
        theta=xp.zeros_like(columns.theta),
        scores=xp.zeros_like(columns.scores),
        value=np.zeros(n),
        n_iter=np.zeros(n, dtype=np.int64),
        converged=np.zeros(n, dtype=bool),
    )


def _store(solution: Solution, columns: _Columns) -> None:
    """Write the columns that leave to where they belong."""
    here, there = np.flatnonzero(columns.ended), columns.number[columns.ended]
    select = selection(here, columns.theta)
    put(solution.theta, there, select(columns.theta))
    put(solution.scores, there, select(columns.scores))
    solution.value[there] = columns.value[here]


@dataclass
class _Columns:
    """The state of all columns that are still on their way, and of some that have ended."""

    number: Ints
    penalty: Numbers
    problem: Ints
    pull: Array
    theta: Array
    scores: Array
    value: Numbers
    squared_norm: Numbers
    first_square: Numbers
    lowest: Numbers
    idle: NDArray[np.int64]
    afresh: Bools
    stuck: Bools
    ill_posed: Bools
    ended: Bools
    history: History

    @classmethod
    def at_zero(
        cls,
        objective: Objective,
        space: FunctionSpace,
        penalty: Numbers,
        problem: Ints,
        memory: int,
    ) -> Self:
        xp, n = array_namespace(space.like), len(penalty)
        like = space.like
        theta = xp.zeros((n, space.n_coefficients), dtype=like.dtype, device=device(like))
        scores = space.scores(theta, theta if space.self_dual else xp.zeros_like(theta))
        value, score_gradient = objective.value_and_gradient(scores, problem)
        history = History.start(_with_dual(space.gradient(score_gradient), space), memory)
        return cls(
            number=np.arange(n),
            penalty=penalty,
            problem=problem,
            pull=factor(2 * penalty, theta),
            theta=theta,
            scores=scores,
            value=value,
            squared_norm=np.zeros(n),
            first_square=history.square,
            lowest=value,
            idle=np.zeros(n, dtype=np.int64),
            afresh=np.ones(n, dtype=bool),
            stuck=np.zeros(n, dtype=bool),
            ill_posed=np.zeros(n, dtype=bool),
            ended=np.zeros(n, dtype=bool),
            history=history,
        )

    def moved_to(
        self, theta: Array, objective: Objective, space: FunctionSpace, memory: int
    ) -> Self:
        """Go on from elsewhere, as if nothing had been before."""
        image = space.dual(theta)
        scores = space.scores(theta, image)
        value, score_gradient = objective.value_and_gradient(scores, self.problem)
        penalised = space.penalised(theta)
        norm = to_host(inner(penalised, image)).astype(np.float64)
        gradient = space.gradient(score_gradient) + self.pull * penalised
        value = value + self.penalty * norm
        return replace(
            self,
            theta=theta,
            scores=scores,
            value=value,
            squared_norm=norm,
            lowest=value,
            history=History.start(_with_dual(gradient, space), memory),
        )

    def converged(self, tol: float) -> Bools:
        flat = self.history.square <= tol**2 * self.first_square
        return flat | (self.idle >= _PATIENCE) | self.stuck

    def keep(self, rows: Ints) -> Self:
        """Go on with some of the columns."""
        select = selection(rows, self.theta)
        own = {name: value for name, value in vars(self).items() if name != "history"}
        kept = {name: select(value) for name, value in own.items()}
        return replace(self, **kept, history=self.history.keep(select))

    def step(self, objective: Objective, space: FunctionSpace) -> None:
        """One iteration of L-BFGS."""
        direction = self.history.direction(at_rest=self.ended)
        along, image = direction[:, 0, :], direction[:, -1, :]
        # ⟨d, g⟩, ⟨d, Pθ⟩ and ⟨d, Pd⟩
        others = [self.history.gradient, space.penalised(self.theta), space.penalised(along)]
        line = Line(
            objective=objective,
            problem=self.problem,
            penalty=self.penalty,
            scores=self.scores,
            direction=space.scores(along, image),
            value=self.value,
            squared_norm=self.squared_norm,
            products=inners(others, image),
        )
        end = line.search()
        failed = (end.length == 0) & ~end.ill_posed
        # a failed step is tried once more along steepest descent
        self.stuck, self.afresh, self.ill_posed = failed & self.afresh, failed, end.ill_posed
        progress = self.lowest - end.value
        self.lowest = np.minimum(self.lowest, end.value)
        invisible = _VISIBLE * noise(end.value, end.scores)
        self.idle = np.where(progress <= invisible, self.idle + 1, 0)
        self.value, self.scores, self.squared_norm = end.value, end.scores, end.squared_norm
        step = stretch(end.length, direction)
        self.theta = self.theta + step[:, 0, :]
        gradient = space.gradient(end.score_gradient) + self.pull * space.penalised(self.theta)
        slopes = end.length * line.slope, end.length * end.slope
        self.history.add(step, _with_dual(gradient, space), slopes)
        if failed.any():
            self.history.forget(failed)


def _with_dual(vectors: Array, space: FunctionSpace) -> Array:
    """Vectors, and their duals if these are something else: (columns, 1 or 2, coefficients)."""
    if space.self_dual:
        return vectors[:, None, :]
    return array_namespace(vectors).stack([vectors, space.dual(vectors)], axis=1)
