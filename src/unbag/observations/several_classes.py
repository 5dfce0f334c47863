"""Losses −log Pr(K = k) of bags of more than two classes: pure, large and small ones, and sets of counts.

**Large bags.** With tilt θ, covariance V and h as in `unbag.observations.saddlepoint`: of h there is the
first order,

    h = ½ log det(I + aV),    a = 2π m^{−1/(m−1)},

for the m classes that the bag has, by which it is the same as the first order for two. Classes of
count zero are left out.

**Small bags.** Once the scores of a bag are tilted, so that its count is the mean of the draws with
probabilities q_j, that count is a likely one, and its probability a sum without cancellation over roots of
unity,

    Pr(K = k) = R⁻¹ Σ_z φ(z) Π_c z_c^{−k_c},    φ(z) = Π_j Σ_c q_jc z_c,

where z_c runs over the M-th roots of unity, M > n, for all classes but the last, whose z is 1. Of
conjugate terms one is enough. M is prime, so that no factor of φ vanishes where probabilities are shares
of whole counts.

**Sets of counts**, low ≤ K ≤ high. Counts of all classes but one are a point of a lattice. With the tilt θ
that makes m the mean, m being the counts in the set that are nearest to the expected ones,

    Pr(K in set) = e^{Λ(θ) − Λ(0) − θᵀm} Σ_{k in set} e^{−θᵀ(k − m)} Pr_θ(K = k),

where Pr_θ(K = k) is the Fourier transform of φ(t) = Π_j Σ_c q_jc e^{it_c}. So the sum is one over t, of φ
and the transform of e^{−θᵀ(k − m)} over the set. The lattice ends eight standard deviations from m, and t
where |φ(t)| ≤ exp(−Σ_{c<d} Σ_j q_jc q_jd (1 − cos(t_c − t_d))) is nothing to double precision. In bags of
at most twelve rows it is exact; it takes some hundred times t for three classes, and some thousand for four.
"""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Floats
from unbag.bags.count_sets import nearest_counts
from unbag.observations.bag_losses import BagLosses, BagTable, RowCopies
from unbag.observations.saddlepoint import LONGEST_STEP, MOST_STEPS, TINY

# Bags of several classes are summed exactly if that takes at most this many roots.
_MOST_ROOTS = 200

_PRIMES = (5, 7, 11, 13, 17, 19)

# Standard deviations from the mean at which the lattice ends, and counts beyond.
_REACH = 8.0
_BEYOND = 12.0

# Exponents below which nothing counts.
_SMALLEST = 40.0

# Points of the lattice, and factors of φ, of one bag.
_MOST_POINTS = 2**20
_MOST_FACTORS = 2**23


class PureClasses(BagLosses):
    """Bags of several classes of which they hold one: the loss is that of so many labels."""

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        held = np.eye(table.counts.shape[1])[table.counts.argmax(axis=1)]
        self._held = np.repeat(held, table.lengths, axis=0).T

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lse, p = softmax(f)
        own = np.sum(f * self._held, axis=1)
        slopes = self._segments.times(p - self._held) if gradient else None
        return self._segments.sum(lse - own), slopes


class SeveralClasses(BagLosses):
    """Bags of more than two classes, by a saddlepoint approximation.

    Bags make a table with one line for each, filled up where a bag has fewer rows than the largest.
    """

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        slot, lengths = np.arange(table.lengths.max()), table.lengths
        real = slot < lengths[:, None]
        start = np.cumsum(lengths) - lengths
        self._shape = real.shape
        self._slots = np.where(real, start[:, None] + slot, 0).ravel()
        self._back = np.flatnonzero(real)
        self._k, self._S = table.counts, table.covariance
        times = real.astype(float)
        if table.multiplicity is not None:
            times[real] = table.multiplicity
        self._real = times[:, None, :]

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lines = _bag_lines(np.take(f, self._slots, axis=2), self._shape)
        losses, slopes = several_class_loss(lines, self._k, self._real, self._S, gradient)
        return losses, np.take(_row_lines(slopes), self._back, axis=2) if gradient else None


class SmallClasses(BagLosses):
    """Bags of more than two classes, summed exactly."""

    same_size = True
    bulk = 32

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        self._shape = len(table.sizes), int(table.sizes[0])
        self._k = np.round(table.counts)
        self._roots, self._turn = turned_roots(table.counts, self._shape[1])
        self._copies = RowCopies(table)

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        lines = _bag_lines(self._copies.make(f), self._shape)
        losses, slopes = exact_class_loss(lines, self._k, self._roots, self._turn, gradient)
        return losses, self._copies.join(_row_lines(slopes)) if gradient else None


