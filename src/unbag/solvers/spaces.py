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

from unbag._arrays import Array, beside

# Rows whose products are summed in the precision of the data; over blocks of them, in double.
_BLOCK = 2**16


class FunctionSpace(Protocol):
    """What the solver needs to know of a model.

    Attributes
    ----------
    n_coefficients : int
        Number of coefficients of a function.
    like : array
        An array whose namespace, type and device coefficients and scores have.
    self_dual : bool
        Whether the dual of θ is θ.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.solvers.spaces import FunctionSpace, LinearSpace
    >>> space: FunctionSpace = LinearSpace(np.eye(3), n_outputs=1, fit_intercept=True)
    >>> space.n_coefficients, space.self_dual
    (4, True)
    """

    n_coefficients: int
    like: Array
    self_dual: bool

    def dual(self, theta: Array) -> Array:
        """Image of θ under the inner product: ⟨u, θ⟩ = Σ u · dual(θ).

        Parameters
        ----------
        theta : array of shape (columns, n_coefficients)
            Coefficients of the functions.

        Returns
        -------
        image : array of shape (columns, n_coefficients)
            The dual.
        """
        ...

    def scores(self, theta: Array, image: Array) -> Array:
        """Scores of θ on the instances of training.

        Parameters
        ----------
        theta : array of shape (columns, n_coefficients)
            Coefficients of the functions.
        image : array of shape (columns, n_coefficients)
            Its dual.

        Returns
        -------
        scores : array of shape (columns, outputs, instances)
            The scores.
        """
        ...

    def gradient(self, score_gradient: Array) -> Array:
        """Gradient in this geometry of a function with the given gradient in the scores.

        Parameters
        ----------
        score_gradient : array of shape (columns, outputs, instances)
            Gradient with respect to the scores.

        Returns
        -------
        gradient : array of shape (columns, n_coefficients)
            Gradient with respect to the function.
        """
        ...

    def penalised(self, theta: Array) -> Array:
        """Pθ, the part of θ that is penalised.

        Parameters
        ----------
        theta : array of shape (columns, n_coefficients)
            Coefficients of the functions.

        Returns
        -------
        part : array of shape (columns, n_coefficients)
            θ, with zeros for what is not penalised.
        """
        ...


class SpaceInMemory(FunctionSpace, Protocol):
    """Functions over instances in memory.

    Attributes
    ----------
    n_bytes : int
        What a product with the instances reads, however few functions there are.
    """

    n_bytes: int


class KernelSpace:
    """f = Σ_j α_j k(·, x_j) + b with the inner product of the RKHS, ⟨u, v⟩ = uᵀ K v + u_b v_b.

    The scores are K α + b, which is the dual itself but for b, and the gradient of φ(f) is
    Σ_j φ'_j k(·, x_j) and, in b, Σ_j φ'_j: its coefficients are φ' with no factor K. So an
    iteration needs one product with K. The intercept b is not penalised, and may be left out.

    Parameters
    ----------
    K : array of shape (n_instances, n_instances)
        Kernel matrix of the instances.
    n_outputs : int
        Number of scores of an instance.
    fit_intercept : bool, default=False
        Whether there is a b.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.solvers.spaces import KernelSpace
    >>> space = KernelSpace(np.array([[1.0, 0.5], [0.5, 1.0]]), n_outputs=1)
    >>> theta = np.array([[2.0, 0.0]])
    >>> space.scores(theta, space.dual(theta))
    array([[[2., 1.]]])
    """

    self_dual = False

    def __init__(self, K: Array, n_outputs: int, fit_intercept: bool = False) -> None:
        self.like = K
        self.n_bytes = size_in_bytes(K)
        self.n_instances = self._n = K.shape[0]
        self._width = self._n + fit_intercept
        self.n_outputs = self._outputs = n_outputs
        self._intercept = fit_intercept
        self.n_coefficients = n_outputs * self._width
        self._penalised = _all_but_intercepts(self._n, n_outputs, fit_intercept, K)

    def mean_square(self) -> float:
        """Mean of k(x, x) over the instances.

        Returns
        -------
        mean : float
            The mean.
        """
        xp = array_namespace(self.like)
        return float(xp.sum(xp.linalg.diagonal(self.like), dtype=xp.float64)) / self._n

    def dual(self, theta: Array) -> Array:  # noqa: D102
        xp = array_namespace(theta)
        rows = xp.reshape(theta, (-1, self._width))
        # K is symmetric, so that rows @ K is K @ columns
        product = rows[:, : self._n] @ self.like
        if self._intercept:
            product = xp.concat([product, rows[:, self._n :]], axis=1)
        return xp.reshape(product, theta.shape)

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        xp = array_namespace(image)
        if not self._intercept:
            return xp.reshape(image, (-1, self._outputs, self._n))
        rows = xp.reshape(image, (-1, self._outputs, self._width))
        return rows[:, :, : self._n] + rows[:, :, self._n :]

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        xp = array_namespace(score_gradient)
        if self._intercept:
            total = xp.sum(score_gradient, axis=2, keepdims=True, dtype=xp.float64)
            total = xp.astype(total, score_gradient.dtype, copy=False)
            score_gradient = xp.concat([score_gradient, total], axis=2)
        return xp.reshape(score_gradient, (-1, self.n_coefficients))

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta * self._penalised if self._intercept else theta


