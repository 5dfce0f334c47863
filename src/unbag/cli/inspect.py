"""``unbag inspect``: what two tables hold before any fit, or what a model file holds."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag._outputs import by_output
from unbag._text import counted, sentence, table_lines, wrapped
from unbag.bags.bag_table import Inconsistency
from unbag.bags.bags import check_bag_target
from unbag.bags.priors import probabilities_of
from unbag.cli.data import join_files, match_files, naming
from unbag.cli.options import add_columns, add_shared, table_place
from unbag.cli.output import need, records, say, show_result
from unbag.cli.parser import add_parser
from unbag.cli.records import check_records, read_schema
from unbag.defaults import FEWEST_BAGS
from unbag.evaluation.bag_effects import BagEffect, estimate_bag_effect
from unbag.evaluation.checks import Check, check_columns
from unbag.evaluation.held_out import cross_fit
from unbag.evaluation.sample_size import EffectiveSampleSize, effective_sample_size
from unbag.model_selection.splitters import rows_of_some_bags
from unbag.models import LLPClassifier
from unbag.tables.files import is_table_name
from unbag.tables.mixed_features import MixedFeatures, text_groups
from unbag.tables.persistence import describe_model

# Rows on which bag effects are estimated, and beyond which that takes too long: bags stay whole, so
# some large ones may have more rows than wanted.
_ROWS_FOR_EFFECT = 20_000
_MOST_ROWS = 200_000
_FEWEST_BAGS = 20

# Inconsistencies that are printed; --json has all of them.
_MOST_SHOWN = 20
_EXAMPLES = """examples:
  unbag inspect visits.parquet regions.csv --bag region --positives conversions
  unbag inspect visits.parquet regions.csv --bag region --positives conversions --json
  unbag inspect model.unbag
"""


# What the two tables are called in the help of a fit.
_TABLES = {"instances": "ROWS", "aggregates": "BAGS"}


def add_command(commands: Any) -> None:
    """Add ``unbag inspect``."""
    parser = add_parser(
        commands,
        "inspect",
        "ROWS BAGS --bag COLUMN\n"
        "                     (--positives COLUMN | --proportion COLUMN) [options]\n"
        "       unbag inspect MODEL [--json]",
        description="Check two tables before fitting: inconsistencies, effective sample size, tests of the\n"
        "assumptions, bag effects. Or describe a model file, without loading the model.",
        epilog=_EXAMPLES,
        exit_code="0 success, 1 inconsistencies found, or bad input, 2 usage error",
    )
    add = parser.add_argument
    words = "one row per individual; or a model file"
    add("instances", metavar="ROWS|MODEL", type=table_place, help=words)
    words = "one row per bag"
    add("aggregates", metavar="BAGS", type=table_place, nargs="?", help=words)
    add_columns(parser, required=False)
    add_shared(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Inspect two tables, or a model file."""
    known = options.positives or options.proportion
    if options.aggregates is None:
        if options.bag or known:
            options.parser.error("two tables are needed: ROWS and BAGS")
        return _inspect_model(options)
    if not options.bag or not known:
        options.parser.error("two tables need --bag, and --positives or --proportion")
    need("pandas", extra="files")
    return _inspect_tables(options)


def _inspect_tables(options: argparse.Namespace) -> int:
    tables, _ = match_files(options)
    found = tables.inconsistencies(options.unmatched)
    if found:
        more = len(found) - _MOST_SHOWN
        rest = [f"and {counted(more, 'more place')}"] if more > 0 else []
        lines = [*table_lines(Inconsistency._fields, found[:_MOST_SHOWN]), *rest]
        record = {"inconsistencies": [one._asdict() for one in found]}
        show_result(options, "\n".join(lines), record)
        places = counted(len(found), "place")
        say(f"{options.aggregates} is inconsistent with {options.instances} in {places}.")
    # what is inconsistent is refused here, as in a fit, with what would help
    data = join_files(options, tables)
    with naming(options):
        seen = inspect_bags(data.X, data.y)
    columns, size = data.schema.to_dict()["columns"], seen.information
    counts = f"{counted(size.n_instances, 'row')} in {counted(size.n_bags, 'bag')}"
    lines = [f"{counts}; the tables are consistent.", "", *_column_lines(columns)]
    lines += ["", str(size), "", *_assumption_lines(seen.assumption), "", *_effect_lines(seen)]
    results = {
        "columns": columns,
        "inconsistencies": [],
        "n_instances": size.n_instances,
        "n_bags": size.n_bags,
        "information": {
            "n_effective": size.n_effective,
            "fraction_of_labels": size.fraction_of_labels,
            "rows_per_class": dict(zip(size.classes.tolist(), size.rows_per_class, strict=True)),
            "summary": size.summary,
            "warning": size.warning,
            "by_bag": records(size.by_bag),
        },
        "assumption": _assumption_record(seen.assumption),
        "bag_effect": _effect_record(seen),
    }
    show_result(options, "\n".join(lines), results)
    return 0


