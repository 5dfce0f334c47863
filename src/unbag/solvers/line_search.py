"""A line search for many columns at once.

Scores are linear in the coefficients and the penalty is quadratic, so that trying a step costs
elementwise work only, no product with the space's operator. Doubling and bisection for the weak
Wolfe conditions is simple, ends always, and copes with kinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbag.arrays import Array, put
from unbag.objectives import Objective
from unbag.solvers.columns import Numbers, Rows, factor, inner, noise, select

_ARMIJO, _WOLFE = 1e-4, 0.9
_MOST_TRIALS = 40


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
    ill_posed: NDArray[np.bool_]


@dataclass(frozen=True)
class Line:
    """The penalised objective along one direction per column.

    Attributes
    ----------
    objective, problem, penalty
        What is minimised, and the problem and λ of each column.
    scores, direction : arrays of shape (columns, outputs, instances)
        Scores at the start, and how they change along the direction.
    value, slope : ndarrays of shape (columns,)
        Objective and directional derivative at the start.
    norm : triple of ndarrays
        ⟨θ, Pθ⟩, ⟨d, Pθ⟩ and ⟨d, Pd⟩ for the penalty.
    """

    objective: Objective
    problem: Rows
    penalty: Numbers
    scores: Array
    direction: Array
    value: Numbers
    slope: Numbers
    norm: tuple[Numbers, Numbers, Numbers]

    def search(self) -> Point:
        """Find steps that satisfy the weak Wolfe conditions."""
        n = len(self.slope)
        length, low, high = np.ones(n), np.zeros(n), np.full(n, np.inf)
        left = np.arange(n)
        point = self._at(left, length)
        trial = point
        for _ in range(_MOST_TRIALS):
            fell = self._fell_enough(left, trial)
            flattened = trial.slope >= _WOLFE * self.slope[left]
            high[left[~fell]] = length[left[~fell]]
            short = left[fell & ~flattened]
            low[short] = length[short]
            left = left[~(fell & flattened)]
            if len(left) == 0:
                return point
            middle = (low[left] + high[left]) / 2
            length[left] = np.where(np.isinf(middle), 2 * length[left], middle)
            trial = self._at(left, length[left])
            self._update(point, left, trial)
        # the longest step that went down far enough, where there is one
        point.ill_posed[left] = np.isinf(high[left]) | ~np.isfinite(trial.value)
        last = np.where(point.ill_posed[left], 0.0, low[left])
        self._update(point, left, self._at(left, last))
        return point

    def _at(self, rows: Rows, length: Numbers) -> Point:
        along = select(self.direction, rows)
        scores = factor(length, along) * along
        scores += select(self.scores, rows)
        problem = select(self.problem, rows)
        value, score_gradient = self.objective.value_and_gradient(scores, problem)
        square, linear, quadratic = (part[rows] for part in self.norm)
        penalty = self.penalty[rows]
        norm = square + 2 * length * linear + length**2 * quadratic
        slope = inner(score_gradient, along) + 2 * penalty * (linear + length * quadratic)
        return Point(
            length=length.copy(),
            value=value + penalty * norm,
            slope=slope,
            squared_norm=norm,
            scores=scores,
            score_gradient=score_gradient,
            ill_posed=np.zeros(len(rows), dtype=bool),
        )

    @staticmethod
    def _update(point: Point, rows: Rows, trial: Point) -> None:
        for name in ("length", "value", "slope", "squared_norm"):
            getattr(point, name)[rows] = getattr(trial, name)
        put(point.scores, rows, trial.scores)
        put(point.score_gradient, rows, trial.score_gradient)

    def _fell_enough(self, rows: Rows, trial: Point) -> NDArray[np.bool_]:
        """Sufficient decrease, judged by slopes where values differ by rounding only."""
        start, steep = self.value[rows], self.slope[rows]
        armijo = trial.value <= start + _ARMIJO * trial.length * steep
        close = trial.value <= start + noise(start, self.scores)
        close &= trial.slope <= (2 * _ARMIJO - 1) * steep
        return np.isfinite(trial.value) & (armijo | close)
