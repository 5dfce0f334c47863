"""What a solver minimises: functions of scores, alone or shifted."""

from __future__ import annotations

from typing import Any, Protocol

from unbag._arrays import Array, Floats, Ints, Latest, beside


class Objective(Protocol):
    """What a solver minimises: a function of scores, for many columns at once.

    A column is one fit. Several problems (say, the folds of a search) share the instances; each
    column says which problem it belongs to.
    """

    n_outputs: int

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value per column for scores of shape (columns, outputs, instances)."""
        ...

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Any, Array]:
        """Value per column and gradient with respect to scores (columns, outputs, instances)."""
        ...


class Shifted:
    """An objective of f + offset, with offsets of their own for every problem.

    Log-odds at one class prior and at another differ by a constant, so that an objective which
    wants the one can be given the other.

    Parameters
    ----------
    objective : Objective
    offsets : ndarray of shape (n_problems, n_outputs)
    """

    def __init__(self, objective: Objective, offsets: Floats) -> None:
        self.n_outputs = objective.n_outputs
        self.objective = objective
        self.offsets = offsets
        self._chosen = Latest(lambda problem, like: beside(offsets[problem][:, :, None], like))

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value at the shifted scores, per column."""
        return self.objective.value(self._shift(scores, problem), problem)

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Value and gradient at the shifted scores, per column."""
        return self.objective.value_and_gradient(self._shift(scores, problem), problem)

    def _shift(self, scores: Array, problem: Ints) -> Array:
        return scores + self._chosen(problem, scores)
