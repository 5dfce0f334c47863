"""Arithmetic on columns: arrays whose first axis runs over the fits of a batch."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from unbag.arrays import Array, beside, index_beside, take, to_host

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]


def inner(u: Array, v: Array) -> Numbers:
    """Σ u·v per column, summed in double precision."""
    return to_host(_sum_of_products(u, v))


def inners(*pairs: tuple[Array, Array]) -> Numbers:
    """Σ u·v per column for several pairs, brought here together: shape (pairs, columns)."""
    return to_host(array_namespace(pairs[0][0]).stack([_sum_of_products(u, v) for u, v in pairs]))


def _sum_of_products(u: Array, v: Array) -> Array:
    xp = array_namespace(u)
    product = xp.reshape(u * v, (u.shape[0], -1))
    return xp.sum(product, axis=1, dtype=xp.float64)


def select(array: Array, rows: Rows) -> Array:
    """Some of the columns; all of them without a copy."""
    if len(rows) == array.shape[0]:
        return array
    return take(array, index_beside(rows, array), axis=0)


def factor(numbers: Numbers, like: Array) -> Array:
    """One number per column, shaped to multiply an array of columns."""
    return beside(numbers.reshape((-1,) + (1,) * (like.ndim - 1)), like)


def noise(values: Numbers, like: Array) -> Numbers:
    """Differences of values up to this size are rounding, for scores of the given type."""
    eps = float(array_namespace(like).finfo(like.dtype).eps)
    return eps * np.maximum(np.abs(values), 1e-3)
