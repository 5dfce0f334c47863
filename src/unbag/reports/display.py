"""What all displays share: how they print, their axes, and pictures in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from unbag._docstrings import add_sections
from unbag._files import whole_file
from unbag._optional import optional

# Up to this many bags or pairs are drawn one by one.
FEW, SOME = 30, 400

FIGURE_SIZE = (4.3, 3.2)


class Display(ABC):
    """Prints as its numbers in brief."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "frame" in vars(cls):
            add_sections(cls.frame, Display.frame)

    @abstractmethod
    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """

    def __repr__(self) -> str:
        return str(self)


class SinglePicture(Display):
    """A display of one picture."""

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


def make_axes(ax: Any) -> Any:
    """Return the given axes, or new ones in a figure of their own, apart from pyplot."""
    if ax is None:
        figure = optional("matplotlib.figure", "Drawing", "report")
        ax = figure.Figure(figsize=FIGURE_SIZE, layout="constrained").subplots()
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


def save_figure(figure: Any, path: Path) -> None:
    """Save a picture, whole or not at all, in the format that its name says."""
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:] or "png", dpi=130)
