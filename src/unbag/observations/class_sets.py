"""Probabilities of sets of counts, low ≤ K ≤ high, in bags of more than two classes.

Counts of all classes but one are a point of a lattice. With the tilt θ that makes m the mean (see
`unbag.observations.saddlepoint`), m being the counts in the set that are nearest to the expected ones,

    Pr(K in set) = e^{Λ(θ) − Λ(0) − θᵀm} Σ_{k in set} e^{−θᵀ(k − m)} Pr_θ(K = k),

where Pr_θ(K = k) is the Fourier transform of φ(t) = Π_j Σ_c q_jc e^{it_c}. So the sum is one over t, of φ
and the transform of e^{−θᵀ(k − m)} over the set. The lattice ends eight standard deviations from m, and t
where |φ(t)| ≤ exp(−Σ_{c<d} Σ_j q_jc q_jd (1 − cos(t_c − t_d))) is nothing to double precision. In bags of
at most twelve rows it is exact; it takes some hundred times t for three classes, and some thousand for four.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unbag._arrays import Array, Floats
from unbag.bags.count_sets import nearest_counts
from unbag.observations.exact import posteriors_at
from unbag.observations.several_classes import find_tilts, softmax

# Standard deviations from the mean at which the lattice ends, and counts beyond.
_REACH = 8.0
_BEYOND = 12.0

# Exponents below which nothing counts.
_SMALLEST = 40.0

# Points of the lattice, and factors of φ, of one bag.
_MOST_POINTS = 2**20
_MOST_FACTORS = 2**23

_TINY = 1e-30


class SetPosterior(NamedTuple):
    """Of one bag: log Pr(K in set), posterior class probabilities of its rows, Cov(K | set)."""

    log_probability: float
    posteriors: Floats
    covariance: Floats


def set_posterior(
    f: Floats, times: Floats, low: Floats, high: Floats, moments: bool = False
) -> SetPosterior:
    """Sum over the set of counts of one bag, for scores (n_classes, n_rows).

    ``times`` are the instances of each row, ``low`` and ``high`` limits that some counts attain. The
    covariance is zero unless ``moments`` are asked for.
    """
    lse, p = softmax(f)
    middle = nearest_counts(p @ times, low, high, times.sum())
    none = np.zeros((1, len(low), len(low)))
    tilted = find_tilts(f[None, None], middle[None], times[None, None, :], none)
    tilt, V, q = tilted.tilt[0, 0], tilted.V[0, 0], tilted.q[0, 0]
    possible = np.flatnonzero(high > 0)
    # the class that varies most follows from the others
    order = possible[np.argsort(np.diagonal(V)[possible])]
    lattice = _Lattice(order, middle, np.diagonal(V), low, high, times.sum())
    exponent = -np.tensordot(tilt[order], lattice.counts - middle[order][:, None], axes=1)
    largest = exponent[lattice.inside].max()
    weight = np.where(lattice.inside, np.exp(np.minimum(exponent - largest, 0.0)), 0.0)
    angles, number = lattice.angles((q[order] * times) @ q[order].T, len(times))
    roots = np.exp(1j * np.vstack([angles, np.zeros(len(number))])).T
    factors = roots @ q[order] + _TINY
    phi = number * np.exp(np.log(factors) @ times) * lattice.turned(angles)
    transform = np.fft.fftn(weight.reshape(lattice.shape)).ravel()[lattice.kept]
    shares = phi * transform / lattice.size
    total = max(float(np.real(shares).sum()), 1e-300)
    value = float(tilted.height[0, 0] - lse @ times + largest + np.log(total))
    posteriors = np.zeros_like(q)
    posteriors[order] = posteriors_at(q[order], factors, roots, shares / total)
    covariance = np.zeros_like(V)
    if moments:
        covariance[np.ix_(order, order)] = lattice.covariance(phi, weight)
    return SetPosterior(value, np.clip(posteriors, 0.0, 1.0), covariance)


class _Lattice:
    """Counts around the middle of a set, of all possible classes; the last follows from the others."""

    def __init__(
        self, order: Any, middle: Floats, variance: Floats, low: Floats, high: Floats, n: float
    ) -> None:
        own = order[:-1]
        reach = _REACH * np.sqrt(variance[own]) + _BEYOND
        bottom, top = np.maximum(middle[own] - reach, 0.0), np.minimum(middle[own] + reach, n)
        first, last = np.maximum(low[own], np.ceil(bottom)), np.minimum(high[own], np.floor(top))
        # no count of the set has the place of another that has any probability
        widths = np.ceil(np.maximum(top - first, last - bottom)).astype(int) + 1
        self.shape, self.size = tuple(widths.tolist()), int(np.prod(widths))
        if self.size > _MOST_POINTS:
            raise ValueError(_too_wide(len(order), n))
        self._steps = np.indices(self.shape).reshape(len(own), -1)
        self._first = first[:, None]
        counts = self._first + self._steps
        self.counts = np.vstack([counts, n - counts.sum(axis=0)])
        inside = (self.counts >= low[order][:, None]) & (self.counts <= high[order][:, None])
        self.inside = inside.all(axis=0) & (counts <= last[:, None]).all(axis=0)
        self._n, self.kept = n, np.empty(0, dtype=int)

    def angles(self, products: Floats, n_rows: int) -> tuple[Floats, Floats]:
        """Those t at which φ counts, one of each t and −t, and how many each stands for."""
        sizes = np.array(self.shape)[:, None]
        t = 2 * np.pi * self._steps / sizes
        all_t = np.vstack([t, np.zeros(t.shape[1])])
        exponent = np.zeros(t.shape[1])
        for c in range(len(all_t)):
            for d in range(c):
                exponent += products[c, d] * (1.0 - np.cos(all_t[c] - all_t[d]))
        opposite = np.ravel_multi_index(tuple((-self._steps) % sizes), self.shape)
        here = np.arange(self.size)
        self.kept = np.flatnonzero((exponent < _SMALLEST) & (here <= opposite))
        if len(self.kept) * n_rows > _MOST_FACTORS:
            raise ValueError(_too_wide(len(all_t), self._n))
        return t[:, self.kept], np.where(here == opposite, 1.0, 2.0)[self.kept]

    def turned(self, angles: Floats) -> Any:
        """e^{−it·k} at the first point of the lattice."""
        return np.exp(-1j * (self._first * angles).sum(axis=0))

    def covariance(self, phi: Array, weight: Floats) -> Floats:
        """Of the counts, with probabilities by φ at the angles and these weights."""
        spectrum = np.zeros(self.size, dtype=complex)
        spectrum[self.kept] = phi
        probability = np.real(np.fft.fftn(spectrum.reshape(self.shape))).ravel() * weight
        probability = np.maximum(probability, 0.0) / np.maximum(probability.sum(), 1e-300)
        off = self.counts - (self.counts @ probability)[:, None]
        return (off * probability) @ off.T


def _too_wide(n_classes: int, n: float) -> str:
    return (
        f"Limits of the counts of {n_classes} classes leave too many possible in a bag of {n:,.0f} "
        "instances to sum over: join some classes."
    )


def noise_of_sets(V: Floats, left: Floats) -> Floats:
    """Covariance of noise that leaves counts of covariance V that of their set, (bags, C, C)."""
    # sums of rows are zero: with 11ᵀ nothing else changes
    n_classes = V.shape[-1]
    common = np.full((n_classes, n_classes), 1.0 / n_classes)
    scale = np.trace(V, axis1=-2, axis2=-1)[:, None, None] / n_classes + _TINY
    whole, rest = V / scale + common, left / scale + common
    floor = 1e-6 * np.eye(n_classes)
    inverse = np.linalg.inv(rest + floor) - np.linalg.inv(whole + floor)
    values, vectors = np.linalg.eigh(inverse + np.swapaxes(inverse, -1, -2))
    known = np.clip(0.5 * values, 1e-6, 1e6)
    noise = (vectors / known[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    centre = np.eye(n_classes) - common
    return centre @ noise @ centre * scale
