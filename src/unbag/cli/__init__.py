"""The command line: ``unbag``, with one command per file.

Results go to stdout, everything else (progress, remarks, warnings, errors) to stderr. The exit
code is 0 if all is done, 1 if data or files are at fault, 2 if the call is, 130 if interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from unbag import __version__
from unbag.cli.output import command_line, safe, say
from unbag.cli.parser import COMMANDS, Help, Parser

_EXAMPLES = """examples:
  unbag demo                           see what it does, on a data set that comes with it
  unbag inspect people.csv results.csv --bag district --positives yes_votes
  unbag fit     people.csv results.csv --bag district --positives yes_votes -o votes.unbag
  unbag predict votes.unbag everyone.parquet -o scores.parquet

'unbag COMMAND --help' explains a command and shows more examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code (0 done, 1 failed, 2 called wrongly, 130 interrupted)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(given).parse_args(given)
    options.command = command_line(given)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = int(options.run(options))
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # whoever read the output has seen enough; nothing may be written there any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (ValueError, ArithmeticError, MemoryError, ImportError, OSError) as error:
            say(f"unbag: {safe(_words(error), one_line=True)}")
            return 1
        except KeyboardInterrupt:
            say("unbag: interrupted")
            return 130


def _parser(given: Sequence[str]) -> Parser:
    """Take apart what was given; only the command that is asked for is imported."""
    parser = Parser(
        prog="unbag",
        usage="unbag COMMAND ...",
        description="Learn to classify single instances from the class proportions of bags.",
        epilog=_EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    asked = next((word for word in given if not word.startswith("-")), None)
    for name, does in COMMANDS.items():
        if name == asked:
            import_module(f"unbag.cli.{name.replace('-', '_')}").add_command(commands)
        else:
            commands.add_parser(name, help=does)
    return parser


def _words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}" if str(error) else "there is no memory left"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"unbag: warning: {safe(str(message), one_line=True)}")
