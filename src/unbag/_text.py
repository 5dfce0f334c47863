"""Words that several parts of the library use: names, numbers, lists and tables as text."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Letters in a line of what is printed.
WIDTH = 96

# Characters that turn the direction of what follows them, line separators and non-characters.
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
_BREAKING = {0x2028, 0x2029, 0xFFFE, 0xFFFF}

# Where the URL of a database has a password: before the host, or in an option.
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET = re.compile(r"([?&][^=&\s]*(?:pass|pwd|secret|token|key)[^=&\s]*=)[^&\s]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Write *** for passwords and the like in the URL of a database.

    Examples
    --------
    >>> from unbag._text import without_passwords
    >>> without_passwords("postgresql://ann:s3cr@t@host/db?sslpassword=x&mode=ro")
    'postgresql://ann:***@host/db?sslpassword=***&mode=ro'
    """
    text = _PASSWORD.sub(r"\1:***@", text)
    return _SECRET.sub(r"\1***", text)


def shown(name: Any, longest: int | None = None) -> str:
    """Write a name so that it can be shown anywhere: nothing in it is executed.

    Control characters, and those that turn the direction of writing, are written as escapes.
    HTML has to be escaped on top.
    """
    text = str(name.item() if isinstance(name, np.generic) else name)
    text = "".join(_visible(character) for character in text)
    if longest is not None and len(text) > longest:
        return text[: longest - 1] + "…"
    return text


def _visible(character: str) -> str:
    code = ord(character)
    if code in _TURNING or code in _BREAKING or unicodedata.category(character) in ("Cc", "Cs"):
        return character.encode("unicode_escape").decode("ascii")
    return character


def shown_value(value: Any) -> str:
    """Write a value for a message: in quotes, on one line, and not too long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def quoted(names: Iterable[object], link: str = ", ") -> str:
    """Names in quotes, one behind the other."""
    return link.join(map(repr, names))


def listing(names: Iterable[object], most: int = 5) -> str:
    """Name the first few, and say how many more there are."""
    words = [str(name) for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more:,} more" if more > 0 else "")


def plural(number: int, what: str, several: str | None = None) -> str:
    """Give the word for so many things: "bag", "bags"."""
    return what if number == 1 else several or f"{what}s"


def counted(number: int, what: str, several: str | None = None) -> str:
    """Write a number of things: "1 bag", "1,200 bags"."""
    return f"{whole(number)} {plural(number, what, several)}"


def whole(number: float) -> str:
    """Write a whole number with commas between thousands."""
    return f"{round(number):,}"


def rough(number: float) -> str:
    """Write a number that is known roughly: three digits are enough, and two below ten."""
    if number < 10:
        return f"{number:.2g}"
    return whole(number if number < 1000 else float(f"{number:.3g}"))


def percent(share: float, digits: int | None = 0) -> str:
    """Write a share in percent; without a number of digits, as short as it is exact."""
    return f"{100 * share:g}%" if digits is None else f"{100 * share:.{digits}f}%"


def p_text(p: float) -> str:
    """Write a p-value."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def measure_words(measure: str) -> str:
    """Name a measure in a sentence: "AUC", "balanced accuracy"."""
    return "AUC" if measure == "roc_auc" else measure.replace("_", " ")


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Break text into lines, between words; ``first`` and ``rest`` indent them."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def capital(text: str) -> str:
    """Start with a capital."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Write a remark as a sentence of its own."""
    return f"{capital(text)}."


def table_lines(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Write rows below each other, columns aligned."""
    return aligned([[shown(_cell(value)) for value in row] for row in (head, *rows)])


def aligned(rows: Sequence[Sequence[str]], side: str = "<") -> list[str]:
    """Put cells into columns, flush left or, with ``">"``, flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Write a table in Markdown, line by line."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
