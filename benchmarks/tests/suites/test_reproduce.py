"""``unbag-bench reproduce``: finished trials are kept and shown; mistakes get one sentence."""

import pytest

from unbag.paper.rows import load_rows
from unbag_bench.cli import main

SETS = "hi low 32,compas high 32"


def reproduce(*arguments):
    return main(["reproduce", *map(str, arguments)])


def test_a_suite_is_run_and_shown(capsys, tmp_path, folder):
    suite = ["--suite", "tables", "--data", folder, "--jobs", "1", "-o", tmp_path]
    suite += ["--sets", SETS, "--methods", "mixed,soft-label"]
    assert reproduce(*suite, "--trials", "1") == 0
    first = capsys.readouterr()
    assert first.err.count(": accuracy ") == 4
    assert "loses" in first.out
    reproduce(*suite, "--trials", "2")
    second = capsys.readouterr()
    assert "4 of 8 trials were done before." in second.err
    reproduce(*suite, "--tables-only")
    assert capsys.readouterr().out == second.out
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"rows.jsonl", "page.md", "ranks.png", "bags"}
    kept = {path.name for path in (tmp_path / "bags").iterdir()}
    draws = {f"tables-{name.replace(' ', '-')}-{s}.npz" for name in SETS.split(",") for s in (0, 1)}
    assert kept == draws
    commands = dict.fromkeys(row["command"] for row in load_rows(tmp_path / "rows.jsonl"))
    assert [command.split()[-1] for command in commands] == ["1", "2"]
    assert all(command.startswith("unbag-bench reproduce ") for command in commands)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tables", "--data", "nowhere", "--jobs", "1"], "unbag-bench fetch tables"),
        (["images", "--data", "nowhere", "--jobs", "1"], "unbag-bench fetch images"),
        (["tables", "--methods", "svm"], "There is no method 'svm'"),
        (["landscape", "--trials", "31"], "The landscape has 30 splits, not 31"),
        (["landscape", "--kinds", "low"], "There is no kind of bags 'low'"),
        (["landscape", "--tables-only"], "holds no finished trial"),
        (["tables", "--dask", "ftp://cluster"], "No scheduler of Dask answers"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message, capsys, tmp_path):
    assert reproduce("--suite", *arguments, "-o", tmp_path) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("unbag-bench: error: ")
    assert printed.out == ""


def test_every_study_has_a_name_and_a_question(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line.split()) > 4 for line in lines)


def test_what_is_shown_must_be_a_study(capsys):
    assert main(["show", "nothing"]) == 1
    assert "There is no study 'nothing'; there are aggregation_tree" in capsys.readouterr().err
