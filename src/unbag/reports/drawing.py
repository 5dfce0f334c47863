"""What all displays share: how they print, their colours and axes, and pictures in files."""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbag._files import whole_file
from unbag._optional import optional

# Distinct for all common kinds of colour vision (after Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GOLD = "#0072b2", "#d55e00", "#009e73", "#b5568b", "#b58900"
INK, GREY, FAINT = "#1b1f24", "#6b7280", "#c9ced6"
CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD)
MARKERS = ("o", "s", "^", "D", "v")

FIGURE_SIZE = (4.3, 3.2)


class Display(ABC):
    """A picture with its numbers; it prints as these, in brief."""

    @abstractmethod
    def frame(self) -> Any:
        """The numbers as a table."""

    def plot(self, ax: Any = None) -> Any:
        """Draw it, and return the axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        ax : matplotlib Axes
            What was drawn on.
        """
        ax = make_axes(ax)
        self._draw(ax)
        return finish(ax)

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on these axes."""

    def __repr__(self) -> str:
        return str(self)


def make_axes(ax: Any) -> Any:
    """Return the given axes, or new ones in a figure of their own, apart from pyplot."""
    if ax is None:
        ax = make_figure(FIGURE_SIZE).subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def make_figure(size: tuple[float, float]) -> Any:
    """Return a new figure, apart from pyplot, or say what to install."""
    figure = optional("matplotlib.figure", "Drawing", "report")
    return figure.Figure(figsize=size, layout="constrained")


def finish(ax: Any) -> Any:
    """Keep dollar signs in names from being read as formulas; return the axes."""
    from matplotlib.text import Text

    for text in ax.findobj(Text):
        text.set_parse_math(False)
    return ax


def add_legend(ax: Any, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(**{"frameon": False, "fontsize": 9, "handlelength": 1.5, **options})


def add_legend_above(ax: Any, **options: Any) -> None:
    """Add one above the axes, in a line."""
    add_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0, **options)


def save_figure(figure: Any, path: Path) -> None:
    """Save a picture, whole or not at all, in the format that its name says."""
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:] or "png", dpi=130)


_SETTINGS = {
    # text stays text, which is small
    "svg.fonttype": "none",
    "svg.hashsalt": "unbag",
    "text.color": INK,
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), GREY),
    **dict.fromkeys(("axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
}


def draw_svg(draw: Callable[[Any], Any], size: tuple[float, float] = FIGURE_SIZE) -> str:
    """Draw on new axes, as the ``plot`` of a display does, and return the picture as SVG."""
    style = optional("matplotlib.style", "Drawing", "report")
    with style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # the browser has the characters that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure = make_figure(size)
        draw(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
