"""The command line, run as a user runs it."""

import subprocess
import sys

import pytest

from unbag import __version__
from unbag.cli import main


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "unbag.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_demo_prints_estimates_beside_the_truth_and_saves_a_picture(tmp_path):
    result = run("demo", "--bag-size", "512", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    auc = next(row for row in rows if row[:1] == ["area"])
    estimate, truth, new = map(float, auc[-3:])
    assert 0.8 < new < 0.93
    assert abs(estimate - truth) < 0.1
    assert "66/66" in result.stderr
    picture = (tmp_path / "unbag-demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_version_and_help():
    assert run("--version").stdout.strip() == f"unbag {__version__}"
    shown = run("--help")
    assert shown.returncode == 0
    assert "examples:" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "the following arguments are required"),
        (["demo", "--dataset", "iris"], 2, "invalid choice"),
        (["demo", "--bag-size", "1"], 1, "bag size must lie between 2 and 1536"),
        (["demo", "--proportions", "0.2", "1.5"], 1, "proportions"),
        (["demo", "-o", "nowhere/at/all.png"], 1, "does not exist"),
    ],
)
def test_mistakes_get_one_sentence(arguments, code, message):
    result = run(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert result.stdout == ""


def test_missing_extra_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("unbag.cli.find_spec", lambda name: None if name == "pandas" else name)
    assert main(["demo"]) == 1
    assert "pip install 'unbag[demo]'" in capsys.readouterr().err


def test_reproduce_runs_what_is_missing_and_shows_tables(tmp_path):
    small = ["--table", "2", "--datasets", "magic", "--ranges", "0-0.5", "--bag-sizes", "32"]
    call = ["reproduce", *small, "--methods", "lmmcm,soft-label", "-o", str(tmp_path)]
    first = run(*call, "--trials", "1")
    assert first.returncode == 0, first.stderr
    assert "2/2" in first.stderr
    assert "MAGIC, proportions in [0, 0.5]" in first.stdout
    assert "(paper 0.7852)" in first.stdout
    second = run(*call, "--trials", "2", "--jobs", "1")
    assert "2 of 4 trials were done before." in second.stderr
    assert "2/2" in second.stderr
    shown = run(*call, "--tables-only")
    assert shown.stdout == second.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"rows", "rows.jsonl", "rows.csv", "tables.md", "auc.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "svm"], "There is no method 'svm'"),
        (["--table", "one"], "--table takes whole numbers"),
        (["--ranges", "0..1"], "--ranges takes ranges such as"),
        (["--tables-only"], "holds no finished trial"),
    ],
)
def test_mistakes_in_reproduce_get_one_sentence(arguments, message, tmp_path):
    result = run("reproduce", *arguments, "-o", str(tmp_path))
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stdout == ""
