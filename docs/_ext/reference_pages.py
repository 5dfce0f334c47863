"""Reference of everything public, in the order of the flow: written by what packages export."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from docutils.parsers.rst.states import Inliner

import unbag
from unbag.cli.parser import COMMANDS, make_parser

API = Path(__file__).parents[1] / "api"
# page, title, packages and modules whose public names stand on it
PAGES: list[tuple[str, str, tuple[str, ...]]] = [
    ("bags", "Bags and targets", ("bags",)),
    ("models", "Models", ("models",)),
    ("model_selection", "Splits of whole bags", ("model_selection",)),
    ("evaluation", "Evaluation without labels", ("evaluation",)),
    ("inference", "Inference for groups", ("inference",)),
    ("reports", "Reports and displays", ("reports",)),
    (
        "tables",
        "Tables and saved models",
        (
            "tables",
            "tables.features",
            "tables.persistence",
            "tables.onnx_export",
        ),
    ),
    ("distributed", "Dask", ("distributed",)),
    ("torch", "Losses for torch", ("torch",)),
    ("datasets", "Datasets", ("datasets",)),
    ("paper", "Scott and Zhang (2020)", ("paper", "paper.bounds", "weights")),
]
# what stands above the tables of a page
ABOVE = {
    "models": ":func:`unbag.tables.make_classifier` wraps these for tables with columns of any type. "
    ":doc:`/howto/choose-a-model` says when to use which.",
    "evaluation": ":doc:`/howto/evaluate` shows how to use these.",
    "bags": "A target says which bag each row is in, and what is known of the bag.",
}
# packages that users do not call
INTERNAL = {"defaults", "observations", "terms"}
COMMAND_LINE = "cli"
# commands that have an option in the same words, from which on it stands on the page of shared ones
MANY = 3
_OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|set_output")


def public_names(module: str) -> list[str]:
    """List what a module exports, by the shortest path that leads to it."""
    home = import_module(f"unbag.{module}")
    own = [
        name
        for name, value in vars(home).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == home.__name__
    ]
    # constants last
    names = sorted(getattr(home, "__all__", own), key=str.isupper)
    at_the_top = {n: getattr(unbag, n) for n in unbag.__all__}
    return [
        f"unbag.{n}" if at_the_top.get(n) is getattr(home, n) else f"unbag.{module}.{n}"
        for n in names
    ]


def check_nothing_is_missing() -> None:
    """Every public package has its place, and every name of ``unbag`` too."""
    placed = [module for _, _, modules in PAGES for module in modules]
    packages = {m.name for m in iter_modules(unbag.__path__) if not m.name.startswith("_")}
    listed = {name for module in placed for name in public_names(module)}
    missing = (
        packages - {*placed, *INTERNAL, COMMAND_LINE}
        | {f"unbag.{n}" for n in unbag.__all__} - listed
    )
    if missing:
        raise ValueError(f"No place in the reference has {', '.join(sorted(missing))}.")


def package_page(name: str, title: str, modules: tuple[str, ...]) -> str:
    """A table of names for each module, with what it says of itself."""
    lines = [title, "=" * len(title), "", ABOVE.get(name, ""), ""]
    seen: set[str] = set()
    for module in modules:
        about = inspect.getdoc(import_module(f"unbag.{module}")) or ""
        heading = f"``unbag.{module}``"
        lines += [heading, "-" * len(heading), "", about.split("\n\n")[0], ""]
        names = [name for name in public_names(module) if name not in seen]
        seen.update(names)
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [*(f"   {name}" for name in names), ""]
    return "\n".join(lines)


def command_pages() -> dict[str, str]:
    """A page for each command, and one for the options that several share."""
    parsers = {name: _parser(name) for name in COMMANDS}
    groups = {name: [g for g in p._action_groups if _shown(g)] for name, p in parsers.items()}
    number = Counter(
        entry for own in groups.values() for entry in {e for g in own for e in _entries(g)}
    )
    pages = {
        f"commands/{name}": _command_page(name, parsers[name], groups[name], number)
        for name in COMMANDS
    }
    shared = sorted(entry for entry, times in number.items() if times >= MANY)
    title = "Options of several commands"
    pages["commands/options"] = "\n\n".join([f"{title}\n{'=' * len(title)}", *shared, ""])
    lines = ["Command line", "============", "", "``unbag COMMAND --help`` prints these pages.", ""]
    lines += [".. list-table::", "   :widths: 25 75", ""]
    for name, does in COMMANDS.items():
        lines += [f"   * - :doc:`unbag {name} <commands/{name}>`", f"     - {does}"]
    lines += [
        "",
        "Exit codes: 0 success, 1 bad input, 2 usage error, 130 interrupted; `unbag monitor` has two more.",
        "",
    ]
    lines += [
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   commands/{name}" for name in (*COMMANDS, "options")),
        "",
    ]
    return pages | {"commands": "\n".join(lines)}


def _parser(name: str) -> argparse.ArgumentParser:
    commands = make_parser({name})._subparsers._group_actions[0]  # type: ignore[union-attr]
    return commands.choices[name]  # type: ignore[index,return-value]


def _shown(group: Any) -> bool:
    return any(action.help != argparse.SUPPRESS for action in group._group_actions)


def _entries(group: Any) -> list[str]:
    """Options of a group as entries of a definition list."""
    found = []
    for action in group._group_actions:
        if action.help == argparse.SUPPRESS or action.dest == "help":
            continue
        value = "" if action.nargs == 0 else _value(action)
        names = ", ".join(action.option_strings)
        default = action.default
        note = (
            "" if default in (None, [], {}, False, argparse.SUPPRESS) else f" (default: {default})"
        )
        text = " ".join((action.help or "").split()) % vars(action)
        found.append(f"``{f'{names} {value}'.strip()}``\n    {_literal(text)}{note}")
    return found


def _value(action: Any) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return str(action.metavar)
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _literal(text: str) -> str:
    """Escape what reStructuredText takes for markup; options are literals."""
    text = re.sub(r"([*`|])|_(?=\W|$)", lambda m: "\\" + m[0], text)
    return re.sub(r"(?<![\w-])--[a-z][a-z-]*", "``\\g<0>``", text)


def _command_page(name: str, parser: Any, groups: list[Any], number: Counter[str]) -> str:
    title = f"unbag {name}"
    usage = re.sub(r"\n +", "\n    ", parser.usage)
    parts = [f"{title}\n{'=' * len(title)}", _literal(parser.description or COMMANDS[name])]
    parts.append(f".. code-block:: text\n\n   {usage}".replace("\n    ", "\n       "))
    for group in groups:
        own = [entry for entry in _entries(group) if number[entry] < MANY]
        if own:
            heading = str(group.title).capitalize()
            parts += [f"{heading}\n{'-' * len(heading)}", *own]
    entries = [entry for group in groups for entry in _entries(group)]
    common = (re.match(r"``(?:-\w, )?(--[\w-]+)", e) for e in entries if number[e] >= MANY)
    shared = [option[1] for option in common if option]
    if shared:
        named = ", ".join(f"``{option}``" for option in shared)
        parts += [
            "Shared options\n--------------",
            f":doc:`Options of several commands <options>`: {named}.",
        ]
    examples, _, code = (
        (parser.epilog or "").strip().removeprefix("examples:\n").partition("exit code: ")
    )
    block = "\n".join(f"   {line}".rstrip() for line in textwrap.dedent(examples).splitlines())
    parts.append(f"Examples\n--------\n\n.. code-block:: text\n\n{block.rstrip()}")
    parts.append(f"Exit code\n---------\n\n{_literal(' '.join(code.split()))}.")
    return "\n\n".join(parts) + "\n"


def write_pages(_: Any, config: Any) -> None:
    """Write what changed since the last time, and have autosummary look there for names."""
    check_nothing_is_missing()
    pages = {name: package_page(name, title, modules) for name, title, modules in PAGES}
    pages |= command_pages()
    (API / "commands").mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        path = API / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    config.autosummary_generate = [f"api/{name}.rst" for name in pages if "command" not in name]


def leave_out(_: Any, __: str, name: str, *___: Any) -> bool | None:
    """Skip what scikit-learn gives every estimator, and documents."""
    return True if _OF_SCIKIT_LEARN.fullmatch(name) else None


Parsed = tuple[str, list[Any], str, list[Any]]


def plain_bar(_: Any, match: re.Match[str], __: int) -> Parsed:
    """Let |x| be an absolute value, which reStructuredText takes for a substitution."""
    end = match.end("start")
    return match.string[:end], [], match.string[end:], []


def plain_underscore(_: Any, match: re.Match[str], __: int) -> Parsed:
    """Let ``coef_`` without quotes be a name, which reStructuredText takes for a link."""
    end = match.end("whole")
    return match.string[:end], [], match.string[end:], []


def setup(app: Any) -> dict[str, bool]:
    """Join the build: before autosummary looks for names."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-skip-member", leave_out)
    Inliner.dispatch |= {"|": plain_bar, "_": plain_underscore}
    return {"parallel_read_safe": True}
