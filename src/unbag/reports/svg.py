"""Pictures as SVG inside a page: small, sharp, and in the colours of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

from unbag.reports.colours import BLUE, FAINT, GOLD, GREEN, GREY, INK, ORANGE, PURPLE
from unbag.reports.display import FIGURE_SIZE, make_axes

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
    """Draw on new axes and return an ``<svg>`` element to be put into a page.

    Parameters
    ----------
    draw : callable
        Takes axes, such as the ``plot`` of a display.
    name : str
        Put before every id, so that pictures on a page do not clash; letters and digits.
    alt : str
        What the picture shows, for those who cannot see it.
    size : (width, height)
        In inches of text of 10 points; the page scales it.
    """
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
