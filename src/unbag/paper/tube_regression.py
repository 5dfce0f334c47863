"""Support vector regression on bags, with a tube of its own width around each.

In β = α − α*, with K the kernel between bags, targets y_k and tubes ε_k:

    minimise ½βᵀKβ − yᵀβ + Σ ε_k|β_k|    subject to    Σβ_k = 0,  |β_k| ≤ C.

An interior-point method solves it for many C and ε at once; every iterate is rounded to its
bounds, and the certificate of convergence is the exact optimality condition there.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from unbag._arrays import Bools, Floats, Ints

# Added to the diagonal in the linear systems, relative to the largest kernel value.
_RIDGE = 1e-14

# Relative error of a product with the kernel matrix.
_ROUNDING = 4 * float(np.finfo(float).eps)

# How far, relative to its entries, the sum of β may be from zero.
_SUM_TOLERANCE = 1e-10

# Entries of all Cholesky factors that are held at a time.
_BATCH = 2**25

# How far towards the nearest bound a step of the interior-point method goes.
_STEP = 0.995


@dataclass(frozen=True, eq=False)
class BagRegression:
    """Solutions of one regression for several problems, pairs of a penalty and tubes.

    ``coef`` (n_problems, n_bags) is β = α − α*, exactly 0 or ±C where a bag lies within its tube or
    beyond it; ``intercept`` is b, the middle of its interval where it is not unique; ``violation`` is
    how far, in log-odds, the optimality conditions are from being met, at most 0 if they are.
    """

    coef: Floats
    intercept: Floats
    violation: Floats
    converged: Bools
    n_iter: Ints


def solve_bag_regression(
    K: Floats, y: Floats, tubes: Floats, C: Floats, *, tol: float = 1e-6, max_iter: int = 100
) -> BagRegression:
    """Support vector regression with a tube of its own for every bag.

    For each pair of C and ε (a row of ``tubes``) finds

        min_β  ½ βᵀKβ − yᵀβ + Σ_k ε_k|β_k|    with Σ_k β_k = 0 and |β_k| ≤ C.

    With r = y − Kβ, β is optimal if some b satisfies

        r_k − b ≥ ε_k if β_k = C,     r_k − b = ε_k if 0 < β_k < C,     |r_k − b| ≤ ε_k if β_k = 0,

    and likewise for negative β_k. These give b a lower and an upper limit; the fit has converged
    when the former exceeds the latter by no more than ``tol`` and the rounding of Kβ.

    All problems are solved together by an interior-point method (Mehrotra's predictor and
    corrector). It works on α/C and α*/C, which lie in [0, 1], with a multiplier for each of
    these bounds, and starts and stays where all conditions but complementarity hold. Each
    iteration costs one Cholesky factor of C·K + diagonal for each problem that is left.

    >>> import numpy as np
    >>> from unbag.paper.tube_regression import solve_bag_regression
    >>> K, y = np.eye(2), np.array([-2.0, 2.0])
    >>> fit = solve_bag_regression(K, y, np.array([[0.5, 0.5]]), np.array([10.0]))
    >>> fit.coef.round(6)
    array([[-1.5,  1.5]])
    """
    size = max(1, _BATCH // K.size)
    batches = [slice(i, i + size) for i in range(0, len(C), size)]
    parts = [_solve_batch(K, y, tubes[batch], C[batch], tol, max_iter) for batch in batches]
    return parts[0] if len(parts) == 1 else _join(parts)


def _join(parts: list[BagRegression]) -> BagRegression:
    names = [field.name for field in fields(BagRegression)]
    return BagRegression(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def _solve_batch(
    K: Floats, y: Floats, tubes: Floats, C: Floats, tol: float, max_iter: int
) -> BagRegression:
    n_problems, n_bags = tubes.shape
    found = BagRegression(
        coef=np.zeros((n_problems, n_bags)),
        intercept=np.zeros(n_problems),
        violation=np.full(n_problems, np.inf),
        converged=np.zeros(n_problems, dtype=bool),
        n_iter=np.zeros(n_problems, dtype=np.intp),
    )
    largest = float(np.abs(K).max())
    left = np.arange(n_problems)
    state = _start(y, tubes)
    for iteration in range(max_iter + 1):
        beta = _round_to_bounds(state, K, C[left])
        violation, intercept = _optimality(beta, y - C[left, None] * (beta @ K), state.tubes)
        better = violation < found.violation[left]
        chosen = left[better]
        found.coef[chosen] = C[chosen, None] * beta[better]
        found.intercept[chosen] = intercept[better]
        found.violation[chosen] = violation[better]
        found.n_iter[left] = iteration
        rounding = _ROUNDING * largest * np.abs(found.coef[left]).sum(axis=1)
        found.converged[left] = found.violation[left] <= tol + rounding
        unsolved = ~found.converged[left]
        if not unsolved.any() or iteration == max_iter:
            break
        left, state = left[unsolved], state.keep(unsolved)
        finite = _advance(state, K, y, C[left], largest)
        left, state = left[finite], state.keep(finite)
    return found


# Signs of α and α* in β, along the first axis of what follows.
_SIGN = np.array([1.0, -1.0])[:, None, None]


@dataclass(eq=False)
class _State:
    """Iterates of all problems. Axes: α or α*, lower or upper bound, problem, bag."""

    slack: Floats  # distance of α/C and α*/C from 0 and from 1
    multiplier: Floats
    beta: Floats  # (α − α*)/C, which can be far smaller than either
    intercept: Floats
    tubes: Floats

    def keep(self, problems: Bools) -> _State:
        return _State(
            self.slack[:, :, problems],
            self.multiplier[:, :, problems],
            self.beta[problems],
            self.intercept[problems],
            self.tubes[problems],
        )


def _start(y: Floats, tubes: Floats) -> _State:
    """β = 0 in the middle of the box, and multipliers that balance the gradient there."""
    intercept = np.full(len(tubes), np.median(y))
    gradient = _SIGN * (intercept[:, None] - y) + tubes
    multiplier = 1 + np.stack([np.maximum(gradient, 0), np.maximum(-gradient, 0)], axis=1)
    slack = np.full_like(multiplier, 0.5)
    return _State(slack, multiplier, np.zeros_like(tubes), intercept, tubes)


def _round_to_bounds(state: _State, K: Floats, C: Floats) -> Floats:
    """β/C with entries that are about to reach 0 or ±1 put there, if its sum allows.

    A variable goes to the bound if that changes its own residual by less than its multiplier.
    """
    scale = 1 + C[:, None] * np.diagonal(K)
    below = scale * state.slack < state.multiplier
    lower_is_stronger = state.multiplier[:, 0] >= state.multiplier[:, 1]
    at_lower = below[:, 0] & lower_is_stronger
    at_upper = below[:, 1] & ~lower_is_stronger
    free = ~(at_lower | at_upper).all(axis=0)
    beta = np.where(free, state.beta, at_upper[0].astype(float) - at_upper[1])
    excess = beta.sum(axis=1, keepdims=True) / np.maximum(free.sum(axis=1, keepdims=True), 1)
    beta = np.where(free, np.clip(beta - excess, -1.0, 1.0), beta)
    off = np.abs(beta.sum(axis=1)) > _SUM_TOLERANCE * np.abs(beta).sum(axis=1)
    beta[off] = state.beta[off]
    return beta


def _optimality(beta: Floats, residual: Floats, tubes: Floats) -> tuple[Floats, Floats]:
    """How far the limits of b cross, and their middle."""
    below, above = residual - tubes, residual + tubes
    lower = np.where(beta < 1, np.where(beta >= 0, below, above), -np.inf).max(axis=1)
    upper = np.where(beta > -1, np.where(beta <= 0, above, below), np.inf).min(axis=1)
    return lower - upper, (lower + upper) / 2


def _advance(state: _State, K: Floats, y: Floats, C: Floats, largest: float) -> Bools:
    """Take one step for all problems, and say which of them are still finite."""
    slack, multiplier = state.slack, state.multiplier
    curvature = (multiplier / slack).sum(axis=1)
    diagonal = 1 / (1 / curvature).sum(axis=0)
    fit = C[:, None] * (state.beta @ K) + state.intercept[:, None] - y
    gradient = _SIGN * fit + state.tubes - multiplier[:, 0] + multiplier[:, 1]
    factors = [_factor(K, c, d, largest) for c, d in zip(C, diagonal, strict=True)]
    ones = np.stack([_solve(factor, np.ones(len(y))) for factor in factors])

    def direction(target: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Newton's direction in which slack·multiplier changes by ``target``."""
        pull = target / slack
        force = pull[:, 0] - pull[:, 1] - gradient
        right = diagonal * (_SIGN * force / curvature).sum(axis=0)
        moved = np.stack([_solve(factor, row) for factor, row in zip(factors, right, strict=True)])
        d_intercept = (moved.sum(axis=1) + state.beta.sum(axis=1)) / ones.sum(axis=1)
        d_beta = moved - d_intercept[:, None] * ones
        d_sides = (force - _SIGN * (right - diagonal * d_beta)) / curvature
        d_slack = np.stack([d_sides, -d_sides], axis=1)
        return d_slack, (target - multiplier * d_slack) / slack, d_beta, d_intercept

    product = slack * multiplier
    mean = product.mean(axis=(0, 1, 3))
    d_slack, d_multiplier, _, _ = direction(-product)
    length = _longest_step(state, d_slack, d_multiplier, 1.0)[:, None]
    ahead = (slack + length * d_slack) * (multiplier + length * d_multiplier)
    centre = mean * np.clip(ahead.mean(axis=(0, 1, 3)) / mean, 0, 1) ** 3
    d_slack, d_multiplier, d_beta, d_intercept = direction(
        centre[:, None] - product - d_slack * d_multiplier
    )
    length = _longest_step(state, d_slack, d_multiplier, _STEP)
    # products below this would round to zero
    tiny = np.finfo(float).tiny ** 0.25
    state.slack = np.maximum(slack + length[:, None] * d_slack, tiny)
    state.multiplier = np.maximum(multiplier + length[:, None] * d_multiplier, tiny)
    state.beta = state.beta + length[:, None] * d_beta
    state.intercept = state.intercept + length * d_intercept
    return np.isfinite(state.intercept) & np.isfinite(state.beta).all(axis=1)


def _longest_step(state: _State, d_slack: Floats, d_multiplier: Floats, share: float) -> Floats:
    """Share of the way to the nearest bound, at most 1, for each problem."""
    speed = np.maximum(
        (-d_slack / state.slack).max(axis=(0, 1, 3)),
        (-d_multiplier / state.multiplier).max(axis=(0, 1, 3)),
    )
    return share / np.maximum(speed, share)


def _factor(K: Floats, c: float, diagonal: Floats, largest: float) -> Floats:
    """Cholesky factor of c·K + diagonal, with as small a ridge as rounding asks for."""
    ridge = _RIDGE * c * largest
    while True:
        matrix = c * K
        matrix.flat[:: len(K) + 1] += diagonal + ridge
        factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        if not failed:
            return factor
        ridge *= 100


def _solve(factor: Floats, right: Floats) -> Floats:
    return dpotrs(factor, right, lower=1)[0]
