"""What a command prints: results to stdout, remarks to stderr, all of it safe for a terminal."""

from __future__ import annotations

import json
import math
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from unbag._optional import install_command
from unbag._text import shown, without_passwords


def safe(text: str, *, one_line: bool = False) -> str:
    """Write control characters as escapes, so that a terminal executes nothing in a name."""
    return shown(text) if one_line else "\n".join(map(shown, text.split("\n")))


def command_line(arguments: Sequence[str]) -> str:
    """Return a command as it was called, without passwords in URLs of databases."""
    return "unbag " + shlex.join(map(without_passwords, arguments))


def show(text: str) -> None:
    """Print a result; what the console cannot show is written as an escape."""
    code = sys.stdout.encoding or "utf-8"
    print(safe(text).encode(code, "backslashreplace").decode(code))


def say(*remarks: str) -> None:
    """Print remarks, a line for each."""
    for text in remarks:
        print(safe(text), file=sys.stderr, flush=True)


def show_json(content: Mapping[str, Any]) -> None:
    """Print a result as one JSON object; what is not finite becomes null."""
    print(json.dumps(plain(content), indent=1, allow_nan=False))


def show_result(options: Namespace, text: str, content: Mapping[str, Any]) -> None:
    """Print a result as text, or with --json as an object."""
    if options.json:
        show_json(content)
    else:
        show(text)


def save_page(page: Any, options: Namespace) -> None:
    """Save a page and say where."""
    page.save(options.report)
    say(f"Page:  {options.report}")


def plain(value: Any) -> Any:
    """Turn arrays, tuples and NumPy's numbers into what JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def records(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn columns into rows."""
    rows = zip(*(plain(column) for column in table.values()), strict=True)
    return [dict(zip(table, row, strict=True)) for row in rows]


def need(*modules: str, extra: str) -> None:
    """Say what to install if a module is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"this command needs {' and '.join(missing)}; install with: {install_command(extra)}"
        )
