"""The design matrix Φ of all terms, in blocks of rows.

A solver needs three things of it: scores Φβ, gradients Φᵀr, and cross products with the observed
information of the scores. With ``weights`` w and ``factors`` u of
`unbag.observations.information.Information` these are

    H = Σ_j w_j φ_j φ_jᵀ + Σ_b g_b g_bᵀ,    g_b = Σ_{j in b} u_j φ_j,

and for several classes the same with blocks for pairs of outputs. Dense columns come first, the
constant before all; the columns of sparse terms follow. What does not fit the memory is computed
block by block whenever it is needed, so that memory is linear in the number of rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from unbag._arrays import Floats
from unbag.observations.information import Information
from unbag.terms.columns import Term
from unbag.terms.encoding import EncodedRows, Moments

# Sums over bags of sparse columns are sparse matrices while at most this many are not zero.
_DENSE = 0.1

# Entries of weighed rows that fit the cache of a processor.
_CACHE = 2**17

# Dense columns are kept while they take at most this many bytes.
MOST_KEPT = 1.5e9


class _Block(NamedTuple):
    """Some whole bags, or a piece of one."""

    rows: slice
    starts: Any  # of the bags, relative to the block
    ends_bag: bool


class Design:
    """Φ of some rows, sorted by bag.

    Parameters
    ----------
    terms : sequence of Term
        Fitted.
    rows : EncodedRows
    sizes : ndarray of int, shape (n_bags,)
        Number of rows of each bag, which follow each other.

    Attributes
    ----------
    n_rows, n_columns : int
    columns_of : list of slice
        Columns of each term.
    """

    # entries of a block of dense columns: a few megabytes
    _block_entries: ClassVar[int] = 2**19

    _most_kept: ClassVar[float] = MOST_KEPT

    def __init__(self, terms: Sequence[Term], rows: EncodedRows, sizes: Any) -> None:
        self._dense = [term for term in terms if not term.is_sparse]
        self._rows, self.n_rows = rows, len(rows)
        self.columns_of, self.n_columns = layout(terms)
        self._n_dense = n_dense_columns(terms)
        sparse = [term.matrix(rows) for term in terms if term.is_sparse]
        self._sparse = csr_array(hstack(sparse, format="csr")) if sparse else None
        self._blocks = list(_cut(sizes, max(256, self._block_entries // self._n_dense)))
        self._sparse_blocks = [
            None if self._sparse is None else self._sparse[block.rows] for block in self._blocks
        ]
        self._kept: Floats | None = None
        if self.n_rows * self._n_dense * 8 <= self._most_kept:
            kept = np.empty((self.n_rows, self._n_dense))
            for block in self._blocks:
                kept[block.rows] = self._compute(block.rows)
            self._kept = kept

    def scores(self, theta: Floats) -> Floats:
        """Φθ for coefficients (n_outputs, n_columns): (n_outputs, n_rows)."""
        dense = theta[:, : self._n_dense]
        found = np.empty((len(theta), self.n_rows))
        for block in self._blocks:
            found[:, block.rows] = dense @ self._of(block.rows).T
        if self._sparse is not None:
            found += (self._sparse @ theta[:, self._n_dense :].T).T
        return found

    def score_moments(self, theta: Floats, columns: Sequence[slice]) -> Moments:
        """Moments, over rows, of the scores by each of some groups of columns, for each output."""
        found = []
        for own in columns:
            alone = np.zeros_like(theta)
            alone[:, own] = theta[:, own]
            found.append(Moments.of(self.scores(alone).T, self._rows.multiplicity))
        return Moments(*(np.array(each) for each in zip(*found, strict=True)))

    def gradient(self, residual: Floats) -> Floats:
        """Φᵀr for residuals (n_outputs, n_rows): (n_outputs, n_columns)."""
        found = np.zeros((len(residual), self.n_columns))
        for block in self._blocks:
            found[:, : self._n_dense] += residual[:, block.rows] @ self._of(block.rows)
        if self._sparse is not None:
            found[:, self._n_dense :] = (self._sparse.T @ residual.T).T
        return found

    def information(self, information: Information) -> Floats:
        """H: (n_outputs · n_columns, n_outputs · n_columns)."""
        weights, factors = information.weights, information.factors
        K = len(weights)
        H = np.zeros((K, self.n_columns, K, self.n_columns))
        for i, block in enumerate(self._blocks):
            for a in range(K):
                for c in range(a, K):
                    H[a, :, c, :] += self._cross(i, weights[a, c, block.rows])
        for a in range(K):
            for c in range(a):
                H[a, :, c, :] = H[c, :, a, :].T
        whole = H.reshape(K * self.n_columns, -1)
        for sums in self._bag_sums(factors):
            whole += self._square(sums)
        if information.lost is not None:
            for sums in self._bag_sums(information.lost):
                whole -= self._square(sums)
        return whole

    def sums(self, gather: Any) -> Floats:
        """GΦ for a sparse matrix G (n_groups, n_rows): sums of rows over any groups of them."""
        found = np.zeros((gather.shape[0], self.n_columns))
        gather = gather.tocsc()
        for block in self._blocks:
            found[:, : self._n_dense] += gather[:, block.rows] @ self._of(block.rows)
        if self._sparse is not None:
            found[:, self._n_dense :] = (gather @ self._sparse).toarray()
        return found

    def bag_products(self, residual: Floats) -> Floats:
        """J = Σ_b s_b s_bᵀ of the scores s_b = Σ_{j in b} r_j φ_j of all bags."""
        K = len(residual)
        J = np.zeros((K * self.n_columns,) * 2)
        for sums in self._bag_sums(residual[:, None]):
            J += self._square(sums)
        return J

    def bag_forms(self, values: Floats, P: Floats) -> Floats:
        """g_bᵀPg_b of the sums g_b = Σ_{j in b} u_j φ_j of each bag, for values u of all rows."""
        return np.concatenate([self._forms(sums, P) for sums in self._bag_sums(values[:, None])])

    def _bag_sums(self, factors: Floats) -> Iterator[Any]:
        """Sums Σ_{j in b} u_jr φ_j, (n_bags · rank, n_outputs · n_columns), some bags at a time."""
        started: Any = None
        for i, block in enumerate(self._blocks):
            found = [self._sums_of(i, own) for own in np.swapaxes(factors[..., block.rows], 0, 1)]
            if started is not None:
                # pieces of a large bag
                found = [one + other for one, other in zip(started, found, strict=True)]
            started = None if block.ends_bag else found
            if block.ends_bag:
                yield from found

    # what a block contributes, and what is made of sums over bags

    def _cross(self, i: int, w: Floats) -> Floats:
        """Σ_j w_j φ_j φ_jᵀ over the rows of block i."""
        return _cross(*self._parts(i), w)

    def _sums_of(self, i: int, factors: Floats) -> Any:
        """Sums of u_j φ_j over each bag of block i, side by side for all outputs."""
        A, C = self._parts(i)
        starts, n, parts = self._blocks[i].starts, len(A), []
        for u in factors:
            gather = csr_array((u, np.arange(n), np.append(starts, n)), shape=(len(starts), n))
            parts.append(gather @ A)
            if C is not None:
                parts.append(gather @ C)
        return _stack_sparsely(parts)

    def _square(self, sums: Any) -> Floats:
        product = sums.T @ sums
        return product if isinstance(product, np.ndarray) else product.toarray()

    def _forms(self, sums: Any, P: Floats) -> Floats:
        dense = sums if isinstance(sums, np.ndarray) else sums.toarray()
        return np.einsum("bi,bi->b", dense @ P, dense)

    def _parts(self, i: int) -> tuple[Floats, Any]:
        """Dense and sparse columns of the rows of block i."""
        return self._of(self._blocks[i].rows), self._sparse_blocks[i]

    def _of(self, rows: slice) -> Floats:
        return self._compute(rows) if self._kept is None else self._kept[rows]

    def _compute(self, rows: slice) -> Floats:
        own = self._rows[rows]
        found = np.empty((len(own), self._n_dense))
        found[:, 0], start = 1.0, 1
        for term in self._dense:
            found[:, start : start + term.n_coefficients] = term.matrix(own)
            start += term.n_coefficients
        return found


def layout(terms: Sequence[Term]) -> tuple[list[slice], int]:
    """Columns of each term in Φ, and their number: the constant, dense terms, sparse terms."""
    places: dict[int, slice] = {}
    start = 1
    for is_sparse in (False, True):
        for i, term in enumerate(terms):
            if term.is_sparse == is_sparse:
                places[i] = slice(start, start + term.n_coefficients)
                start += term.n_coefficients
    return [places[i] for i in range(len(terms))], start


def n_dense_columns(terms: Sequence[Term]) -> int:
    """Number of columns of the constant and of the terms that are not sparse."""
    return 1 + sum(term.n_coefficients for term in terms if not term.is_sparse)


def _cut(sizes: Any, length: int) -> Iterator[_Block]:
    """Cut rows into blocks of about so many: whole bags, or pieces of those that are larger."""
    ends = np.cumsum(sizes)
    starts = ends - sizes
    bag, n_bags = 0, len(sizes)
    while bag < n_bags:
        start = int(starts[bag])
        last = int(np.searchsorted(ends, start + length, side="right"))
        if last > bag:
            yield _Block(slice(start, int(ends[last - 1])), starts[bag:last] - start, True)
            bag = last
            continue
        end = int(ends[bag])
        for at in range(start, end, length):
            rows = slice(at, min(at + length, end))
            yield _Block(rows, np.zeros(1, dtype=np.intp), rows.stop == end)
        bag += 1


def _cross(A: Floats, C: Any, w: Floats) -> Floats:
    """[A C]ᵀ diag(w) [A C]."""
    n_dense = A.shape[1]
    dense, root = np.zeros((n_dense, n_dense)), np.sqrt(np.abs(w))
    length = max(_CACHE // n_dense, n_dense)
    for sign in (1.0, -1.0):
        chosen = np.flatnonzero(sign * w > 0)
        for start in range(0, len(chosen), length):
            piece = chosen[start : start + length]
            own = A.take(piece, axis=0)
            own *= root[piece, None]
            # a product of a matrix with itself takes half the time
            dense += sign * (own.T @ own)
    if C is None:
        return dense
    weighed = w[:, None] * A
    found = np.empty((n_dense + C.shape[1],) * 2)
    found[:n_dense, :n_dense] = dense
    found[n_dense:, :n_dense] = C.T @ weighed
    found[:n_dense, n_dense:] = found[n_dense:, :n_dense].T
    scaled = csr_array((C.data * np.repeat(w, np.diff(C.indptr)), C.indices, C.indptr), C.shape)
    found[n_dense:, n_dense:] = (C.T @ scaled).toarray()
    return found


def _stack_sparsely(parts: list[Any]) -> Any:
    """One matrix: sparse if much of it is zero."""
    size = sum(p.shape[1] for p in parts) * parts[0].shape[0]
    entries = sum(p.size if isinstance(p, np.ndarray) else p.nnz for p in parts)
    if entries <= _DENSE * size:
        return hstack(parts, format="csr")
    return np.concatenate([p if isinstance(p, np.ndarray) else p.toarray() for p in parts], axis=1)
