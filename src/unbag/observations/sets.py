"""Posterior moments of the counts of bags that are known as sets, low ≤ K ≤ high.

Given the set, the posterior of labels is a mixture, over the counts in the set, of posteriors given a
count. Of this mixture, posterior means come from the gradient of the log-probability of the set, and
the variance of the count from the derivative of its posterior mean by a common shift of all scores:

    d E[K | set]/du = Var(K | set),    so that    −d²ℓ/du² = V − Var(K | set),    V = Σ_j p_j(1 − p_j).

Labels depend on each other by the count alone. So a set is treated, as to covariances, like a count
with normal noise that leaves it the same posterior variance.
"""

from __future__ import annotations

import numpy as np

from unbag._arrays import Floats, Segments
from unbag.bags.bags import Bags
from unbag.observations.weighed_bags import WeighedBags

# Shift by which derivatives are taken.
_SHIFT = 1e-3

_TINY = 1e-9

# Intercepts are found to this; log-likelihoods are stationary there.
_SETTLED = 1e-7

_MOST_STEPS = 30
_LONGEST_STEP = 3.0


class SetObservation:
    """Those of some bags of two classes, sorted by bag, whose counts are known as sets.

    ``covariance`` (bags, classes, classes) is that of the noise of counts; bags of at most ``exact_size``
    instances are summed exactly. ``bags`` and ``rows`` are positions of the bags that these are, and of their rows.
    """

    def __init__(self, bags: Bags, covariance: Floats, exact_size: int) -> None:
        self.bags = np.flatnonzero(bags.is_set)
        some, self.rows = bags.take(self.bags)
        self._losses = WeighedBags(some, covariance[self.bags], exact_size)
        self._sums = Segments(some.lengths)
        self._instances = Segments(some.lengths, some.multiplicity)
        self.spread = self._sums.spread
        self._last: Floats | None = None
        self._shift_at: Floats | None = None
        self._shift = np.empty(0), np.empty(0)
        self._number = np.ones(len(self.rows)) if some.multiplicity is None else some.multiplicity

    def information(self, scores: Floats) -> tuple[Floats, Floats]:
        """−d²ℓ/du² of each set for a common shift u of its scores, and V; it lies between 0 and V."""
        own = scores[:, self.rows]
        found = self.shift(scores)[1]
        p = 1.0 / (1.0 + np.exp(-np.clip(own[0], -700.0, 700.0)))
        V = np.maximum(self._instances.sum(p * (1.0 - p)), 1e-12)
        return np.clip(found, _TINY * V, V), V

    def shift(self, scores: Floats) -> tuple[Floats, Floats]:
        """Information of an instance of each row about a common shift, and its sums."""
        own = scores[:, self.rows]
        if self._shift_at is None or not np.array_equal(own, self._shift_at):
            found = (self._slopes(own + _SHIFT) - self._slopes(own - _SHIFT)) / (2.0 * _SHIFT)
            self._shift_at, self._shift = own, (found / self._number, self._sums.sum(found))
        return self._shift

    def intercepts(self, scores: Floats, start: Floats, precision: Floats) -> Floats:
        """û of each set, where ℓ(η + u) − u²/2τ² is largest."""
        own, precision = scores[:, self.rows], precision[self.bags]
        # those of the last scores are not far
        u = start[self.bags] if self._last is None else self._last
        known, longest, before = np.zeros_like(u), np.inf, np.inf
        for number in range(_MOST_STEPS):
            here = own + self.spread(u)
            residual = -self._sums.sum(self._slopes(here))
            if number == 0 or longest > 0.1 * before:
                known = (residual + self._sums.sum(self._slopes(here + _SHIFT))) / _SHIFT
                known = np.maximum(known, 0.0)
            before = longest
            step = (residual - u * precision) / (known + precision)
            u = u + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
            longest = float(np.abs(step).max())
            if longest < _SETTLED:
                break
        self._last = u
        return u

    def residual(self, scores: Floats) -> Floats:
        """E[K | set] − Σ_j p_j."""
        return -self._sums.sum(self._slopes(scores[:, self.rows]))

    def _slopes(self, own: Floats) -> Floats:
        """Derivatives of losses by the scores of these rows."""
        return self._losses.evaluate(own[None])[1][0, 0]
