"""Refusals of numbers and names that a parameter cannot take, each in one sentence."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number, of at least so many."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def check_number(value: Any, name: str) -> float:
    """A finite number."""
    if not isinstance(value, Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number, not {value!r}.")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """A finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number, not {value!r}.")
    return float(value)


def check_nonnegative(value: Any, name: str) -> float:
    """A finite number of at least 0."""
    if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}.")
    return float(value)


def check_inside(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not be {value!r}.")
    return float(value)


def check_share(value: Any, name: str) -> float:
    """A number between 0 and 1, either end included."""
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must lie in [0, 1], not be {value!r}.")
    return float(value)


def check_choice(value: Any, choices: Collection[str], name: str) -> None:
    """One of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")


def check_grid(values: Any, name: str, *, zero_is_fine: bool = False) -> NDArray[np.float64]:
    """A list of positive numbers, or of numbers of zero or more, in rising order."""
    try:
        grid = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        grid = np.empty(0)
    fine = grid.ndim == 1 and len(grid) > 0 and np.isfinite(grid).all()
    if not fine or not (grid >= 0 if zero_is_fine else grid > 0).all():
        what = "numbers of zero or more" if zero_is_fine else "positive numbers"
        raise ValueError(f"{name} must be a list of {what}, not {values!r}.")
    return np.unique(grid)


def check_one_each(values: NDArray[Any], n: int, name: str, of: str, what: str = "number") -> None:
    """A row of values, one for each of so many things."""
    if values.shape != (n,):
        raise ValueError(
            f"{name} must hold one {what} for each of the {n} {of}; its shape is {values.shape}."
        )
