"""Factorial moments of counts (LLP-MM), for two classes in a time that is linear in rows and order.

Draw r rows of a bag of n at random. How many of them are positive has, by the count k, the
hypergeometric distribution

    t_r(a) = C(k, a) C(n − k, r − a) / C(n, r),    a = 0, …, r,

and by probabilities p_j of independent labels

    π_r(a) = [z^a w^{r−a}] Π_j (1 + p_j z + (1 − p_j) w) / C(n, r).

These are the factorial moments of order r, up to a factor, and the loss of a bag is the mean over
r ≤ s of the cross-entropies −Σ_a t_r(a) log π_r(a). Order 1 alone is the cross-entropy of the mean
probability (DLLP), order n alone −log Pr(K = k). Of several classes each is taken against the rest.

How π is computed: the logarithm of the product is a power series whose coefficients are sums over
rows of p^a(1 − p)^b, a + b ≤ s. All of these are positive combinations of the s + 1 sums with
a + b = s, so that rows enter only there; the rest, log and exp of short series, is done once for
each bag. Signs alternate in the logarithm, by which at most C(n + r − 1, r)/C(n, r) times the
rounding is lost, below 10⁴ for r ≤ 8; what is added to π covers it.
"""

from __future__ import annotations

from math import comb, factorial
from typing import Any

import numpy as np
from scipy.special import gammaln

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag_bench.methods.bag_rows import BagRows, probabilities, to_scores

# A pair of powers of z and w.
Powers = tuple[int, int]


class CountMoments:
    """Mean loss of the factorial moments up to some order, in score space.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
    order : int, default=8
        s, the largest order; of smaller bags, their size.
    smoothing : float, default=1e-4
        Added to every π.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag_bench.methods.count_moments import CountMoments
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> moments = CountMoments(np.array([True, True]), bags, smoothing=0)
    >>> value = moments.value(np.zeros((1, 1, 4)), np.zeros(1, dtype=int))
    >>> float(value[0].round(3))  # log 2 for one row of any bag, log 2 and log 4 for two
    0.866
    """

    def __init__(
        self,
        included: Bools,
        bags: Bags,
        order: int = 8,
        smoothing: float = 1e-4,
    ) -> None:
        self._rows = BagRows(included, bags)
        self.n_outputs = self._rows.n_outputs
        sizes = self._rows.sizes.astype(float)
        self._sizes = sizes
        self._smoothing = float(smoothing)
        self._order = s = int(min(order, sizes.max()))
        self._powers = [(a, m - a) for m in range(s + 1) for a in range(m + 1)]
        orders = np.minimum(s, sizes)
        counts = np.round(self._rows.shares * sizes)
        self._known = [_drawn(counts, sizes, power) / orders for power in self._powers]
        # of series in z/n and w/n; orders beyond the size of a bag are zero
        self._scale = [_subsets(sizes, sum(power)) for power in self._powers]
        self._log_series = _log_series(self._powers[1:], s)

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean loss per column."""
        p = probabilities(self._rows.gather(scores))
        return self._evaluate(p, problem, gradient=False)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean loss per column and its gradient with respect to the scores."""
        p = probabilities(self._rows.gather(scores))
        value, by_probability = self._evaluate(p, problem, gradient=True)
        return value, self._rows.put_back(to_scores(p, by_probability), scores)

    def _evaluate(self, p: Array, problem: Ints, gradient: bool) -> tuple[Floats, Any]:
        s = self._order
        up, down = _powers_of(p, s), _powers_of(1.0 - p, s)
        sums = [self._rows.segments.sum(up[a] * down[s - a]) / self._sizes for a in range(s + 1)]
        stacked = np.stack(sums, axis=-1)
        series = stacked @ np.matrix_transpose(self._log_series)
        log = {power: series[..., i] for i, power in enumerate(self._powers[1:])}
        # what was divided by n, of the powers that belong to it
        log = {power: log[power] * self._sizes ** (1 - sum(power)) for power in log}
        exp = _exp(log, self._powers)
        weight = self._rows.parts(problem)[:, None, :]
        losses, by_exp = 0.0, {}
        for power, known, scale in zip(self._powers, self._known, self._scale, strict=True):
            found = exp[power] * scale + self._smoothing
            positive = known > 0
            found = np.where(positive, found, np.ones_like(found))
            losses = losses - known * np.log(found)
            by_exp[power] = -known * scale / found
        value = np.sum(weight * losses, axis=(1, 2))
        if not gradient:
            return value, None
        by_log = _correlation(by_exp, exp, self._powers)
        slopes = [by_log[power] * self._sizes ** (1 - sum(power)) for power in self._powers[1:]]
        by_sum = weight[..., None] * (np.stack(slopes, axis=-1) @ self._log_series)
        return value, self._by_probability(by_sum / self._sizes[:, None], up, down)

    def _by_probability(self, by_sum: Array, up: list[Array], down: list[Array]) -> Array:
        """Derivatives by probabilities, from those by Σ p^a(1 − p)^{s−a}: again a polynomial."""
        s, total = self._order, 0.0
        for a in range(s):
            slope = (a + 1) * by_sum[..., a + 1] - (s - a) * by_sum[..., a]
            total = total + self._rows.segments.spread(slope) * (up[a] * down[s - 1 - a])
        return total


