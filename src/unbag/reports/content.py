"""What a report is made of, before it becomes a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from unbag._text import shown
from unbag.reports.display import FIGURE_SIZE

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