class SetClasses(BagLosses):
    """Bags of more than two classes whose counts are known as sets, one after the other."""

    def __init__(self, table: BagTable) -> None:
        super().__init__(table)
        assert table.limits is not None
        ends = np.cumsum(table.lengths)
        self._bags = list(zip(table.limits, map(slice, ends - table.lengths, ends), strict=True))
        self._times = self._segments.times(np.ones(len(table.rows)))

    def loss(self, f: Floats, largest: float, gradient: bool) -> tuple[Floats, Any]:  # noqa: ARG002, D102
        losses, means = np.empty((len(f), len(self._bags))), np.empty_like(f)
        for column, scores in enumerate(f):
            for b, (limits, rows) in enumerate(self._bags):
                found = set_posterior(scores[:, rows], self._times[rows], *limits.T)
                losses[column, b], means[column, :, rows] = -found.log_probability, found.posteriors
        return losses, self._segments.times(softmax(f)[1] - means) if gradient else None


def _bag_lines(f: Floats, shape: tuple[int, ...]) -> Floats:
    """Scores (columns, bags, classes, slots) from those of rows (columns, classes, rows)."""
    return np.transpose(f.reshape(*f.shape[:2], *shape), (0, 2, 1, 3))


def _row_lines(slopes: Floats) -> Floats:
    """The way back."""
    lines = np.transpose(slopes, (0, 2, 1, 3))
    return lines.reshape(*lines.shape[:2], -1)


def several_class_loss(
    f: Floats, k: Floats, real: Floats, S: Floats, gradient: bool = True
) -> tuple[Floats, Any]:
    """−log Pr(K = k) of bags of several classes, and its gradient with respect to their scores.

    ``f`` are scores (columns, bags, classes, slots), ``k`` counts (bags, classes) that sum to the number of
    rows, ``real`` (bags, 1, slots) the instances of each row, 0 where a slot only fills up, and ``S`` (bags,
    classes, classes) the covariance of the counts, whose rows sum to zero.
    """
    lse, start = softmax(f)
    tilted = find_tilts(f, k, real, S)
    present, q = tilted.present, tilted.q
    m = present.sum(axis=-1)
    a = (2 * pi * m ** (-1.0 / np.maximum(m - 1.0, 1.0)))[:, None, None]
    inflated = np.eye(k.shape[1]) + a * tilted.V
    value = np.sum(real[..., 0, :] * lse, axis=-1) - tilted.height
    value = value + 0.5 * np.linalg.slogdet(inflated)[1]
    if not gradient:
        return value, None
    # derivatives of tr(H Cov_j) by the scores of each row, H those of h by V
    H = 0.5 * a * np.linalg.inv(inflated)
    diagonal = np.diagonal(H, axis1=-2, axis2=-1)
    bent = real * _pull_back(q, diagonal[..., None] - 2.0 * (H @ q))
    moving = _solve(_regular(tilted.V, present), np.sum(bent, axis=-1))
    return value, real * (start - q - _pull_back(q, moving[..., None])) + bent


def exact_class_loss(
    f: Floats, k: Floats, roots: Array, turn: Array, gradient: bool = True
) -> tuple[Floats, Any]:
    """The same exactly, for small bags of equal size whose counts are known, by `turned_roots`."""
    lse, start = softmax(f)
    n_classes = k.shape[1]
    none = np.zeros((len(k), n_classes, n_classes))
    tilted = find_tilts(f, k, np.ones_like(f[0, :, :1, :]), none)
    factors = roots @ tilted.q.astype(roots.dtype) + TINY
    shares = turn * np.prod(factors, axis=-1)
    probability = np.sum(np.real(shares), axis=-1)
    value = np.sum(lse, axis=-1) - tilted.height - np.log(probability)
    if not gradient:
        return value, None
    return value, start - posteriors_at(tilted.q, factors, roots, shares / probability[..., None])


class TiltedClasses(NamedTuple):
    """Tilts of bags of several classes, and what follows from them."""

    tilt: Floats  # θ (columns, bags, classes)
    height: Floats  # Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk
    V: Floats
    q: Floats
    present: Floats  # (bags, classes): 1 for those that a bag has, or may have by noise


