"""Where computations run: NumPy by default, torch on a named device."""

from __future__ import annotations

from typing import Any

from unbag.losses import Array


def on_device(array: Any, device: str | None) -> Array:
    """Bring a NumPy array to a device of torch, such as ``"cuda"``; None leaves it as it is."""
    if device is None:
        return array
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device={device!r} needs torch; install it with 'pip install unbag[torch]'."
        ) from None
    try:
        return torch.asarray(array, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used here: {reason}") from None
