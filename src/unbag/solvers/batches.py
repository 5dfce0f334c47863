"""Arithmetic on columns: arrays whose first axis runs over the fits of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

from unbag._arrays import Array, Floats, Ints, beside, index_beside, stacked_product, take

Numbers = Floats


def inner(u: Array, v: Array) -> Array:
    """Σ u·v per column, summed in double precision, where the columns are."""
    xp = array_namespace(u)
    return xp.sum(xp.reshape(u * v, (u.shape[0], -1)), axis=1, dtype=xp.float64)


def inners(several: list[Array], v: Array) -> Array:
    """Σ u·v per column for several u, in the precision they have: shape (columns, several)."""
    return stacked_product(array_namespace(v).stack(several, axis=1), v[:, :, None])[:, :, 0]


def selection(rows: Ints, like: Array) -> Callable[[Array], Array]:
    """How to take some of the columns of any array, here or there; their index is sent once."""
    index = index_beside(rows, like)
    return lambda array: take(array, rows if is_numpy_array(array) else index, axis=0)


def factor(numbers: Numbers, like: Array) -> Array:
    """One number per column, shaped to multiply an array of columns."""
    return beside(numbers.reshape((-1,) + (1,) * (like.ndim - 1)), like)


def stretch(length: Numbers, direction: Array) -> Array:
    """Steps of some length, where no length is no step even if the direction is not finite."""
    if (length == 1).all():
        return direction
    xp, step = array_namespace(direction), factor(length, direction)
    moved = step * direction
    return moved if (length > 0).all() else xp.where(step > 0, moved, xp.zeros_like(moved))


def noise(values: Numbers, like: Array) -> Numbers:
    """Differences of values up to this size are rounding, for scores of the given type."""
    eps = float(array_namespace(like).finfo(like.dtype).eps)
    return eps * np.maximum(np.abs(values), 1e-3)
