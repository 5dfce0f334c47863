"""Settings of a network, checked before anything is trained."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from torch import nn

from unbag._arrays import on_device
from unbag._checks import check_choice, check_count
from unbag.bags.bags import Bags

NeuralObjective = Literal["auto", "likelihood", "forward", "corrected", "proportion"]
NeuralPrecision = Literal["single", "double", "bf16"]

# Least value, whether it is too little itself, and what all values are below.
_RANGES: dict[str, tuple[float, bool, float]] = {
    "lr": (0, True, np.inf),
    "weight_decay": (0, False, np.inf),
    "tol": (0, False, np.inf),
    "validation_fraction": (0, False, 1),
    "averaging": (0, True, 1),
    "annealing": (0, False, 1),
    "mix": (0, False, 1),
    "vat": (0, False, np.inf),
}


# What is for the likelihood of the counts alone, and why.
_ABOUT_COUNTS = {
    "mix": "makes counts that are known up to some error",
    "annealing": "begins with counts that are known up to some error",
    "conditional": "is about counts given their sum",
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
        if name != "averaging" or value is not None:
            _check_between(value, name, low, open_below, high)
    if model.views is not None and not _is_pair(model.views):
        raise ValueError(
            f"views must be a pair of callables, weak and strong, not {model.views!r}."
        )
    if model.conditional not in (True, False, "auto"):
        raise ValueError(f"conditional must be True, False or 'auto', not {model.conditional!r}.")
    _check_callbacks(model.callbacks)
    if model.checkpoint is not None and not isinstance(model.checkpoint, str | os.PathLike):
        raise ValueError(f"checkpoint must be the path of a file, not {model.checkpoint!r}.")
    on_device(np.empty(0), model.device)


def check_extras(model: Any, bags: Bags) -> None:
    """Refuse what these bags, batches or the objective that was chosen have no room for."""
    wanted, pairs = _extras_wanted(model), model.conditional is True
    least = _fewest_rows(bags, pairs)
    if wanted and least > model.batch_size:
        raise ValueError(
            f"{wanted[0]} needs {'two' if pairs else 'whole'} bags in a batch, and the largest has "
            f"{bags.sizes.max()} rows: give batch_size={least} or more, or leave {wanted[0]} out."
        )
    for name, reason in _ABOUT_COUNTS.items():
        if getattr(model, name) not in (0, "auto") and model.objective_ != "likelihood":
            raise ValueError(
                f"{name} {reason}, of which objective={model.objective_!r} knows nothing; use "
                "objective='likelihood'."
            )


def takes_sums(model: Any, bags: Bags) -> bool:
    """Whether counts are taken given what those of a batch sum to."""
    if model.conditional != "auto":
        return bool(model.conditional)
    fits = not _extras_wanted(model) or _fewest_rows(bags, pairs=True) <= model.batch_size
    return bool(model.objective_ == "likelihood" and bags.n_classes > 2 and fits)


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


def _extras_wanted(model: Any) -> list[str]:
    return [name for name in ("mix", "vat", "views") if getattr(model, name)]


def _fewest_rows(bags: Bags, pairs: bool) -> int:
    """Rows that a batch must have room for, to hold whole bags, or pairs of them."""
    return int(bags.sizes.max()) * (2 if pairs else 1)


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


def _check_callbacks(callbacks: Any) -> None:
    listed = callbacks is None or isinstance(callbacks, tuple | list)
    if not listed or not all(map(callable, callbacks or ())):
        raise ValueError(f"callbacks must be a list of callables, not {callbacks!r}.")


def _is_pair(views: Any) -> bool:
    return isinstance(views, tuple | list) and len(views) == 2 and all(map(callable, views))


def _check_between(value: Any, name: str, low: float, open_below: bool, high: float) -> None:
    good = isinstance(value, Real) and low <= float(value) < high
    if not good or (open_below and float(value) == low):
        least = f"above {low:g}" if open_below else f"of at least {low:g}"
        raise ValueError(f"{name} must be a number {least} and below {high:g}, not {value!r}.")