class LinearSpace:
    """f = Xw + b with the plain inner product; the intercept b is not penalised.

    X may be a sparse matrix of SciPy. The gradient Xᵀφ' is a sum over all rows, and is taken in
    double precision over blocks of them, so that single precision does for many rows too.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_instances, n_features)
        The instances.
    n_outputs : int
        Number of scores of an instance.
    fit_intercept : bool
        Whether there is a b.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.solvers.spaces import LinearSpace
    >>> space = LinearSpace(np.array([[0.0], [1.0]]), n_outputs=1, fit_intercept=True)
    >>> theta = np.array([[2.0, 1.0]])
    >>> space.scores(theta, space.dual(theta))
    array([[[1., 3.]]])
    """

    self_dual = True

    def __init__(self, X: Any, n_outputs: int, fit_intercept: bool) -> None:
        self._X = X
        self._n, self._d = X.shape
        self.n_instances = self._n
        # a slice of a sparse matrix would be a copy, so that it is one block
        size = self._n if issparse(X) else _BLOCK
        rows = [slice(i, min(i + size, self._n)) for i in range(0, self._n, size)]
        self._blocks = [(r, X if len(rows) == 1 else X[r, :]) for r in rows]
        self.n_outputs = self._outputs = n_outputs
        self._intercept = fit_intercept
        self.n_coefficients = n_outputs * (self._d + fit_intercept)
        self.like: Array = getattr(X, "data", X) if issparse(X) else X
        self.n_bytes = size_in_bytes(X)
        self._penalised = _all_but_intercepts(self._d, n_outputs, fit_intercept, self.like)

    def mean_square(self) -> float:
        """Mean of ‖x‖² over the instances.

        Returns
        -------
        mean : float
            The mean.
        """
        xp = array_namespace(self.like)
        blocks: list[Array] = [self.like] if issparse(self._X) else [X for _, X in self._blocks]
        squares = [float(xp.sum(block * block, dtype=xp.float64)) for block in blocks]
        return sum(squares) / self._n

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        xp = array_namespace(theta)
        rows = xp.reshape(theta, (-1, self._d + self._intercept))
        product = rows[:, : self._d] @ self._X.T
        if issparse(self._X):
            # SciPy gives it column by column, and what is done to scores runs along rows
            product = np.ascontiguousarray(product)
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


def _all_but_intercepts(n: int, n_outputs: int, fit_intercept: bool, like: Array) -> Array:
    """1 for the coefficients that the penalty sees, 0 for the last of every output."""
    penalised = np.ones((n_outputs, n + fit_intercept))
    penalised[:, n:] = 0
    return beside(penalised.reshape(-1), like)


def size_in_bytes(X: Any) -> int:
    """Bytes of a table or a sparse matrix; of one that does not tell them, in double precision."""
    if issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)  # type: ignore[attr-defined]
    return int(getattr(X, "nbytes", 8 * X.shape[0] * X.shape[1]))
