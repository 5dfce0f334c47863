"""Penalties and other numbers to choose from."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats

# Half decades from 1 to 1e-5: the paper's grid, twice as fine.
DEFAULT_ALPHAS = tuple(float(10.0 ** (-k / 2)) for k in range(11))


def check_grid(values: Any, name: str, *, zero_is_fine: bool = False) -> Floats:
    """Numbers to choose from, in rising order."""
    try:
        grid = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        grid = np.empty(0)
    fine = grid.ndim == 1 and len(grid) > 0 and np.isfinite(grid).all()
    if not fine or not (grid >= 0 if zero_is_fine else grid > 0).all():
        what = "numbers of zero or more" if zero_is_fine else "positive numbers"
        raise ValueError(f"{name} must be a list of {what}, not {values!r}.")
    return np.unique(grid)


def check_alphas(alphas: Any) -> Floats:
    """Penalties in falling order, so that of equals the strongest is chosen."""
    return check_grid(DEFAULT_ALPHAS if alphas is None else alphas, "alphas")[::-1]
