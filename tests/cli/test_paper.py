"""``unbag paper``: finished trials are kept and shown."""

import pytest

from unbag.paper.rows import load_rows


def test_what_is_missing_is_run_and_tables_are_shown(call, tmp_path):
    small = ["--table", "2", "--datasets", "magic", "--ranges", "0-0.5", "--bag-sizes", "32"]
    small = ["paper", *small, "--methods", "lmmcm-paper,lmmcm", "--jobs", "1", "-o", tmp_path]
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
    assert names == {"rows.jsonl", "tables.md"}
    called = "unbag " + " ".join(map(str, small))
    assert commands_in(tmp_path) == [f"{called} --trials 1", f"{called} --trials 2"]


def commands_in(folder):
    """Where the rows of a folder say that they come from."""
    return list(dict.fromkeys(row["command"] for row in load_rows(folder / "rows.jsonl")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "svm"], "There is no method 'svm'"),
        (["--table", "one"], "--table takes whole numbers"),
        (["--ranges", "0..1"], "--ranges takes ranges such as"),
        (["--tables-only"], "holds no finished trial"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message, call, tmp_path):
    result = call("paper", *arguments, "-o", tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stdout == ""