def _inspect_model(options: argparse.Namespace) -> int:
    if is_table_name(options.instances):
        options.parser.error("a table of rows needs one of bags: BAGS")
    about = describe_model(options.instances)
    metadata, schema = about["metadata"], about["schema"]
    check_records(options.instances, metadata)
    written = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [f"{metadata.get('model', 'A model')}, written {about.get('created')} by {written}."]
    sizes = metadata.get("n_instances"), metadata.get("n_bags")
    if None not in sizes:
        lines.append(f"Fitted to {counted(sizes[0], 'row')} in {counted(sizes[1], 'bag')}.")
    summary = (metadata.get("training") or {}).get("summary")
    if summary:
        lines.append(sentence(summary))
    given = [
        (_TABLES.get(name, name), ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in (metadata.get("fitted_with") or {}).items()
        if value not in (None, [], {}) and value is not False
    ]
    lines += ["", *table_lines(("option", "value"), given)] if given else []
    if schema is not None:
        known = read_schema(options.instances, schema).to_dict()
        lines += ["", f"Bags by: {', '.join(known['keys']) or '-'}"]
        lines += _column_lines(known["columns"])
    estimates = (metadata.get("evaluation") or {}).get("estimates", {})
    if estimates:
        rows = [
            (
                name,
                *("-" if n is None else f"{n:.4f}" for n in map(e.get, ("value", "low", "high"))),
            )
            for name, e in estimates.items()
        ]
        lines += ["", "Estimated without labels, on held-out bags:"]
        lines += table_lines(("measure", "estimate", "low", "high"), rows)
    show_result(options, "\n".join(lines), about)
    return 0


def _column_lines(columns: list[dict[str, Any]]) -> list[str]:
    """Return one line per feature column of a schema: its type, its categories, missing values."""
    rows = []
    for column in columns[:50]:
        values = "many values" if column["kind"] == "category" else ""
        if column["values"] is not None:
            values = counted(len(column["values"]), "value")
        rows.append((column["name"], column["kind"], values, "some" if column["missing"] else ""))
    more = [f"and {counted(len(columns) - 50, 'more column')}"] if len(columns) > 50 else []
    return [*table_lines(("column", "type", "values", "missing"), rows), *more]


# --- two tables ----------------------------------------------------------------------------------


class BagInspection(NamedTuple):
    """Effective sample size; the test of the assumption on the features; bag effects."""

    information: EffectiveSampleSize
    assumption: Check
    effect: BagEffect | None
    note: str  # how bag effects were estimated, or why they were not


def inspect_bags(table: Any, y: NDArray[np.void]) -> BagInspection:
    """Compute what bags show before any fit, from a table with columns of any type."""
    with warnings.catch_warnings():
        # the information itself says so
        warnings.simplefilter("ignore", UserWarning)
        information = effective_sample_size(y)
    # those that the model of make_classifier sees, so that the test is that of a fit
    X = MixedFeatures().fit_transform(table)
    return BagInspection(information, check_columns(y, X), *_estimate_effect(X, y))


def _estimate_effect(X: Any, y: Any) -> tuple[BagEffect | None, str]:
    """Fit a linear model to some bags, and estimate effects on held-out bags."""
    rows = rows_of_some_bags(y, _ROWS_FOR_EFFECT, _FEWEST_BAGS, np.random.default_rng(0))
    bags = check_bag_target(y[rows])
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        return None, f"This takes at least {FEWEST_BAGS} bags, and there are {n_bags}."
    if len(rows) > _MOST_ROWS:
        return None, "Bags are too large for a quick estimate; 'unbag fit' makes one."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            linear = LLPClassifier(kernel=None, groups=text_groups)
            scores = cross_fit(linear, X.iloc[rows], y[rows]).log_odds
    except (ValueError, ArithmeticError) as error:
        return None, f"This cannot be estimated: {error}"
    some = f"{counted(len(rows), 'row')} in {counted(n_bags, 'bag')}"
    if len(rows) < len(y):
        some = f"{some} drawn at random, of {len(y):,} rows in all"
    note = f"(From a linear model, evaluated on held-out bags: {some}.)"
    return estimate_bag_effect(bags, probabilities_of(by_output(scores))), note


def _effect_lines(found: BagInspection) -> list[str]:
    lines = ["What do features leave unexplained between bags?"]
    if found.effect is not None:
        question = (
            "Do bags differ in how many of each class they contain (label shift), or in who is "
            "in them (covariate shift)?"
        )
        lines += [*wrapped(sentence(str(found.effect))), "", *wrapped(question)]
        lines += wrapped(found.effect.message)
    return [*lines, *wrapped(found.note)]


def _effect_record(found: BagInspection) -> dict[str, Any]:
    effect = found.effect
    if effect is None:
        return {"variance": None, "summary": found.note}
    names = ("spread", "significant", "shift_type", "message")
    properties = {name: getattr(effect, name) for name in names}
    return {**asdict(effect), **properties, "summary": str(effect), "note": found.note}


def _assumption_lines(found: Check) -> list[str]:
    test = found.test
    tested = f"This cannot be tested: {test}" if isinstance(test, str) else str(test)
    question = "Label shift: do bags differ only in how many of each class they contain?"
    return [question, tested, *found.notes]


def _assumption_record(found: Check) -> dict[str, Any]:
    test = found.test
    if isinstance(test, str):
        return {"p_value": None, "reject": None, "summary": f"This cannot be tested: {test}"}
    return {
        "p_value": test.p_value,
        "reject": test.reject,
        "level": test.alpha,
        "summary": test.summary,
        "notes": (*test.notes, *found.notes),
        "features": records(test.features),
        "bags": records(test.bags),
    }
