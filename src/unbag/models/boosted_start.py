"""What trees are added to: nothing, or a linear function that was fitted to the same bags.

A linear function is learned from few rows, and trees are poor at slopes: to them is left what it
misses. Every fold has its own, which did not see the bags that the fold holds out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array, issparse

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.models.bag_goal import BagGoal
from unbag.models.checks import DEFAULT_ALPHAS
from unbag.models.functions import LinearFunctions
from unbag.models.local import LocalBackend
from unbag.models.row_order import RowOrder
from unbag.models.training import search

# Where there is more to learn from, trees were no better for it, on the tables that this was chosen
# by: more rows, in bags that are worth more labelled ones, or more rows than were tried.
MOST_ROWS = 4096
MOST_LABELLED_ROWS = 128
MOST_TRIED = 16384

# Trees make up for what is between two penalties, and for what a solver leaves undone.
_ALPHAS = np.array(DEFAULT_ALPHAS[::2])
_TOL, _MAX_ITER = 1e-3, 200

# What bags held out tell of a goal.
_TOLD = ("bag_effect", "looks", "asks_for_looks")


@dataclass(frozen=True, eq=False)
class Start:
    """Linear functions xᵀw + b, one for each problem; all are zero where trees start from nothing.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_outputs, n_features)
        The w.
    intercept : ndarray of shape (n_problems, n_outputs)
        The b.
    fill : ndarray of shape (n_features,)
        What stands for values that are missing.
    """

    coef: Floats
    intercept: Floats
    fill: Floats

    def scores(self, X: Any) -> Floats:
        """Scores (problems, outputs, rows)."""
        if not (self.coef.any() or self.intercept.any()):
            return np.broadcast_to(0.0, (*self.intercept.shape, X.shape[0]))
        rows = fill_gaps(X, self.fill)
        return np.stack(
            [(rows @ w.T + b).T for w, b in zip(self.coef, self.intercept, strict=True)]
        )

    def mean(self) -> Self:
        """The mean of all problems, as the only one."""
        return replace(self, coef=self.coef.mean(0)[None], intercept=self.intercept.mean(0)[None])

    @classmethod
    def nothing(cls, n_problems: int, n_outputs: int, n_features: int) -> Self:
        """No function at all."""
        shape = (n_problems, n_outputs, n_features)
        return cls(np.zeros(shape), np.zeros(shape[:2]), np.zeros(n_features))


def teach_little(bags: Bags) -> bool:
    """Whether there are few rows, or few of a label would be worth as much as these bags."""
    n_rows = int(bags.sizes.sum())
    little = n_rows <= MOST_TRIED and labelled_rows(bags) <= MOST_LABELLED_ROWS
    return n_rows <= MOST_ROWS or little


def labelled_rows(bags: Bags) -> float:
    """What bags are worth: Σ_b n_b |γ_b − γ|² / (1 − |γ|²) rows of known label.

    γ_b are the shares of the classes in a bag, γ those in all of them. It is the number of rows if
    bags are pure, and one less than the number of bags, on average, if rows were shuffled.
    """
    shares = bags.class_shares
    apart = bags.sizes @ ((bags.proportions - shares) ** 2).sum(axis=1)
    return float(apart / (1 - shares @ shares))


def fill_gaps(X: Any, fill: Floats) -> Any:
    """Put numbers where values are missing."""
    sparse = bool(issparse(X))
    values = X.data if sparse else X
    gaps = np.isnan(values)
    if not gaps.any():
        return X
    stand_ins = fill[X.indices] if sparse else np.broadcast_to(fill, X.shape)
    found = np.where(gaps, stand_ins, values)
    return type(X)((found, X.indices, X.indptr), X.shape) if sparse else found


def find_start(
    X: Any, bags: Bags, held: NDArray[np.bool_], goal: BagGoal, categorical: list[int]
) -> tuple[Start, Start, BagGoal]:
    """Fit linear functions to all bags and to those of each fold, with one penalty for all.

    Parameters
    ----------
    held : ndarray of bool, shape (n_folds, n_bags)
    categorical : list of int
        Columns that hold codes of categories, which are left to the trees.

    Returns
    -------
    whole, folds : Start
        Of all bags, and of each fold.
    goal : BagGoal
        With what bags held out told of it.
    """
    centre, scale = _moments(X)
    scale[categorical] = np.inf
    rows = fill_gaps(X, centre)
    rows = rows @ diags_array(1 / scale) if issparse(X) else (rows - centre) / scale
    n_outputs = goal.n_outputs(bags)
    space, basis = LinearFunctions(True, None).space(rows, n_outputs, goal.free_intercept)
    # of rows and target a splitter would want, there is nothing more to ask
    backend = LocalBackend(space, X, np.empty(0), bags, held, _TOL, _MAX_ITER, 0, RowOrder())
    found = search(backend, goal, _ALPHAS, "pooled")
    own = len(held) + 1
    thetas = found.solved.fits.theta[found.best * own : (found.best + 1) * own]
    parts = [basis.read(theta, n_outputs) for theta in thetas]
    coef = np.stack([w for w, _ in parts]) / scale
    both = Start(coef, np.stack([b for _, b in parts]) - coef @ centre, centre)
    return (
        replace(both, coef=coef[:1], intercept=both.intercept[:1]),
        replace(both, coef=coef[1:], intercept=both.intercept[1:]),
        replace(goal, **{name: getattr(found.goal, name) for name in _TOLD}),
    )


def _moments(X: Any) -> tuple[Floats, Floats]:
    """Means of all columns, which are zero if X is to stay sparse, and deviations."""
    sparse = bool(issparse(X))
    if sparse:
        centre = np.zeros(X.shape[1])
        rows = fill_gaps(X, centre)
        mean, square = (np.asarray(part.mean(axis=0)).ravel() for part in (rows, rows.power(2)))
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
    else:
        known = ~np.isnan(X)
        n = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, X, 0).sum(axis=0, dtype=float) / n
        deviation = np.sqrt((np.where(known, X - centre, 0) ** 2).sum(axis=0) / n)
    return centre, np.where(deviation > 0, deviation, np.inf)
