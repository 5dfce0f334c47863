"""Counts of several groupings of the same rows: log-probability, posterior means, information.

Row j is positive with probability p_j = σ(f_j), independently of the others. Every grouping (by
campaign, by day, ...) has its own cells, and a row lies in at most one cell of each: A_gj = 1 if
row j is in cell g. What is known are the counts k = Ay, up to independent noise of the variances
S. Counts of two groupings share rows, so a saddlepoint approximation is made of all of them
together, with one *tilt* θ_g for each cell:

    Aq + Sθ = k,    q = σ(f + Aᵀθ),    V = A diag(q(1 − q)) Aᵀ + S,
    −log Pr(Ay + noise = k) ≈ Σ_j [lse f_j − lse(f_j + (Aᵀθ)_j)] + θᵀk − ½ θᵀSθ
                              + ½ log det(I + 2πV).

For exact counts θ is the raking of survey statistics. For a single grouping V is diagonal, and
this is `unbag.observations.saddlepoint` to first order. Exact counts of several groupings are
redundant (those of each add up to the same total); V is singular then, and a direction in which it
is zero adds log 1 = 0. The gradient by f of all but the last term is p − q. In the last one the
tilts move along, dθ = −V⁻¹A W df, W = diag(q(1 − q)): with ℓ_j = a_jᵀ(I + 2πV)⁻¹a_j for the column
a_j of A and c_j = π ℓ_j q_j(1 − q_j)(1 − 2q_j), it is c − W Aᵀ V⁻¹ A c.

V is dense except for one block: cells of one grouping share no rows. The block of the grouping with
most cells is eliminated first, and the rest is a dense matrix of as many lines as all others have
cells.

**All counts together.** With K_1, K_2, ... the counts by each grouping, the finest first,

    ℓ(η) = log Pr(K_1 = k_1) + log Pr(K_2 = k_2, ... | K_1 = k_1).

The first term is the likelihood of ordinary bags (`unbag.observations.count_likelihood`, exact for
small ones), the second the joint approximation less that of the first grouping alone: a double
saddlepoint. So one grouping gives what it gives elsewhere, and no label is counted twice. By
Louis' identity the observed information is diag(p(1 − p)) − Cov(y | all counts), to first order
Cov = W − W Aᵀ V⁻¹ A W. So for f = Φβ it is H = Φᵀ (diag(p(1 − p)) − W) Φ + GᵀV⁻¹G with G = A W Φ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.sparse import csr_array, vstack
from scipy.special import expit

from unbag._arrays import Bools, Floats
from unbag.bags.bags import Bags
from unbag.bags.groupings import Groupings
from unbag.observations.count_likelihood import CountLikelihood, count_covariance

# Numbers in the dense part of V: 400 MB.
LARGEST_TABLE = 50_000_000

# A variance that every count has, as a share of the rows of its cell: far below what could be
# noticed, and enough for V to be regular.
_NUGGET = 1e-9

# The tilts are found when what the next step can gain is less, in nats.
_SMALL_GAIN = 1e-12
_MOST_STEPS = 200

# Exact counts that no labels give leave a gap of so many rows.
_GAP = 1e-3

_IMPOSSIBLE = (
    "No labels give the counts of all groupings: they contradict each other. If counts carry "
    "noise, say how much by bag_target(noise=...)."
)

_ONE = np.zeros(1, dtype=np.intp)


class GroupingsObservation:
    """What the counts of several groupings say of the labels of the same rows; two classes.

    Four rows in a square with one positive in each line and column: two of sixteen labellings.

    >>> import numpy as np
    >>> from unbag import bag_target, multi_grouping_target
    >>> from unbag.bags.groupings import check_groupings_target
    >>> from unbag.observations.groupings import GroupingsObservation
    >>> by = {"line": [0, 0, 1, 1], "column": [0, 1, 0, 1]}
    >>> y = multi_grouping_target({n: bag_target(cell, counts=[1] * 4) for n, cell in by.items()})
    >>> observation = GroupingsObservation(check_groupings_target(y))
    >>> observation.value_and_residual(np.zeros((1, 4)))[1].round(6) + 0.0
    array([[0., 0., 0., 0.]])
    """

    n_outputs = 1

    def __init__(self, groupings: Groupings) -> None:
        self.n_cells = groupings.n_cells
        # the grouping with most cells that are not pure
        mixed = [int((bags.proportions.max(axis=1) < 1).sum()) for bags in groupings.bags]
        finest = int(np.argmax(mixed))
        bags = groupings.bags[finest]
        self._n_finest = bags.n_instances
        self._alone = CountLikelihood(np.ones(bags.n_bags, dtype=bool), bags)
        cells = [_cells_of(bags) for bags in groupings.bags]
        self._joint = Margins(cells)
        self._finest = Margins([cells[finest]]) if len(cells) > 1 else self._joint

    def value(self, scores: Floats) -> float:
        """Log-probability of all counts, for scores of shape (1, n_rows)."""
        value = -float(self._alone.value(scores[None], _ONE)[0]) * self._n_finest
        if self._finest is not self._joint:
            value += self._finest.value(scores[0]) - self._joint.value(scores[0])
        return value

    def value_and_residual(self, scores: Floats) -> tuple[float, Floats]:
        """Log-probability and its gradient by the scores: posterior means less p."""
        value, slope = self._alone.value_and_gradient(scores[None], _ONE)
        total, residual = -float(value[0]) * self._n_finest, -slope[0] * self._n_finest
        if self._finest is not self._joint:
            joint, joint_slope = self._joint.value_and_gradient(scores[0])
            finest, finest_slope = self._finest.value_and_gradient(scores[0])
            total, residual = total - joint + finest, residual - joint_slope + finest_slope
        return total, residual

    def information(self, scores: Floats) -> tuple[Floats, csr_array, Blocks | None]:
        """Parts of the observed information H = Φᵀ diag(d) Φ + GᵀV⁻¹G with G = A W Φ: d, A W and V.

        V is None if the labels of all rows are certain.
        """
        p = expit(scores[0])
        w, gathering, V = self._joint.information(scores[0])
        return p * (1.0 - p) - w, gathering, V


def _cells_of(bags: Bags) -> Cells:
    """Counts of the cells of a grouping, and the variance of their noise."""
    variance, counts = count_covariance(bags)[:, 1, 1], bags.counts[:, 1]
    whole = np.round(counts)
    near = (np.abs(counts - whole) < 1e-6) & (variance == 0)
    return Cells(bags.index, np.where(near, whole, counts), variance)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one grouping: that of each row, counts of positives and variances of their noise.

    Rows of which the grouping says nothing have ``index`` past the last cell.
    """

    index: NDArray[np.intp]
    counts: Floats
    variance: Floats

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.counts)

    def sums(self, values: Floats) -> Floats:
        """Sum of what rows have, over each cell."""
        return np.bincount(self.index, values, self.n_cells + 1)[:-1].astype(float)

    def spread(self, values: Floats) -> Floats:
        """What each row's cell has; zero for rows without one."""
        return np.append(values, 0.0)[self.index]

    def matrix(self) -> csr_array:
        """A of these cells: (n_cells, n_rows)."""
        rows = np.flatnonzero(self.index < self.n_cells)
        shape = self.n_cells, len(self.index)
        return csr_array((np.ones(len(rows)), (self.index[rows], rows)), shape=shape)

    def kept(self, rows: Bools, cells: Bools) -> Cells:
        """Only some rows and cells."""
        place = np.append(np.where(cells, np.cumsum(cells) - 1, cells.sum()), cells.sum())
        return Cells(place[self.index[rows]], self.counts[cells], self.variance[cells])

    def without(self, sure: Bools, positive: Bools) -> Cells:
        """Without rows whose label is sure, nor the cells that then are empty."""
        counts = self.counts - self.sums((sure & positive).astype(float))
        if ((counts < -_GAP) & (self.variance == 0)).any():
            raise ValueError(_IMPOSSIBLE)
        left = Cells(self.index, counts, self.variance)
        return left.kept(~sure, self.sums((~sure).astype(float)) > 0)


