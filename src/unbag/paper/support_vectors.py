"""Support vector machines on a kernel matrix, each from the solution of the one before it.

The dual problem in signed coefficients a, with y_j = ±1 and gap g = y − Ka:

    maximise Σ_j y_j a_j − ½ aᵀKa   with Σ_j a_j = 0 and a_j y_j between 0 and C.

At the maximum g_j ≤ b for every a_j that may grow and g_j ≥ b for every one that may shrink, for some b, the
intercept. Sequential minimal optimisation changes one pair at a time, the one that gains most
with the coefficient that most wants to grow: R.-E. Fan, P.-H. Chen and C.-J. Lin (2005),
"Working set selection using second order information for training support vector machines",
JMLR. Few pairs are needed when the start is close.
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
    problem = _Dual(K, labels, C, tol)
    if near is not None:
        problem.start_near(near)
    problem.maximise(max_steps)
    return problem.machine()


class _Dual:
    """The dual problem at its current coefficients."""

    def __init__(self, K: Vector, labels: Bools, C: float, tol: float) -> None:
        self.K, self.labels, self.C, self.tol = K, labels, C, tol
        self.sign = np.where(labels, 1.0, -1.0)
        self.lower, self.upper = np.where(labels, 0.0, -C), np.where(labels, C, 0.0)
        self.coef = np.zeros(len(labels))
        self.gap = self.sign.copy()
        self.diagonal = K.diagonal().copy()
        self.unit = float(self.diagonal.mean())

    def start_near(self, near: Machine) -> None:
        """Start from another machine's coefficients, made to fit labels, C and Σa = 0."""
        scaled = near.coef * (self.C / near.C)
        coef, gap = scaled.copy(), self.sign - near.scores
        # a new label is at the bound that the old scores put it at
        flipped = self.labels != near.labels
        coef[flipped] = np.where(self.sign * gap > 0, self.sign * self.C, 0.0)[flipped]
        np.clip(coef, self.lower, self.upper, out=coef)
        # what the sum is too large is taken where the gap says that it costs least
        excess = coef.sum()
        direction = np.sign(excess)
        order = np.argsort(direction * gap, kind="stable")
        room = (coef - self.lower if excess > 0 else self.upper - coef)[order]
        coef[order] -= direction * np.clip(abs(excess) - (np.cumsum(room) - room), 0.0, room)
        edge = _EDGE * self.C
        np.copyto(coef, self.lower, where=coef - self.lower < edge)
        np.copyto(coef, self.upper, where=self.upper - coef < edge)
        self.coef = coef
        changed = np.flatnonzero(np.abs(coef - scaled) > edge)
        if 2 * len(changed) > len(coef):
            self.gap = self.sign - self.K @ coef
        else:
            self.gap = self.sign - near.expansion * (self.C / near.C)
            self._follow(changed, (coef - scaled)[changed])

    def maximise(self, max_steps: int) -> None:
        """Change pairs, in rounds, until the optimality conditions are met."""
        n_steps, mended_at = 0, -1
        while True:
            growing, shrinking = self._growing(), self._shrinking()
            highest, lowest = growing.max(), shrinking.min()
            violation = highest - lowest
            if violation < self.tol:
                if n_steps == mended_at or self._is_exact():
                    return
                self.gap = self.sign - self.K @ self.coef
                mended_at = n_steps
                continue
            if n_steps >= max_steps:
                break
            # at a bound, and content with it whatever b between the two: not in this round
            rows = np.flatnonzero((growing >= lowest) | (shrinking <= highest))
            goal = max(self.tol, _ROUND * violation)
            n_steps += self._change_pairs(rows, goal, max_steps - n_steps)
        warnings.warn(
            f"A support vector machine with C={self.C:g} was left after {n_steps} steps, its "
            f"optimality conditions violated by {violation:.2g} and not {self.tol:.2g}.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def machine(self) -> Machine:
        """The machine of these coefficients; b as the mean of free gaps, as LIBSVM has it."""
        free = (self.coef > self.lower) & (self.coef < self.upper)
        if free.any():
            intercept = self.gap[free].mean()
        else:
            intercept = (self._growing().max() + self._shrinking().min()) / 2
        return Machine(self.labels, self.C, self.coef, self.sign - self.gap, float(intercept))

    def _growing(self) -> Vector:
        """Gaps of coefficients that may grow, −∞ elsewhere."""
        return np.where(self.coef < self.upper, self.gap, -np.inf)

    def _shrinking(self) -> Vector:
        """Gaps of coefficients that may shrink, ∞ elsewhere."""
        return np.where(self.coef > self.lower, self.gap, np.inf)

    def _change_pairs(self, rows: Ints, goal: float, max_steps: int) -> int:
        """Change pairs among some coefficients until they violate less; return how many."""
        half = self.diagonal[rows] / 2
        coef, gap = self.coef[rows], self.gap[rows]
        lower, upper = self.lower[rows], self.upper[rows]
        # ∓∞ where a coefficient may not grow or shrink, to be added to the gap
        no_growth = np.where(coef < upper, 0.0, -np.inf)
        no_shrinkage = np.where(coef > lower, 0.0, np.inf)
        wish, gain, row, other = (np.empty(len(rows)) for _ in range(4))
        edge, least = _EDGE * self.C, _LEAST_CURVATURE * self.unit / 2
        n_steps = 0
        while n_steps < max_steps:
            np.add(gap, no_growth, out=wish)
            i = int(wish.argmax())
            highest = wish[i]
            np.add(gap, no_shrinkage, out=wish)
            np.subtract(highest, wish, out=wish)
            if wish.max() < goal:
                break
            # the partner with which i gains most: (g_i − g_j)² / (k_ii + k_jj − 2k_ij)
            np.maximum(wish, 0.0, out=wish)
            wish *= wish
            np.take(self.K[rows[i]], rows, out=row, mode="clip")
            np.subtract(half, row, out=gain)
            gain += half[i]
            np.maximum(gain, least, out=gain)
            wish /= gain
            j = int(wish.argmax())
            np.take(self.K[rows[j]], rows, out=other, mode="clip")
            step = min((highest - gap[j]) / (2 * gain[j]), upper[i] - coef[i], coef[j] - lower[j])
            for place, change in ((i, step), (j, -step)):
                end = coef[place] + change
                if upper[place] - end < edge:
                    end = upper[place]
                elif end - lower[place] < edge:
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
        exact = self.sign[some] - self.K[some] @ self.coef
        return bool(np.abs(exact - self.gap[some]).max() < 1e-2 * self.tol)
