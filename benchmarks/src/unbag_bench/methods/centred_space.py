"""A space whose intercept is the mean of the scores, so that it moves apart from all the rest.

With f = Σ_j w_j k(·, x_j) + a, the intercept a and what the functions k(·, x_j) have in common over
the instances are nearly the same direction, and by far the steepest: a change of a moves the scores
of all instances at once. A solver goes back and forth between the two, and takes twice the iterations
or more for the likelihood of counts. So the same functions are searched as

    f = Σ_j w_j (k(·, x_j) − m_j) + cβ,    a = cβ − Σ_j m_j w_j,

with m_j the mean of k(·, x_j) over the instances: cβ is the mean of the scores, and what is penalised
stays what it was. The scale c makes a step of β about as steep as the steepest of w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Array, Floats

# c² as a share of the spread of the instances in the space, about that of the steepest direction:
# at least an equal share of each. From .02 to .2, iterations of kernel models hardly differ.
_STEEPEST = 0.05


class CentredKernelSpace:
    """Functions of a kernel with an intercept, the last coefficient of each output.

    Parameters
    ----------
    K : array of shape (n_instances, n_instances)
    n_outputs : int

    Attributes
    ----------
    shift : ndarray of shape (coefficients of an output,)
        What the intercept of an output gains with each of its coefficients: −m, and c − 1.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag_bench.methods.centred_space import CentredKernelSpace
    >>> space = CentredKernelSpace(np.eye(2), n_outputs=1)
    >>> theta = np.array([[2.0, 0.0, 0.0]])  # of mean zero
    >>> space.scores(theta, space.dual(theta))
    array([[[ 1., -1.]]])
    """

    self_dual = False

    def __init__(self, K: Array, n_outputs: int) -> None:
        n = len(K)
        self.like, self._n, self._outputs = K, n, n_outputs
        self.n_coefficients = n_outputs * (n + 1)
        mean_function = np.full(n, 1 / n, dtype=K.dtype)
        m = (mean_function[None] @ K)[0].astype(np.float64)
        mean_function = mean_function.astype(np.float64)
        mean_square = float(np.sum(np.diagonal(K), dtype=np.float64)) / n
        spread = mean_square - float(mean_function @ m)
        share = max(_STEEPEST, 1 / max(n, 1))
        c = np.sqrt(share * spread) if spread > 0 else 1.0
        self.shift: Floats = np.append(-m, c - 1)
        self._shift = self.shift.astype(K.dtype)
        self._turn = np.append(-mean_function, c - 1).astype(K.dtype)

    def dual(self, theta: Array) -> Array:
        """K w, and the intercepts themselves."""
        rows = theta.reshape(-1, self._n + 1)
        product = rows[:, : self._n] @ self.like
        return np.concatenate([product, rows[:, self._n :]], axis=1).reshape(theta.shape)

    def scores(self, theta: Array, image: Array) -> Array:
        """Scores of the instances."""
        rows = image.reshape(-1, self._outputs, self._n + 1)
        plain = rows[:, :, : self._n] + rows[:, :, self._n :]
        return plain + (theta.reshape(-1, self._outputs, self._n + 1) @ self._shift)[:, :, None]

    def gradient(self, score_gradient: Array) -> Array:
        """Gradient in this geometry."""
        total = np.sum(score_gradient, axis=2, keepdims=True, dtype=np.float64)
        total = total.astype(score_gradient.dtype, copy=False)
        rows = np.concatenate([score_gradient, total], axis=2).reshape(-1, self._n + 1)
        return (rows + rows[:, -1:] * self._turn).reshape(-1, self.n_coefficients)

    def penalised(self, theta: Array) -> Array:
        """All but the intercepts."""
        kept = theta.copy()
        kept[:, self._n :: self._n + 1] = 0
        return kept

    def read(self, theta: Any) -> tuple[Floats, Floats]:
        """Coefficients (outputs, instances) and intercepts of a solution."""
        rows = np.asarray(theta, dtype=np.float64).reshape(self._outputs, -1)
        return rows[:, :-1].copy(), rows[:, -1] + rows @ self.shift