class Margins:
    """−log Pr of the counts of several groupings of the same rows, by their joint saddlepoint approximation.

    It is known up to a constant that depends on the cells alone.
    """

    def __init__(self, groupings: Sequence[Cells]) -> None:
        sure, positive, rest = _deduce(groupings)
        self._n_rows = len(sure)
        self._sure, self._sign = np.flatnonzero(sure), np.where(positive[sure], -1.0, 1.0)
        self._open = np.flatnonzero(~sure)
        # that of most cells comes first
        self._cells = sorted((g for g in rest if g.n_cells), key=lambda g: -g.n_cells)
        self._split = self._cells[0].n_cells if self._cells else 0
        self._bounds = np.cumsum([0, *(g.n_cells for g in self._cells)])
        n_others = self._bounds[-1] - self._split
        if (self._split + n_others) * n_others > LARGEST_TABLE:
            raise ValueError(
                f"The groupings have {self._split} and {n_others} cells, and what they share is a "
                f"table of {self._split + n_others} by {n_others}, which is too large; leave the "
                "grouping out that has the second most cells."
            )
        parts = [csr_array((0, len(self._open))), *(g.matrix() for g in self._cells)]
        self._A = csr_array(vstack(parts))
        self._counts = np.concatenate([np.empty(0), *(g.counts for g in self._cells)])
        noise = np.concatenate([np.empty(0), *(g.variance for g in self._cells)])
        self._S = noise + _NUGGET * self._A.sum(axis=1)
        self._theta = np.zeros(len(self._counts))
        self._check_possible(noise == 0)

    def value(self, f: Floats) -> float:
        """−log Pr for the scores (n_rows,)."""
        value = float(np.logaddexp(0, self._sign * f[self._sure]).sum())
        if self._cells:
            value += self._of_open(f[self._open])[0]
        return value

    def value_and_gradient(self, f: Floats) -> tuple[float, Floats]:
        """−log Pr and its gradient with respect to the scores."""
        gradient = np.zeros(len(f))
        wrong = self._sign * f[self._sure]
        gradient[self._sure] = self._sign * expit(wrong)
        value = float(np.logaddexp(0, wrong).sum())
        if self._cells:
            more, tilted, widened = self._of_open(f[self._open])
            value += more
            gradient[self._open] = expit(f[self._open]) - tilted.q + self._slope(tilted, widened)
        return value, gradient

    def _of_open(self, f: Floats) -> tuple[float, _Tilted, Blocks]:
        """−log Pr of what is left to rows whose label is not certain, the tilts, and I + 2πV."""
        tilted = self._tilt(f)
        widened = self._blocks(2 * pi * tilted.w, 1 + 2 * pi * self._S)
        return tilted.value + 0.5 * widened.log_determinant, tilted, widened

    def information(self, f: Floats) -> tuple[Floats, csr_array, Blocks | None]:
        """Variances w of labels, tilted so that all counts are met, A W of all rows, and V.

        The variance is 0 for labels that are certain.
        """
        w, shape = np.zeros(self._n_rows), (len(self._counts), self._n_rows)
        if not self._cells:
            return w, csr_array(shape), None
        w[self._open] = own = self._tilt(f[self._open]).w
        found = self._A.multiply(own).tocoo()
        gathering = csr_array((found.data, (found.row, self._open[found.col])), shape=shape)
        return w, gathering, self._blocks(own, self._S)

    def _slope(self, tilted: _Tilted, widened: Blocks) -> Floats:
        """Gradient of ½ log det(I + 2πV), with the tilts moving along."""
        c = pi * self._leverage(widened) * tilted.w * (1 - 2 * tilted.q)
        moved = self._blocks(tilted.w, self._S).solve(self._A @ c)
        return c - tilted.w * (self._A.T @ moved)

    def _leverage(self, blocks: Blocks) -> Floats:
        """ℓ_j = a_jᵀB⁻¹a_j of every row."""
        diagonal, across, inner = blocks.inverse()
        first, *others = self._cells
        total = first.spread(diagonal)
        # rows without a cell point at the zeros behind the last one
        across, inner = (np.pad(table, ((0, 1), (0, 1))) for table in (across, inner))
        places = [
            np.where(g.index < g.n_cells, g.index + start - self._split, inner.shape[0] - 1)
            for g, start in zip(others, self._bounds[1:-1], strict=True)
        ]
        for number, place in enumerate(places):
            total += 2 * across[first.index, place] + inner[place, place]
            for other in places[:number]:
                total += 2 * inner[place, other]
        return total

    def _tilt(self, f: Floats) -> _Tilted:
        """Newton's method for the tilts, from zero or where the last ones were."""
        starts = [self._at(f, theta) for theta in (self._theta, np.zeros_like(self._S))]
        point = min(starts, key=lambda start: start.value)
        for _ in range(_MOST_STEPS):
            V = self._blocks(point.w, self._S)
            gap = self._counts - self._A @ point.q - self._S * point.theta
            step = V.solve(gap)
            gain = float(gap @ step)
            length, ahead = 1.0, self._at(f, point.theta + step)
            while ahead.value > point.value - 1e-4 * length * gain and gain * length > _SMALL_GAIN:
                length /= 2
                ahead = self._at(f, point.theta + length * step)
            point = ahead
            if gain < _SMALL_GAIN:
                break
        self._theta = point.theta
        return point._replace(value=float(np.logaddexp(0, f).sum() - point.value))

    def _at(self, f: Floats, theta: Floats) -> _Tilted:
        """The dual Σ lse(f + Aᵀθ) − θᵀk + ½ θᵀSθ, which the tilts make smallest."""
        score = f + self._A.T @ theta
        small = np.exp(-np.abs(score))
        largest, other = 1 / (1 + small), small / (1 + small)
        dual = np.maximum(score, 0).sum() + np.log1p(small).sum()
        dual += theta @ (0.5 * self._S * theta - self._counts)
        return _Tilted(float(dual), theta, np.where(score > 0, largest, other), largest * other)

    def _blocks(self, w: Floats, diagonal: Floats) -> Blocks:
        """A diag(w) Aᵀ + diag(diagonal)."""
        n = self._split
        first, others = self._A[:n], self._A[n:]
        weighed = csr_array(others.multiply(w)).T
        table = (others @ weighed).toarray() + np.diag(diagonal[n:])
        return Blocks(first @ w + diagonal[:n], (first @ weighed).toarray(), table)

    def _check_possible(self, exact: Bools) -> None:
        """Refuse exact counts that contradict each other."""
        if not self._cells:
            return
        tilted = self._tilt(np.zeros(len(self._open)))
        gap = np.abs(self._S * tilted.theta)[exact]
        if gap.size and not gap.max() < _GAP:
            raise ValueError(_IMPOSSIBLE)


