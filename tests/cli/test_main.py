"""What all commands share: help, version, exit codes, and what goes where."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unbag import __version__
from unbag._optional import install_command
from unbag.cli import output
from unbag.cli.output import safe
from unbag.cli.parser import make_parser

COMMANDS = ["inspect", "fit", "predict", "export", "evaluate", "sample-labels", "demo", "example"]
COMMANDS += ["paper", "monitor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option(command, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    result = call(command, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: unbag {command} ")
    assert "examples:" in result.stdout
    assert "exit code: 0 " in result.stdout
    assert "2 usage error" in result.stdout
    parser = make_parser({command})._subparsers._group_actions[0].choices[command]
    for action in parser._actions:
        assert action.help
        for name in action.option_strings or [action.metavar]:
            assert name in result.stdout


def test_help_lists_the_commands(call):
    text = call("--help").stdout
    for command, help_text in make_parser(())._subparsers._group_actions[0].choices.items():
        assert command in text
        assert help_text


def test_version(run):
    assert run("--version").stdout.strip() == f"unbag {__version__}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["sell"], "invalid choice: 'sell'"),
        (["example", "iris"], "invalid choice: 'iris'"),
        (["fit", "a.csv", "b.csv", "-o", "m"], "required: --bag"),
        (
            ["fit", "a.csv", "b.csv", "--bag", "a", "-o", "m"],
            "--positives --proportion is required",
        ),
        (
            ["fit", "a", "b", "--bag", "a,,b", "--positives", "k", "-o", "m"],
            "names separated by commas",
        ),
        (
            ["fit", "--folds", "1", "a", "b", "--bag", "a", "--positives", "k", "-o", "m"],
            "one fold",
        ),
        (["fit", "--folds", "-1", "a", "b"], "a whole number of at least 0 is needed, not '-1'"),
        (["fit", "--types", "a=text", "a", "b"], "'a=text' is not of the form COLUMN=TYPE"),
        (
            [
                "fit",
                "a",
                "b",
                "--bag",
                "a",
                "--positives",
                "k",
                "-om",
                "--folds",
                "0",
                "--report",
                "p.html",
            ],
            "--report needs --folds",
        ),
        (
            [
                "fit",
                "a",
                "b",
                "--bag",
                "a",
                "--positives",
                "k",
                "-om",
                "--threshold-metric",
                "cost",
            ],
            "--threshold-metric cost and --costs FP FN go together",
        ),
        (["predict", "m", "new.csv"], "required: -o/--output"),
        (["predict", "m", "new.csv", "-os", "--threshold", "2"], "a number between 0 and 1"),
        (
            ["predict", "m", "new.csv", "-os", "--class-prior", "x"],
            "a number between 0 and 1 is needed",
        ),
        (
            ["predict", "m", "n.csv", "-os", "--class-prior", ".1", "--bag-totals", "b.csv"],
            "--bag-totals gives the class prior of every bag",
        ),
        (
            ["predict", "m", "n.csv", "-os", "--unmatched", "keep"],
            "--bags-query and --unmatched need --bag-totals",
        ),
        (["predict", "m", "new.csv", "-o", "-", "--json"], "would both write to stdout"),
        (["predict", "m", "new.csv", "-o", "s", "--chunk-rows", "0"], "at least 1 is needed"),
        (["inspect", "a.csv", "b.csv"], "two tables need --bag, and --positives or --proportion"),
        (["inspect", "a.csv", "--bag", "a"], "two tables are needed"),
        (["inspect", "a.csv"], "a table of rows needs one of bags"),
        (["demo", "\x1b[31mred"], r"unrecognized arguments: \x1b[31mred"),
    ],
)
def test_wrong_calls(arguments, message, call):
    result = call(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "\x1b" not in result.stderr
    assert result.stdout == ""


def test_names_cannot_command_the_terminal():
    assert safe("a\x1b[2Jb\tc\u202ed\x9b") == r"a\x1b[2Jb\tc\u202ed\x9b"
    assert safe("two\nlines") == "two\nlines"
    assert safe("two\nlines", one_line=True) == r"two\nlines"


def test_json_holds_what_python_cannot_write(capsys):
    table = {"a": np.array([1.5, np.nan]), "b": np.array(["x", "\x1b"])}
    output.show_json({"rows": output.records(table), "path": Path("p"), "n": np.int64(3)})
    found = json.loads(capsys.readouterr().out)
    rows = [{"a": 1.5, "b": "x"}, {"a": None, "b": "\x1b"}]
    assert found == {"rows": rows, "path": "p", "n": 3}


def test_warnings_and_errors_are_one_line_each(call, monkeypatch, recwarn):
    def demonstrate(*_, **__):
        import warnings

        warnings.warn("watch\x1b out", UserWarning, stacklevel=1)
        raise OSError(28, "No space left on device", "page\x1b.html")

    monkeypatch.setattr("unbag.cli.demo.demonstrate", demonstrate)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = call("demo")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        r"unbag demo: warning: watch\x1b out",
        r"unbag demo: error: page\x1b.html: No space left on device",
    ]
    assert not recwarn.list


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_or_out_of_memory(error, call, monkeypatch):
    def demonstrate(*_, **__):
        raise error

    monkeypatch.setattr("unbag.cli.demo.demonstrate", demonstrate)
    result = call("demo")
    assert result.returncode == (130 if error is KeyboardInterrupt else 1)
    assert result.stderr.count("\n") == 1


def test_missing_extra_says_what_to_install(call, monkeypatch):
    monkeypatch.setattr(output, "find_spec", lambda name: None if name == "pandas" else name)
    result = call("demo")
    assert result.returncode == 1
    assert (
        f"unbag demo: error: this command needs pandas; install with: {install_command('demo')}"
        in result.stderr
    )


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="there are no broken pipes here")
def test_a_reader_that_leaves_early(folder):
    call = [sys.executable, "-m", "unbag", "predict", "model.unbag", "visits.parquet"]
    call += ["-o", "-", "--chunk-rows", "5"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": folder}
    with subprocess.Popen(call, **options) as process:
        process.stdout.close()
        error = process.stderr.read()
    assert error == b""
    assert process.returncode == 1
