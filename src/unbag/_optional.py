"""Packages that need not be there: what takes one says how to install it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def optional(module: str, user: str, extra: str) -> Any:
    """Import a module, or say who needs it and what to install."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{user} needs {package}; install it with: pip install 'unbag[{extra}]'"
        ) from None


def make_frame(columns: Mapping[str, Any]) -> Any:
    """Columns as a pandas DataFrame."""
    return optional("pandas", "frame()", "report").DataFrame(dict(columns))
