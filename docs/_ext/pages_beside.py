"""Pages of the repository outside ``docs``: the changelog, results of benchmarks, tests and scripts.

They are read in their own places in the repository. For the site they are copied into ``docs`` (ignored by git), and
their links are changed to lead to the same pages there. Files that pages link to are shown as pages outside the
navigation; data and pictures stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
FILES = DOCS / "files"
# where pages of the repository stand on the site
BESIDE = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
}
SHOWN = {".md": "", ".py": "python", ".cff": "yaml", ".toml": "toml", "": "text"}
ORPHAN = "---\norphan: true\n---\n\n"
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#|/)([^)#\s]+)(#[^)\s]*)?")


@cache
def places() -> dict[Path, Path]:
    """Map each page or file that is shown to its place on the site."""
    found = {ROOT / name: DOCS / place for name, place in BESIDE.items()}
    made = {FILES, DOCS / "_build", DOCS / "api", DOCS / "gallery"}
    todo = [path for path in DOCS.rglob("*.md") if not made & {*path.parents}] + [*found]
    todo = [path for path in todo if path not in found.values()]
    while todo:
        page = todo.pop()
        for target in _targets(page):
            if target in found or target.is_relative_to(DOCS) or _is_picture(target):
                continue
            if target.is_file() and target.suffix in SHOWN:
                name = target.relative_to(ROOT).as_posix()
                found[target] = FILES / (name if target.suffix == ".md" else f"{name}.md")
                todo += [target] if target.suffix == ".md" else []
    return found


def copy_pages(*_: Any) -> None:
    """Copy what changed since the last time."""
    shutil.rmtree(FILES, ignore_errors=True)
    for path, place in places().items():
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            text = f"# {path.name}\n\n````{SHOWN[path.suffix]}\n{text}````\n"
        text = (ORPHAN if place.is_relative_to(FILES) else "") + text
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def turn_links(app: Any, docname: str, source: list[str]) -> None:
    """Let links lead to where pages are on the site; other files can be downloaded."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    origin = next((path for path, place in places().items() if place == page), page)

    def turned(link: re.Match[str]) -> str:
        target, anchor = (origin.parent / link[2]).resolve(), link[3] or ""
        if target == EXAMPLES:
            return f"{link[1]}/gallery/index"
        if _is_picture(target):
            return f"{link[1]}/gallery/{target.relative_to(EXAMPLES).with_suffix('')}"
        target = places().get(target, target)
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return f"{link[1]}/{target.relative_to(DOCS)}{anchor}"
        return f"{link[1]}{os.path.relpath(target, page.parent)}{anchor}"

    if origin.suffix == ".md":
        source[0] = _LINK.sub(turned, source[0])


def _targets(page: Path) -> set[Path]:
    text = page.read_text(encoding="utf-8")
    return {(page.parent / link[2]).resolve() for link in _LINK.finditer(text)}


def _is_picture(path: Path) -> bool:
    return path.is_relative_to(EXAMPLES) and path.name.startswith("plot_")


def setup(app: Any) -> dict[str, bool]:
    """Join the build: before Sphinx looks which pages there are."""
    app.connect("config-inited", copy_pages)
    app.connect("source-read", turn_links)
    return {"parallel_read_safe": True}
