"""A line search for many columns at once.

Scores are linear in the coefficients and the penalty is quadratic, so that trying a step costs
elementwise work only, no product with the space's operator. Steps that satisfy the weak Wolfe
conditions are bracketed: that ends always, and copes with kinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from array_api_compat import is_torch_array

from unbag._arrays import Array, Bools, Ints, put, to_host
from unbag.observations.base import Objective
from unbag.solvers.batches import Numbers, inner, noise, selection, stretch

_ARMIJO, _WOLFE = 1e-4, 0.9
_MOST_TRIALS = 40

# The first trials go by the slopes: to where they would cross zero, if that leaves at least a tenth
# of what is between two steps on either side, or else ten times as far, since a step is too short
# only if the slope there is still nine tenths of that at the start. Later ones halve and double.
_BOLD_TRIALS = 3
_LEAST_SHARE = 0.1


@dataclass
class Point:
    """Where a step ends: its length (0 if none was found) and the objective there.

    Where no step was found, ``ill_posed`` says that the objective falls without end or is not
    finite.
    """

    length: Numbers
    value: Numbers
    slope: Numbers
    squared_norm: Numbers
    scores: Array
    score_gradient: Array
    ill_posed: Bools


@dataclass(frozen=True, eq=False)
class Line:
    """The penalised objective along one direction per column.

    Attributes
    ----------
    objective, problem, penalty
        What is minimised, and the problem and λ of each column.
    scores, direction : arrays of shape (columns, outputs, instances)
        Scores at the start, and how they change along the direction.
    value, squared_norm : ndarrays of shape (columns,)
        Objective and ⟨θ, Pθ⟩ at the start.
    products : array of shape (columns, 3)
        Directional derivative at the start, ⟨d, Pθ⟩ and ⟨d, Pd⟩, where the scores are.
    """

    objective: Objective
    problem: Ints
    penalty: Numbers
    scores: Array
    direction: Array
    value: Numbers
    squared_norm: Numbers
    products: Array

    @cached_property
    def _products(self) -> Numbers:
        # waits for the device, which should have the first trial to work on by then
        return to_host(self.products).astype(np.float64)

    @property
    def slope(self) -> Numbers:
        """Directional derivative at the start."""
        return self._products[:, 0]

    def search(self) -> Point:
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
            point = self._moved(point, left, length)
        # the longest step that went down far enough, where there is one
        ill_posed = (np.isinf(long[0]) | ~np.isfinite(point.value))[left]
        length[left] = np.where(ill_posed, 0.0, short[0, left])
        point = self._moved(point, left, length)
        point.ill_posed[left] = ill_posed
        return point

    def _moved(self, point: Point, rows: Ints, length: Numbers) -> Point:
        """The point, after some columns were given another length."""
        if is_torch_array(self.scores):
            # all of them again takes fewer steps of a device than to single some out
            return self._at(length)
        some = self._of(rows)._at(length[rows])
        for name in ("length", "value", "slope", "squared_norm"):
            getattr(point, name)[rows] = getattr(some, name)
        put(point.scores, rows, some.scores)
        put(point.score_gradient, rows, some.score_gradient)
        return point

    def _of(self, rows: Ints) -> Self:
        """The lines of some columns; all of them without a copy."""
        if len(rows) == len(self.problem):
            return self
        select = selection(rows, self.scores)
        names = ("problem", "penalty", "scores", "direction", "value", "squared_norm")
        chosen = {name: select(getattr(self, name)) for name in names}
        return replace(self, **chosen, products=self._products[rows])

    def _at(self, length: Numbers) -> Point:
        scores = self.scores + stretch(length, self.direction)
        value, score_gradient = self.objective.value_and_gradient(scores, self.problem)
        slope = to_host(inner(score_gradient, self.direction))
        _, linear, quadratic = self._products.T
        norm = self.squared_norm + 2 * length * linear + length**2 * quadratic
        return Point(
            length=length.copy(),
            value=value + self.penalty * norm,
            slope=slope + 2 * self.penalty * (linear + length * quadratic),
            squared_norm=norm,
            scores=scores,
            score_gradient=score_gradient,
            ill_posed=np.zeros(len(length), dtype=bool),
        )

    def _fell_enough(self, trial: Point) -> Bools:
        """Sufficient decrease, judged by slopes where values differ by rounding only."""
        armijo = trial.value <= self.value + _ARMIJO * trial.length * self.slope
        close = trial.value <= self.value + noise(self.value, self.scores)
        close &= trial.slope <= (2 * _ARMIJO - 1) * self.slope
        return np.isfinite(trial.value) & (armijo | close)


def _between(short: Numbers, long: Numbers, *, bold: bool) -> Numbers:
    """Lengths to try next, given lengths and slopes of steps too short and too long."""
    (low, falls), (high, rises) = short, long
    crosses = (falls < 0) & (rises > 0) & bold
    share = np.where(crosses, falls / np.where(crosses, falls - rises, 1.0), 0.5)
    share = np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE)
    further = low / _LEAST_SHARE if bold else 2 * low
    return np.where(np.isinf(high), further, low + share * (high - low))
