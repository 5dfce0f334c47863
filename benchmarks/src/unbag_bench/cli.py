"""The command ``unbag-bench``: run studies and suites, and write their pages."""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from unbag_bench.study import RESULTS_VARIABLE, Study, results_folder
from unbag_bench.suites import reproduce

_STUDIES = Path(__file__).parent / "studies"
_SOURCES = ("tables", "images", "classes")


def study_names() -> list[str]:
    """Names of all studies."""
    return sorted(
        path.stem for path in _STUDIES.glob("*.py") if "\nSTUDY = Study(" in path.read_text("utf-8")
    )


def load_study(name: str) -> Study:
    """Import a study by its name."""
    if name not in study_names():
        raise ValueError(f"There is no study {name!r}; there are {', '.join(study_names())}.")
    study: Study = import_module(f"unbag_bench.studies.{name}").STUDY
    return study


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code (0 done, 1 failed, 130 interrupted)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        "unbag-bench", description="Run benchmarks of unbag, and write their pages."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    results = argparse.ArgumentParser(add_help=False)
    results.add_argument(
        "--results", type=Path, metavar="FOLDER", help="of rows and pages (benchmarks/results)"
    )
    listing = commands.add_parser("list", help="name the studies, and what each measures")
    listing.set_defaults(do=_list)
    run = commands.add_parser("run", help="add the rows that a study lacks")
    run.set_defaults(do=_run)
    studies = run.add_subparsers(required=True, metavar="NAME", dest="name")
    for name in study_names() if given[:1] == ["run"] else []:
        study = studies.add_parser(name, help=_question(name).replace("%", "%%"), parents=[results])
        if [name] == given[1:2]:  # only what is asked for is imported
            add_study(study, load_study(name))
    show = commands.add_parser("show", parents=[results], help="write pages from their rows")
    show.add_argument("names", nargs="*", metavar="NAME")
    show.add_argument("--all", action="store_true", help="every study")
    show.set_defaults(do=_show)
    suites = commands.add_parser("reproduce", help="run a suite of many methods on many bag sets")
    reproduce.add_options(suites)
    suites.set_defaults(do=reproduce.run)
    fetch = commands.add_parser("fetch", help="download the data of others")
    fetch.add_argument("sources", nargs="*", metavar="SOURCE", help=", ".join(_SOURCES))
    fetch.add_argument("--to", type=Path, metavar="FOLDER", help="(benchmarks/data)")
    fetch.set_defaults(do=_fetch)
    options = parser.parse_args(given)
    options.command = shlex.join(["unbag-bench", *given])
    if getattr(options, "results", None):
        os.environ[RESULTS_VARIABLE] = str(options.results)  # processes of a run inherit it
    try:
        options.do(options)
    except (ValueError, ImportError, OSError) as error:
        print(f"unbag-bench: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def add_study(parser: argparse.ArgumentParser, study: Study) -> None:
    """Add the options of a study to the parser of ``run NAME``."""
    for name, settings in study.options.items():
        parser.add_argument(name, **settings)
    parser.add_argument("--jobs", type=int, default=1, help="tasks at the same time")
    parser.add_argument("-o", "--output", type=Path, help="file of rows (results/NAME/rows.jsonl)")


def _question(name: str) -> str:
    """First line of the docstring of a study, without importing what it needs."""
    text = ast.get_docstring(ast.parse((_STUDIES / f"{name}.py").read_text("utf-8"))) or ""
    return text.partition("\n")[0]


def _list(_: argparse.Namespace) -> None:
    names = study_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {_question(name)}")


def _run(options: argparse.Namespace) -> None:
    load_study(options.name).run(options, options.command)


def _show(options: argparse.Namespace) -> None:
    names = options.names
    if options.all:
        rows = results_folder().glob("*/rows.jsonl")
        names = sorted({path.parent.name for path in rows} & {*study_names()})
    if not names:
        raise ValueError("show takes names of studies, or --all.")
    for name in names:
        print(load_study(name).show())


def _fetch(options: argparse.Namespace) -> None:
    from unbag_bench.suites import data_folder

    for source in options.sources or _SOURCES[:1]:
        if source not in _SOURCES:
            raise ValueError(f"There is no source {source!r}; there are {', '.join(_SOURCES)}.")
        import_module(f"unbag_bench.fetch.{source}").fetch(data_folder(options.to))
