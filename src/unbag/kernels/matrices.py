"""Kernel matrices, computed in blocks so that nothing much larger than the result is held."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from unbag._arrays import Array
from unbag._checks import check_choice
from unbag.kernels.rows import RowSummary

KERNELS = ("rbf", "linear", "poly", "precomputed")

# Kernels that gamma makes a difference to.
WITH_GAMMA = ("rbf", "poly")

# Rows of a block: its distances fit into cache-friendly tens of megabytes.
_BLOCK = 1024


@dataclass(frozen=True)
class Kernel:
    """k(x, z): e^{−γ‖x−z‖²} (rbf), xᵀz (linear), (γxᵀz + c₀)^degree (poly), or given entries.

    Parameters
    ----------
    name : {"rbf", "linear", "poly", "precomputed"}
        Which kernel.
    gamma : float, default=1.0
        γ of "rbf" and "poly".
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1.0
        c₀ of "poly".

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.kernels.matrices import Kernel
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Kernel("rbf", gamma=1.0).matrix(X, np.float64).round(3)
    array([[1.   , 0.368, 0.018],
           [0.368, 1.   , 0.368],
           [0.018, 0.368, 1.   ]])
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def block(self, X: Array, Z: Array, dtype: Any) -> Array:
        """Kernel between the rows of X and those of Z, in the given type.

        Products are taken in double precision and rounded at the end only: far from the origin,
        a distance is a small difference of large numbers.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Rows.
        Z : array of shape (n_points, n_columns)
            Points, in the same namespace.
        dtype : dtype
            Type of the result, of the namespace of X.

        Returns
        -------
        block : array of shape (n_rows, n_points)
            k(x, z) of all pairs.
        """
        xp = array_namespace(X)
        if self.name == "precomputed":
            return xp.astype(X, dtype, copy=False)
        X, Z = xp.astype(X, xp.float64, copy=False), xp.astype(Z, xp.float64, copy=False)
        product = X @ Z.T
        if self.name == "linear":
            return xp.astype(product, dtype, copy=False)
        if self.name == "poly":
            return xp.astype((self.gamma * product + self.coef0) ** self.degree, dtype, copy=False)
        product *= 2 * self.gamma
        product -= self.gamma * xp.sum(X * X, axis=1)[:, None]
        product -= self.gamma * xp.sum(Z * Z, axis=1)[None, :]
        # rounding can make a tiny squared distance negative
        return xp.exp(xp.clip(xp.astype(product, dtype, copy=False), max=0.0))

    def matrix(self, X: Array, dtype: Any) -> Array:
        """Make the symmetric kernel matrix of the rows of X.

        Each block off the diagonal is made once.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Rows.
        dtype : dtype
            Type of the result, of the namespace of X.

        Returns
        -------
        K : array of shape (n_rows, n_rows)
            The matrix.
        """
        xp = array_namespace(X)
        if self.name == "precomputed":
            return xp.astype(X, dtype)
        n = X.shape[0]
        X = xp.astype(X, xp.float64, copy=False)
        K = xp.empty((n, n), dtype=dtype, device=device(X))
        blocks = row_blocks(n)
        for i, rows in enumerate(blocks):
            for columns in blocks[i:]:
                part = self.block(X[rows, :], X[columns, :], dtype)
                K[rows, columns] = part
                if columns != rows:
                    K[columns, rows] = part.T
        return K

    def expand(self, X: Array, Z: Array, coef: Array) -> Array:
        """Sum up Σ_j coef[., j] k(x, z_j) for every row x of X.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Rows.
        Z : array of shape (n_points, n_columns)
            Points, in the same namespace.
        coef : array of shape (n_columns_of_coefficients, n_points)
            Coefficients.

        Returns
        -------
        values : array of shape (n_columns_of_coefficients, n_rows)
            The sums.
        """
        xp = array_namespace(X)
        parts = [coef @ self.block(X[rows, :], Z, coef.dtype).T for rows in row_blocks(X.shape[0])]
        return xp.concat(parts, axis=1)


