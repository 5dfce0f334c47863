"""The corrected risk of instances that are spread over partitions.

The risk on class c is a sum over instances, R_c(f) = Σ_x w_c(x) ℓ_c(f(x)) with w_c(x) = W[i, c]/n_i
for x in bag i, and f = Σ_j c_j b_j is linear in its coefficients. So each partition gives

    R_c    and    ∇R_c = Σ_x w_c(x) ℓ_c'(f(x)) b(x),

for all columns at once, and all that is left to the driver are their sums: the value Σ_c π_c h(R_c)
with the non-negative correction h, and the gradient Σ_c π_c h'(R_c) ∇R_c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats, Ints
from unbag.distributed.instances import Instances
from unbag.distributed.partitions import Partitions, Travelling, share
from unbag.kernels.matrices import Kernel
from unbag.observations.losses import ClassLoss

# Losses, and values of basis functions, of rows that are worked on together. Less than 2**14: in a
# worker of Dask, arrays of 128 kB or more come with fresh pages every time, which takes longer than
# to fill them.
_BLOCK_LOSSES = 12_000
_BLOCK_VALUES = 2**19

# Arrays of so many losses that a pass makes room for; 16 were too few in some fits.
_BLOCK_ARRAYS = 32


@dataclass(frozen=True, eq=False)
class Model:
    """What scores are made of, f = Σ_j c_j b_j, and the loss of a score.

    Attributes
    ----------
    loss : ClassLoss
    kernel : Kernel or None
        b_j(x) = k(x, z_j), or waves; None stands for the features themselves.
    points : ndarray of shape (n_points, n_features) or None
        The z_j.
    intercept : bool
        Whether a constant is added, as the last function.
    """

    loss: ClassLoss
    kernel: Kernel | None = None
    points: NDArray[Any] | None = None
    intercept: bool = False

    def values(self, X: NDArray[Any]) -> Floats:
        """b_j(x) for every row: shape (n_rows, n_functions), without the intercept."""
        # what came from another worker may lie at odd addresses, where products are slow
        X = np.require(X, np.float64, "A")
        return X if self.kernel is None else self.kernel.block(X, self.points, np.float64)


@dataclass(frozen=True, eq=False)
class RowWeights(Travelling):
    """What each instance weighs in several problems, by the entry of its bag.

    Attributes
    ----------
    weights : ndarray of shape (n_problems, n_classes, n_entries)
    offsets : ndarray of shape (n_problems, n_outputs)
        What is added to scores.
    """

    weights: Floats
    offsets: Floats


@dataclass(frozen=True, eq=False)
class Request:
    """Functions to be evaluated: their coefficients (columns, outputs, functions) and problems."""

    coefficients: Floats
    problem: Ints
    gradient: bool


class RowScorer:
    """Scores of rows, and gradients with respect to coefficients from those by scores."""

    def __init__(self, model: Model, offsets: Floats, request: Request) -> None:
        coef = request.coefficients
        self._model = model
        self._shape = coef.shape
        self._slopes = coef[..., :-1] if model.intercept else coef
        constant = offsets[request.problem] + (coef[..., -1] if model.intercept else 0.0)
        self._constant = constant[:, :, None]
        self.gradient = np.zeros(coef.shape)

    def scores(self, X: NDArray[Any]) -> tuple[Floats, Floats]:
        """Scores (columns, outputs, rows), and the values of the functions they are made of."""
        values = self._model.values(X)
        columns, outputs, _ = self._shape
        flat = self._slopes.reshape(columns * outputs, -1) @ values.T
        return flat.reshape(columns, outputs, -1) + self._constant, values

    def add(self, slopes: Floats, values: Floats) -> None:
        """Add what some rows give to the gradient."""
        columns, outputs, _ = self._shape
        product = slopes.reshape(columns * outputs, -1) @ values
        self.gradient[..., : values.shape[1]] += product.reshape(columns, outputs, -1)
        if self._model.intercept:
            self.gradient[..., -1] += slopes.sum(axis=-1)


def partial_risks(
    group: list[Instances], model: Model, table: RowWeights, request: Request
) -> tuple[Floats, Floats]:
    """R_c and ∇R_c of some partitions: (columns, classes), (columns, classes, outputs, functions).

    A gradient that was not requested has no entries.
    """
    coef, problem = request.coefficients, request.problem
    columns, outputs, n_functions = coef.shape
    n_classes = table.weights.shape[1]
    slopes = coef[..., :-1] if model.intercept else coef
    constant = table.offsets[problem] + (coef[..., -1] if model.intercept else 0.0)
    risks = np.zeros((columns, n_classes))
    gradient = np.zeros((columns, n_classes, outputs, n_functions * request.gradient))
    n_values = max(slopes.shape[-1], 1)
    size = max(64, min(_BLOCK_LOSSES // (columns * n_classes), _BLOCK_VALUES // n_values))
    for X, entry in _blocks(group, size):
        values = model.values(X)
        scores = (slopes.reshape(columns * outputs, -1) @ values.T).reshape(columns, outputs, -1)
        scores += constant[:, :, None]
        losses = model.loss.losses(scores)
        weights = np.take(table.weights, entry, axis=2)
        if len(weights) > 1:
            weights = weights[problem]
        risks += np.vecdot(weights, losses)
        if not request.gradient:
            continue
        pull = weights[:, :, None, :] * model.loss.slopes(scores)
        product = pull.reshape(-1, len(X)) @ values
        gradient[..., :n_values] += product.reshape(columns, n_classes, outputs, -1)
        if model.intercept:
            gradient[..., -1] += pull.sum(axis=-1)
    return risks, gradient


def _blocks(group: list[Instances], size: int) -> Iterator[tuple[NDArray[Any], Ints]]:
    """Cut X and the entries of some partitions into blocks of rows.

    In a worker of Dask free memory at the end of a heap goes back to the system at once, so that
    blocks often began with fresh pages: half the time of a pass or more. Memory that is free below
    an array in use stays; this makes some, and holds the array.
    """
    end = [np.empty(_BLOCK_LOSSES) for _ in range(_BLOCK_ARRAYS)][-1]
    for instances in group:
        yield from instances.blocks(size)
    del end


def add(parts: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Sum what partitions give."""
    risks, gradients = zip(*parts, strict=True)
    return np.sum(risks, axis=0), np.sum(gradients, axis=0)


