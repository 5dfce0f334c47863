"""One HTML page that needs nothing else: no network, no fonts, no scripts.

All text passes through `_text` or `_name`, which escape it; pictures are images within the page.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

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


@dataclass(frozen=True)
class Origin:
    """What a page was made by."""

    command: str | None
    model: str
    versions: str


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
_LABELS = {"warning": "Warning", "note": "Note", "good": "Good"}


def make_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    tiles: Sequence[Tile],
    sections: Sequence[Section],
    origin: Origin,
) -> str:
    """Put a report on a page."""
    style = files("unbag.reports").joinpath("page.css").read_text(encoding="utf-8")
    parts = [_header(title, facts), _tiles(tiles), _overview(sections), *map(_section, sections)]
    body = "\n".join([*parts, _origin(origin)])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="unbag">
<link rel="icon" href="data:,">
<title>{_text(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _text(text: str) -> str:
    return html.escape(shown(text))


def _name(text: str) -> str:
    """Text of the user, isolated so that its writing direction changes nothing around it."""
    return f"<bdi>{_text(text)}</bdi>"


def _header(title: str, facts: Sequence[tuple[str, str]]) -> str:
    entries = "".join(f"<div><dt>{_text(k)}</dt><dd>{_name(v)}</dd></div>" for k, v in facts)
    return f'<header>\n<h1>{_name(title)}</h1>\n<dl class="facts">{entries}</dl>\n</header>'


def _tiles(tiles: Sequence[Tile]) -> str:
    boxes = "".join(
        f'<li class="{tile.kind}"><span class="label">{_text(tile.label)}</span>'
        f'<strong>{_text(tile.value)}</strong><span class="detail">{_text(tile.detail)}</span></li>'
        for tile in tiles
    )
    return f'<ul class="tiles">{boxes}</ul>'


def _overview(sections: Sequence[Section]) -> str:
    """Links to all sections, with the number of warnings in each."""
    links = []
    for section in sections:
        n = len(section.warnings)
        mark = f' <span class="mark">{_text(counted(n, "warning"))}</span>' if n else ""
        links.append(f'<li><a href="#{section.key}">{_text(section.title)}</a>{mark}</li>')
    return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'


def _section(section: Section) -> str:
    words = "\n".join(map(_finding, section.findings))
    pictures = "".join(map(_picture, section.pictures))
    evidence = f'<div class="pictures">{pictures}</div>' if pictures else ""
    tables = "".join(_table(table) for table in section.tables)
    facts = f'<div class="tables">{tables}</div>' if tables else ""
    # a single picture and its text are two columns, where there is room
    one = len(section.pictures) == 1
    body = (
        f'<div class="columns"><div>{words}\n{facts}</div>\n{evidence}</div>'
        if one
        else f"{words}\n{evidence}\n{facts}"
    )
    return f'<section id="{section.key}">\n<h2>{_text(section.title)}</h2>\n{body}\n</section>'


def _finding(finding: Finding) -> str:
    if finding.kind == "plain":
        return f"<p>{_text(finding.text)}</p>"
    role = ' role="note"' if finding.kind == "warning" else ""
    label = _LABELS[finding.kind]
    return f'<p class="box {finding.kind}"{role}><b>{label}.</b> {_text(finding.text)}</p>'


def _picture(picture: Picture) -> str:
    svg = b64encode(draw_svg(picture.draw, picture.size).encode()).decode()
    return (
        f'<figure><img class="picture" alt="{_text(picture.alt)}" '
        f'src="data:image/svg+xml;base64,{svg}">'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _table(table: NumberTable) -> str:
    head = "".join(f'<th scope="col">{_name(cell)}</th>' for cell in table.header)
    rows = "".join(
        f'<tr><th scope="row">{_name(row[0])}</th>'
        + "".join(f"<td>{_name(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    caption = _text(table.caption)
    return (
        f'<div class="table"><p class="caption">{caption}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table aria-label="{caption}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></div>"
    )


def _origin(origin: Origin) -> str:
    model = re.sub(r" at 0x[0-9a-f]+", "", origin.model)
    command = "" if origin.command is None else _lines(origin.command, "The command")
    return (
        f'<footer id="origin">\n<h2>How this page was made</h2>\n{command}'
        f"{_lines(model, 'The model')}<p>{_text(origin.versions)}</p>\n</footer>"
    )


def _lines(text: str, label: str) -> str:
    lines = "\n".join(_text(line) for line in text.split("\n"))
    return f'<pre tabindex="0" aria-label="{label}">{lines}</pre>\n'