def find_tilts(f: Floats, k: Floats, real: Floats, S: Floats) -> TiltedClasses:
    """Tilts that make Σ_j lse(f_j + θ) + ½ θᵀSθ − θᵀk least, by damped Newton steps downhill."""
    present = ((k > 0) | (S != 0).any(axis=-1)).astype(float)
    absent = -1e30 * (1.0 - present)
    tilt = np.zeros((len(f), *k.shape))
    trial, step, decrease = tilt, tilt, tilt[..., 0]
    height, length = np.full(tilt.shape[:-1], np.inf), np.ones_like(tilt[..., :1])
    for left in range(MOST_STEPS - 1, -1, -1):
        lse, q = softmax(f + (trial + absent)[..., None])
        own = real * q
        mean = np.sum(own, axis=-1)
        found = np.sum(real[..., 0, :] * lse, axis=-1)
        found = found + np.sum(trial * (0.5 * _times(S, trial) - k), axis=-1)
        slack = 1e-12 * (1.0 + np.abs(height))
        good = found <= height - 1e-4 * length[..., 0] * decrease + slack
        if not good.all() and left > 0:
            length = np.where(good[..., None], length, 0.5 * length)
            trial = tilt + length * step
            continue
        tilt, height = trial, found
        V = mean[..., None] * np.eye(k.shape[1]) - own @ np.swapaxes(q, -1, -2) + S
        gap = (k - mean - _times(S, tilt)) * present
        if (np.max(np.abs(gap), axis=-1) <= 1e-9 * (np.sum(k, axis=-1) + 1.0)).all():
            break
        step = _solve(_regular(V, present), gap)
        largest = np.max(np.abs(step), axis=-1, keepdims=True)
        # further and further, where scores are far apart
        limit = LONGEST_STEP + np.max(np.abs(tilt), axis=-1, keepdims=True)
        step = step * np.minimum(limit / (largest + TINY), 1.0)
        decrease, length = np.sum(step * gap, axis=-1), np.ones_like(length)
        trial = tilt + step
    return TiltedClasses(tilt, height, V, q, present)


def softmax(f: Floats) -> tuple[Floats, Floats]:
    """Logarithm of the sum of powers over the classes, and the share of each."""
    largest = np.max(f, axis=-2, keepdims=True)
    powers = np.exp(f - largest)
    total = np.sum(powers, axis=-2, keepdims=True)
    return (largest + np.log(total))[..., 0, :], powers / total


def _regular(V: Floats, present: Floats) -> Floats:
    """V with something along the directions in which nothing varies."""
    identity = np.eye(V.shape[-1])
    trace = np.trace(V, axis1=-2, axis2=-1)[..., None, None]
    along = present[..., :, None] * present[..., None, :]
    return V + along * (trace + 1e-9) + (1.0 - present + 1e-12)[..., None] * identity


def _times(S: Floats, vector: Floats) -> Floats:
    return (S @ vector[..., None])[..., 0]


def _solve(matrix: Floats, vector: Floats) -> Any:
    return np.linalg.solve(matrix, vector[..., None])[..., 0]


def _pull_back(q: Floats, by_probability: Floats) -> Floats:
    """Derivatives by scores from those by probabilities: q ∘ (h − qᵀh)."""
    return q * (by_probability - np.sum(q * by_probability, axis=-2, keepdims=True))


def largest_exact_bag(n_classes: int) -> int:
    """Rows that a bag of several classes may have to be summed exactly."""
    fitting = [M for M in _PRIMES if (M + 1) // 2 * M ** (n_classes - 2) <= _MOST_ROOTS]
    return max(fitting) - 1 if fitting else 0


def turned_roots(k: Floats, size: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Roots z (roots, classes), and Π_c z_c^{−k_c} over their number (bags, roots).

    A root whose conjugate is left out counts twice.
    """
    n_classes, M = k.shape[1], next(prime for prime in _PRIMES if prime > size)
    sides = [np.arange((M + 1) // 2), *[np.arange(M)] * (n_classes - 2), np.zeros(1, dtype=int)]
    exponents = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, n_classes)
    turn = np.exp(-2j * np.pi / M * (np.round(k) @ exponents.T))
    twice = np.where(exponents[:, 0] > 0, 2.0, 1.0) / M ** (n_classes - 1)
    return np.exp(2j * np.pi / M * exponents), turn * twice


def posteriors_at(q: Array, factors: Array, roots: Array, weights: Array) -> Array:
    """Class probabilities given the count, by the parts of roots in its probability (..., roots)."""
    return q * np.real(roots.T @ (weights[..., None] / factors))


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
    factors = roots @ q[order] + TINY
    turned = np.exp(-1j * (lattice.first * angles).sum(axis=0))
    phi = number * np.exp(np.log(factors) @ times) * turned
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
        self.first = first[:, None]
        counts = self.first + self._steps
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
    scale = np.trace(V, axis1=-2, axis2=-1)[:, None, None] / n_classes + TINY
    whole, rest = V / scale + common, left / scale + common
    floor = 1e-6 * np.eye(n_classes)
    inverse = np.linalg.inv(rest + floor) - np.linalg.inv(whole + floor)
    values, vectors = np.linalg.eigh(inverse + np.swapaxes(inverse, -1, -2))
    known = np.clip(0.5 * values, 1e-6, 1e6)
    noise = (vectors / known[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    centre = np.eye(n_classes) - common
    return centre @ noise @ centre * scale
