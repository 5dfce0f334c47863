"""Kernels of instances and of bags, computed in blocks so that little more than the result is held.

In a kernel between bags, a bag stands for the mean of its instances in the RKHS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unbag._arrays import Floats, Ints
from unbag._checks import check_choice
from unbag._threads import physical_memory
from unbag.bags.bags import Bags
from unbag.models.base import row_blocks

KERNELS = ("rbf", "linear", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """k(x, z): e^{−γ‖x−z‖²} (rbf), xᵀz (linear), or given entries (precomputed).

    >>> import numpy as np
    >>> from unbag.paper.kernels import Kernel
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Kernel("rbf", gamma=1.0).matrix(X, np.float64).round(3)
    array([[1.   , 0.368, 0.018],
           [0.368, 1.   , 0.368],
           [0.018, 0.368, 1.   ]])
    """

    name: str
    gamma: float = 1.0

    def block(self, X: NDArray[Any], Z: Any, dtype: DTypeLike) -> NDArray[Any]:
        """Kernel (n_rows, n_points) between the rows of X and points Z, which a given kernel has no need of.

        Products are taken in double precision and rounded at the end only: far from the origin,
        a distance is a small difference of large numbers.
        """
        if self.name == "precomputed":
            return X.astype(dtype, copy=False)
        X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
        product = X @ Z.T
        if self.name == "linear":
            return product.astype(dtype, copy=False)
        product *= 2 * self.gamma
        product -= self.gamma * np.sum(X * X, axis=1)[:, None]
        product -= self.gamma * np.sum(Z * Z, axis=1)[None, :]
        # rounding can make a tiny squared distance negative
        return np.exp(np.minimum(product.astype(dtype, copy=False), 0))

    def matrix(self, X: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """Make the symmetric kernel matrix of the rows of X, each block off the diagonal once."""
        if self.name == "precomputed":
            return X.astype(dtype)
        X = X.astype(np.float64, copy=False)
        K = np.empty((len(X), len(X)), dtype=dtype)
        blocks = row_blocks(len(X))
        for i, rows in enumerate(blocks):
            for columns in blocks[i:]:
                part = self.block(X[rows], X[columns], dtype)
                K[rows, columns] = part
                if columns != rows:
                    K[columns, rows] = part.T
        return K

    def expand(self, X: NDArray[Any], Z: Any, coef: NDArray[Any]) -> NDArray[Any]:
        """Σ_j coef[., j] k(x, z_j) for every row x of X, of shape (n_outputs, n_rows)."""
        parts = [coef @ self.block(X[rows], Z, coef.dtype).T for rows in row_blocks(len(X))]
        return np.concatenate(parts, axis=1)


def make_kernel(name: str, gamma: str | float, X: NDArray[Any]) -> Kernel:
    """Check the settings of a kernel and fix γ for the instances X.

    ``"scale"`` is 1/(d·Var(X)), as in the paper, ``"wide"`` half of it, which for standardised
    columns is one over the mean squared distance of two rows, and ``"auto"`` is 1/d.
    """
    check_choice(name, KERNELS, "kernel")
    n, d = X.shape
    if name == "precomputed" and n != d:
        raise ValueError(f"A precomputed kernel matrix must be square; its shape is {(n, d)}.")
    known = (
        gamma in ("wide", "scale", "auto") if isinstance(gamma, str) else isinstance(gamma, Real)
    )
    if not known:
        raise ValueError(f"gamma must be 'wide', 'scale', 'auto' or a number, not {gamma!r}.")
    if isinstance(gamma, str):
        variance = float(X.var()) if gamma != "auto" and name == "rbf" else 1.0
        scale = 1 / (d * variance) if variance > 0 else 1.0
        gamma = scale / 2 if gamma == "wide" else scale
    if not gamma > 0 or not np.isfinite(gamma):
        raise ValueError(f"gamma must be positive and finite, not {gamma!r}.")
    return Kernel(name, float(gamma))


def check_kernel_memory(n: int, itemsize: int) -> None:
    """Refuse a kernel matrix that the machine cannot hold."""
    need, total = n * n * itemsize, physical_memory()
    if total is not None and need > 0.8 * total:
        raise MemoryError(
            f"The kernel matrix of {n:,} instances would take {need / 1e9:,.0f} GB and this machine "
            f"has {total / 1e9:,.0f} GB; use unbag.LLPClassifier, whose kernel has landmarks."
        )


# --- kernels between bags -------------------------------------------------------------------------


def mean_kernel(kernel: Kernel, X: Floats, bags: Bags) -> Iterator[tuple[Ints, Floats]]:
    """Mean of the kernel from instances to bags, a block of instances after the other.

    Yields rows of X, bag after bag, and their means, of shape (n_rows, n_bags). Of the instance
    kernel, only one block is held at a time.
    """
    order = np.argsort(bags.index, kind="stable")
    blocks = [order[rows] for rows in row_blocks(len(order))]
    for rows in blocks:
        sums = np.zeros((len(rows), bags.n_bags))
        for columns in blocks:
            if kernel.name == "precomputed":
                block = kernel.block(X[np.ix_(rows, columns)], None, np.float64)
            else:
                block = kernel.block(X[rows], X[columns], np.float64)
            present, starts = np.unique(bags.index[columns], return_index=True)
            sums[:, present] += np.add.reduceat(block, starts, axis=1)
        yield rows, sums / bags.sizes


def bag_kernel(kernel: Kernel, X: Floats, bags: Bags) -> Floats:
    """Mean of the kernel over all pairs of instances of two bags, for any two bags."""
    K = np.zeros((bags.n_bags, bags.n_bags))
    for rows, means in mean_kernel(kernel, X, bags):
        present, starts = np.unique(bags.index[rows], return_index=True)
        K[present] += np.add.reduceat(means, starts, axis=0)
    K /= bags.sizes[:, None]
    return (K + K.T) / 2
