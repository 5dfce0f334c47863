"""Batched L-BFGS in the geometry of a function space.

Minimises F(θ) = φ(scores(θ)) + λ⟨θ, Pθ⟩ for many columns at once: each column has its own λ and
its own problem (a fold, say), and all share the space. Written in the inner product of the
space, ⟨u, v⟩ = Σ u·dual(v), it needs one product with the space's operator an iteration for all
columns together, and columns that have converged leave it. A line search needs none: scores are
linear in the coefficients and the penalty is quadratic. Steps that satisfy the weak Wolfe
conditions are bracketed, which ends always and copes with kinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.paper.lbfgs_history import History, inner, stacked_product
from unbag.paper.objectives import Objective
from unbag.paper.spaces import FunctionSpace

# --- line search ----------------------------------------------------------------------------------

_ARMIJO, _WOLFE = 1e-4, 0.9
_MOST_TRIALS = 40

# The first trials go by the slopes: to where they would cross zero, if that leaves at least a tenth
# of what is between two steps on either side, or else ten times as far, since a step is too short
# only if the slope there is still nine tenths of that at the start. Later ones halve and double.
_BOLD_TRIALS = 3
_LEAST_SHARE = 0.1


@dataclass
class _Point:
    """Where a step ends: its length (0 if none was found) and the objective there.

    Where no step was found, ``ill_posed`` says that the objective falls without end or is not
    finite.
    """

    length: Floats
    value: Floats
    slope: Floats
    squared_norm: Floats
    scores: Array
    score_gradient: Array
    ill_posed: Bools


@dataclass(frozen=True, eq=False)
class Line:
    """The penalised objective along one direction per column.

    ``scores`` and ``direction`` (columns, outputs, instances) are the scores at the start and how they
    change along the direction, ``products`` (columns, 3) the directional derivative at the start,
    ⟨d, Pθ⟩ and ⟨d, Pd⟩.
    """

    objective: Objective
    problem: Ints
    penalty: Floats
    scores: Array
    direction: Array
    value: Floats
    squared_norm: Floats
    products: Floats

    @property
    def slope(self) -> Floats:
        """Directional derivative at the start."""
        return self.products[:, 0]

    def search(self) -> _Point:
        """Find steps that satisfy the weak Wolfe conditions."""
        n = len(self.problem)
        left, length = np.arange(n), np.ones(n)
        point = self._at(length)
        # lengths and slopes of steps that are too short and too long
        short, long = np.stack([np.zeros(n), self.slope]), np.full((2, n), np.inf)
        for number in range(_MOST_TRIALS):
            fell, flattened = self._fell_enough(point), point.slope >= _WOLFE * self.slope
            left = left[~(fell & flattened)[left]]
            if len(left) == 0:
                return point
            here = np.stack([point.length, point.slope])
            short, long = np.where(fell, here, short), np.where(fell, long, here)
            length[left] = _between(short, long, bold=number < _BOLD_TRIALS)[left]
            self._move(point, left, length)
        # the longest step that went down far enough, where there is one
        ill_posed = (np.isinf(long[0]) | ~np.isfinite(point.value))[left]
        length[left] = np.where(ill_posed, 0.0, short[0, left])
        self._move(point, left, length)
        point.ill_posed[left] = ill_posed
        return point

    def _move(self, point: _Point, rows: Ints, length: Floats) -> None:
        """Give some columns another length."""
        some = self._of(rows)._at(length[rows])
        for name in ("length", "value", "slope", "squared_norm", "scores", "score_gradient"):
            getattr(point, name)[rows] = getattr(some, name)

    def _of(self, rows: Ints) -> Self:
        """The lines of some columns; all of them without a copy."""
        if len(rows) == len(self.problem):
            return self
        own = {name: value for name, value in vars(self).items() if name != "objective"}
        return replace(self, **{name: value[rows] for name, value in own.items()})

    def _at(self, length: Floats) -> _Point:
        scores = self.scores + _stretch(length, self.direction)
        value, score_gradient = self.objective.value_and_gradient(scores, self.problem)
        slope = inner(score_gradient, self.direction)
        _, linear, quadratic = self.products.T
        norm = self.squared_norm + 2 * length * linear + length**2 * quadratic
        return _Point(
            length=length.copy(),
            value=value + self.penalty * norm,
            slope=slope + 2 * self.penalty * (linear + length * quadratic),
            squared_norm=norm,
            scores=scores,
            score_gradient=score_gradient,
            ill_posed=np.zeros(len(length), dtype=bool),
        )

    def _fell_enough(self, trial: _Point) -> Bools:
        """Sufficient decrease, judged by slopes where values differ by rounding only."""
        armijo = trial.value <= self.value + _ARMIJO * trial.length * self.slope
        close = trial.value <= self.value + rounding(self.value, self.scores)
        close &= trial.slope <= (2 * _ARMIJO - 1) * self.slope
        return np.isfinite(trial.value) & (armijo | close)


def _between(short: Floats, long: Floats, *, bold: bool) -> Floats:
    """Lengths to try next, given lengths and slopes of steps too short and too long."""
    (low, falls), (high, rises) = short, long
    crosses = (falls < 0) & (rises > 0) & bold
    share = np.where(crosses, falls / np.where(crosses, falls - rises, 1.0), 0.5)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    further = low / _LEAST_SHARE if bold else 2 * low
    return np.where(np.isinf(high), further, low + share * (high - low))


def _factor(numbers: Floats, like: Array) -> Array:
    """One number per column, shaped to multiply an array of columns."""
    return numbers.reshape((-1,) + (1,) * (like.ndim - 1)).astype(like.dtype)


def _stretch(length: Floats, direction: Array) -> Array:
    """Steps of some length, where no length is no step even if the direction is not finite."""
    if (length == 1).all():
        return direction
    step = _factor(length, direction)
    moved = step * direction
    return moved if (length > 0).all() else np.where(step > 0, moved, np.zeros_like(moved))


def rounding(values: Floats, like: Array) -> Floats:
    """Differences of values up to this size are rounding, for scores of the given type."""
    return float(np.finfo(like.dtype).eps) * np.maximum(np.abs(values), 1e-3)


# --- iterations -----------------------------------------------------------------------------------

# This many steps in a row without visible progress end a column. A value averages the rounding
# of many scores, so that progress shows below the resolution of a single one.
_PATIENCE = 5
_VISIBLE = 0.01

# How many steps are remembered: the more, the fewer iterations, up to a hundred if all columns
# together would then keep at most so many numbers (1 GB).
_LEAST_MEMORY, _MOST_MEMORY, _MOST_NUMBERS = 20, 100, 2**27


@dataclass(frozen=True, eq=False)
class Solution:
    """Minimisers of all columns, their scores and values, and whether each column converged."""

    theta: Array
    scores: Array
    value: Floats
    n_iter: NDArray[np.int64]
    converged: Bools


def minimise(
    objective: Objective,
    space: FunctionSpace,
    penalty: Floats,
    problem: Ints,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callable[[int, int], None] | None = None,
    start: Array | None = None,
) -> Solution:
    """Minimise the penalised objective, for all columns together: penalties λ, each with its problem.

    A column has converged when the norm of its gradient is below ``tol`` times that at zero, when its
    value has stopped to fall, or when not even steepest descent finds a lower point (at a kink, or at
    the end of the precision). The callback gets the number of each iteration and how many columns are
    left. The search starts from the coefficients ``start``, by default zero.

    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.count_likelihood import CountLikelihood
    >>> from unbag.paper.lbfgs import minimise
    >>> from unbag.paper.spaces import LinearSpace
    >>> y = bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75])
    >>> objective = CountLikelihood(np.array([True, True]), check_bag_target(y))
    >>> space = LinearSpace(np.array([[0.0], [1.0], [1.0], [2.0]]), n_outputs=1, fit_intercept=True)
    >>> penalty = np.array([1.0, 0.01])  # two fits at once
    >>> solution = minimise(objective, space, penalty, problem=np.zeros(2, dtype=int))
    >>> bool(solution.theta[0, 0] < solution.theta[1, 0])
    True
    """
    columns = _Columns.at_zero(objective, space, penalty, problem)
    if start is not None:
        columns = columns.moved_to(start, objective, space)
    n = len(penalty)
    solution = Solution(
        theta=np.zeros_like(columns.theta),
        scores=np.zeros_like(columns.scores),
        value=np.zeros(n),
        n_iter=np.zeros(n, dtype=np.int64),
        converged=np.zeros(n, dtype=bool),
    )
    for iteration in range(max_iter + 1):
        converged = columns.converged(tol)
        ending = converged | columns.ill_posed | (iteration == max_iter)
        if ending.any():
            number = columns.number[ending]
            solution.n_iter[number], solution.converged[number] = iteration, converged[ending]
            for name in ("theta", "scores", "value"):
                getattr(solution, name)[number] = getattr(columns, name)[ending]
            if ending.all():
                break
            columns = columns.keep(np.flatnonzero(~ending))
        columns.step(objective, space)
        if callback is not None:
            callback(iteration + 1, len(columns.number))
    return solution


def affordable_memory(space: FunctionSpace, n_columns: int) -> int:
    """How many steps of all columns can be remembered, each with its change of the gradient."""
    numbers = 2 * n_columns * space.n_coefficients * (1 if space.self_dual else 2)
    return min(max(_MOST_NUMBERS // max(numbers, 1), _LEAST_MEMORY), _MOST_MEMORY)


@dataclass
class _Columns:
    """The state of all columns that are still on their way."""

    number: Ints
    penalty: Floats
    problem: Ints
    pull: Array
    theta: Array
    scores: Array
    value: Floats
    squared_norm: Floats
    first_square: Floats
    lowest: Floats
    idle: NDArray[np.int64]
    afresh: Bools
    stuck: Bools
    ill_posed: Bools
    history: History

    @classmethod
    def at_zero(
        cls, objective: Objective, space: FunctionSpace, penalty: Floats, problem: Ints
    ) -> Self:
        n = len(penalty)
        theta = np.zeros((n, space.n_coefficients), dtype=space.like.dtype)
        scores = space.scores(theta, theta if space.self_dual else np.zeros_like(theta))
        value, score_gradient = objective.value_and_gradient(scores, problem)
        gradient = _with_dual(space.gradient(score_gradient), space)
        history = History.start(gradient, affordable_memory(space, n))
        return cls(
            number=np.arange(n),
            penalty=penalty,
            problem=problem,
            pull=_factor(2 * penalty, theta),
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
            history=history,
        )

    def moved_to(self, theta: Array, objective: Objective, space: FunctionSpace) -> Self:
        """Go on from elsewhere, as if nothing had been before."""
        image = space.dual(theta)
        scores = space.scores(theta, image)
        value, score_gradient = objective.value_and_gradient(scores, self.problem)
        penalised = space.penalised(theta)
        norm = inner(penalised, image)
        gradient = space.gradient(score_gradient) + self.pull * penalised
        value = value + self.penalty * norm
        return replace(
            self,
            theta=theta,
            scores=scores,
            value=value,
            squared_norm=norm,
            lowest=value,
            history=History.start(_with_dual(gradient, space), self.history.memory),
        )

    def converged(self, tol: float) -> Bools:
        flat = self.history.square <= tol**2 * self.first_square
        return flat | (self.idle >= _PATIENCE) | self.stuck

    def keep(self, rows: Ints) -> Self:
        """Go on with some of the columns."""
        own = {name: value for name, value in vars(self).items() if name != "history"}
        kept = {name: value[rows] for name, value in own.items()}
        return replace(self, **kept, history=self.history.keep(rows))

    def step(self, objective: Objective, space: FunctionSpace) -> None:
        """One iteration of L-BFGS."""
        direction = self.history.direction()
        along, image = direction[:, 0, :], direction[:, -1, :]
        # ⟨d, g⟩, ⟨d, Pθ⟩ and ⟨d, Pd⟩
        others = [self.history.gradient, space.penalised(self.theta), space.penalised(along)]
        products = stacked_product(np.stack(others, axis=1), image[:, :, None])[:, :, 0]
        line = Line(
            objective=objective,
            problem=self.problem,
            penalty=self.penalty,
            scores=self.scores,
            direction=space.scores(along, image),
            value=self.value,
            squared_norm=self.squared_norm,
            products=products.astype(np.float64),
        )
        end = line.search()
        failed = (end.length == 0) & ~end.ill_posed
        # a failed step is tried once more along steepest descent
        self.stuck, self.afresh, self.ill_posed = failed & self.afresh, failed, end.ill_posed
        progress = self.lowest - end.value
        self.lowest = np.minimum(self.lowest, end.value)
        invisible = _VISIBLE * rounding(end.value, end.scores)
        self.idle = np.where(progress <= invisible, self.idle + 1, 0)
        self.value, self.scores, self.squared_norm = end.value, end.scores, end.squared_norm
        step = _stretch(end.length, direction)
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
    return np.stack([vectors, space.dual(vectors)], axis=1)
