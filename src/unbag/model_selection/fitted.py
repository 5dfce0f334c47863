"""What can be asked of any fitted model, alone or at the end of a pipeline."""

from __future__ import annotations

from typing import Any


def last_step(model: Any) -> Any:
    """Give the model at the end of a pipeline, or the model itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def check_gives_chances(model: Any) -> None:
    """Refuse a model without probabilities."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"{type(model).__name__} gives no probabilities to hold counts against.")
