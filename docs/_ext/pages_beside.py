"""Pages of the repository that lie beside ``docs``: results, what changed, how to contribute.

They are read in their own places by people who look at the repository, and by their links from
there. For the site they are copied into ``docs`` (ignored by git), and links are turned round.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
# where pages of the repository stand on the site
BESIDE = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
}
# a file that is made of tables alone
TITLES = {"results/reproduce/tables": "All tables of the reproduction"}
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#|/)([^)#\s]+)")
_COMMANDS = re.compile(r"^(?:`python .*\n)+", re.MULTILINE)


def places() -> dict[Path, Path]:
    """Say where each page beside ``docs`` lies, and where on the site it goes."""
    found = {ROOT / name: DOCS / place for name, place in BESIDE.items()}
    for kind in ("*.md", "*.png", "reproduce/tables.md", "reproduce/*.png"):
        found |= {
            path: DOCS / path.relative_to(ROOT) for path in sorted(ROOT.glob(f"results/{kind}"))
        }
    return {path: place for path, place in found.items() if path.exists()}


def copy_pages(*_: Any) -> None:
    """Copy what changed since the last time."""
    for path, place in places().items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_bytes() != path.read_bytes():
            shutil.copyfile(path, place)


def fold_commands(found: re.Match[str]) -> str:
    """Give each command that made rows a line of its own, and fold them away if they are many."""
    commands = found[0].splitlines()
    listed = "  \n".join(commands)
    if len(commands) < 3:
        return f"{listed}\n"
    return f":::{{dropdown}} The {len(commands)} commands that made its rows\n{listed}\n:::\n"


def turn_links(app: Any, docname: str, source: list[str]) -> None:
    """Let links lead to where pages are on the site; other files can be downloaded."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    moved = places()
    origin = next((path for path, place in moved.items() if place == page), page)

    def turned(link: re.Match[str]) -> str:
        target = (origin.parent / link[2]).resolve()
        if target == EXAMPLES:
            return f"{link[1]}/gallery/index"
        if target.is_relative_to(EXAMPLES) and target.name.startswith("plot_"):
            return f"{link[1]}/gallery/{target.relative_to(EXAMPLES).with_suffix('')}"
        target = moved.get(target, target)
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return f"{link[1]}/{target.relative_to(DOCS)}"
        return f"{link[1]}{os.path.relpath(target, page.parent)}"

    title = f"# {TITLES[docname]}\n\n" if docname in TITLES else ""
    source[0] = title + _LINK.sub(turned, _COMMANDS.sub(fold_commands, source[0]))


def setup(app: Any) -> dict[str, bool]:
    """Join the build: before Sphinx looks which pages there are."""
    app.connect("config-inited", copy_pages)
    app.connect("source-read", turn_links)
    return {"parallel_read_safe": True}
