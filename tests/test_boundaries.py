"""No package of ours uses what another one keeps to itself."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import unbag
from estimator_checks import all_estimators

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unbag"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# Serve all packages, though their names are private to users.
SHARED = {path.stem for path in SOURCE.glob("_[a-z]*.py")}
PRIVATE = re.compile(r"_[a-z]\w*|_[A-Z]\w*")
# What Python and scikit-learn define with such names.
NOT_OURS = {"_replace", "_asdict", "_fields", "_make", "_safe_indexing", "_estimator_type"}

# What classifiers of any package have from `unbag.models.base.BagClassifier`.
INHERITED = {"_at_prior"}


# One thing in several places: on Dask, of each library of trees, of each command, of each suite.
SAME = {"bags_from_frame", "evaluate"} | {"Booster", "read_trees", "tree_scores"}
SAME |= {"add_command", "run"} | {"Labels"}


def package_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        yield name, package_of(path), ast.parse(path.read_text(encoding="utf-8"))


def defined(tree):
    """Private names that a module gives to functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [node.attr]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        else:
            continue
        yield from (name for name in names if PRIVATE.fullmatch(name))


def used(tree):
    """Private names that a module imports from us, or reads as attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unbag"):
            yield from (alias.name for alias in node.names if PRIVATE.fullmatch(alias.name))
            parts = node.module.split(".")[1:]
            yield from (part for part in parts if PRIVATE.fullmatch(part))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from [node.attr] if PRIVATE.fullmatch(node.attr) else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # of vars(...)["_name"] and the like, or in a list of names
            yield from filter(PRIVATE.fullmatch, re.split(r"[\s:]", node.value))


def test_no_private_name_is_used_across_packages():
    """A private name that only other packages define is theirs, on any object that it is read of."""
    homes = defaultdict(set)
    for _, package, tree in modules():
        for name in defined(tree):
            homes[name].add(package)
    found = {
        (module, name)
        for module, package, tree in modules()
        for name in used(tree)
        if name not in NOT_OURS | SHARED | INHERITED and homes[name] and package not in homes[name]
    }
    assert not found


def named(node):
    """Public names that a statement of a module gives."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = [node.name]
    else:
        targets = node.targets if isinstance(node, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def test_a_name_means_one_thing():
    homes = defaultdict(set)
    for module, _, tree in modules():
        for node in tree.body:
            for name in named(node):
                homes[name].add(module)
    assert {name for name in homes if len(homes[name]) > 1} <= SAME


def test_files_are_replaced_in_one_place():
    """Rows of studies are added to a file, line by line, and never replaced."""
    syncs = {
        module
        for module, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "fsync"
    }
    assert syncs == {"_files", "paper.rows"}


def test_shared_modules_need_nothing_of_ours_but_the_words_on_what_to_install():
    for module, package, tree in modules():
        if package in SHARED:
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            own = {n.module for n in nodes if (n.module or "").startswith("unbag")}
            assert own <= ({"unbag._optional"} if module != "_optional" else set()), module


def test_folders_are_listed_in_the_order_that_is_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = contracts["importlinter"]["contracts"][0]["layers"]
    table = CONTRIBUTING.partition("## Where things are")[2].partition("## The walk")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, flags=re.MULTILINE)
    listed = re.findall(r"\w+", " ".join(rows))
    assert listed == [name for name in reversed(layers) if (SOURCE / name).is_dir()]


GUIDES = CONTRIBUTING.partition("## The walk")[2].partition("## Habits")[0]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(?!dask)((?:[a-z_]+\.)+\w+)`", GUIDES))))
def test_names_in_the_guides_are_there(name):
    parts = name.split(".")
    places = [SOURCE / Path(*parts[:n]).with_suffix(".py") for n in range(1, len(parts) + 1)]
    found = [(n, place) for n, place in enumerate(places, 1) if place.exists()]
    assert found, f"no module of ours is meant by {name}"
    for n, place in found:
        text = place.read_text(encoding="utf-8")
        assert all(re.search(rf"(def|class) {part}\b", text) for part in parts[n:])


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", GUIDES))))
def test_files_in_the_guides_are_there(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()


def test_the_library_does_not_know_its_benchmarks():
    for path in SOURCE.rglob("*.py"):
        assert "unbag_bench" not in path.read_text(encoding="utf-8"), path


def test_the_public_surface_is_small():
    found = pkgutil.walk_packages(unbag.__path__, "unbag.")
    packages = [unbag, *(import_module(one.name) for one in found if one.ispkg)]
    exported = [name for package in packages for name in getattr(package, "__all__", ())]
    assert 90 < len(exported) <= 120
    parameters = {name: len(inspect.signature(one).parameters) for name, one in all_estimators()}
    assert {name for name, number in parameters.items() if number > 17} == set()


def test_a_fit_enters_few_modules():
    script = ROOT / "scripts" / "count_modules.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert len(re.findall(r"\d+ modules", done.stdout)) == 2