def sum_tables(parts: list[list[Any]]) -> list[Any]:
    """Sum what partitions give, table by table."""
    return [sum(tables[1:], tables[0]) for tables in zip(*parts, strict=True)]


class DistributedData:
    """Instances in partitions, and a model whose functions of them are evaluated.

    Parameters
    ----------
    instances : Partitions
        Of lists of `Instances`.
    model : Model
    n_outputs : int
    transform : ndarray of shape (n_functions, n_coefficients), optional
        T, if what is searched and penalised are coefficients w with c = Tw.
    kept : bool
        Whether workers keep the instances between passes.

    Attributes
    ----------
    model : Delayed
        The model, where the workers are.
    """

    def __init__(
        self,
        instances: Partitions,
        model: Model,
        n_outputs: int,
        transform: Floats | None = None,
        kept: bool = True,
    ) -> None:
        self.instances = instances
        self.n_outputs = n_outputs
        self.model = share(model)
        self.kept = kept
        self._transform = transform

    def request(self, theta: Floats, problem: Ints, gradient: bool) -> Request:
        """Ask for functions of coefficients θ (columns, coefficients)."""
        coef = theta.reshape(len(theta), self.n_outputs, -1)
        T = self._transform
        return Request(coef if T is None else coef @ T.T, problem, gradient)

    def by_coefficients(self, gradient: Floats) -> Floats:
        """Turn a gradient (..., outputs, functions) into one by θ: (..., coefficients)."""
        slope = gradient if self._transform is None else gradient @ self._transform
        return slope.reshape(*slope.shape[:-2], slope.shape[-2] * slope.shape[-1])

    def reduce(self, function: Any, *shared: Any) -> list[Any]:
        """One pass over the data, whose tables are summed."""
        return self.instances.reduce(function, sum_tables, self.model, *shared)

    def sums(
        self, table: Any, theta: Floats, problem: Ints, *, gradient: bool
    ) -> tuple[Floats, Floats]:
        """R_c, and if asked for ∇R_c with respect to θ: (columns, classes, coefficients)."""
        request = self.request(theta, problem, gradient)
        risks, slope = self.instances.reduce(partial_risks, add, self.model, table, request)
        return risks, self.by_coefficients(slope) if gradient else slope.reshape(*risks.shape, 0)
