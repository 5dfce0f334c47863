"""``unbag reproduce``: finished trials are kept and shown."""

import os
import subprocess
import sys

import pytest

from unbag.cli import output
from unbag.datasets import load_magic
from unbag.paper.rows import load_rows


def test_what_is_missing_is_run_and_tables_are_shown(call, tmp_path):
    small = ["--table", "2", "--datasets", "magic", "--ranges", "0-0.5", "--bag-sizes", "32"]
    small = ["reproduce", *small, "--methods", "lmmcm,soft-label", "--jobs", "1", "-o", tmp_path]
    first = call(*small, "--trials", "1")
    assert first.returncode == 0, first.stderr
    assert first.stderr.count(": AUC ") == 2
    assert "MAGIC, proportions in [0, 0.5]" in first.stdout
    assert "(paper 0.7852)" in first.stdout
    second = call(*small, "--trials", "2")
    assert "2 of 4 trials were done before." in second.stderr
    assert second.stderr.count(": AUC ") == 2
    shown = call(*small, "--tables-only")
    assert shown.stdout == second.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"rows.jsonl", "rows.csv", "tables.md", "auc.png"}
    called = "unbag " + " ".join(map(str, small))
    assert commands_in(tmp_path) == [f"{called} --trials 1", f"{called} --trials 2"]


def test_files_are_written_though_nobody_reads_to_the_end(call, tmp_path, folder_of_tables):
    suite = ["reproduce", "--suite", "tables", "--data", folder_of_tables, "--jobs", "1"]
    suite += ["--sets", "hi low 32", "--methods", "linear,soft-label", "--trials", "1"]
    suite += ["-o", tmp_path]
    assert call(*suite).returncode == 0
    made = [tmp_path / "page.md", tmp_path / "ranks.png"]
    for path in made:
        path.unlink()
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "unbag", *suite, "--tables-only"]
    shown = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (shown.returncode, shown.stderr) == (1, b"")
    assert all(path.exists() for path in made)


def commands_in(folder):
    """Where the rows of a folder say that they come from."""
    return list(dict.fromkeys(row["command"] for row in load_rows(folder / "rows.jsonl")))


def test_a_suite_is_run_and_shown(call, tmp_path, folder_of_tables):
    sets = "hi low 32,compas high 32"
    suite = ["reproduce", "--suite", "tables", "--data", folder_of_tables, "--jobs", "1"]
    suite += ["--sets", sets, "--methods", "linear,soft-label", "-o", tmp_path]
    first = call(*suite, "--trials", "1")
    assert first.returncode == 0, first.stderr
    assert first.stderr.count(": accuracy ") == 4
    assert "## Where our default loses" in first.stdout
    second = call(*suite, "--trials", "2")
    assert "4 of 8 trials were done before." in second.stderr
    shown = call(*suite, "--tables-only")
    assert shown.stdout == second.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"rows.jsonl", "page.md", "ranks.png", "bags"}
    kept = {path.name for path in (tmp_path / "bags").iterdir()}
    draws = {f"tables-{name.replace(' ', '-')}-{s}.npz" for name in sets.split(",") for s in (0, 1)}
    assert kept == draws
    assert [command.split()[-1] for command in commands_in(tmp_path)] == ["1", "2"]


@pytest.fixture
def folder_of_tables(tmp_path_factory):
    """Two tables of real rows, as benchmarks/fetch.py would have got them."""
    magic = load_magic()
    folder = tmp_path_factory.mktemp("data")
    (folder / "tables").mkdir()
    for start, name in enumerate(("hi", "compas")):
        part = magic.frame.assign(label=1 - magic.target).iloc[start::6]
        part.reset_index(drop=True).to_parquet(folder / "tables" / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "svm"], "There is no method 'svm'"),
        (["--table", "one"], "--table takes whole numbers"),
        (["--ranges", "0..1"], "--ranges takes ranges such as"),
        (["--tables-only"], "holds no finished trial"),
        (["--suite", "tables", "--data", "nowhere", "--jobs", "1"], "fetch the data with python"),
        (
            ["--suite", "natural", "--table", "2"],
            "--table is an option of --suite paper, not of --suite natural",
        ),
        (["--kinds", "low"], "--kinds is an option of the other suites, not of --suite paper"),
        (["--suite", "images", "--data", "nowhere", "--jobs", "1"], "benchmarks/image_data.py"),
        (["--suite", "tables", "--methods", "svm"], "There is no method 'svm'"),
        (["--suite", "landscape", "--trials", "31"], "The landscape has 30 splits, not 31"),
        (["--suite", "landscape", "--kinds", "low"], "There is no kind of bags 'low'"),
        (["--suite", "landscape", "--tables-only"], "holds no finished trial"),
        (["--suite", "tables", "--dask", "ftp://cluster"], "No scheduler of Dask answers"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message, call, tmp_path):
    result = call("reproduce", *arguments, "-o", tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_missing_torch_gets_one_sentence(call, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "find_spec", lambda name: None if name == "torch" else name)
    result = call("reproduce", "--suite", "images", "-o", tmp_path)
    assert result.returncode == 1
    assert "this command needs torch; install with: pip install" in result.stderr
    assert "[torch]" in result.stderr
