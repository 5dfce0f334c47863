"""The command line, run as a user runs it."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from unbag import __version__
from unbag.cli import main
from unbag.datasets import make_gaussian_bags


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "unbag.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_demo_prints_estimates_beside_the_truth_and_saves_a_picture(tmp_path):
    result = run("demo", cwd=tmp_path)
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
    page = (tmp_path / "unbag-demo.html").read_text(encoding="utf-8")
    assert "MAGIC: a classifier from proportions" in page


@pytest.fixture
def tables(tmp_path):
    """A table of people with a text column and gaps, and one of results."""
    data = make_gaussian_bags(n_bags=12, bag_size=30, random_state=0)
    people = pd.DataFrame(data.X, columns=["age", "income"])
    people.loc[::7, "income"] = np.nan
    people["colour"] = np.where(data.X[:, 0] > 0, "red", None)
    people["district"] = data.y["bag"]
    people["name"] = [f"person {i}" for i in range(len(people))]
    counts = np.bincount(data.y["bag"], data.labels).astype(int)
    results = pd.DataFrame({"district": range(12), "yes": counts, "share": counts / 30})
    people.to_csv(tmp_path / "people.csv.gz", index=False)
    results.to_parquet(tmp_path / "results.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "known", [["--positives", "yes"], ["--proportion", "share", "--noise", "0.01"]]
)
def test_report_from_two_tables(tables, known):
    result = run(
        *("report", "people.csv.gz", "results.parquet", "--bag", "district", *known),
        *("--drop", "name", "--model", "linear", "--title", "Votes", "-o", "page.html"),
        cwd=tables,
    )
    assert result.returncode == 0, result.stderr
    assert "ranks a random positive above a random negative" in result.stdout
    assert "Votes</bdi></h1>" in (tables / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["people.txt", "results.parquet"], "no table that can be read"),
        (["nobody.csv", "results.parquet"], "there is no file nobody.csv"),
        (["people.csv.gz", "damaged.parquet"], "cannot be read as parquet"),
        (["people.csv.gz", "results.parquet", "--drop", "nom"], "has no column 'nom' to drop"),
        (["people.csv.gz", "results.parquet", "-o", "no/where.html"], "no/where.html"),
    ],
)
def test_report_names_what_is_wrong(tables, arguments, message, monkeypatch, capsys):
    (tables / "damaged.parquet").write_bytes(b"PAR1 and no more")
    monkeypatch.chdir(tables)
    code = main(["report", *arguments, "--bag", "district", "--positives", "yes"])
    assert code == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


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
