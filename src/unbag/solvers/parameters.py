"""Coefficients as their own scores: for objectives that are computed where the instances are.

If instances are spread over many machines, so are their scores. An objective then takes the
coefficients θ, sums over instances elsewhere, and gives back a gradient in θ: to the solver, θ is
the row of scores of a space without any instances.
"""

from __future__ import annotations

import numpy as np

from unbag._arrays import Array, Bools


class ParameterSpace:
    """Rows θ with the plain inner product, whose scores (columns, 1, coefficients) are θ itself.

    Parameters
    ----------
    penalised : ndarray of bool, shape (n_coefficients,)
        The coefficients that the penalty sees, all but the intercepts.
    """

    self_dual = True

    def __init__(self, penalised: Bools) -> None:
        self._penalised = penalised.astype(float)
        self.n_coefficients = len(penalised)
        self.like: Array = np.empty(0)

    def dual(self, theta: Array) -> Array:  # noqa: D102
        return theta

    def scores(self, theta: Array, image: Array) -> Array:  # noqa: ARG002, D102
        return theta[:, None, :]

    def gradient(self, score_gradient: Array) -> Array:  # noqa: D102
        return score_gradient[:, 0, :]

    def penalised(self, theta: Array) -> Array:  # noqa: D102
        return theta * self._penalised
