"""``unbag completion``: what makes a shell complete commands and options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from unbag._optional import optional
from unbag.cli.options import file_place, page_place
from unbag.cli.parser import COMMANDS, add_parser, make_parser

SHELLS = ("bash", "zsh", "fish", "tcsh")

_EXAMPLES = """examples:
  unbag completion bash > ~/.local/share/bash-completion/completions/unbag
  unbag completion zsh > "${fpath[1]}/_unbag"
  unbag completion fish > ~/.config/fish/completions/unbag.fish
"""


def add_command(commands: Any) -> None:
    """Add ``unbag completion``."""
    parser = add_parser(
        commands,
        "completion",
        "SHELL",
        description="Print a script by which a shell completes the commands, options and files of "
        "unbag. Keep it where\nyour shell looks for such scripts, and open a new shell.",
        epilog=_EXAMPLES,
        exit_code="0 success, 1 shtab is missing, 2 usage error",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    shtab = optional("shtab", "unbag completion", "completion")
    parser = make_parser(COMMANDS)
    _name_files(parser, shtab.FILE)
    print(shtab.complete(parser, options.shell))
    return 0


def _name_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Complete names of files where one is meant: by all arguments, and by options of paths."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _name_files(command, files)
        elif action.choices is None and (
            action.type in (Path, file_place, page_place) or not action.option_strings
        ):
            action.complete = files  # type: ignore[attr-defined]
