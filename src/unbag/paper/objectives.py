"""What the solver minimises: functions of scores, alone or shifted."""

from __future__ import annotations

from typing import Any, Protocol

from unbag._arrays import Array, Floats, Ints


class Criterion(Protocol):
    """A function of scores (columns, outputs, rows), by which fits are compared.

    A column is one fit. Several problems, such as the folds of a search, share the rows; ``problem``
    (columns,) says which problem each column belongs to.
    """

    n_outputs: int

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value per column."""
        ...


class Objective(Criterion, Protocol):
    """What a solver minimises: a criterion with its gradient.

    Examples
    --------
    An objective of your own:

    >>> import numpy as np
    >>> from unbag.paper.lbfgs import LinearSpace, minimise
    >>> class Squares:
    ...     n_outputs = 1
    ...
    ...     def value(self, scores, problem):
    ...         return self.value_and_gradient(scores, problem)[0]
    ...
    ...     def value_and_gradient(self, scores, problem):
    ...         rest = scores - np.array([1.0, 3.0, 5.0])
    ...         return (rest**2).sum(axis=(1, 2)) / 2, rest
    >>> space = LinearSpace(np.array([[0.0], [1.0], [2.0]]), n_outputs=1)
    >>> one = np.zeros(1)
    >>> solution = minimise(Squares(), space, penalty=one, problem=one.astype(int))
    >>> solution.theta.round(6)  # slope and intercept
    array([[2., 1.]])
    """

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Any, Array]:
        """Value per column, and its derivatives by the scores."""
        ...


class OffsetObjective:
    """An objective of f + offset, with offsets (n_problems, n_outputs).

    Log-odds at one class prior and at another differ by a constant.
    """

    def __init__(self, objective: Objective, offsets: Floats) -> None:
        self.n_outputs = objective.n_outputs
        self.objective = objective
        self.offsets = offsets

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value at the shifted scores, per column."""
        return self.objective.value(self._shift(scores, problem), problem)

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Value and gradient at the shifted scores, per column."""
        return self.objective.value_and_gradient(self._shift(scores, problem), problem)

    def _shift(self, scores: Array, problem: Ints) -> Array:
        return scores + self.offsets[problem][:, :, None].astype(scores.dtype)
