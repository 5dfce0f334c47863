"""What a solver minimises: functions of scores, alone or shifted."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from unbag._arrays import Array, Floats, Ints, Latest, beside


class Criterion(Protocol):
    """What fits are compared by: a function of scores, for many columns at once.

    A column is one fit. Several problems (say, the folds of a search) share the instances; each
    column says which problem it belongs to.

    Attributes
    ----------
    n_outputs : int
        Number of scores of an instance.
    """

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Value per column.

        Parameters
        ----------
        scores : array of shape (columns, outputs, instances)
            Scores of the instances, for each column.
        problem : ndarray of int, shape (columns,)
            The problem that each column belongs to.

        Returns
        -------
        value : ndarray of shape (columns,)
            The values.
        """
        ...


class Objective(Criterion, Protocol):
    """What a solver minimises: a criterion with its gradient.

    Attributes
    ----------
    n_outputs : int
        Number of scores of an instance.

    Examples
    --------
    An objective of your own:

    >>> import numpy as np
    >>> from unbag.paper.lbfgs import minimise
    >>> from unbag.paper.spaces import LinearSpace
    >>> class Squares:
    ...     n_outputs = 1
    ...
    ...     def value(self, scores, problem):
    ...         return self.value_and_gradient(scores, problem)[0]
    ...
    ...     def value_and_gradient(self, scores, problem):
    ...         rest = scores - np.array([1.0, 3.0, 5.0])
    ...         return (rest**2).sum(axis=(1, 2)) / 2, rest
    >>> space = LinearSpace(np.array([[0.0], [1.0], [2.0]]), n_outputs=1, fit_intercept=True)
    >>> one = np.zeros(1)
    >>> solution = minimise(Squares(), space, penalty=one, problem=one.astype(int))
    >>> solution.theta.round(6)  # slope and intercept
    array([[2., 1.]])
    """

    n_outputs: int

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Any, Array]:
        """Value per column, and the gradient with respect to the scores.

        Parameters
        ----------
        scores : array of shape (columns, outputs, instances)
            Scores of the instances, for each column.
        problem : ndarray of int, shape (columns,)
            The problem that each column belongs to.

        Returns
        -------
        value : ndarray of shape (columns,)
            The values.
        gradient : array of shape (columns, outputs, instances)
            Their derivatives by the scores.
        """
        ...


class OffsetObjective:
    """An objective of f + offset, with offsets of their own for every problem.

    Log-odds at one class prior and at another differ by a constant, so that an objective which
    wants the one can be given the other.

    Parameters
    ----------
    objective : Objective
        The objective of f + offset.
    offsets : ndarray of shape (n_problems, n_outputs)
        What is added to the scores of each problem.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.base import OffsetObjective
    >>> from unbag.observations.forward import ForwardLikelihood
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> forward = ForwardLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.array([[[-1.0, 1.0, 1.0, 1.0]]]), np.zeros(1, dtype=int)
    >>> shifted = OffsetObjective(forward, np.array([[0.5]]))
    >>> bool(shifted.value(scores, problem) == forward.value(scores + 0.5, problem))
    True
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
