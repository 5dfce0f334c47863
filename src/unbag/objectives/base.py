"""What a solver minimises: functions of scores, alone or shifted."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from unbag._arrays import Array, Floats, Ints, Latest, beside


class Criterion(Protocol):
    """What fits are compared by: a function of scores, for many columns at once.

    A column is one fit. Several problems (say, the folds of a search) share the instances; each
    column says which problem it belongs to.
    """

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value per column for scores of shape (columns, outputs, instances)."""
        ...


class Objective(Criterion, Protocol):
    """What a solver minimises: a criterion with its gradient."""

    n_outputs: int

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


class Mixed:
    """A weighed sum of objectives of the same scores.

    Parameters
    ----------
    parts : list of (float, Objective)
        What each counts.
    """

    def __init__(self, parts: list[tuple[float, Objective]]) -> None:
        self.n_outputs = parts[0][1].n_outputs
        self.parts = parts

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Weighed sum of the values, per column."""
        values = [factor * part.value(scores, problem) for factor, part in self.parts]
        total: Floats = np.sum(values, axis=0)
        return total

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Weighed sums of values and gradients, per column."""
        (factor, first), *others = self.parts
        value, slopes = first.value_and_gradient(scores, problem)
        total, gradient = factor * value, factor * slopes
        for factor, part in others:
            value, slopes = part.value_and_gradient(scores, problem)
            total, gradient = total + factor * value, gradient + factor * slopes
        return total, gradient
