"""One HTML page that needs nothing else: no network, no fonts, no scripts.

Elements are made by `_tag`, which escapes all text; pictures are images within the page.
"""

from __future__ import annotations

import html
import os
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from unbag._files import check_place, write_whole
from unbag._provenance import provenance, versions_line
from unbag._text import counted, shown
from unbag.reports.drawing import FIGURE_SIZE, draw_svg

FindingKind = Literal["plain", "good", "note", "warning"]


@dataclass(frozen=True)
class Finding:
    """A sentence or two that say what the numbers mean."""

    text: str
    kind: FindingKind = "plain"


@dataclass(frozen=True, eq=False)
class Picture:
    """Something to draw, with a caption and a text for those who cannot see it."""

    draw: Callable[[Any], Any]
    caption: str
    alt: str
    size: tuple[float, float] = FIGURE_SIZE


@dataclass(frozen=True)
class NumberTable:
    """Numbers in rows; the first column names them."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Tile:
    """One number to be seen first."""

    label: str
    value: str
    detail: str
    kind: FindingKind = "plain"


@dataclass(frozen=True, eq=False)
class Section:
    """One question about the fit, and its answer."""

    key: str
    title: str
    findings: tuple[Finding, ...]
    pictures: tuple[Picture, ...] = ()
    tables: tuple[NumberTable, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts of the findings that are warnings."""
        return tuple(finding.text for finding in self.findings if finding.kind == "warning")

    def __str__(self) -> str:
        marks = {"warning": "Warning: ", "note": "Note: "}
        lines = [marks.get(f.kind, "") + shown(f.text) for f in self.findings]
        return "\n".join([self.title, *(f"  {line}" for line in lines)])


# Nothing is loaded and nothing is run, whatever a name in the data may say.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Page:
    """Sections below a title, a few facts and numbers, and above what made the page."""

    title: str
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()
    tiles: tuple[Tile, ...] = ()
    command: str | None = None
    model: str = ""
    origin: dict[str, str] = field(default_factory=provenance)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that the page warns of."""
        return tuple(text for section in self.sections for text in section.warnings)

    def to_html(self) -> str:
        """Return one self-contained HTML page, without scripts and without links to elsewhere."""
        style = files("unbag.reports").joinpath("page.css").read_text(encoding="utf-8")
        facts = [
            _tag("div", _tag("dt", key), _tag("dd", _name(value)))
            for key, value in (*self.facts, ("Date", self.origin["date"]))
        ]
        body = [
            _tag("header", _tag("h1", _name(self.title)), _tag("dl", *facts, class_="facts")),
            _tag("ul", *map(_tile, self.tiles), class_="tiles"),
            _tag("nav", _tag("ul", *map(_link, self.sections)), aria_label="Contents"),
            *map(_section, self.sections),
            self._footer(),
        ]
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="unbag">
<link rel="icon" href="data:,">
{_tag("title", self.title)}
<style>
{style}</style>
</head>
<body>
{_tag("main", *body)}
</body>
</html>
"""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; a file of that name is replaced at once, or not at all.

        Parameters
        ----------
        path : str or path
            Name of the file.

        Returns
        -------
        path : pathlib.Path
            The path.
        """
        return write_whole(check_place(path), self.to_html())

    def _footer(self) -> _Html:
        made_by = {
            "The command": self.command,
            "The model": re.sub(r" at 0x[0-9a-f]+", "", self.model),
        }
        lines = [
            _tag("pre", _lines(text), tabindex="0", aria_label=label)
            for label, text in made_by.items()
            if text
        ]
        versions = f"{versions_line(self.origin)}; {self.origin['machine']}"
        title = _tag("h2", "How this page was made")
        return _tag("footer", title, *lines, _tag("p", versions), id="origin")

    def __str__(self) -> str:
        return "\n\n".join([shown(self.title), *map(str, self.sections)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        style = "width:100%;height:40rem;border:0"
        return _tag(
            "iframe", srcdoc=_Html(self.to_html()), sandbox="", title=self.title, style=style
        )


class _Html(str):
    """What is HTML already."""

    __slots__ = ()


def _tag(name: str, *inside: str, **attributes: str) -> _Html:
    """Write an element; text in it, and in its attributes, is escaped."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{html.escape(value if isinstance(value, _Html) else shown(value))}"'
        for key, value in attributes.items()
    )
    body = "".join(x if isinstance(x, _Html) else html.escape(shown(x)) for x in inside)
    return _Html(f"<{name}{words}>" if name == "img" else f"<{name}{words}>{body}</{name}>\n")


def _tile(tile: Tile) -> _Html:
    inside = _tag("span", tile.label), _tag("strong", tile.value), _tag("span", tile.detail)
    return _tag("li", *inside, class_=tile.kind)


def _name(text: str) -> _Html:
    """Text of the user, isolated so that its writing direction changes nothing around it."""
    return _Html(_tag("bdi", text).rstrip())


def _lines(text: str) -> _Html:
    return _Html("\n".join(html.escape(shown(line)) for line in text.split("\n")))


def _link(section: Section) -> _Html:
    """A link to a section, with the number of warnings in it."""
    n = len(section.warnings)
    mark = [_tag("span", counted(n, "warning"), class_="mark")] if n else []
    return _tag("li", _tag("a", section.title, href=f"#{section.key}"), *mark)


def _section(section: Section) -> _Html:
    words = [*map(_finding, section.findings)]
    pictures = [_tag("div", *map(_picture, section.pictures), class_="pictures")]
    tables = [_tag("div", *map(_table, section.tables), class_="tables")] if section.tables else []
    if len(section.pictures) == 1:  # beside its text, where there is room
        body = [_tag("div", _tag("div", *words, *tables), *pictures, class_="columns")]
    else:
        body = [*words, *(pictures if section.pictures else []), *tables]
    return _tag("section", _tag("h2", section.title), *body, id=section.key)


def _finding(finding: Finding) -> _Html:
    if finding.kind == "plain":
        return _tag("p", finding.text)
    label = [] if finding.kind == "good" else [_tag("b", f"{finding.kind.capitalize()}.")]
    return _tag("p", *label, finding.text, class_=f"box {finding.kind}")


def _picture(picture: Picture) -> _Html:
    svg = b64encode(draw_svg(picture.draw, picture.size).encode()).decode()
    source = f"data:image/svg+xml;base64,{svg}"
    image = _tag("img", class_="picture", alt=picture.alt, src=source)
    return _tag("figure", image, _tag("figcaption", picture.caption))


def _table(table: NumberTable) -> _Html:
    heads = [_tag("th", _name(cell), scope="col") for cell in table.header]
    rows = []
    for first, *others in table.rows:
        cells = [_tag("td", _name(cell)) for cell in others]
        rows.append(_tag("tr", _tag("th", _name(first), scope="row"), *cells))
    whole = _tag("table", _tag("thead", _tag("tr", *heads)), _tag("tbody", *rows))
    about = {"tabindex": "0", "role": "region", "aria_label": table.caption}
    scroll = _tag("div", whole, class_="scroll", **about)
    return _tag("div", _tag("p", table.caption, class_="caption"), scroll, class_="table")
