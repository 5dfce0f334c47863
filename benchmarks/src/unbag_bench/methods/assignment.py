"""Labels that bags allow, as a loss: exact assignment and relaxed optimal transport; two classes.

The labels of a bag must have its count k_b. Among those that do, or their relaxations
0 ≤ Y_j ≤ 1 with Σ_j Y_j = k_b, the loss of scores f is taken against

    exact      the labels that fit best, the k_b largest scores: min_Y Σ_j ℓ(f_j, Y_j),
    transport  min_Y Σ_j [ℓ(f_j, Y_j) − H(Y_j)], with H the entropy: Y_j = σ(f_j + θ_b), which is
               where Sinkhorn's iterations on the probabilities end,
    worst      the labels that fit worst: max_Y Σ_j [ℓ(f_j, Y_j) + τ H(Y_j)]; with τ = 0 the k_b
               smallest scores, whose kinks no solver likes, here with τ = .1,

with ℓ(f, Y) = log(1 + e^f) − Y f, the logistic loss. In all of them the gradient with respect to
f_j is p_j − Y_j, that of the loss of labels that are held: so to minimise such a function is to
train on pseudo-labels that are always up to date. *Exact* is AMM^min, and the pseudo-labels of
LLP-DC, *worst* AMM^max, and *transport* the pseudo-labels of ROT. The last is also what the
saddlepoint approximation has for −log Pr(K_b = k_b) without the probability that tilted rows hit their mean
(`unbag.observations.saddlepoint`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.observations.losses import LogisticLoss
from unbag.observations.saddlepoint import LARGEST_SCORE, TiltSearch, tilted_probabilities
from unbag_bench.methods.bag_rows import BagRows, probabilities

Assignment = Literal["exact", "transport", "worst"]

# τ of the worst labels.
_TEMPERATURE = 0.1

# A Newton step of the tilt that short leaves labels that add up to the count.
_SHORT_STEP = 1e-8
_MOST_STEPS = 100


@dataclass(frozen=True)
class Block:
    """A run of bags of one size, and of their instances."""

    size: int
    bags: slice
    rows: slice


def equal_sizes(sizes: NDArray[np.int64]) -> Iterator[Block]:
    """Cut rising sizes into runs, inside which an array needs no padding."""
    values, starts, counts = np.unique(sizes, return_index=True, return_counts=True)
    row = 0
    for size, start, count in zip(values.tolist(), starts.tolist(), counts.tolist(), strict=True):
        end = row + size * count
        yield Block(size, slice(start, start + count), slice(row, end))
        row = end


class AssignmentRisk:
    """Mean loss against the labels that bags allow, in score space.

        (1/T) Σ_b Σ_j [log(1 + e^{f_j}) − Y_j f_j],    gradient (p_j − Y_j)/T,

    over the T instances of the bags that a problem includes; less the entropy of Y in
    "transport", plus τ times it in "worst".

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Of two classes.
    assignment : {"exact", "transport", "worst"}

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag_bench.methods.assignment import AssignmentRisk
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> risk = AssignmentRisk(np.array([True, True]), bags)
    >>> scores, problem = np.array([[[-1.0, 1.0, 1.0, 1.0]]]), np.zeros(1, dtype=int)
    >>> _, gradient = risk.value_and_gradient(scores, problem)
    >>> gradient.round(3)  # labels 0, 1, 1, 1
    array([[[ 0.067, -0.067, -0.067, -0.067]]])
    """

    def __init__(
        self,
        included: Bools,
        bags: Bags,
        assignment: Assignment = "exact",
    ) -> None:
        if bags.n_classes != 2:
            raise ValueError(
                "Labels are assigned to bags of two classes only, and there are "
                f"{bags.n_classes}; use unbag.LLPClassifier."
            )
        self._rows = BagRows(included, bags)
        self.n_outputs = 1
        sizes, share = self._rows.sizes.astype(float), self._rows.shares[0]
        counts = share * sizes
        self._sizes, self._counts = sizes, counts
        self._share = share
        self._pure = np.where((share == 0) | (share == 1), 1.0, 0.0)
        self._largest = _LargestScores(self._rows, counts)
        self._assign = {
            "exact": self._best_labels,
            "worst": self._worst_labels,
            "transport": self._transport,
        }[assignment]

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean loss per column."""
        return self._evaluate(self._rows.gather(scores)[:, 0, :], problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Mean loss per column and its gradient with respect to the scores."""
        f = self._rows.gather(scores)
        value, labels = self._evaluate(f[:, 0, :], problem)
        weight = self._rows.segments.spread(self._rows.parts(problem) / self._sizes)
        slopes = weight[:, None, :] * (probabilities(f) - labels[:, None, :])
        return value, self._rows.put_back(slopes, scores)

    def _evaluate(self, f: Array, problem: Ints) -> tuple[Floats, Array]:
        """Value per column, and the labels (columns, rows)."""
        labels, fit = self._assign(f)
        losses = self._rows.segments.sum(softplus(f)) - fit
        means = self._rows.parts(problem) * losses / self._sizes
        return np.sum(means, axis=1), labels

    def _best_labels(self, f: Array) -> tuple[Array, Array]:
        """Labels Y (columns, rows), and Σ_j Y_j f_j (columns, bags)."""
        labels = self._largest.marked(f)
        return labels, self._rows.segments.sum(labels * f)

    def _worst_labels(self, f: Array) -> tuple[Array, Array]:
        """Y = σ(−f/τ + θ), and Σ_j [Y_j f_j − τ H(Y_j)]."""
        labels, fit = self._transport(-f / _TEMPERATURE)
        return labels, -_TEMPERATURE * fit

    def _transport(self, f: Array) -> tuple[Array, Array]:
        """Y = σ(f + θ), and Σ_j [Y_j f_j + H(Y_j)] = Σ_j log(1 + e^{f_j + θ}) − θk."""
        rows = self._rows.segments
        odds = np.exp(np.clip(f, -LARGEST_SCORE, LARGEST_SCORE))
        # pure bags have no tilt, and need none
        k = np.where(self._pure > 0, 0.5 * self._sizes, self._counts)
        search = TiltSearch(k, self._sizes, np.zeros_like(k), f.shape[0])
        for _ in range(_MOST_STEPS):
            labels, left = tilted_probabilities(odds, rows, search.tilt)
            if search.found(rows.sum(labels), rows.sum(labels * left), _SHORT_STEP):
                break
        fit = rows.sum(softplus(f + rows.spread(search.tilt))) - search.tilt * k
        own = rows.spread(self._share)
        pure = self._pure * np.ones_like(fit)
        fit = np.where(pure > 0, self._share * rows.sum(f), fit)
        return np.where(rows.spread(pure) > 0, own * np.ones_like(f), labels), fit


class _LargestScores:
    """The rows of each bag with the largest scores, as many as a number of each bag says.

    Of equal scores each row is marked in part, as it is by numbers that are not whole.
    """

    def __init__(self, rows: BagRows, counts: Floats) -> None:
        self._segments = rows.segments
        self._blocks = list(equal_sizes(rows.sizes))
        self._counts = counts
        # the last score that is marked, in rising order; numbers may be a little off whole ones
        rank = np.clip(np.ceil(counts - 1e-9), 1, rows.sizes).astype(np.intp)
        self._last = [
            np.arange(len(own)) * block.size + block.size - own
            for block in self._blocks
            for own in [rank[block.bags]]
        ]

    def marked(self, f: Array) -> Array:
        """How far each row is marked, for scores (columns, rows)."""
        columns = f.shape[0]
        found = []
        for block, last in zip(self._blocks, self._last, strict=True):
            table = np.reshape(f[:, block.rows], (columns, -1, block.size))
            rising = np.reshape(np.sort(table, axis=-1), (columns, -1))
            found.append(np.take(rising, last, axis=1))
        limit = self._segments.spread(np.concatenate(found, axis=1))
        above = np.astype(f > limit, np.float64)
        at = np.astype(f == limit, np.float64)
        rest = (self._counts - self._segments.sum(above)) / self._segments.sum(at)
        return above + at * self._segments.spread(rest)


def softplus(f: Array) -> Array:
    """log(1 + e^f)."""
    return LogisticLoss().value(-f)
