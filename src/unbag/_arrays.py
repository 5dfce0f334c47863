"""The small layer under all that runs on more than one kind of array: NumPy by default, or torch.

Computations are written once, in the array API. Small numbers, one or a few per fit, live in NumPy
always; what is here moves them there and back, since on a GPU it is such moves that take the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

# Array of any namespace of the array API (NumPy, torch, ...).
Array = Any

# Arrays of NumPy, by what they hold.
Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


def on_device(array: Any, device: str | None) -> Array:
    """Bring a NumPy array to a device of torch, such as ``"cuda"``; None leaves it as it is."""
    if device is None:
        return array
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device={device!r} needs torch; install it with: pip install torch"
        ) from None
    try:
        return torch.asarray(array, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used here: {reason}") from None


def to_host(array: Array) -> NDArray[Any]:
    """Bring an array of any namespace and device to NumPy."""
    return array.cpu().numpy() if is_torch_array(array) else np.asarray(array)


def beside(numbers: NDArray[Any], like: Array) -> Array:
    """Bring NumPy numbers to where another array lives, in its type."""
    return _send(numbers, like, like.dtype)


def beside_in_double(numbers: NDArray[np.float64], like: Array) -> Array:
    """Bring NumPy numbers to where another array lives, in double precision."""
    return _send(numbers, like)


def index_beside(index: NDArray[np.intp], like: Array) -> Array:
    """Bring an index to where the array that it is for lives."""
    return _send(index, like)


def _send(array: NDArray[Any], like: Array, dtype: Any = None) -> Array:
    """Send a NumPy array to a device; one of torch is not waited for."""
    if not is_torch_array(like):
        return array_namespace(like).asarray(array, dtype=dtype, device=device(like))
    import torch

    # in the type it shall have there: to change it on the way takes another step on the device
    return torch.asarray(array, dtype=dtype).to(like.device, non_blocking=True)


class Latest:
    """What was last made for an array: a solver asks for the same columns again and again."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made_for: Any = None

    def __call__(self, key: NDArray[Any], *others: Any) -> Any:
        """Make it, unless the very same array was given last time."""
        if key is not self._made_for:
            self._made_for, self._made = key, self._make(key, *others)
        return self._made


def take(array: Array, index: Array, axis: int) -> Array:
    """Take elements along an axis, by an index that lives where the array does."""
    if is_torch_array(array):
        # the array API's way looks for negative indices first, in four more steps
        return array.index_select(axis, index)
    return array_namespace(array).take(array, index, axis=axis)


class Segments:
    """Neighbours on the last axis that belong together, such as rows of a bag; each counts once or often."""

    def __init__(
        self,
        sizes: NDArray[np.int64],
        like: Array,
        multiplicity: NDArray[np.int64] | None = None,
    ) -> None:
        self.multiplicity = (
            None if multiplicity is None else beside_in_double(multiplicity.astype(float), like)
        )
        self._sizes = index_beside(sizes, like)
        self._starts = np.cumsum(sizes) - sizes
        self._length = int(sizes.sum())
        # on a GPU, a table is summed many times as fast as segments are
        self._equal = int(sizes[0]) if (sizes == sizes[0]).all() else 0

    def sum(self, values: Array) -> Array:
        """Sum over each segment."""
        values = self.times(values)
        if isinstance(values, np.ndarray):
            return np.add.reduceat(values, self._starts, axis=-1)
        xp = array_namespace(values)
        if is_torch_array(values) and self._equal:
            return values.reshape(*values.shape[:-1], -1, self._equal).sum(-1)
        if is_torch_array(values):
            lengths = xp.broadcast_to(self._sizes, (*values.shape[:-1], len(self._starts)))
            return xp.segment_reduce(
                values, "sum", lengths=lengths.contiguous(), axis=values.ndim - 1, unsafe=True
            )
        own = self._index()[:, None] == np.arange(len(self._starts))
        return values @ xp.asarray(own.astype(float), dtype=values.dtype, device=device(values))

    def times(self, values: Array) -> Array:
        """Multiply each value by how often it counts."""
        return values if self.multiplicity is None else values * self.multiplicity

    def spread(self, values: Array) -> Array:
        """Repeat one value of each segment for all who belong to it."""
        if isinstance(values, np.ndarray):
            return np.repeat(values, self._sizes, axis=-1)
        xp = array_namespace(values)
        if is_torch_array(values) and self._equal:
            return values[..., None].expand(*values.shape, self._equal).flatten(-2).clone()
        if is_torch_array(values):
            return values.repeat_interleave(self._sizes, dim=-1, output_size=self._length)
        return xp.take(values, xp.asarray(self._index(), device=device(values)), axis=-1)

    def _index(self) -> NDArray[np.intp]:
        """The segment of each neighbour."""
        ends = self._starts + np.diff(self._starts, append=self._length)
        return np.repeat(np.arange(len(ends)), ends - self._starts)
