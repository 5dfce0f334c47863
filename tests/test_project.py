"""What files around the package say agrees with the package."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="the sdist has no workflows"
)


def bounds(lines):
    """Lower bounds by the name of the package, as small letters."""
    found = (re.match(r"([\w-]+)(?:\[[\w,]+\])?(?: ?[>=]=([\w.]+))?", line) for line in lines)
    return {one[1].lower(): one[2] for one in found if one and one[2]}


def test_every_promise_on_security_names_a_test_that_exists():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"\[`(test_\w+)`\]\((tests/[\w/]+\.py)\)", text)
    assert len(named) > 25
    for name, place in named:
        assert f"def {name}(" in (ROOT / place).read_text(encoding="utf-8"), name
    # in the parts about models, no paragraph goes without one, except for advice
    parts = text.partition("## What a model")[2].partition("## Privacy")[0]
    assert all("`test_" in part for part in re.split(r"\n- ", parts)[1:])


def test_oldest_versions_are_the_lower_bounds():
    wanted = bounds(PROJECT["project"]["dependencies"])
    for name, extra in PROJECT["project"]["optional-dependencies"].items():
        if name not in ("docs", "test", "torch"):
            wanted |= bounds(extra)
    pinned = bounds((ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines())
    for name, version in wanted.items():
        assert pinned[name].startswith(version), name


def test_the_recipe_for_conda_has_the_same_bounds():
    recipe = (ROOT / "packaging" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("  run_constraints:")[0]
    listed = bounds(line.strip(" -") for line in run.splitlines())
    assert listed == bounds(PROJECT["project"]["dependencies"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=str)
def test_actions_are_pinned_by_hash(path):
    used = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)


def test_scripts_import_what_is_there():
    for path in sorted((ROOT / "scripts").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("unbag"):
                module = import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name), f"{path.name}: {node.module}.{name.name}"
