"""Numbers that change what users get: one file, one page, each used and with a reason."""

import ast
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "defaults_page.py"))


def test_the_page_is_that_of_the_file():
    assert SCRIPT["PAGE"].read_text(encoding="utf-8") == SCRIPT["page"]()


def test_each_has_a_reason_and_its_study_exists():
    for _, name, _, reason, study in SCRIPT["entries"]():
        assert len(reason.split()) > 5, name
        assert not study or is_known(study), study


def is_known(study):
    """Whether there is a page of it, or a line about it among the closed ones."""
    benchmarks = ROOT / "benchmarks"
    closed = (benchmarks / "HISTORY.md").read_text(encoding="utf-8")
    return (benchmarks / "results" / f"{study}.md").exists() or f"| `{study}`" in closed


def test_each_is_used():
    used = {
        alias.name
        for path in (ROOT / "src" / "unbag").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "unbag.defaults"
        for alias in node.names
    }
    assert used == {name for _, name, *_ in SCRIPT["entries"]()}
