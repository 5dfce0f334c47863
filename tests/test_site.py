"""Pages lead somewhere, in the repository and on the site; what builds the site does as it says.

``sh scripts/docs`` builds it; here is what can be checked without building.
"""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import unbag

ROOT = Path(__file__).parents[1]
MADE = {"changes.md", "contributing.md", "conduct.md", "security.md"}  # copies, by the site
DOCS = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if path.name not in MADE and not {"_build", "api", "files", "gallery"} & set(path.parts)
)
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *DOCS,
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("benchmarks/results/*.md")),
]
# of packages and of pages that the site writes, in toctrees and cards
WRITTEN = re.compile(
    r"api/\w+|reference/api/\w+|gallery/index|changes|contributing|conduct|security"
)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page):
    """The headings of a page as GitHub and the site name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        name, _, heading = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_every_page_has_its_place_on_the_site():
    placed = set()
    for page in DOCS:
        text = page.read_text(encoding="utf-8")
        for toctree in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, flags=re.M | re.S):
            lines = [line for line in toctree.splitlines() if line and not line.startswith(":")]
            places = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
            folder = page.parent.relative_to(ROOT / "docs")
            placed |= {p[1:] if p.startswith("/") else (folder / p).as_posix() for p in places}
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in DOCS} - {
        "index"
    }
    assert names - placed == set()
    assert all(WRITTEN.fullmatch(name) for name in placed - names)


def test_citation_names_the_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", text, flags=re.MULTILINE)[1] == unbag.__version__


def test_the_reference_names_each_object_by_a_path_that_leads_to_it():
    script = load(ROOT / "docs" / "_ext" / "reference_pages.py")
    assert "unbag.bags_from_frame" in script.public_names("bags")
    assert "unbag.distributed.bags_from_frame" in script.public_names("distributed")
    script.check_nothing_is_missing()


def test_links_to_the_repository_lead_to_pages_of_the_site():
    script = load(ROOT / "docs" / "_ext" / "pages_beside.py")
    page = ROOT / "docs" / "project" / "coverage.md"
    app = SimpleNamespace(env=SimpleNamespace(doc2path=lambda _: str(page)))
    source = [
        "[a](../../benchmarks/README.md#x) [b](coverage.md#y) [c](../../CHANGELOG.md#z) "
        "[d](../../tests/paper/test_weights.py)"
    ]
    script.turn_links(app, "figures", source)
    assert source == [
        "[a](/files/benchmarks/README.md#x) [b](/project/coverage.md#y) [c](/changes.md#z) "
        "[d](/files/tests/paper/test_weights.py.md)"
    ]


def test_every_option_of_a_command_is_on_its_page_or_on_that_of_shared_ones():
    script = load(ROOT / "docs" / "_ext" / "reference_pages.py")
    pages = script.command_pages()
    shared = pages["commands/options"]
    assert "``--noise" in shared
    for name in script.COMMANDS:
        for action in script._parser(name)._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert f"{option}" in pages[f"commands/{name}"] + shared, (name, option)


def test_broken_links_are_found(tmp_path):
    script = load(ROOT / "scripts" / "check_links.py")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<h1 id="here">C</h1><a href="../a.html#there">A</a>')
    (tmp_path / "a.html").write_text(
        '<p id="there"></p><a href="b/c.html#here">C</a><a href="#there">there</a>'
        '<a href="https://example.org/none">elsewhere</a><img src="none.png">'
        '<a href="b/c.html#nowhere">C</a><a href="d.html">D</a>'
    )
    assert script.broken_links(tmp_path) == [
        "a.html: none.png",
        "a.html: b/c.html#nowhere",
        "a.html: d.html",
    ]


def test_old_names_are_gone_and_new_ones_lead_somewhere():
    text = (ROOT / "docs" / "project" / "migration.md").read_text(encoding="utf-8")
    pairs = re.findall(r"^\| (.*) \| (.*) \|$", text, flags=re.MULTILINE)
    old, new = (
        {name for cell in cells for name in re.findall(r"unbag(?:\.\w+)+", cell)}
        for cells in zip(*pairs, strict=True)
    )
    assert len(old) > 30
    for name in new:
        assert find(name) is not None, name
    for name in old - new:
        assert find(name) is None, name


def find(name):
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None) or importlib.import_module(
            name
        )
    except ImportError:
        return None


def test_messages_of_the_troubleshooting_page_are_in_the_code():
    text = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)
    assert len(quoted) > 10
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    code = re.sub(r'"\s*f?"', "", code)
    for message in quoted:
        assert message in code or message.endswith("Warning"), message


def test_phrases_are_found():
    script = load(ROOT / "scripts" / "check_words.py")
    assert script.found("one\nis no\nclass, and\nthey were told") == [
        (2, "is no class"),
        (4, "told"),
    ]
    assert script.found('row["world"] and, by chance, no longer') == []
