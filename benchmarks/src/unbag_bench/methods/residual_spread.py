"""Spread and mean of what bags miss their proportions by: DLLP-MSE, DSQ and GenBags.

With p̂_b the mean probabilities in bag b, γ_b its proportions, r_b = γ_b − p̂_b and w_b = n_b/N,

    J_a(f) = a Var_w(r) + |mean_w(r)|²,    |r|² = ½ Σ_c r_c²,

where mean and variance over bags are weighed by w. What is published under several names is one
family:

    a = 1             Σ_b w_b |r_b|², the mean squared error of the proportions (DLLP-MSE),
    a = mean size     DSQ: mean_b n_b|r_b|² − (n̄ − 1) |mean_w(r)|²,
    a = 91 or 121     GenBags: its quadratic form in blocks of four bags is J_121 of the block, and
                      its mean over all ways to put bags into blocks J_91 of all of them.

In random bags of n rows, Var(r̄_b) is the variance of a single row over n, so that J_n estimates
E(y − p)². In bags whose proportions vary it estimates E(y − p)² + (n − 1) Var(γ) (1 − (p̄₊ − p̄₋))²,
with p̄± the mean probability in either class: it still falls as classes come apart, but is not a risk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag_bench.methods.bag_rows import BagRows, probabilities, to_scores


class ResidualSpread:
    """J_a in score space.

        dJ/df_j = −(2/N) [a (r_b − m) + m] p_j(1 − p_j),    m = mean_w(r), b the bag of j,

    for two classes.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Rows of known label are bags of one instance.
    factor : float, default=1
        a.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag_bench.methods.residual_spread import ResidualSpread
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.5, 0.5]))
    >>> spread = ResidualSpread(np.array([True, True]), bags, factor=2)
    >>> value, _ = spread.value_and_gradient(np.zeros((1, 1, 4)), np.zeros(1, dtype=int))
    >>> float(value[0])  # residuals −1/4 and 0: variance and squared mean are both 1/64
    0.046875
    """

    def __init__(self, included: Bools, bags: Bags, factor: float = 1.0) -> None:
        self._rows = BagRows(included, bags)
        self.n_outputs = self._rows.n_outputs
        self._shares = self._rows.shares
        self._sizes = self._rows.sizes.astype(float)
        self._factor = float(factor)
        # of both classes the squares are the same
        self._half = 1.0 if self.n_outputs == 1 else 0.5

    def value(self, scores: Array, problem: Ints) -> Floats:
        """J_a per column."""
        return self._evaluate(probabilities(self._rows.gather(scores)), problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """J_a per column and its gradient with respect to the scores."""
        p = probabilities(self._rows.gather(scores))
        value, by_residual = self._evaluate(p, problem)
        by_probability = self._rows.segments.spread(-by_residual / self._sizes)
        return value, self._rows.put_back(to_scores(p, by_probability), scores)

    def _evaluate(self, p: Array, problem: Ints) -> tuple[Floats, Any]:
        """Value per column, and derivatives by the residuals (columns, outputs, bags)."""
        a, w = self._factor, self._rows.parts(problem)[:, None, :]
        r = self._shares - self._rows.segments.sum(p) / self._sizes
        mean = np.sum(w * r, axis=-1, keepdims=True)
        off = r - mean
        squares = a * np.sum(w * off**2, axis=-1) + mean[..., 0] ** 2
        value = self._half * np.sum(squares, axis=1)
        return value, 2.0 * self._half * w * (a * off + mean)
