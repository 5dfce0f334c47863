"""Draws of the labels of bags, given the scores of their rows and what is known of their counts.

Given exact counts, labels y of a bag have the probability

    Pr(y | counts) ∝ exp(Σ_j η_{j, y_j})    over the labels y that have these counts,

the conditional Bernoulli law (conditional multinomial for several classes). A shift of all scores of
a class that a bag has in common, as by a random intercept, cancels.

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
rounded to whole numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, softmax

from unbag._arrays import Floats, Ints, Segments

# Sweeps from the start to the first draw, and from one draw to the next.
_FIRST_SWEEPS, _SWEEPS = 60, 10

# Sweeps for one of single rows where rows stand for several: pairs and classes are few.
_MORE_SWEEPS = 4

_TINY = 1e-12


class LabelSampler:
    """A Markov chain of the labels of rows in the order of their bags.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_bags,)
        Number of rows of each bag.
    multiplicity : ndarray of int, shape (n_rows,)
        For how many each row stands.
    rng : Generator
        Source of randomness.

    Attributes
    ----------
    table : ndarray of int, shape (n_classes, n_rows)
        How many of each row are of each class, in the latest draw.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.inference.label_draws import LabelSampler
    >>> sampler = LabelSampler(np.array([3, 2]), np.ones(5, dtype=int), np.random.default_rng(0))
    >>> drawn = sampler.draw(np.zeros((2, 5)), np.array([[1, 2], [1, 1]]))
    >>> np.add.reduceat(drawn, [0, 3], axis=1)
    array([[1, 1],
           [2, 1]])
    """

    def __init__(self, sizes: Ints, multiplicity: Ints, rng: np.random.Generator) -> None:
        self._sizes, self._multiplicity, self._rng = sizes, multiplicity, rng
        self._bag = np.repeat(np.arange(len(sizes)), sizes)
        self._start = (np.cumsum(sizes) - sizes)[self._bag]
        self._place = np.arange(len(self._bag)) - self._start
        self._single = bool((multiplicity == 1).all())
        self._counts: Ints | None = None
        self.table: Ints = np.zeros((0, 0), dtype=np.intp)

    def draw(self, scores: Floats, counts: Ints) -> Ints:
        """Labels given scores (n_classes, n_rows) and counts (n_bags, n_classes)."""
        n_sweeps = _SWEEPS
        if self._counts is None or not np.array_equal(counts, self._counts):
            n_sweeps = _FIRST_SWEEPS if self._counts is None else 2 * _SWEEPS
            self._begin(scores, counts)
        self._counts = counts
        if self._single:
            label = self.table.argmax(axis=0)
            for _ in range(n_sweeps):
                self._exchange(scores, label)
            self.table = (label == np.arange(len(scores))[:, None]).astype(np.intp)
        else:
            for _ in range(n_sweeps * _MORE_SWEEPS * (len(scores) - 1)):
                self._exchange_several(scores)
        return self.table.copy()

    def _begin(self, scores: Floats, counts: Ints) -> None:
        """Some labels with these counts, rare classes first, where scores are high and by chance."""
        # rows of a bag are in the order of what is likely for the class, and filled up with it
        left, table = self._multiplicity.copy(), np.zeros(scores.shape, dtype=np.intp)
        for c in np.argsort(counts.sum(axis=0)):
            others = np.logaddexp.reduce(np.delete(scores, c, axis=0), axis=0)
            noise = self._rng.gumbel(size=scores.shape[1])
            order = np.lexsort((others - scores[c] - noise, self._bag))
            before = np.cumsum(left[order]) - left[order]
            before = before - before[self._start]
            taken = np.clip(counts[self._bag, c] - before, 0, left[order])
            table[c, order] = taken
            left[order] -= taken
        self.table = table

    def _pairs(self) -> tuple[Ints, Ints]:
        """Rows that meet in a sweep."""
        turn = (self._rng.random(len(self._sizes)) * self._sizes).astype(np.intp)[self._bag]
        other = turn - self._place
        other += np.where(other < 0, self._sizes[self._bag], 0)
        first = np.flatnonzero(self._place < other)
        return first, self._start[first] + other[first]

    def _exchange(self, scores: Floats, label: Ints) -> None:
        i, j = self._pairs()
        differ = label[i] != label[j]
        i, j = i[differ], j[differ]
        a, c = label[i], label[j]
        gain = scores[c, i] + scores[a, j] - scores[a, i] - scores[c, j]
        swap = self._rng.random(len(i)) < expit(gain)
        label[i[swap]], label[j[swap]] = c[swap], a[swap]

    def _exchange_several(self, scores: Floats) -> None:
        i, j = self._pairs()
        K = len(scores)
        a = self._rng.integers(K, size=len(i))
        c = (a + self._rng.integers(1, K, size=len(i))) % K
        table = self.table
        x, own, other = table[a, i], table[a, i] + table[c, i], table[a, j] + table[c, j]
        total = x + table[a, j]
        log_odds = scores[a, i] - scores[c, i] - scores[a, j] + scores[c, j]
        new = redraw_two_by_two(x, own, other, total, log_odds, self._rng)
        table[a, i], table[c, i] = new, own - new
        table[a, j], table[c, j] = total - new, other - total + new


def redraw_two_by_two(
    x: Ints, own: Ints, other: Ints, total: Ints, log_odds: Floats, rng: np.random.Generator
) -> Ints:
    """One Metropolis step each for cells x of tables of two rows and two classes.

    Given the sizes of both rows and the total of the first class, x is noncentral hypergeometric:
    Pr(x) ∝ C(own, x) C(other, total − x) exp(x · log_odds).
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


def draw_noisy_counts(
    scores: Floats,
    sizes: Ints,
    multiplicity: Ints,
    counts: Floats,
    noise: Floats,
    bag_effect: float,
    rng: np.random.Generator,
) -> Ints:
    """Whole counts of bags (n_bags, n_classes) given scores and counts with noise.

    Parameters
    ----------
    scores : ndarray of shape (n_classes, n_rows)
        At the overall class prior.
    sizes : ndarray of int, shape (n_bags,)
    multiplicity : ndarray of int, shape (n_rows,)
    counts : ndarray of shape (n_bags, n_classes)
        As they are known.
    noise : ndarray of shape (n_bags, n_classes, n_classes)
        Covariance of what they are off by.
    bag_effect : float
        τ², variance of random intercepts of two classes.
    rng : Generator
    """
    rows, K = Segments(sizes), scores.shape[0]
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
    return round_counts(found, rows.sum(multiplicity.astype(float)), rng)


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
