"""Examples of the pages run, and give what the pages show."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SHOWN = [
    str(page.relative_to(DOCS))
    for page in sorted(DOCS.rglob("*.md"))
    if ">>> " in page.read_text("utf-8")
]


@pytest.mark.parametrize("page", SHOWN)
def test_examples_give_what_the_page_shows(page):
    found = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    "page",
    [
        "howto/export.md",
        "howto/groupings.md",
        "howto/hidden-counts.md",
        "howto/warehouse.md",
        "explanation/published-methods.md",
    ],
)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = (DOCS / page).read_text("utf-8"), {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert names