def _powers_of(p: Array, most: int) -> list[Array]:
    """p^0, …, p^most."""
    found = [np.ones_like(p)]
    for _ in range(most):
        found.append(found[-1] * p)
    return found


def _log_series(powers: list[Powers], s: int) -> Floats:
    """Coefficients of Σ_j log(1 + p_j z + (1 − p_j) w) by the sums of p^i (1 − p)^{s−i}."""
    table = np.zeros((len(powers), s + 1))
    for row, (a, b) in zip(table, powers, strict=True):
        m = a + b
        factor = (-1) ** (m - 1) * factorial(m - 1) / (factorial(a) * factorial(b))
        # 1 = (p + 1 − p)^{s−m}
        row[a : a + s - m + 1] = [factor * comb(s - m, i) for i in range(s - m + 1)]
    return table


def _exp(log: dict[Powers, Array], powers: list[Powers]) -> dict[Powers, Array]:
    """Power series of e^g from that of g: m e_α = Σ_β |β| g_β e_{α−β}, m = |α|."""
    first = log[powers[1]]
    found = {powers[0]: np.ones_like(first)}
    for a, b in powers[1:]:
        parts = [
            (i + j) * log[i, j] * found[a - i, b - j]
            for i in range(a + 1)
            for j in range(b + 1)
            if i + j > 0
        ]
        found[a, b] = sum(parts[1:], parts[0]) / (a + b)
    return found


def _correlation(
    slopes: dict[Powers, Array], exp: dict[Powers, Array], powers: list[Powers]
) -> dict[Powers, Array]:
    """Derivatives by g from those by e^g: de_α/dg_β = e_{α−β}."""
    found = {}
    for i, j in powers[1:]:
        parts = [slopes[a, b] * exp[a - i, b - j] for a, b in powers if a >= i and b >= j]
        found[i, j] = sum(parts[1:], parts[0])
    return found


def _drawn(counts: Floats, sizes: Floats, power: Powers) -> Floats:
    """t_r(a) of every bag, for r = a + b; zero for r = 0 and for more rows than there are."""
    a, b = power
    possible = (counts >= a) & (sizes - counts >= b) & (a + b > 0)
    k, rest = np.where(possible, counts, a), np.where(possible, sizes - counts, b)
    probability = np.exp(_log_comb(k, a) + _log_comb(rest, b) - _log_comb(k + rest, a + b))
    return np.where(possible, probability, 0.0)


def _subsets(sizes: Floats, r: int) -> Floats:
    """n^r / C(n, r), or 0 if there are none."""
    enough = sizes >= r
    n = np.where(enough, sizes, r)
    return np.where(enough, np.exp(r * np.log(np.maximum(n, 1.0)) - _log_comb(n, r)), 0.0)


def _log_comb(n: Floats, r: int) -> Floats:
    found: Floats = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
    return found
