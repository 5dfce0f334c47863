"""Every item of the paper has code and tests, and those that are named exist."""

import ast
import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "paper_coverage.py"
PAGES = ("theory/bounds.md", "theory/unmixing-weights.md")

# The paper from front to back: a section, and words that the item's name must hold.
PAPER = [
    ("1", "loss"),
    ("2", "(IIM)"),
    ("2", "(IBM)"),
    ("2.1", "mutual contamination models"),
    ("2.1", "ℓ^κ"),
    ("2.1", "Proposition 1"),
    ("2.1", "Proposition 2"),
    ("2.2", "Ê_w"),
    ("2.2", "R^I"),
    ("2.2", "R^B"),
    ("2.2", "(SR)"),
    ("2.2", "Proposition 4, kernels"),
    ("2.2", "Proposition 4, networks"),
    ("2.2", "Theorem 5, bound under (IIM)"),
    ("2.2", "Theorem 5, bound under (IBM)"),
    ("2.2", "best weights"),
    ("3", "(CIIM)"),
    ("3", "(CIBM)"),
    ("3", "(CIBM')"),
    ("3.1", "pairs of bags"),
    ("3.1", "Algorithm 1"),
    ("3.2", ".26"),
    ("3.2", "blockwise-pairwise"),
    ("3.2", "blockwise-max"),
    ("3.2", "Ẽ"),
    ("3.2", "(LP)"),
    ("3.2", "Theorem 6"),
    ("4", "sampling"),
    ("4", "kernel width"),
    ("4", "InvCal"),
    ("4", "alter-∝SVM"),
    ("4", "Wilcoxon"),
    ("4", "Table 1"),
    ("4", "Table 2"),
    ("5", "several classes"),
    ("A", "proportion risk"),
    ("B.1", "Proposition 1"),
    ("B.2", "Ledoux-Talagrand"),
    ("B.3", "bounded difference"),
    ("B.3", "contraction lemma"),
    ("B.4", "Chernoff"),
    ("B.4", "contrasts"),
    ("B.4", "unbiased"),
    ("C", "symmetric losses"),
    ("D", "Proposition"),
    ("D", "open question"),
    ("E", "(CIBM') implies (IBM)"),
    ("F", "integer program"),
    ("F", "extremes"),
    ("G", "Theorem"),
    ("G", "conjecture"),
    ("H", "calibration"),
    ("H", "Theorem, consistency"),
    ("I", "grids"),
    ("I", "folds"),
]


def load_script():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = load_script()


@cache
def functions_in(path):
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def missing(items):
    """What the paper has and the table lacks, or what the table names and nobody has."""
    found = [
        f"{section} {words}"
        for section, words in PAPER
        if not any(item.section == section and words in item.name for item in items)
    ]
    for item in items:
        if not item.code or not item.tests:
            found.append(f"{item.name}: no code or no test")
        for name in item.code:
            module, path = name.split(":")
            thing = importlib.import_module(module)
            for part in path.split("."):
                thing = getattr(thing, part, None)
            if thing is None:
                found.append(name)
        for test in item.tests:
            path, name = test.split(":")
            if not (ROOT / "tests" / path).exists() or name not in functions_in(path):
                found.append(test)
    return found


def test_nothing_of_the_paper_is_missing():
    assert missing(coverage.ITEMS) == []


@pytest.mark.parametrize(
    "change",
    [
        {"code": ()},
        {"tests": ()},
        {"code": ("unbag.paper.bounds.merged:no_such_function",)},
        {"tests": ("bounds/test_merged.py:test_of_nothing",)},
        {"tests": ("bounds/test_no_such_file.py:test_bound",)},
        {"name": "something else"},
    ],
)
def test_what_is_missing_would_be_seen(change):
    broken = [item._replace(**change) if item.name == "(LP)" else item for item in coverage.ITEMS]
    assert len(missing(broken)) == 1


def test_page_is_up_to_date():
    assert coverage.PAGE.read_text() == coverage.page()


# --- what pages say of their statements ---------------------------------------------------------


def sections(page):
    """Headings and texts, code blocks left out."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)[1:]
    return zip(parts[::2], parts[1::2], strict=True)


@pytest.mark.parametrize("page", PAGES)
def test_statements_are_marked(page):
    """Theorem, simulation or heuristic, in every section that says more than a pointer."""
    unmarked = [
        heading
        for heading, text in sections(page)
        if len(text.split()) > 40
        and not re.search(r"\*\*(Theorem|Simulation|Heuristic)|\*\*(theorem|simul|heur)", text)
    ]
    assert unmarked == []
