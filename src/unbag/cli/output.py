"""What a command prints: results to stdout, remarks to stderr, all of it safe for a terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from unbag.reports.display import shown


def safe(text: str, *, one_line: bool = False) -> str:
    r"""Write control characters as escapes, so that a terminal obeys nothing in a name.

    Examples
    --------
    >>> from unbag.cli.output import safe
    >>> print(safe("column \x1b[31mred\n and more"))
    column \x1b[31mred
     and more
    """
    return shown(text) if one_line else "\n".join(map(shown, text.split("\n")))


def show(text: str) -> None:
    """Print a result."""
    print(safe(text))


def say(text: str) -> None:
    """Print a remark."""
    print(safe(text), file=sys.stderr, flush=True)


def show_json(content: Mapping[str, Any]) -> None:
    """Print a result as one JSON object; what is not finite becomes null."""
    print(json.dumps(plain(content), indent=1, allow_nan=False))


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


def table_lines(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Write rows below each other, columns aligned."""
    cells = [[safe(_cell(value), one_line=True) for value in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def counted(number: int, what: str) -> str:
    """Write a number of things: "1 row", "1,200 rows"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def sentence(text: str) -> str:
    """Write a remark as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def need(*modules: str, extra: str) -> None:
    """Say what to install if a module is missing."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"this command needs {' and '.join(missing)}; install with: "
            f"pip install 'unbag[{extra}]'"
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file in an error of the system, which names a draft of it or nothing."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
