"""Arithmetic on columns: arrays whose first axis runs over the fits of a batch."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag.losses import Array, to_host

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]


def inner(u: Array, v: Array) -> Numbers:
    """Σ u·v per column, summed in double precision."""
    xp = array_namespace(u)
    product = xp.reshape(u * v, (u.shape[0], -1))
    return to_host(xp.sum(product, axis=1, dtype=xp.float64))


def take(array: Array, rows: Rows) -> Array:
    """Some of the columns; all of them without a copy."""
    xp = array_namespace(array)
    if len(rows) == array.shape[0]:
        return array
    return xp.take(array, xp.asarray(rows, device=device(array)), axis=0)


def put(array: Array, rows: Rows, values: Array) -> None:
    """Write some of the columns in place."""
    for here, there in enumerate(rows.tolist()):
        array[there, ...] = values[here, ...]


def factor(numbers: Numbers, like: Array) -> Array:
    """One number per column, shaped to multiply an array of columns."""
    xp = array_namespace(like)
    shape = (len(numbers),) + (1,) * (like.ndim - 1)
    return xp.asarray(numbers.reshape(shape), dtype=like.dtype, device=device(like))


def noise(values: Numbers, like: Array) -> Numbers:
    """Differences of values up to this size are rounding, for scores of the given type."""
    eps = float(array_namespace(like).finfo(like.dtype).eps)
    return eps * np.maximum(np.abs(values), 1e-3)