class _Tilted(NamedTuple):
    """At some tilts θ: the dual, or −log Pr without its determinant; q and w."""

    value: float
    theta: Floats
    q: Floats
    w: Floats


class Blocks:
    """A symmetric matrix [[diag d, M], [Mᵀ, R]], positive definite, by its Schur complement."""

    def __init__(self, d: Floats, M: Floats, R: Floats) -> None:
        self._d = d
        self._scaled = M / d[:, None]
        self._n = len(d)
        self._root = np.linalg.cholesky(R - M.T @ self._scaled)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self._d).sum() + 2 * np.log(np.diag(self._root)).sum())

    def solve(self, r: Floats) -> Floats:
        """The inverse times r."""
        first, rest = r[: self._n], r[self._n :]
        inner = self._solve_inner(rest - self._scaled.T @ first)
        return np.concatenate([(first.T / self._d).T - self._scaled @ inner, inner])

    def _solve_inner(self, r: Floats) -> Floats:
        # some versions of SciPy refuse tables without any line
        return cho_solve((self._root, True), r, check_finite=False) if len(r) else r

    def inverse(self) -> tuple[Floats, Floats, Floats]:
        """Diagonal of the first block of the inverse, the block beside it, and the last one."""
        inner = self._solve_inner(np.eye(len(self._root)))
        across = -self._scaled @ inner
        return 1 / self._d - (across * self._scaled).sum(axis=1), across, inner


def _deduce(groupings: Sequence[Cells]) -> tuple[Bools, Bools, list[Cells]]:
    """Rows whose label follows from cells without or full of positives, and what is left.

    Rows that are sure leave their other cells, which may be pure without them.
    """
    n_rows = len(groupings[0].index)
    sure, positive = np.zeros(n_rows, dtype=bool), np.zeros(n_rows, dtype=bool)
    left = list(groupings)
    rows = np.arange(n_rows)
    while True:
        found, full = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        for g in left:
            exact, sizes = g.variance == 0, g.sums(np.ones(len(rows)))
            none, all_of_it = exact & (g.counts < 1e-6), exact & (g.counts > sizes - 1e-6)
            found |= g.spread((none | all_of_it).astype(float)) > 0
            full |= g.spread(all_of_it.astype(float)) > 0
        if not found.any():
            return sure, positive, left
        sure[rows[found]], positive[rows[found]] = True, full[found]
        left = [g.without(found, full) for g in left]
        rows = rows[~found]
