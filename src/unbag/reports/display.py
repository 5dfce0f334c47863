"""What all displays share: colours, axes, tables, and text that is safe to draw."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

# Told apart by all common kinds of colour vision (after Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GOLD = "#0072b2", "#d55e00", "#009e73", "#b5568b", "#b58900"
INK, GREY, FAINT = "#1b1f24", "#6b7280", "#c9ced6"
CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD)
MARKERS = ("o", "s", "^", "D", "v")

# Up to this many bags or pairs are drawn one by one.
FEW, SOME = 30, 400

FIGURE_SIZE = (4.3, 3.2)

# Characters that turn the direction of what follows them, line separators and non-characters.
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
_BREAKING = {0x2028, 0x2029, 0xFFFE, 0xFFFF}


class Display:
    """Prints as its numbers in brief."""

    def __repr__(self) -> str:
        return str(self)


def make_axes(ax: Any) -> Any:
    """Return the given axes, or new ones in a figure of their own, apart from pyplot."""
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                "Drawing needs matplotlib; install it with: pip install unbag[report]"
            ) from None
        ax = Figure(figsize=FIGURE_SIZE, layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def finish(ax: Any) -> Any:
    """Keep dollar signs in names from being read as formulas; return the axes."""
    from matplotlib.text import Text

    for text in ax.findobj(Text):
        text.set_parse_math(False)
    return ax


def add_legend(ax: Any, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(**{"frameon": False, "fontsize": 9, "handlelength": 1.5, **options})


def make_frame(columns: Mapping[str, Any]) -> Any:
    """Columns as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "frame() needs pandas; install it with: pip install unbag[report]"
        ) from None
    return pd.DataFrame(dict(columns))


def shown(name: Any, longest: int | None = None) -> str:
    r"""Write a name so that it can be shown anywhere: nothing in it is obeyed.

    Control characters, and those that turn the direction of writing, are written as escapes.
    HTML has to be escaped on top.

    Examples
    --------
    >>> shown("ward\t7")
    'ward\\t7'
    >>> shown("a rather long name", longest=10)
    'a rather …'
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


def percent(share: float, digits: int = 0) -> str:
    """Write a share in percent."""
    return f"{100 * share:.{digits}f}%"


def whole(number: float) -> str:
    """Write a whole number with commas between thousands."""
    return f"{round(number):,}"


def counted(number: int, what: str, plural: str | None = None) -> str:
    """Write a number of things: "1 bag", "1,200 bags"."""
    return f"{whole(number)} {what if number == 1 else plural or what + 's'}"
