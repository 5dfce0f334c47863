"""The command line: ``unbag``, with one command per file.

Results go to stdout, everything else (progress, remarks, warnings, errors) to stderr. The exit
code is 0 for success, 1 for bad input, 2 for a usage error, 130 if interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbag.cli.output import command_line, safe, say
from unbag.cli.parser import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code (0 success, 1 bad input, 2 usage error, 130 interrupted)."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed before the start
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115
    given = list(sys.argv[1:] if arguments is None else arguments)
    # only the command that runs is imported
    name = next((word for word in given if not word.startswith("-")), None)
    options = make_parser({name}).parse_args(given)
    options.command = command_line(given)
    from unbag.cli.options import check_outputs  # not before it is known that something is to run

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"unbag {name}: warning: {safe(str(message), one_line=True)}")

    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            check_outputs(options)
            code = int(options.run(options))
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # the reader of the output has closed it; nothing may be written there any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (ValueError, ArithmeticError, MemoryError, ImportError, OSError) as error:
            say(f"unbag {name}: error: {safe(_words(error), one_line=True)}")
            return 1
        except Exception as error:
            if not isinstance(getattr(options, "model", None), Path):
                raise
            # a forged model can fail in any way
            say(f"unbag {name}: error: {safe(_about_model(options.model, error), one_line=True)}")
            return 1
        except KeyboardInterrupt:
            say(f"unbag {name}: interrupted")
            return 130


def _about_model(path: Path, error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the model in {path} cannot be used here: {type(error).__name__} in "
        f"{Path(place.filename).name}, line {place.lineno}: {error}; the file is forged or of "
        "another version, or this is a bug, which you should report"
    )


def _words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}" if str(error) else "there is no memory left"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
