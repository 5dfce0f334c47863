"""A space whose intercept is the mean of the scores, so that it moves apart from all the rest.

With f = Σ_j w_j b_j + a, the intercept a and what the functions b_j have in common over the
instances are nearly the same direction, and by far the steepest: a change of a moves the scores of
all instances at once. A solver goes back and forth between the two, and takes twice the iterations
or more for the likelihood of counts. So the same functions are searched as

    f = Σ_j w_j (b_j − m_j) + cβ,    a = cβ − Σ_j m_j w_j,

with m_j the mean of b_j over the instances: cβ is the mean of the scores, and what is penalised
stays what it was. The scale c makes a step of β about as steep as the steepest of w.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from array_api_compat import array_namespace, device

from unbag._arrays import Array, Floats, beside, to_host
from unbag.solvers.spaces import SpaceInMemory

# c² as a share of the spread of the instances in the space, about that of the steepest direction:
# at least an equal share of each. From .02 to .2, iterations of kernel models hardly differ.
_STEEPEST = 0.05


class SpaceWithIntercept(SpaceInMemory, Protocol):
    """A space in memory whose functions have an intercept, the last coefficient of each output.

    Attributes
    ----------
    n_instances, n_outputs : int
        How many instances there are, and scores of each.
    """

    n_instances: int
    n_outputs: int

    def mean_square(self) -> float:
        """Mean of ‖x‖² over the instances x, as points of the space."""
        ...


class CentredSpace:
    """The functions of another space, searched from the means of what they are made of.

    Parameters
    ----------
    space : SpaceWithIntercept

    Attributes
    ----------
    shift : ndarray of shape (coefficients of an output,)
        What the intercept of an output gains with each of its coefficients: −m, and c − 1.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.solvers.spaces import LinearSpace
    >>> from unbag.solvers.centred import CentredSpace
    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> space = CentredSpace(LinearSpace(X, n_outputs=1, fit_intercept=True))
    >>> theta = np.array([[2.0, 0.0]])  # of mean zero
    >>> space.scores(theta, space.dual(theta))
    array([[[-4., -2.,  6.]]])
    """

    def __init__(self, space: SpaceWithIntercept) -> None:
        self._space = space
        self.like, self.n_bytes = space.like, space.n_bytes
        self.n_coefficients, self.self_dual = space.n_coefficients, space.self_dual
        self._outputs = space.n_outputs
        self._width = space.n_coefficients // space.n_outputs
        mean = self._mean()
        turn, image = (to_host(part)[0, : self._width] for part in (mean, space.dual(mean)))
        m, mean_function = image[:-1].astype(np.float64), turn[:-1].astype(np.float64)
        spread = space.mean_square() - float(mean_function @ m)
        share = max(_STEEPEST, 1 / max(len(m), 1))
        c = np.sqrt(share * spread) if spread > 0 else 1.0
        self.shift: Floats = np.append(-m, c - 1)
        self._shift = beside(self.shift, self.like)
        self._turn = beside(np.append(-mean_function, c - 1), self.like)

    def _mean(self) -> Array:
        """Gradient of the mean score: the mean of the instances as points of the space, and 1."""
        xp, n = array_namespace(self.like), self._space.n_instances
        shape = (1, self._outputs, n)
        return self._space.gradient(
            xp.full(shape, 1 / n, dtype=self.like.dtype, device=device(self.like))
        )

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return self._space.dual(theta)

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: D102
        xp = array_namespace(theta)
        rows = xp.reshape(theta, (-1, self._outputs, self._width))
        return self._space.scores(theta, image) + (rows @ self._shift)[:, :, None]

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        xp, plain = array_namespace(score_gradient), self._space.gradient(score_gradient)
        rows = xp.reshape(plain, (-1, self._width))
        return xp.reshape(rows + rows[:, -1:] * self._turn, plain.shape)

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return self._space.penalised(theta)
