"""Pages of the repository outside ``docs``: the changelog, how to contribute.

They are read in their own places in the repository. For the site they are copied into ``docs``
(ignored by git), and their links are changed to lead to the same pages there. Results of the
benchmarks are not part of the site: links to them become downloads.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES, BENCHMARKS = ROOT / "docs", ROOT / "examples", ROOT / "benchmarks"
# where pages of the repository stand on the site
BESIDE = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#|/)([^)#\s]+)(#[^)\s]*)?")


def places() -> dict[Path, Path]:
    """Map each page outside ``docs`` to its place on the site."""
    return {ROOT / name: DOCS / place for name, place in BESIDE.items() if (ROOT / name).exists()}


def copy_pages(*_: Any) -> None:
    """Copy what changed since the last time."""
    for path, place in places().items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_bytes() != path.read_bytes():
            shutil.copyfile(path, place)


def turn_links(app: Any, docname: str, source: list[str]) -> None:
    """Let links lead to where pages are on the site; other files can be downloaded."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    moved = places()
    origin = next((path for path, place in moved.items() if place == page), page)

    def turned(link: re.Match[str]) -> str:
        target, anchor = (origin.parent / link[2]).resolve(), link[3] or ""
        if target == EXAMPLES:
            return f"{link[1]}/gallery/index"
        if target.is_relative_to(EXAMPLES) and target.name.startswith("plot_"):
            return f"{link[1]}/gallery/{target.relative_to(EXAMPLES).with_suffix('')}"
        target = moved.get(target, target)
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return f"{link[1]}/{target.relative_to(DOCS)}{anchor}"
        if target.is_relative_to(BENCHMARKS) and target.suffix == ".md":
            return f"{link[1]}path:{os.path.relpath(target, page.parent)}"
        return f"{link[1]}{os.path.relpath(target, page.parent)}{anchor}"

    source[0] = _LINK.sub(turned, source[0])


def setup(app: Any) -> dict[str, bool]:
    """Join the build: before Sphinx looks which pages there are."""
    app.connect("config-inited", copy_pages)
    app.connect("source-read", turn_links)
    return {"parallel_read_safe": True}
