"""States of training in files, written whole or not at all."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unbag._files import whole_file


class Checkpoint:
    """A file that holds the last complete state of a fit, for one that was cut off to go on.

    Parameters
    ----------
    path : path
    fit : str
        What the fit is of, such as a digest of its data and settings: a file of another is refused.
    """

    def __init__(self, path: str | os.PathLike[str], fit: str) -> None:
        self.path, self.fit = Path(path), fit

    def write(self, state: dict[str, Any]) -> None:
        """Write a state beside its place, and move it there when it is complete."""
        with whole_file(self.path) as file:
            torch.save({"fit": self.fit, "state": state}, file)

    def read(self, device: torch.device) -> dict[str, Any] | None:
        """Read the state, or None if there is no file; nothing in the file is run."""
        if not self.path.exists():
            return None
        try:
            found = torch.load(self.path, map_location=device, weights_only=True)
            fit, state = found["fit"], found["state"]
        except Exception as error:  # torch has no one error for files that are none of its own
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self.path} is no checkpoint, or damaged ({reason}); remove it to start anew."
            ) from None
        if fit != self.fit:
            raise ValueError(
                f"{self.path} is the checkpoint of a fit to other data or with other settings; "
                "remove it to start anew, or give another path."
            )
        kept: dict[str, Any] = state
        return kept


def describe_setting(value: Any) -> str:
    """Say what a setting is, in the same words in every process: callables by their names."""
    if isinstance(value, partial):
        return describe_setting((value.func, value.args, sorted(value.keywords.items())))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(describe_setting, value))}]"
    if not callable(value) or isinstance(value, nn.Module):
        return repr(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
