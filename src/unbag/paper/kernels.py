"""Kernels of instances, computed in blocks so that little more than the result is held."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._threads import physical_memory
from unbag.models.base import row_blocks


@dataclass(frozen=True)
class Kernel:
    """k(x, z): e^{−γ‖x−z‖²} (rbf) or xᵀz (linear).

    >>> import numpy as np
    >>> from unbag.paper.kernels import Kernel
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Kernel("rbf", gamma=1.0).matrix(X).round(3)
    array([[1.   , 0.368, 0.018],
           [0.368, 1.   , 0.368],
           [0.018, 0.368, 1.   ]])
    """

    name: str
    gamma: float = 1.0

    def block(self, X: NDArray[Any], Z: Any) -> Floats:
        """Kernel (n_rows, n_points) between the rows of X and the points Z."""
        # far from the origin a distance is a small difference of large numbers
        X, Z = X.astype(float, copy=False), Z.astype(float, copy=False)
        product = X @ Z.T
        if self.name == "linear":
            return product
        product *= 2 * self.gamma
        product -= self.gamma * np.sum(X * X, axis=1)[:, None]
        product -= self.gamma * np.sum(Z * Z, axis=1)[None, :]
        # rounding can make a tiny squared distance negative
        return np.exp(np.minimum(product, 0, out=product), out=product)

    def matrix(self, X: NDArray[Any]) -> Floats:
        """Symmetric kernel matrix of the rows of X."""
        return np.concatenate([self.block(X[rows], X) for rows in row_blocks(len(X))])

    def expand(self, X: NDArray[Any], Z: Any, coef: Floats) -> Floats:
        """Σ_j coef[., j] k(x, z_j) for every row x of X, of shape (n_outputs, n_rows)."""
        parts = [coef @ self.block(X[rows], Z).T for rows in row_blocks(len(X))]
        return np.concatenate(parts, axis=1)


def make_kernel(name: str, gamma: str | float, X: NDArray[Any]) -> Kernel:
    """Check the settings of a kernel and fix γ for the instances X.

    ``"scale"`` is 1/(d·Var(X)), as in the paper, ``"wide"`` half of it, which for standardised
    columns is one over the mean squared distance of two rows, and ``"auto"`` is 1/d.
    """
    check_choice(name, ("rbf", "linear"), "kernel")
    if not (isinstance(gamma, Real) or gamma in ("wide", "scale", "auto")):
        raise ValueError(f"gamma must be 'wide', 'scale', 'auto' or a number, not {gamma!r}.")
    if isinstance(gamma, str):
        variance = float(X.var()) if gamma != "auto" and name == "rbf" else 1.0
        scale = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        gamma = scale / 2 if gamma == "wide" else scale
    if not gamma > 0 or not np.isfinite(gamma):
        raise ValueError(f"gamma must be positive and finite, not {gamma!r}.")
    return Kernel(name, float(gamma))


def check_kernel_memory(n: int, copies: int = 1) -> None:
    """Refuse kernel matrices that the machine cannot hold."""
    need, total = 8 * n * n * copies, physical_memory()
    if total is not None and need > 0.8 * total:
        raise MemoryError(
            f"The kernel matrix of {n:,} instances would take {need / 1e9:,.0f} GB and this machine "
            f"has {total / 1e9:,.0f} GB; use unbag.LLPClassifier, whose kernel has landmarks."
        )
