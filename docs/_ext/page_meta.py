"""What search engines and language models read: a description of each page, and ``llms.txt``."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_content

LONGEST = 160
# folders of pages that are listed in llms.txt, in this order
LISTED = ("tutorials", "howto", "explanation", "theory", "reference", "api", "project")


def describe(doctree: nodes.document) -> str:
    """First paragraph of a page, cut at a word."""
    paragraphs = doctree.findall(
        lambda node: (
            isinstance(node, nodes.paragraph)
            and isinstance(node.parent, nodes.section | desc_content)
        )
    )
    text = " ".join(next((p.astext() for p in paragraphs), "").split())
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"


def add_description(_: Any, __: str, ___: str, context: dict[str, Any], doctree: Any) -> None:
    """Give each page a description, for search engines and links in chats."""
    if doctree is None:
        return
    title, described = escape(context["title"]), escape(describe(doctree))
    context["metatags"] += (
        f'<meta name="description" content="{described}">\n'
        f'<meta property="og:title" content="{title}">\n'
        f'<meta property="og:description" content="{described}">\n'
    )


def write_llms(app: Any, error: Exception | None) -> None:
    """List all pages with a line each: https://llmstxt.org."""
    if error or app.builder.name != "html":
        return
    titles = app.env.titles
    lines = [
        "# unbag",
        "",
        "> Learning from label proportions in Python: train a classifier from group totals, without "
        "individual labels, and estimate its accuracy.",
    ]
    for folder in ("", *LISTED):
        names = sorted(
            name
            for name in titles
            if name.rpartition("/")[0] == folder and "orphan" not in app.env.metadata[name]
        )
        lines += ["", f"## {folder or 'start'}", ""]
        for name in names:
            about = describe(app.env.get_doctree(name))
            lines.append(f"- [{titles[name].astext()}]({name}.html): {about}".rstrip(": "))
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Join the build."""
    app.connect("html-page-context", add_description)
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
