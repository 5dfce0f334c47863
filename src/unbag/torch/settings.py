"""Settings of a network, checked before anything is trained."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from torch import nn

from unbag._arrays import on_device
from unbag._checks import check_choice, check_count

NeuralObjective = Literal["likelihood", "forward", "proportion"]
NeuralPrecision = Literal["single", "double", "bf16"]

# Least value, whether it is too little itself, and what all values are below.
_RANGES: dict[str, tuple[float, bool, float]] = {
    "lr": (0, True, np.inf),
    "weight_decay": (0, False, np.inf),
    "tol": (0, False, np.inf),
    "validation_fraction": (0, False, 1),
    "ema_decay": (0, True, 1),
}


def check_settings(model: Any) -> None:
    """Refuse settings of a `LLPNeuralClassifier` that cannot be meant."""
    check_choice(model.objective, get_args(NeuralObjective), "objective")
    check_choice(model.precision, get_args(NeuralPrecision), "precision")
    if isinstance(model.module, str):
        check_choice(model.module, ("mlp", "two_layer"), "module")
    elif not callable(model.module):
        raise ValueError(
            "module must be 'mlp', 'two_layer', a module of torch or a callable that makes one, "
            f"not {model.module!r}."
        )
    _check_hidden(model)
    for name in ("max_epochs", "batch_size", "patience"):
        check_count(getattr(model, name), name)
    for name, (low, open_below, high) in _RANGES.items():
        value = getattr(model, name)
        if name != "ema_decay" or value is not None:
            _check_between(value, name, low, open_below, high)
    if model.condition_on_total not in (True, False, "auto"):
        raise ValueError(
            f"condition_on_total must be True, False or 'auto', not {model.condition_on_total!r}."
        )
    on_device(np.empty(0), model.device)


def conditions_on_total(model: Any, n_classes: int) -> bool:
    """Whether the counts of a batch are conditioned on their sum; refused where there are none."""
    counts = model.objective == "likelihood"
    if model.condition_on_total is True and not counts:
        raise ValueError(
            "condition_on_total=True is for the count likelihood, not for "
            f"objective={model.objective!r}; use objective='likelihood'."
        )
    if model.condition_on_total == "auto":
        return bool(counts and n_classes > 2)
    return bool(model.condition_on_total)


def check_network(network: Any) -> nn.Module:
    """Refuse what a callable made, if it is no network or has nothing to learn."""
    if not isinstance(network, nn.Module):
        raise ValueError(
            "module must make a module of torch from the shape of a row and the number of scores, "
            f"and made {network!r}."
        )
    if not any(weights.requires_grad for weights in network.parameters()):
        raise ValueError("module has no weights to learn.")
    return network


def _check_hidden(model: Any) -> None:
    """Refuse layers without units, and bounds of the paper's class that leave nothing."""
    hidden = model.hidden if isinstance(model.hidden, tuple | list) else [model.hidden]
    if not all(isinstance(units, Integral) and int(units) >= 1 for units in hidden):
        raise ValueError(
            "hidden must be a whole number of at least 1, or a tuple of such numbers, not "
            f"{model.hidden!r}."
        )
    if model.module != "two_layer":
        return
    if not hidden:
        raise ValueError("module='two_layer' has a hidden layer: hidden may not be empty.")
    bounds = model.norm_bounds
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not pair or not all(isinstance(b, Real) and 0 < float(b) < np.inf for b in bounds):
        raise ValueError(f"norm_bounds must be a pair of positive numbers, not {bounds!r}.")


def _check_between(value: Any, name: str, low: float, open_below: bool, high: float) -> None:
    good = isinstance(value, Real) and low <= float(value) < high
    if not good or (open_below and float(value) == low):
        least = f"above {low:g}" if open_below else f"of at least {low:g}"
        raise ValueError(f"{name} must be a number {least} and below {high:g}, not {value!r}.")
