"""Function spaces a solver can search, each with its own geometry.

A function is held as a row of coefficients θ; several rows are several functions. The solver
asks a space five things: the dual of θ, so that ⟨u, v⟩ = Σ u · dual(v); the scores of θ on the
training instances; the gradient, in the space's geometry, of a function of the scores; the part
of θ that the penalty λ⟨θ, Pθ⟩ sees; and how many coefficients there are.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import issparse

from unbag.arrays import Array, beside

# Rows whose products are summed in the precision of the data; over blocks of them, in double.
_BLOCK = 2**16


class FunctionSpace(Protocol):
    """What the solver needs to know of a model."""

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
        """Pθ, the part of θ that is penalised."""
        ...


class KernelSpace:
    """f = Σ_j α_j k(·, x_j) with the inner product of the RKHS, ⟨u, v⟩ = uᵀ K v.

    The scores are K α, which is the dual itself, and the gradient of φ(f) is Σ_j φ'_j k(·, x_j):
    its coefficients are φ' with no factor K. So an iteration needs one product with K.
    """

    self_dual = False

    def __init__(self, K: Array, n_outputs: int) -> None:
        self.like = K
        self._n = K.shape[0]
        self._outputs = n_outputs
        self.n_coefficients = n_outputs * self._n

    def dual(self, theta: Array) -> Array:  # noqa: D102
        xp = array_namespace(theta)
        rows = xp.reshape(theta, (-1, self._n))
        # K is symmetric, so that rows @ K is K @ columns
        return xp.reshape(rows @ self.like, theta.shape)

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        return array_namespace(image).reshape(image, (-1, self._outputs, self._n))

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        xp = array_namespace(score_gradient)
        return xp.reshape(score_gradient, (-1, self.n_coefficients))

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
        self._outputs = n_outputs
        self._intercept = fit_intercept
        self.n_coefficients = n_outputs * (self._d + fit_intercept)
        self.like: Array = getattr(X, "data", X) if issparse(X) else X
        penalised = np.ones((n_outputs, self._d + fit_intercept))
        penalised[:, self._d :] = 0
        self._penalised = beside(penalised.reshape(-1), self.like)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        xp = array_namespace(theta)
        rows = xp.reshape(theta, (-1, self._d + self._intercept))
        product = rows[:, : self._d] @ self._X.T
        if self._intercept:
            product += rows[:, self._d :]
        return xp.reshape(product, (-1, self._outputs, self._n))

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        xp = array_namespace(score_gradient)
        rows = xp.reshape(score_gradient, (-1, self._n))
        parts = (rows[:, here] @ block for here, block in self._blocks)
        slope = xp.astype(next(parts), xp.float64)
        for part in parts:
            slope += part
        if self._intercept:
            total = xp.sum(rows, axis=1, keepdims=True, dtype=xp.float64)
            slope = xp.concat([slope, total], axis=1)
        slope = xp.astype(slope, rows.dtype, copy=False)
        return xp.reshape(slope, (-1, self.n_coefficients))

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta * self._penalised if self._intercept else theta
