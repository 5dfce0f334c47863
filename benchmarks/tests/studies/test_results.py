"""Every page of results is made of its rows, and says what they say."""

import argparse
import inspect
import re
import shlex
from collections import defaultdict
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from unbag._provenance import PACKAGES
from unbag.cli.paper import paper_tasks
from unbag.cli.parser import make_parser
from unbag.paper.experiments import METHODS, read_rows
from unbag.paper.rows import load_rows
from unbag.paper.tables import comparisons, markdown_tables
from unbag_bench import cli
from unbag_bench.cli import load_study, study_names
from unbag_bench.study import RESULTS_VARIABLE, Study, measure_task, results_folder, table
from unbag_bench.suites import reproduce

ROOT = Path(__file__).parents[3]
RESULTS = results_folder()
PAGES = sorted(path.stem for path in RESULTS.glob("*.md"))


def test_every_study_has_rows_and_a_page():
    folders = {path.parent.name for path in RESULTS.glob("*/rows.jsonl")}
    assert folders - {"reproduce"} == set(PAGES)
    assert set(PAGES) <= set(study_names())
    files = {path.name for path in RESULTS.glob("*/*") if path.parent.name != "reproduce"}
    assert files == {"rows.jsonl", "earlier.jsonl", "notes.md", "bags"}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_made_of_their_rows(name):
    study = load_study(name)
    rows = load_rows(study.folder / "rows.jsonl")
    assert study.name == name
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == study.render(rows)


@pytest.mark.parametrize("name", PAGES)
def test_rows_say_what_they_are_and_where_they_come_from(name):
    study = load_study(name)
    for row in load_rows(study.folder / "rows.jsonl"):
        assert {*study.keys, "command", "made"} <= set(row)
        assert row["command"].startswith(
            ("unbag-bench run ", "python benchmarks/", "unbag reproduce ", "commit 206f41b: ")
        )
        assert "machine " in row["made"]
        assert "numpy " in row["made"]


@pytest.mark.parametrize("name", study_names())
def test_studies_know_their_tasks(name):
    study, parser = load_study(name), argparse.ArgumentParser()
    cli.add_study(parser, study)
    required = {"images": ["fashion", "--epochs", "2"], "given_total": ["mnist"]}
    tasks = list(study.tasks(parser.parse_args(required.get(name, []))))
    assert tasks
    for task in tasks:
        assert {*study.keys} <= {*task}
        inspect.signature(study.measure).bind(**task)


def test_tables_of_the_reproduction_are_made_of_its_rows():
    folder = RESULTS / "reproduce"
    rows = read_rows(folder)
    text = "\n".join([markdown_tables(rows), *(f"- {s}" for s in comparisons(rows)), ""])
    assert (folder / "tables.md").read_text(encoding="utf-8") == text


def test_commands_of_the_reproduction_make_its_rows():
    made = defaultdict(set)
    for row in read_rows(RESULTS / "reproduce"):
        assert {*PACKAGES, "date", "machine", "python"} <= set(row)
        made[row["command"]].add(row["task"])
    for command, rows in made.items():
        # `unbag paper` was `unbag reproduce`, and took a device
        given = shlex.split(command.replace(" --device cuda", ""))[2:]
        options = make_parser({"paper"}).parse_args(["paper", *given])
        if set(options.methods.split(",")) <= METHODS.keys():
            assert {task.name for task in paper_tasks(options)} == rows, command


@pytest.mark.parametrize("page", ["REPRODUCTION", "SUITES"])
def test_commands_on_pages_are_known(page):
    text = (ROOT / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    suites = argparse.ArgumentParser()
    reproduce.add_options(suites)
    for line in block.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "unbag":
            make_parser({"paper"}).parse_args(arguments)
        else:
            assert (program, arguments[0]) == ("unbag-bench", "reproduce")
            suites.parse_args(arguments[1:])


def test_pages_that_the_library_refers_to_exist():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"benchmarks/results/(\w+)\.md", path.read_text(encoding="utf-8")))
    assert named
    assert named <= set(PAGES)


def test_pictures_belong_to_pages():
    for path in RESULTS.glob("*.png"):
        assert f"({path.name})" in (RESULTS / f"{path.stem}.md").read_text(encoding="utf-8")


# --- the machinery ------------------------------------------------------------------------------


def square(number, power):
    return {"value": number**power}


def page(rows):
    return table(["number", "value"], [[str(r["number"]), str(r["value"])] for r in rows])


SQUARES = Study(
    name="squares",
    title="Squares",
    keys=["number"],
    tasks=lambda options: [{"number": n, "power": 2} for n in range(options.up_to)],
    measure=square,
    page=page,
    options={"--up-to": {"type": int, "default": 2}},
)


@pytest.fixture
def call(monkeypatch):
    """Call the command with a study of squares."""
    monkeypatch.setattr(cli, "study_names", lambda: ["squares"])
    monkeypatch.setattr(cli, "load_study", lambda _: SQUARES)
    monkeypatch.setattr(cli, "_question", lambda _: "How large are squares?")
    return lambda *arguments: cli.main(list(map(str, arguments)))


def test_a_run_goes_on_where_it_was(call, tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    assert call("run", "squares", "-o", path) == 0
    first = path.read_text()
    call("run", "squares", "--up-to", "4", "-o", path)
    assert path.read_text().startswith(first)
    rows = load_rows(path)
    assert [(row["number"], row["value"]) for row in rows] == [(0, 0), (1, 1), (2, 4), (3, 9)]
    assert rows[3]["command"] == f"unbag-bench run squares --up-to 4 -o {path}"
    call("run", "squares", "--up-to", "4", "-o", path)
    assert load_rows(path) == rows
    assert capsys.readouterr().err.splitlines()[-1] == "2 of 2: 3"


def test_rows_carry_versions_of_packages_that_a_study_names():
    study = replace(SQUARES, packages=["joblib"])
    (row,) = measure_task(study, {"number": 3, "power": 2})
    assert row["made"].endswith(f", joblib {version('joblib')}")


def test_a_page_has_origin_notes_and_tables(call, monkeypatch, tmp_path):
    monkeypatch.setenv(RESULTS_VARIABLE, "")  # to be undone
    (tmp_path / "squares").mkdir()
    (tmp_path / "squares" / "notes.md").write_text("They grow.\n")
    call("run", "squares", "--results", tmp_path)
    call("show", "squares", "--results", tmp_path)
    (made,) = {row["made"] for row in load_rows(tmp_path / "squares" / "rows.jsonl")}
    assert (tmp_path / "squares.md").read_text() == (
        "# Squares\n\nThey grow.\n\n| number | value |\n| --- | --- |\n| 0 | 0 |\n| 1 | 1 |\n\n"
        "## Raw results\n\n`squares/rows.jsonl`, by\n\n"
        f"- `unbag-bench run squares --results {tmp_path}`: {made}\n"
    )
