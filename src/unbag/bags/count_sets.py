"""Counts that are known as sets: from ``low`` to ``high``, of the positive class or of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, logsumexp

from unbag._arrays import Floats
from unbag.bags.shares import refuse

# Shares among which the distribution over bags is estimated, and rounds of doing so.
_GRID = (np.arange(60) + 0.5) / 60
_ROUNDS = 60


def check_sets(
    low: Floats, high: Floats, sizes: Any, ids: Any, noisy: Any
) -> tuple[Floats, Floats]:
    """Whole limits of the counts of the positive class, or of several, that some counts attain.

    They are NaN where there is none; of ``noisy`` bags they may be beyond what these hold.
    """
    if low.shape != high.shape or low.ndim > 2 or low.shape[1:] == (1,):
        raise ValueError(
            "low and high are limits of the counts of the positive class, one number per bag, or "
            f"have a column for each class; their shapes are {low.shape} and {high.shape}."
        )
    n = sizes.reshape(-1, *[1] * (low.ndim - 1)).astype(float)
    if low.ndim == 2 and low.shape[1] > 2 and noisy.any():
        raise ValueError("With noise, counts can be known as sets of two classes only.")
    low = np.ceil(np.where(np.isnan(low), np.fmin(0.0, high), low) - 1e-6)
    high = np.floor(np.where(np.isnan(high), np.fmax(n, low), high) + 1e-6)
    empty = "The set of counts of bag {} is empty: it reaches from {:g} to {:g}."
    refuse(low > high, ids, empty, low, high)
    if low.ndim == 2:
        # what is not of the other classes is of this one
        others = low.sum(axis=1, keepdims=True) - low, high.sum(axis=1, keepdims=True) - high
        low, high = np.maximum(low, n - others[1]), np.minimum(high, n - others[0])
        refuse(
            (low > high).any(axis=1),
            ids,
            "The sets of counts of bag {} contradict its {} instances: no counts in them add up.",
            sizes,
        )
        if low.shape[1] == 2:
            low, high, n = low[:, 1], high[:, 1], n[:, 0]
    refuse(
        ((low > n) | (high < 0)) & ~noisy.reshape(n.shape),
        ids,
        "No count meets the set of bag {}, from {:g} to {:g} of {} instances.",
        low,
        high,
        sizes,
    )
    # a noisy count that is known stays as it is: clipped ones are biased
    known = low == high
    return np.where(known, low, np.clip(low, 0, n)), np.where(known, high, np.clip(high, 0, n))


def expected_shares(low: Floats, high: Floats, sizes: Any) -> Floats:
    """E[K_b | low ≤ K_b ≤ high]/n_b, given how shares vary over all bags; about, for several classes."""
    if low.ndim == 2:
        # as near to the shares of all bags as sets allow
        n, found = np.asarray(sizes, dtype=float), np.full_like(low, 1.0 / low.shape[1])
        for _ in range(_ROUNDS):
            overall = np.maximum(n @ found / n.sum(), 1e-9)
            found = nearest_counts(n[:, None] * overall, low, high, n) / n[:, None]
        return found
    weights, (a, b, n), kind = _share_distribution(low, high, sizes)
    inside = _tail(a, n) - _tail(b + 1.0, n) + 1e-300
    means = n * _GRID * (_tail(a - 1.0, n - 1.0) - _tail(b, n - 1.0))
    expected = (means @ weights) / (inside @ weights)
    return np.where(low == high, low, np.clip(expected[kind], low, high)) / sizes


def nearest_counts(expected: Floats, low: Floats, high: Floats, n: Any) -> Floats:
    """Counts λ · expected, cut to limits, that add up to n; the last axis are classes."""
    reach = np.maximum(expected, 1e-12 * np.asarray(n)[..., None] + 1e-300)
    least, most = np.full(reach.shape[:-1], -40.0), np.full(reach.shape[:-1], 40.0)
    for _ in range(80):
        middle = 0.5 * (least + most)
        short = np.clip(np.exp(middle)[..., None] * reach, low, high).sum(axis=-1) < n
        least, most = np.where(short, middle, least), np.where(short, most, middle)
    found = np.clip(np.exp(most)[..., None] * reach, low, high)
    # what bisection leaves goes to those that are not at their limits
    free = (found > low) & (found < high)
    rest = (n - found.sum(axis=-1)) / np.maximum(free.sum(axis=-1), 1)
    return np.clip(found + free * rest[..., None], low, high)


def _share_distribution(low: Floats, high: Floats, sizes: Any) -> tuple[Floats, Floats, Any]:
    """Distribution of shares on the grid, different sets (3, n_sets, 1), and that of each bag.

    It has the largest likelihood, where the count of a bag is binomial given its share.
    """
    n = np.asarray(sizes, dtype=float)
    table = np.stack([np.clip(low, 0.0, n), np.clip(high, 0.0, n), n])
    sets, own, number = np.unique(table, axis=1, return_inverse=True, return_counts=True)
    a, b, n = sets[..., None]
    inside = _tail(a, n) - _tail(b + 1.0, n)
    weights = np.full(len(_GRID), 1.0 / len(_GRID))
    for _ in range(_ROUNDS):
        joint = inside * weights + 1e-300
        weights = number @ (joint / joint.sum(axis=1, keepdims=True)) / number.sum()
    return weights, sets[..., None], own.reshape(-1)


class CountWeights:
    """What label shift says of counts in a set, beyond the rows.

    The rows of a bag with the count m have the density Pr(K = m | rows)/Bin(m; n, q) times terms
    that do not depend on the model (`unbag.observations.count_likelihood`), and m itself the
    probability π(m), by the distribution of shares over bags. So under label shift the likelihood
    of a set is Σ_m w(m) Pr(K = m | rows) with

        w(m) = π(m)/Bin(m; n, q) = E[(s/q)^m ((1 − s)/(1 − q))^(n − m)]

    over shares s of bags, and 1 under covariate shift; of a single count it is a constant. ``power``
    is that of w, between 0 and 1.
    """

    def __init__(self, bags: Any, power: float) -> None:
        low, high = bags.limits[~bags.labelled].T
        sizes = bags.sizes[~bags.labelled]
        shares, *_ = _share_distribution(low, high, sizes)
        q = float(np.clip(sizes @ expected_shares(low, high, sizes) / sizes.sum(), 1e-9, 1 - 1e-9))
        self.power = power
        self._log_shares = np.log(shares + 1e-300)
        self._odds = np.log(_GRID / q), np.log((1.0 - _GRID) / (1.0 - q))

    def logs(self, counts: Floats, sizes: Any) -> Floats:
        """Log w of counts (n_bags, n_counts), times the power."""
        m, n = counts[..., None], np.asarray(sizes, dtype=float)[:, None, None]
        found: Floats = logsumexp(
            self._log_shares + m * self._odds[0] + (n - m) * self._odds[1], axis=-1
        )
        return self.power * found


def _tail(k: Floats, n: Floats) -> Floats:
    """Pr(K ≥ k) of a binomial count, for all shares of the grid."""
    inner = np.clip(k, 1.0, np.maximum(n, 1.0))
    tail = betainc(inner, np.maximum(n - inner + 1.0, 1e-300), _GRID)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, tail))
