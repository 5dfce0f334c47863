"""Packages that need not be there: what takes one says how to install it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any


def install_command(extra: str) -> str:
    """Name the command that installs an extra, from where this package itself came."""
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").exists():
        return f"pip install -e '{clone}[{extra}]'"
    try:
        origin = json.loads(distribution("unbag").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    if "url" not in origin:
        return f"pip install 'unbag[{extra}]'"
    scheme = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f"pip install 'unbag[{extra}] @ {scheme}{origin['url']}'"


def optional(module: str, user: str, extra: str) -> Any:
    """Import a module, or say who needs it and what to install."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{user} needs {package}; install it with: {install_command(extra)}"
        ) from None


@contextmanager
def hidden(*modules: str) -> Iterator[None]:
    """Let modules that are not imported yet look as if they were not installed."""
    unseen = {name for name in modules if name not in sys.modules}
    sys.modules.update(dict.fromkeys(unseen))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in unseen:
            del sys.modules[name]


def make_frame(columns: Mapping[str, Any]) -> Any:
    """Columns as a pandas DataFrame."""
    return optional("pandas", "frame()", "report").DataFrame(dict(columns))
