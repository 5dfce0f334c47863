"""Settings of a network, checked before anything is trained."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from unbag._arrays import on_device
from unbag._checks import check_choice, check_count

NeuralObjective = Literal["auto", "likelihood", "forward", "corrected", "proportion"]
NeuralPrecision = Literal["single", "double", "bf16"]

# Least value, whether it is too little itself, and what all values are below.
_RANGES: dict[str, tuple[float, bool, float]] = {
    "lr": (0, True, np.inf),
    "weight_decay": (0, False, np.inf),
    "tol": (0, False, np.inf),
    "validation_share": (0, False, 1),
    "averaging": (0, True, 1),
    "annealing": (0, False, 1),
    "bag_effect": (0, False, np.inf),
    "mix": (0, False, 1),
    "vat": (0, False, np.inf),
}


def check_settings(model: Any) -> None:
    """Refuse settings of a `NeuralMCMClassifier` that cannot be meant."""
    check_choice(model.objective, get_args(NeuralObjective), "objective")
    check_choice(model.precision, get_args(NeuralPrecision), "precision")
    if isinstance(model.module, str):
        check_choice(model.module, ("mlp", "two_layer"), "module")
    elif not callable(model.module):
        raise ValueError(
            "module must be 'mlp', 'two_layer', a module of torch or a callable that makes one, "
            f"not {model.module!r}."
        )
    for name in ("max_epochs", "batch_size", "patience"):
        check_count(getattr(model, name), name)
    left_out = {"averaging": None, "bag_effect": "auto"}
    for name, (low, open_below, high) in _RANGES.items():
        value = getattr(model, name)
        if name not in left_out or value != left_out[name]:
            _check_between(value, name, low, open_below, high)
    if model.views is not None and not _is_pair(model.views):
        raise ValueError(
            f"views must be a pair of callables, weak and strong, not {model.views!r}."
        )
    on_device(np.empty(0), model.device)


def _is_pair(views: Any) -> bool:
    return isinstance(views, tuple | list) and len(views) == 2 and all(map(callable, views))


def _check_between(value: Any, name: str, low: float, open_below: bool, high: float) -> None:
    good = isinstance(value, Real) and low <= float(value) < high
    if not good or (open_below and float(value) == low):
        least = f"above {low:g}" if open_below else f"of at least {low:g}"
        raise ValueError(f"{name} must be a number {least} and below {high:g}, not {value!r}.")
