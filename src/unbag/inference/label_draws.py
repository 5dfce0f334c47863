"""Draws of the labels of bags, given the scores of their rows and what is known of their counts.

Given exact counts, labels y of a bag have the probability

    Pr(y | counts) ∝ exp(Σ_j η_{j, y_j})    over the labels y that have these counts,

the conditional Bernoulli law (conditional multinomial for several classes). A shift of all scores of
a class that a bag has in common, as by a random intercept, cancels.

**Start.** Class by class, each row gets as many as it is expected to have given the count, rounded up
or down at random by systematic sampling.

**Exchanges.** Two rows of a bag exchange their labels a and c with the probability that these have
the other way round, given that both occur: σ(η_ic + η_ja − η_ia − η_jc). This leaves the law as it
is, and the counts. In a sweep each row meets one other: the row at place i of a bag of n meets that
at place r − i modulo n, with r drawn for each bag.

**Rows that stand for several.** A pair of them exchanges labels of two classes: the number that one
row has of the first is noncentral hypergeometric (Fisher's), given the totals of the pair. It is
proposed from a logistic distribution at the mode of that law, rounded, and accepted by Metropolis
and Hastings' rule.

**Noisy counts** are drawn first, for each draw of the scores: the count is normal with mean Σp and
covariance Σ(diag p − pp') + τ²vv', what is known of it is that plus noise, and their product is
rounded to whole numbers. **Sets of counts**: of that normal law, whole numbers within the limits are
drawn, for two classes at a time, given their sum.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, log_ndtr, ndtri_exp, softmax

from unbag._arrays import Floats, Ints, Segments
from unbag.observations.saddlepoint import TiltSearch, tilted_probabilities

# Newton steps, or bisections, for the tilt of a bag.
_TILT_STEPS = 40

# Sweeps of exchanges after the start, and for each class but one where rows stand for several.
_SWEEPS, _PAIR_SWEEPS = 10, 20

# Sweeps over pairs of classes whose counts are known as sets.
_COUNT_SWEEPS = 10

_TINY = 1e-12


class LabelSampler:
    """Draws of the labels of rows in the order of their bags, which hold so many rows each."""

    def __init__(self, sizes: Ints, multiplicity: Ints, rng: np.random.Generator) -> None:
        self._sizes, self._multiplicity, self._rng = sizes, multiplicity, rng
        self._bag = np.repeat(np.arange(len(sizes)), sizes)
        self._start = (np.cumsum(sizes) - sizes)[self._bag]
        self._place, self._length = np.arange(len(self._bag)) - self._start, sizes[self._bag]
        self._single = bool((multiplicity == 1).all())

    def draw(self, scores: Floats, counts: Ints) -> Ints:
        """How many of each row are of each class, given scores, both (n_classes, n_rows)."""
        table = self._begin(scores, counts)
        if not self._single:
            for _ in range(_PAIR_SWEEPS * (len(scores) - 1)):
                self._exchange_several(scores, table)
            return table
        label, few = table.argmax(axis=0), scores.astype(np.float32)
        for _ in range(_SWEEPS):
            self._exchange(few, label)
        return (label == np.arange(len(scores))[:, None]).astype(np.intp)

    def _begin(self, scores: Floats, counts: Ints) -> Ints:
        """Labels with these counts, near what is expected, class by class."""
        left, table = self._multiplicity.copy(), np.zeros(scores.shape, dtype=np.intp)
        others = [scores[-1]]
        for c in range(len(scores) - 2, 0, -1):
            others.append(np.logaddexp(scores[c], others[-1]))
        for c, rest in enumerate(others[::-1]):
            table[c] = self._share_out(scores[c] - rest, left, counts[:, c])
            left -= table[c]
        table[-1] = left
        return table

    def _share_out(self, log_odds: Floats, most: Ints, wanted: Ints) -> Ints:
        """Whole numbers between given limits for each row, with a given sum in each bag."""
        rows, odds = Segments(self._sizes), np.exp(np.clip(log_odds, -100.0, 100.0))
        size = rows.sum(most)
        k = np.clip(wanted, 0.5, np.maximum(size - 0.5, 0.5)).astype(float)
        search = TiltSearch(k, np.maximum(size, 1).astype(float), np.zeros(len(k)), 1)
        for _ in range(_TILT_STEPS):
            q, p = tilted_probabilities(odds, rows, search.tilt[0])
            if search.found(rows.sum(most * q)[None], rows.sum(most * q * p)[None], 1e-4):
                break
        # systematic sampling: each is rounded up or down, up with the probability of its fraction
        mean = most * q
        ends = np.cumsum(mean)
        first = np.cumsum(self._sizes) - self._sizes
        ends += np.repeat(self._rng.random(len(k)) - ends[first] + mean[first], self._sizes)
        steps = np.floor(ends).astype(np.intp)
        found = np.diff(steps, prepend=0)
        found[first] = steps[first]
        found = np.clip(found, 0, most)
        lacking = wanted - rows.sum(found)
        if not lacking.any():
            return found
        return found + self._fill(most - found, lacking) - self._fill(found, -lacking)

    def _fill(self, room: Ints, wanted: Ints) -> Ints:
        """So many in each bag, if there are more than 0, in rows that have room, the first first."""
        before = np.cumsum(room) - room
        return np.clip(wanted[self._bag] - before + before[self._start], 0, room)

    def _pairs(self) -> tuple[Ints, Ints]:
        """Rows that meet in a sweep."""
        turn = (self._rng.random(len(self._sizes)) * self._sizes).astype(np.intp)
        other = np.repeat(turn, self._sizes) - self._place
        other[other < 0] += self._length[other < 0]
        first = np.flatnonzero(self._place < other)
        return first, self._start[first] + other[first]

    def _exchange(self, scores: Any, label: Ints) -> None:
        i, j = self._pairs()
        differ = label[i] != label[j]
        i, j = i[differ], j[differ]
        a, c = label[i], label[j]
        flat, from_a, from_c = scores.ravel(), a * scores.shape[1], c * scores.shape[1]
        gain = flat[from_c + i] + flat[from_a + j] - flat[from_a + i] - flat[from_c + j]
        swap = self._rng.random(len(i), dtype=np.float32) < expit(gain)
        label[i[swap]], label[j[swap]] = c[swap], a[swap]

    def _exchange_several(self, scores: Floats, table: Ints) -> None:
        i, j = self._pairs()
        K = len(scores)
        a = self._rng.integers(K, size=len(i))
        c = (a + self._rng.integers(1, K, size=len(i))) % K
        x, own, other = table[a, i], table[a, i] + table[c, i], table[a, j] + table[c, j]
        total = x + table[a, j]
        log_odds = scores[a, i] - scores[c, i] - scores[a, j] + scores[c, j]
        new = redraw_two_by_two(x, own, other, total, log_odds, self._rng)
        table[a, i], table[c, i] = new, own - new
        table[a, j], table[c, j] = total - new, other - total + new


def redraw_two_by_two(
    x: Ints, own: Ints, other: Ints, total: Ints, log_odds: Floats, rng: np.random.Generator
) -> Ints:
    """One Metropolis step each for cells x of tables of two rows and two classes, given their sums.

    Noncentral hypergeometric: Pr(x) ∝ C(own, x) C(other, total − x) exp(x · log_odds).
    """
    low, high = np.maximum(0, total - other), np.minimum(own, total)
    # the mode solves (own − x)(total − x) ψ = x (other − total + x)
    ratio = np.exp(np.clip(log_odds, -40.0, 40.0))
    A, B = ratio - 1.0, -((own + total) * ratio + other - total)
    root = np.sqrt(np.maximum(B**2 - 4.0 * A * own * total * ratio, 0.0))
    mode = 2.0 * own * total * ratio / np.maximum(root - B, _TINY)
    cells = np.stack([mode, own - mode, total - mode, other - total + mode])
    sd = 1.0 / np.sqrt((1.0 / np.maximum(cells, 0.5)).sum(axis=0))
    scale = 0.7 * sd + 0.1
    u = rng.random(len(x))
    drawn = np.floor(mode + scale * (np.log(u) - np.log1p(-u)) + 0.5)
    new = np.clip(drawn, low, high).astype(np.intp)

    def log_ratio(at: Ints) -> Floats:
        inside = at * log_odds - gammaln(at + 1.0) - gammaln(own - at + 1.0)
        inside -= gammaln(total - at + 1.0) + gammaln(other - total + at + 1.0)
        upper, lower = (at + 0.5 - mode) / scale, (at - 0.5 - mode) / scale
        proposed = np.where(lower > 0, expit(-lower) - expit(-upper), expit(upper) - expit(lower))
        return inside - np.log(np.maximum(proposed, 1e-300))

    accept = np.log(rng.random(len(x))) < log_ratio(new) - log_ratio(x)
    return np.where(accept & (drawn == new), new, x)


def draw_bag_counts(
    scores: Floats,
    sizes: Ints,
    multiplicity: Ints,
    counts: Floats,
    noise: Floats,
    limits: tuple[Floats, Floats],
    bag_effect: float,
    rng: np.random.Generator,
) -> Ints:
    """Whole counts of bags, given scores (n_classes, n_rows) and counts (n_bags, n_classes).

    ``noise`` is the covariance of the counts, ``bag_effect`` τ² of two classes.
    """
    rows, K = Segments(sizes), scores.shape[0]
    is_set = (limits[0] < limits[1]).any(axis=1)
    if not (noise.any() or is_set.any()):
        return round_counts(counts, counts.sum(axis=1), rng)
    p = softmax(scores, axis=0)
    mean = rows.sum(p * multiplicity).T
    pairs = p[:, None] * (np.eye(K)[:, :, None] - p[None])
    V = np.moveaxis(rows.sum(pairs * multiplicity), -1, 0)
    if K == 2:
        V = V + bag_effect * V[:, 1:, 1:] ** 2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    gain = V @ np.linalg.pinv(V + noise, rcond=1e-9, hermitian=True)
    centre = mean + np.einsum("bij,bj->bi", gain, counts - mean)
    left = V - gain @ V
    values, vectors = np.linalg.eigh(0.5 * (left + np.swapaxes(left, 1, 2)))
    normal = rng.normal(size=counts.shape) * np.sqrt(np.maximum(values, 0.0))
    noisy = np.asarray(noise.any(axis=(1, 2)))[:, None]
    found = np.where(noisy, centre + np.einsum("bij,bj->bi", vectors, normal), counts)
    whole = round_counts(found, rows.sum(multiplicity.astype(float)), rng)
    if is_set.any():
        low, high = (limit[is_set] for limit in limits)
        whole[is_set] = _draw_within(low, high, whole[is_set], mean[is_set], V[is_set], rng)
    return whole


def _draw_within(
    low: Floats, high: Floats, start: Ints, mean: Floats, V: Floats, rng: np.random.Generator
) -> Ints:
    """Whole counts of a normal law within limits, from a start with the same sums."""
    count = low + 0.0
    for c in range(low.shape[1]):
        count[:, c] += np.clip(start.sum(axis=1) - count.sum(axis=1), 0.0, high[:, c] - low[:, c])
    inverse = np.linalg.pinv(V, rcond=1e-9, hermitian=True)
    for _ in range(_COUNT_SWEEPS if low.shape[1] > 2 else 1):
        for a, c in combinations(range(low.shape[1]), 2):
            pull = inverse[:, a] - inverse[:, c]
            precision = np.maximum(pull[:, a] - pull[:, c], _TINY)
            middle = -np.einsum("bi,bi->b", pull, count - mean) / precision
            least = np.maximum(low[:, a] - count[:, a], count[:, c] - high[:, c])
            most = np.minimum(high[:, a] - count[:, a], count[:, c] - low[:, c])
            ends = (np.stack([least - 0.5, most + 0.5]) - middle) * np.sqrt(precision)
            # in the lower tail, where logarithms of the distribution function are exact
            sign = np.where(ends.sum(axis=0) > 0, -1.0, 1.0)
            u = rng.uniform(_TINY, 1.0 - _TINY, len(count))
            tails = log_ndtr(ends * sign) + np.log([u, 1.0 - u])
            drawn = middle + sign * ndtri_exp(np.logaddexp(*tails)) / np.sqrt(precision)
            move = np.clip(np.round(drawn), least, most)
            count[:, a] += move
            count[:, c] -= move
    return count.astype(np.intp)


def round_counts(counts: Floats, totals: Floats, rng: np.random.Generator) -> Ints:
    """Whole numbers of at least 0 with given totals, as near to some numbers as can be."""
    positive = np.maximum(counts, 0.0)
    positive = positive * (totals / np.maximum(positive.sum(axis=1), _TINY))[:, None]
    positive[positive.sum(axis=1) == 0, 0] = totals[positive.sum(axis=1) == 0]
    # systematic sampling of what is left over by rounding down, each at its own probability
    ends = np.round(np.cumsum(positive, axis=1), 9)
    ends[:, -1] = totals
    steps = np.floor(ends + rng.random((len(ends), 1)))
    steps[:, -1] = totals
    return np.diff(steps, axis=1, prepend=0.0).astype(np.intp)
