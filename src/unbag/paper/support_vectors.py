"""Support vector machines and regressions on a kernel matrix, from any start.

The dual problem in signed coefficients a, with targets t and gap g = t − Ka:

    maximise Σ_j t_j a_j − ½ aᵀKa   with Σ_j a_j = 0 and lower_j ≤ a_j ≤ upper_j.

A machine has t_j = ±1 and t_j a_j between 0 and C. At the maximum g_j ≤ b for every a_j that may
grow and g_j ≥ b for every one that may shrink, for some b, the intercept. Sequential minimal
optimisation changes one pair at a time, the one that gains most with the coefficient that most
wants to grow (Fan, Chen and Lin 2005, JMLR). Few pairs are needed when the start is close.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import daxpy
from sklearn.exceptions import ConvergenceWarning

from unbag._arrays import Bools, Floats, Ints

Vector = Floats

# The least curvature of a pair, a share of the mean diagonal of K.
_LEAST_CURVATURE = 1e-12
# A coefficient that is nearer to a bound than this share of C is at the bound.
_EDGE = 1e-12
# The share of the violation to which one round brings it down.
_ROUND = 0.3
# Rows of K that are multiplied at a time; few enough to stay in the processor's cache.
_ROWS = 64


@dataclass(frozen=True, eq=False)
class Machine:
    """A support vector machine f = Ka + b on the training instances, with ``expansion`` Ka.

    The coefficients a are between 0 and C for positive instances and between −C and 0 for negative
    ones; b is not penalised.
    """

    labels: Bools
    C: float
    coef: Vector
    expansion: Vector
    intercept: float

    @property
    def scores(self) -> Vector:
        """Scores of the training instances."""
        return self.expansion + self.intercept

    def scaled(self, C: float, tol: float) -> Machine | None:
        """The machine with coefficients times C/C₀, if that is the solution for C.

        While C is so small that all instances of one class are at the bound, it is.
        """
        coef, expansion = self.coef * (C / self.C), self.expansion * (C / self.C)
        sign = np.where(self.labels, 1.0, -1.0)
        gap, size = sign - expansion, sign * coef
        may_grow, may_shrink = size < C * (1 - 1e-9), size > C * 1e-9
        highest = gap[np.where(self.labels, may_grow, may_shrink)].max(initial=-np.inf)
        lowest = gap[np.where(self.labels, may_shrink, may_grow)].min(initial=np.inf)
        if not highest - lowest < tol:
            return None
        free = may_grow & may_shrink
        intercept = gap[free].mean() if free.any() else (highest + lowest) / 2
        return Machine(self.labels, C, coef, expansion, float(intercept))


def train_machine(
    K: Vector,
    labels: Bools,
    C: float,
    tol: float,
    near: Machine | None = None,
    max_steps: int = 10_000_000,
) -> Machine:
    """Minimise ½‖w‖² + C Σ_j hinge(y_j, f_j) for labels of both classes.

    The optimality conditions may be violated by ``tol``: the largest gap of a coefficient that may
    grow, less the smallest of one that may shrink, as in LIBSVM. A machine ``near`` on the same
    matrix, with other labels or another C, saves time and does not change the solution. After
    ``max_steps`` changes of a pair the search is given up, with a ConvergenceWarning.

    >>> import numpy as np
    >>> from unbag.paper.support_vectors import train_machine
    >>> x = np.array([-3.0, -1.0, 1.0, 2.0])
    >>> machine = train_machine(np.outer(x, x), x > 0, C=10.0, tol=1e-6)
    >>> machine.scores.round(3) + 0.0
    array([-3., -1.,  1.,  2.])
    """
    sign = np.where(labels, 1.0, -1.0)
    problem = DualProblem(K, sign, np.where(labels, 0.0, -C), np.where(labels, C, 0.0), tol)
    if near is not None:
        scaled, expansion = near.coef * (C / near.C), near.expansion * (C / near.C)
        # a new label is at the bound that the old scores put it at
        at_bound = np.where(1 - sign * near.scores > 0, sign * C, 0.0)
        coef = np.where(labels == near.labels, scaled, at_bound)
        problem.start(coef, sign - near.scores, scaled, expansion)
    n_steps, violation = problem.maximise(max_steps)
    if violation >= tol:
        warnings.warn(
            f"A support vector machine with C={C:g} was left after {n_steps} steps, its "
            f"optimality conditions violated by {violation:.2g} and not {tol:.2g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Machine(labels, C, problem.coef, sign - problem.gap, problem.intercept)


class DualProblem:
    """The dual problem at its current coefficients, which are zero at first."""

    def __init__(self, K: Vector, target: Vector, lower: Vector, upper: Vector, tol: float) -> None:
        self.K, self.target, self.tol = K, target, tol
        self.lower, self.upper = lower, upper
        self.coef, self.gap = np.zeros(len(target)), target.copy()
        self.diagonal = K.diagonal().copy()
        self.least = _LEAST_CURVATURE * (float(self.diagonal.mean()) or 1.0) / 2
        self.edge = _EDGE * float((upper - lower).max())

    def start(self, coef: Vector, gap: Vector, known: Vector, expansion: Vector) -> None:
        """Start from coefficients, made to fit the bounds and Σa = 0 where the gap makes it cheap.

        Of the ``known`` coefficients, which may be near, the product with K is ``expansion``.
        """
        coef = np.clip(coef, self.lower, self.upper)
        excess = coef.sum()
        direction = np.sign(excess)
        order = np.argsort(direction * gap, kind="stable")
        room = (coef - self.lower if excess > 0 else self.upper - coef)[order]
        coef[order] -= direction * np.clip(abs(excess) - (np.cumsum(room) - room), 0.0, room)
        np.copyto(coef, self.lower, where=coef - self.lower < self.edge)
        np.copyto(coef, self.upper, where=self.upper - coef < self.edge)
        self.coef = coef
        changed = np.flatnonzero(np.abs(coef - known) > self.edge)
        if 2 * len(changed) > len(coef):
            self.gap = self.target - self.K @ coef
        else:
            self.gap = self.target - expansion
            self._follow(changed, (coef - known)[changed])

    def maximise(self, max_steps: int) -> tuple[int, float]:
        """Change pairs, in rounds, until the violation is below ``tol``; return steps and violation."""
        n_steps, mended_at = 0, -1
        while True:
            growing, shrinking = self._growing(), self._shrinking()
            highest, lowest = growing.max(), shrinking.min()
            violation = highest - lowest
            if violation < self.tol and n_steps != mended_at and not self._is_exact():
                self.gap = self.target - self.K @ self.coef
                mended_at = n_steps
                continue
            if violation < self.tol or n_steps >= max_steps:
                return n_steps, float(violation)
            # at a bound, and content with it whatever b between the two: not in this round
            rows = np.flatnonzero((growing >= lowest) | (shrinking <= highest))
            round_tol = max(self.tol, _ROUND * violation)
            n_steps += self._change_pairs(rows, round_tol, max_steps - n_steps)

    @property
    def intercept(self) -> float:
        """b: the mean of free gaps, as in LIBSVM, or else the middle of its interval."""
        free = (self.coef > self.lower) & (self.coef < self.upper)
        if free.any():
            return float(self.gap[free].mean())
        return float((self._growing().max() + self._shrinking().min()) / 2)

    def _growing(self) -> Vector:
        """Gaps of coefficients that may grow, −∞ elsewhere."""
        return np.where(self.coef < self.upper, self.gap, -np.inf)

    def _shrinking(self) -> Vector:
        """Gaps of coefficients that may shrink, ∞ elsewhere."""
        return np.where(self.coef > self.lower, self.gap, np.inf)

    def _change_pairs(self, rows: Ints, tol: float, max_steps: int) -> int:
        """Change pairs among some coefficients until they violate less; return how many."""
        half = self.diagonal[rows] / 2
        coef, gap = self.coef[rows], self.gap[rows]
        lower, upper = self.lower[rows], self.upper[rows]
        # ∓∞ where a coefficient may not grow or shrink, to be added to the gap
        no_growth = np.where(coef < upper, 0.0, -np.inf)
        no_shrinkage = np.where(coef > lower, 0.0, np.inf)
        wish, gain, row, other = (np.empty(len(rows)) for _ in range(4))
        n_steps = 0
        while n_steps < max_steps:
            np.add(gap, no_growth, out=wish)
            i = int(wish.argmax())
            highest = wish[i]
            np.add(gap, no_shrinkage, out=wish)
            np.subtract(highest, wish, out=wish)
            if wish.max() < tol:
                break
            # the partner with which i gains most: (g_i − g_j)² / (k_ii + k_jj − 2k_ij)
            np.maximum(wish, 0.0, out=wish)
            wish *= wish
            np.take(self.K[rows[i]], rows, out=row, mode="clip")
            np.subtract(half, row, out=gain)
            gain += half[i]
            np.maximum(gain, self.least, out=gain)
            wish /= gain
            j = int(wish.argmax())
            np.take(self.K[rows[j]], rows, out=other, mode="clip")
            step = min((highest - gap[j]) / (2 * gain[j]), upper[i] - coef[i], coef[j] - lower[j])
            for place, change in ((i, step), (j, -step)):
                end = coef[place] + change
                if upper[place] - end < self.edge:
                    end = upper[place]
                elif end - lower[place] < self.edge:
                    end = lower[place]
                coef[place] = end
                no_growth[place] = 0.0 if end < upper[place] else -np.inf
                no_shrinkage[place] = 0.0 if end > lower[place] else np.inf
            gap = daxpy(other, daxpy(row, gap, a=-step), a=step)
            n_steps += 1
        changed = np.flatnonzero(coef != self.coef[rows])
        change = (coef - self.coef[rows])[changed]
        self.coef[rows] = coef
        self._follow(rows[changed], change)
        return n_steps

    def _follow(self, rows: Ints, change: Vector) -> None:
        """Let the gap follow a change of some coefficients."""
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            self.gap -= change[part] @ self.K[rows[part]]

    def _is_exact(self) -> bool:
        """Whether rounding has not moved the gap noticeably, judged by some of its entries."""
        some = slice(None, None, max(1, len(self.coef) // 32))
        exact = self.target[some] - self.K[some] @ self.coef
        return bool(np.abs(exact - self.gap[some]).max() < 1e-2 * self.tol)
