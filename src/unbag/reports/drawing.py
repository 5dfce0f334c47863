"""Colours and markers of all pictures.

What all displays share: how they print, their axes, and pictures in files.

Pictures as SVG inside a page: small, sharp, and in the colours of the page.
"""

from __future__ import annotations

import io
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from unbag._files import whole_file
from unbag._optional import optional

# Told apart by all common kinds of colour vision (after Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GOLD = "#0072b2", "#d55e00", "#009e73", "#b5568b", "#b58900"
INK, GREY, FAINT = "#1b1f24", "#6b7280", "#c9ced6"
CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD)
MARKERS = ("o", "s", "^", "D", "v")


# Up to this many bags or pairs are drawn one by one.
FEW, SOME = 30, 400

FIGURE_SIZE = (4.3, 3.2)


class Display(ABC):
    """Prints as its numbers in brief."""

    @abstractmethod
    def frame(self) -> Any:
        """The numbers as a table."""

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


# The page says which colour each name stands for, by day and by night.
VARIABLES = {
    INK: "--ink",
    GREY: "--muted",
    FAINT: "--line",
    BLUE: "--blue",
    ORANGE: "--orange",
    GREEN: "--green",
    PURPLE: "--purple",
    GOLD: "--gold",
}

_SETTINGS = {
    # text stays text: it can be searched, read out, and takes the font of the page
    "svg.fonttype": "none",
    "svg.hashsalt": "unbag",
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font-family:[^;]*;?|font: [^;]*;?")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT_SIZE = re.compile(r"font: (?:[a-z0-9 ]* )?([\d.]+)px")


def draw_svg(
    draw: Callable[[Any], Any], *, name: str, alt: str, size: tuple[float, float] = FIGURE_SIZE
) -> str:
    """Draw on new axes and return an ``<svg>`` element to be put into a page."""
    make_axes_available()
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # the browser has the characters that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), name, alt)


def make_axes_available() -> None:
    """Raise the error that says what to install, if matplotlib is missing."""
    make_axes(None)


def _inline(text: str, name: str, alt: str) -> str:
    root = ET.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rsplit("}", 1)[-1]
        element.attrib = {
            key.rsplit("}", 1)[-1]: _value(key, value, name)
            for key, value in element.attrib.items()
        }
        if element.tag != "text" and not (element.text or "").strip():
            element.text = None
        element.tail = None if not (element.tail or "").strip() else element.tail
    _drop(root, {"metadata", "style"})
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
        "class": "picture",
    }
    return ET.tostring(root, encoding="unicode")


def _value(key: str, value: str, name: str) -> str:
    key = key.rsplit("}", 1)[-1]
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    if key == "d":
        return " ".join(_NUMBER.sub(_shorten, value).split())
    if key in ("x", "y"):
        return _NUMBER.sub(_shorten, value)
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    if key == "style":
        value = _FONT.sub(_keep_size, value)
        value = _COLOUR.sub(_variable, value.replace("#000000", INK))
    return value


def _keep_size(match: re.Match[str]) -> str:
    size = _FONT_SIZE.search(match[0])
    return f"font-size: {size[1]}px;" if size else ""


def _variable(match: re.Match[str]) -> str:
    variable = VARIABLES.get(match[0])
    return f"var({variable}, {match[0]})" if variable else match[0]


def _shorten(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}"


def _drop(parent: ET.Element, tags: set[str]) -> None:
    for child in list(parent):
        if child.tag in tags:
            parent.remove(child)
        else:
            _drop(child, tags)
