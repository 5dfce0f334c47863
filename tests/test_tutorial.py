"""Tutorials and the README do what they say: they run, and print what the page shows.

Below each block of commands the page may show what they print. ``...`` stands for anything left
out, and numbers may differ in what rounding and other versions of libraries change.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from unbag.cli import main

ROOT = Path(__file__).parent.parent
NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"


def blocks(page):
    text = (ROOT / ("" if page == "README.md" else "docs") / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def differences(shown, printed):
    """Where the page shows another text or, by more than rounding, other numbers."""
    shown, printed = (" ".join(text.split()) for text in (shown, printed))
    pattern = re.escape(re.sub(NUMBER, "\0", shown)).replace("\0", f"({NUMBER})")
    found = re.fullmatch(pattern.replace(re.escape("..."), ".*?"), printed)
    if found is None:
        return [printed]
    pairs = zip(re.findall(NUMBER, shown), found.groups(), strict=True)
    values = [[float(text.replace(",", "")) for text in pair] for pair in pairs]
    return [pair for pair in values if pair[0] != pytest.approx(pair[1], rel=0.01, abs=0.005)]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("auc 0.852 of 60", "auc  0.8524\nof 60", True),
        ("auc 0.86", "auc 0.85", False),
        ("auc 0.86\n...\n", "auc 0.86 and 3 lines\nmore", True),
        ("...\nauc 0.86", "more\nauc 0.86", True),
        ("auc 0.86", "auc 0.86\nmore", False),
        ("7,200 rows", "7,300 rows", False),
        ("-1.63", "1.63", False),
        ("R000,81,24.52", "R000,81,24.62", True),
        ("R000,81,24.52", "R000,81,25.52", False),
    ],
)
def test_what_counts_as_the_same(shown, printed, same):
    assert (differences(shown, printed) == []) is same


def run_command(monkeypatch, program, *arguments):
    """Do what a line of the page says."""
    if program == "cd":
        monkeypatch.chdir(*arguments)
    elif program == "head":
        print(*Path(arguments[1]).read_text().splitlines()[: -int(arguments[0])], sep="\n")
    elif program != "pip":
        assert program == "unbag"
        remarks = io.StringIO()
        with contextlib.redirect_stderr(remarks):
            code = main(list(arguments))
        # what is wrong is part of the page; progress and remarks are not
        print(remarks.getvalue() if code else "", end="")


def run_page(page, monkeypatch):
    """Run the blocks of a page, compare what it shows; return the commands and how often."""
    names, done, printed, n_shown = {}, [], io.StringIO(), 0
    for language, block in blocks(page):
        if language == "text":
            assert differences(block, printed.getvalue()) == []
            n_shown += 1
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), threadpool_limits(1):
            if language == "python":
                exec(block, names)
                continue
            for line in map(shlex.split, block.replace("\\\n", "").splitlines()):
                run_command(monkeypatch, *line)
                done.append(line)
    return done, n_shown


def test_the_tutorial_shows_what_comes_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    done, n_shown = run_page("tutorials/files-and-noise.md", monkeypatch)
    assert n_shown == 7
    assert [line[1] for line in done if line[0] == "unbag"] == [
        *("example", "inspect", "inspect", "fit", "predict", "evaluate", "monitor")
    ]
    assert (tmp_path / "conversions" / "page.html").exists()


def test_the_first_tutorial_shows_what_comes_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done, n_shown = run_page("tutorials/first-model.md", monkeypatch)
    assert n_shown == 6
    assert done == [["pip", "install", "unbag[demo]"]]
    assert (tmp_path / "page.html").exists()


def test_the_third_tutorial_shows_what_comes_out(monkeypatch):
    done, n_shown = run_page("tutorials/when-the-check-fails.md", monkeypatch)
    assert (done, n_shown) == ([], 5)


def test_the_code_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (python,) = [block for language, block in blocks("README.md") if language == "python"]
    exec(python, {})
    assert "roc_auc" in capsys.readouterr().out
    _, commands = [block for language, block in blocks("README.md") if language == "sh"]
    for line in commands.splitlines():
        run_command(monkeypatch, *shlex.split(line, comments=True))
    assert Path("page.html").exists()
    assert Path("scores.csv").exists()
