"""Checks of parameters that several estimators have."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Half decades from 1 to 1e-5: the paper's grid, twice as fine.
DEFAULT_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(11))


def check_positive(value: Any, name: str) -> None:
    """Refuse what is not a positive number."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number, not {value!r}.")


def check_count(value: Any, name: str) -> int:
    """Refuse what is not a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def check_alphas(alphas: Any) -> NDArray[np.float64]:
    """Penalties in falling order, so that of equals the strongest is chosen."""
    try:
        values = np.asarray(DEFAULT_ALPHAS if alphas is None else alphas, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values.min() <= 0:
        raise ValueError(f"alphas must be a list of positive numbers, not {alphas!r}.")
    return np.unique(values)[::-1]
