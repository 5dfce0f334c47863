"""Spaces of functions in which the paper's risks are minimised, each with its own geometry."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from unbag._arrays import Array

# Rows whose products are summed in the precision of the data; over blocks of them, in double.
_BLOCK = 2**16


class FunctionSpace(Protocol):
    """Functions that the solver can search; a row of coefficients θ is a function.

    ``n_coefficients`` is their number, ``like`` an array of the type that coefficients and scores
    have, ``self_dual`` whether the dual of θ is θ.
    """

    n_coefficients: int
    like: Array
    self_dual: bool

    def dual(self, theta: Array) -> Array:
        """Image of θ under the inner product: ⟨u, θ⟩ = Σ u · dual(θ)."""
        ...

    def scores(self, theta: Array, image: Array) -> Array:
        """Scores (columns, outputs, instances) of θ, whose dual is ``image``."""
        ...

    def gradient(self, score_gradient: Array) -> Array:
        """Gradient in this geometry of a function with the given gradient in the scores."""
        ...

    def penalised(self, theta: Array) -> Array:
        """Pθ: zeros for what is not penalised."""
        ...


class KernelSpace:
    """f = Σ_j α_j k(·, x_j) with the inner product of the RKHS, ⟨u, v⟩ = uᵀ K v.

    The scores are K α, which is the dual itself, and the gradient of φ(f) is Σ_j φ'_j k(·, x_j): its
    coefficients are φ' with no factor K. So an iteration needs one product with K.
    """

    self_dual = False

    def __init__(self, K: Array, n_outputs: int) -> None:
        self.like, self._n, self._outputs = K, len(K), n_outputs
        self.n_coefficients = n_outputs * len(K)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        # K is symmetric, so that rows @ K is K @ columns
        return (theta.reshape(-1, self._n) @ self.like).reshape(theta.shape)

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        return image.reshape(-1, self._outputs, self._n)

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        return score_gradient.reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta


class LinearSpace:
    """f = Xw + b with the plain inner product; the intercept b is not penalised.

    X may be a sparse matrix of SciPy. The gradient Xᵀφ' is a sum over all rows, and is taken in
    double precision over blocks of them, so that single precision does for many rows too.
    """

    self_dual = True

    def __init__(self, X: Any, n_outputs: int, fit_intercept: bool) -> None:
        self._X = X
        self._n, self._d = X.shape
        # a slice of a sparse matrix would be a copy, so that it is one block
        size = self._n if issparse(X) else _BLOCK
        rows = [slice(i, min(i + size, self._n)) for i in range(0, self._n, size)]
        self._blocks = [(r, X if len(rows) == 1 else X[r, :]) for r in rows]
        self.n_outputs = n_outputs
        self._intercept = fit_intercept
        self.n_coefficients = n_outputs * (self._d + fit_intercept)
        self.like: Array = getattr(X, "data", X) if issparse(X) else X

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        rows = theta.reshape(-1, self._d + self._intercept)
        product = rows[:, : self._d] @ self._X.T
        if issparse(self._X):
            # SciPy gives it column by column, and what is done to scores runs along rows
            product = np.ascontiguousarray(product)
        if self._intercept:
            product += rows[:, self._d :]
        return product.reshape(-1, self.n_outputs, self._n)

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        rows = score_gradient.reshape(-1, self._n)
        parts = (rows[:, here] @ block for here, block in self._blocks)
        slope = next(parts).astype(np.float64)
        for part in parts:
            slope += part
        if self._intercept:
            total = np.sum(rows, axis=1, keepdims=True, dtype=np.float64)
            slope = np.concatenate([slope, total], axis=1)
        return slope.astype(rows.dtype, copy=False).reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        if not self._intercept:
            return theta
        kept = theta.copy()
        kept[:, self._d :: self._d + 1] = 0
        return kept
