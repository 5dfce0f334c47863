"""Check that every link of a built site that stays within it leads somewhere.

    python scripts/check_links.py docs/_build/html

Pages, pictures, files to download and anchors are looked for; other sites are not asked.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and where links to it may lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and anchors."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Say which page has a link that leads nowhere, and which link that is."""
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): Page(path) for path in files}
    broken = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            # pages of source link back to names by another path than the one they are shown by
            anchor = "" if "_modules" in path.parts else unquote(parts.fragment)
            known = pages[target].anchors if target in pages else {anchor}
            if not target.exists() or (anchor and anchor not in known):
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return broken


def main() -> int:
    """Print broken links; the exit code is 1 if there are any."""
    site = Path(sys.argv[1])
    found = broken_links(site)
    print(*found, sep="\n")
    n_pages = len(list(site.rglob("*.html")))
    print(f"{n_pages} pages, {len(found)} links that lead nowhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