class Waves(Kernel):
    """b(x, ω) = (cos ωᵀx, sin ωᵀx)/√m for m frequencies ω: waves in place of k(x, z)."""

    def block(self, X: Array, Z: Array, dtype: Any) -> Array:
        """All cosines, then all sines: shape (rows of X, 2m)."""
        xp = array_namespace(X)
        angle = xp.astype(X, xp.float64, copy=False) @ Z.T
        waves = xp.concat([xp.cos(angle), xp.sin(angle)], axis=1) / Z.shape[0] ** 0.5
        return xp.astype(waves, dtype, copy=False)


def row_blocks(n: int) -> list[slice]:
    """Cut n rows into blocks that are computed one after the other."""
    return [slice(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]


def make_kernel(
    name: str, gamma: str | float, degree: int, coef0: float, rows: RowSummary
) -> Kernel:
    """Check the settings of a kernel and fix γ for the instances.

    ``"scale"`` is 1/(d·Var(X)), as in the paper, and ``"wide"`` half of it, which for standardised
    columns is one over the mean squared distance of two rows.

    Parameters
    ----------
    name : {"rbf", "linear", "poly", "precomputed"}
        Which kernel.
    gamma : {"wide", "scale", "auto"} or float
        γ; "auto" is 1/d.
    degree : int
        Degree of "poly".
    coef0 : float
        Constant of "poly".
    rows : RowSummary
        The instances, as `unbag.kernels.rows.RowsInMemory` gives them.

    Returns
    -------
    kernel : Kernel
        The kernel, with its γ.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.kernels.matrices import make_kernel
    >>> from unbag.kernels.rows import RowsInMemory
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> make_kernel("rbf", "scale", 3, 1.0, RowsInMemory(X)).gamma
    0.4
    """
    check_choice(name, KERNELS, "kernel")
    n, d = rows.shape
    if name == "precomputed" and n != d:
        raise ValueError(f"A precomputed kernel matrix must be square; its shape is {(n, d)}.")
    known = (
        gamma in ("wide", "scale", "auto") if isinstance(gamma, str) else isinstance(gamma, Real)
    )
    if not known:
        raise ValueError(f"gamma must be 'wide', 'scale', 'auto' or a number, not {gamma!r}.")
    if isinstance(gamma, str):
        variance = rows.variance() if gamma != "auto" and name in WITH_GAMMA else 1.0
        scale = 1 / (d * variance) if variance > 0 else 1.0
        gamma = scale / 2 if gamma == "wide" else scale
    if not gamma > 0 or not np.isfinite(gamma):
        raise ValueError(f"gamma must be positive and finite, not {gamma!r}.")
    return Kernel(name, float(gamma), degree, coef0)


def check_kernel_memory(n: int, itemsize: int, like: Array | None = None) -> None:
    """Refuse a kernel matrix that the machine, or the device of ``like``, cannot hold."""
    _check_memory(
        n * n * itemsize,
        f"The kernel matrix of {n:,} instances",
        "use unbag.LLPClassifier, whose kernel has landmarks",
        like,
    )


def check_feature_memory(n: int, m: int, itemsize: int, like: Array | None = None) -> None:
    """Refuse features that the machine, or the device of ``like``, cannot hold."""
    _check_memory(
        n * m * itemsize,
        f"The {m:,} features of {n:,} instances",
        "use a smaller n_components",
        like,
    )


def _check_memory(need: int, what: str, advice: str, like: Array | None) -> None:
    total, on_gpu = memory_of(like)
    if total is not None and need > 0.8 * total:
        raise MemoryError(
            f"{what} would take {need / 1e9:,.0f} GB and this {'GPU' if on_gpu else 'machine'} has "
            f"{total / 1e9:,.0f} GB; {advice}, or a linear model such as LLPClassifier."
        )


def memory_of(like: Array | None) -> tuple[int | None, bool]:
    """Bytes of memory where an array lives (None if unknown), and whether that is a GPU."""
    if is_torch_array(like) and like.device.type == "cuda":
        cuda = array_namespace(like).cuda
        return cuda.get_device_properties(like.device).total_memory, True
    return physical_memory(), False


def physical_memory() -> int | None:
    """Bytes of memory, or None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
