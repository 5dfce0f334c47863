"""Classes of functions, and what bounds need to know of them.

Condition (SR): |f(x)| ≤ A, and E sup_f Σ_k ε_k a_k f(x_k) ≤ B √(Σ_k a_k²) for all a ≥ 0, with
random signs ε = ±1. Proposition 4 gives A and B of balls in spaces of kernels, and of networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats, Ints
from unbag._checks import check_nonnegative
from unbag._docstrings import as_in
from unbag.kernels.matrices import Kernel

# Numbers held at a time: 32 MB of them.
BLOCK = 1 << 22


class FunctionClass(Protocol):
    """What the bounds ask of a class of functions."""

    def constants(self, X: NDArray[Any]) -> tuple[float, float]:
        """(A, B) of condition (SR)."""

    def suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """sup_f Σ_k u_k f(x_k) for every row u of ``signed``, or a value of larger mean."""

    def rows(self, X: NDArray[Any], chosen: Ints) -> NDArray[Any]:
        """Some of the instances."""


@dataclass(frozen=True)
class RKHSBall:
    """Functions of RKHS norm at most ``radius``.

    By Cauchy and Schwarz the supremum has a closed form, and A = B = radius · max √k(x, x):

        sup_f Σ_k u_k f(x_k) = radius · √(uᵀ K u),    K = (k(x_k, x_l)).

    Parameters
    ----------
    kernel : Kernel
        With a precomputed kernel, X is the kernel matrix.
    radius : float, default=1.0
        The largest norm.
    kernel_bound : float, optional
        A bound of √k(x, x) on the whole space. It is 1 for the Gaussian kernel, where A and B do
        not depend on the data. For others, if it is left out, the largest value on the data stands
        for it: then A and B hold for these instances only.

    Examples
    --------
    >>> from unbag.paper.bounds import RKHSBall
    >>> from unbag.kernels.matrices import Kernel
    >>> RKHSBall(Kernel("linear"), radius=2.0).constants([[3.0, 4.0], [0.0, 1.0]])
    (10.0, 10.0)
    >>> RKHSBall(Kernel("rbf", gamma=0.5), radius=2.0).constants()
    (2.0, 2.0)
    """

    kernel: Kernel
    radius: float = 1.0
    kernel_bound: float | None = None

    def __post_init__(self) -> None:
        check_nonnegative(self.radius, "radius")
        if self.kernel_bound is not None:
            check_nonnegative(self.kernel_bound, "kernel_bound")

    def constants(self, X: ArrayLike | None = None, n_outputs: int = 1) -> tuple[float, float]:
        """(A, B) of condition (SR): both are radius times the bound of the kernel.

        With several scores, of squared norms that sum to radius² at most, A bounds the Euclidean
        norm of all of them and B is √n_outputs times as large.

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features), optional
            Instances; needed where ``kernel_bound`` is not known.
        n_outputs : int, default=1
            Number of scores of an instance.

        Returns
        -------
        A : float
            Bound of |f(x)|.
        B : float
            B of condition (SR).
        """
        bound = self.radius * self._bound(X)
        return bound, bound * sqrt(n_outputs)

    def suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """Give radius · √(uᵀKu) for every row u of ``signed``; K is made in blocks of rows.

        Parameters
        ----------
        X : ndarray of shape (n_instances, n_features)
            Instances.
        signed : ndarray of shape (n_draws, n_instances)
            Coefficients with random signs, one draw per row.

        Returns
        -------
        suprema : ndarray of shape (n_draws,)
            One for each draw.
        """
        squares = np.zeros(len(signed))
        step = max(1, BLOCK // X.shape[0])
        for start in range(0, X.shape[0], step):
            part = slice(start, start + step)
            block = self.kernel.block(X[part], X, np.float64)
            squares += np.einsum("dk,dk->d", signed[:, part] @ block, signed)
        return self.radius * np.sqrt(np.maximum(squares, 0.0))

    def rows(self, X: NDArray[Any], chosen: Ints) -> NDArray[Any]:
        """Some of the instances; of a precomputed kernel, rows and columns.

        Parameters
        ----------
        X : ndarray of shape (n_instances, n_features)
            Instances.
        chosen : ndarray of int
            Which of them.

        Returns
        -------
        rows : ndarray
            These.
        """
        return X[np.ix_(chosen, chosen)] if self.kernel.name == "precomputed" else X[chosen]

    def _bound(self, X: ArrayLike | None) -> float:
        """Bound √k(x, x)."""
        if self.kernel_bound is not None:
            return self.kernel_bound
        if self.kernel.name == "rbf":
            return 1.0
        if X is None:
            raise ValueError(
                f"The {self.kernel.name} kernel has no bound of its own: give kernel_bound, or the "
                "data."
            )
        return float(np.sqrt(np.max(self._diagonal(np.asarray(X, dtype=float)))))

    def _diagonal(self, X: Floats) -> Floats:
        if self.kernel.name == "precomputed":
            return np.diagonal(X)
        squares = np.sum(X**2, axis=1)
        if self.kernel.name == "linear":
            return squares
        return (self.kernel.gamma * squares + self.kernel.coef0) ** self.kernel.degree


@dataclass(frozen=True)
class TwoLayerReLU:
    """Networks f(x) = Σ_j v_j max(0, u_jᵀx) with |v_j| ≤ α_j and ‖u_j‖ ≤ β_j.

    A = ⟨α, β⟩ max‖x‖, which some f attains (the paper's ‖α‖‖β‖ max‖x‖ is never smaller), and
    B = 2⟨α, β⟩ max‖x‖. The supremum has no closed form, but by contraction

        E sup_f Σ_k ε_k a_k f(x_k) ≤ 2⟨α, β⟩ E ‖Σ_k ε_k a_k x_k‖ ≤ B √(Σ_k a_k²).

    Parameters
    ----------
    output_bounds : array-like of shape (n_hidden,)
        α.
    input_bounds : array-like of shape (n_hidden,)
        β.
    data_bound : float, optional
        A bound of ‖x‖ on the whole space; left out, the largest norm in the data.

    Examples
    --------
    >>> from unbag.paper.bounds import TwoLayerReLU
    >>> TwoLayerReLU([1.0, 2.0], [0.5, 0.5]).constants([[3.0, 4.0], [0.0, 1.0]])
    (7.5, 15.0)
    """

    output_bounds: ArrayLike
    input_bounds: ArrayLike
    data_bound: float | None = None

    def __post_init__(self) -> None:
        alpha, beta = np.asarray(self.output_bounds), np.asarray(self.input_bounds)
        if alpha.ndim != 1 or alpha.shape != beta.shape or not len(alpha):
            raise ValueError(
                "output_bounds and input_bounds must have one entry for each hidden unit, not the "
                f"shapes {alpha.shape} and {beta.shape}."
            )
        if not (np.isfinite(alpha) & np.isfinite(beta) & (alpha >= 0) & (beta >= 0)).all():
            raise ValueError("output_bounds and input_bounds must be finite and not negative.")
        if self.data_bound is not None:
            check_nonnegative(self.data_bound, "data_bound")

    @property
    def scale(self) -> float:
        """⟨α, β⟩."""
        return float(np.dot(self.output_bounds, self.input_bounds))

    def constants(self, X: ArrayLike) -> tuple[float, float]:
        """(A, B) of condition (SR).

        Parameters
        ----------
        X : array-like of shape (n_instances, n_features)
            Instances; not read if ``data_bound`` is given.

        Returns
        -------
        A : float
            Bound of |f(x)|.
        B : float
            B of condition (SR).
        """
        bound = self.data_bound
        if bound is None:
            bound = float(np.max(np.linalg.norm(np.asarray(X, dtype=float), axis=1)))
        return self.scale * bound, 2 * self.scale * bound

    @as_in(RKHSBall.suprema)
    def suprema(self, X: NDArray[Any], signed: Floats) -> Floats:
        """2⟨α, β⟩‖Σ_k u_k x_k‖, whose mean over signs bounds that of the supremum.

        Parameters
        ----------
        X, signed : as in suprema

        Returns
        -------
        suprema : as in suprema
        """
        return 2 * self.scale * np.linalg.norm(signed @ X, axis=1)

    @as_in(RKHSBall.rows)
    def rows(self, X: NDArray[Any], chosen: Ints) -> NDArray[Any]:
        """Some of the instances.

        Parameters
        ----------
        X, chosen : as in rows

        Returns
        -------
        rows : as in rows
        """
        return X[chosen]
