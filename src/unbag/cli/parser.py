"""How commands are called and helped with; light, so that a call for help is answered at once."""

from __future__ import annotations

import argparse
from collections.abc import Container
from importlib import import_module
from typing import Any, NoReturn

from unbag import __version__
from unbag.cli.output import safe

# What each command does; its module has the same name.
COMMANDS = {
    "inspect": "check two tables before fitting, or describe a model",
    "fit": "train a model from two tables, and save it",
    "predict": "predict the class and probability of each row",
    "export": "export a model to ONNX or SQL",
    "evaluate": "estimate the accuracy of a saved model on new bags, without labels",
    "groups": "estimate shares of groups, with intervals and bounds",
    "monitor": "compare a model with the totals of new bags",
    "sample-labels": "choose rows to label, for estimates without assumptions",
    "demo": "train on shipped totals, and compare with hidden labels",
    "example": "write the tables of the tutorials",
    "paper": "run the experiments of Scott and Zhang (2020)",
}

_EXAMPLES = """examples:
  unbag demo
  unbag inspect people.csv results.csv --bag district --positives yes_votes
  unbag fit     people.csv results.csv --bag district --positives yes_votes -o votes.unbag
  unbag predict votes.unbag everyone.parquet -o scores.parquet

'unbag COMMAND --help' explains a command and shows more examples.
"""

EXIT_CODE = "0 success, 1 bad input, 2 usage error, 130 interrupted"


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of examples, and shows defaults other than none."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        silent = action.default in (None, [], {}, argparse.SUPPRESS) or action.default is False
        return action.help if silent else f"{action.help} (default: %(default)s)"


class Parser(argparse.ArgumentParser):
    """Escapes what it repeats of a wrong call; what a command does not know is its own error."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse arguments that the command does not know with its own usage."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print usage and error, and exit with 2."""
        super().error(safe(message, one_line=True))


def make_parser(whole: Container[str | None]) -> Parser:
    """Put together all commands; only those that are to be whole are imported."""
    parser = Parser(
        prog="unbag",
        usage="unbag COMMAND ...",
        description="Train a classifier from group totals, without individual labels.",
        epilog=_EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, does in COMMANDS.items():
        if name in whole:
            module = import_module(f"unbag.cli.{name.replace('-', '_')}")
            module.add_command(commands)
            commands.choices[name].set_defaults(run=module.run, parser=commands.choices[name])
        else:
            commands.add_parser(name, help=does)
    return parser


def add_parser(
    commands: Any, name: str, usage: str, epilog: str, exit_code: str = EXIT_CODE, **words: str
) -> Parser:
    """Add a command with a usage of its own and examples."""
    parser: Parser = commands.add_parser(
        name,
        prog=f"unbag {name}",
        usage=f"unbag {name} {usage}",
        help=COMMANDS[name],
        formatter_class=Help,
        allow_abbrev=False,
        epilog=f"{epilog}\nexit code: {exit_code}\n",
        **words,
    )
    return parser
