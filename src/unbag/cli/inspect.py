"""``unbag inspect``: what bags are worth before any fit, or what a model file holds."""

from __future__ import annotations

import argparse
import textwrap
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbag.bags.bags import check_bag_target
from unbag.bags.frames import find_contradictions
from unbag.cli.data import BagData, join_options, naming, read_bags, read_tables
from unbag.cli.modelling import rows_of_some_bags
from unbag.cli.options import add_columns, add_json, add_parser
from unbag.cli.output import counted, need, records, say, sentence, show, show_json, table_lines
from unbag.diagnostics.assumption import AssumptionTest, assumption_test
from unbag.diagnostics.bag_effects import FEWEST_BAGS, BagEffect, effect_of_scores
from unbag.diagnostics.information import BagInformation, bag_information
from unbag.models import LinearMCMClassifierCV
from unbag.tabular.features import make_features
from unbag.tabular.persistence import describe_model

_WIDTH = 88

# Rows on which effects of bags are looked for, and beyond which a quick look is none: bags stay
# whole, so that some large ones may have more rows than wanted.
_ROWS_FOR_EFFECT = 20_000
_MOST_ROWS = 200_000
_SEED = 0

_EXAMPLES = """examples:
  unbag inspect visits.parquet regions.csv --bag region --positives conversions
  unbag inspect visits.parquet regions.csv --bag region --positives conversions --json
  unbag inspect model.unbag

exit code: 0 done, 1 contradictions found, or data or files at fault, 2 called wrongly
"""


def add_command(commands: Any) -> None:
    """Add ``unbag inspect``."""
    parser = add_parser(
        commands,
        "inspect",
        "INSTANCES AGGREGATES --bag COLUMN\n"
        "                     (--positives COLUMN | --proportion COLUMN) [options]\n"
        "       unbag inspect MODEL [--json]",
        help="what two tables are worth before any fit, or what a model file holds",
        description="Before any fit: where the two tables contradict each other, how many labels "
        "the bags are worth,\nwhether instances of a class are alike in all bags, as label-free "
        "estimates assume, and what\nfeatures leave unexplained between bags. Of a model file: "
        "what it was fitted to, and how good it\nwas, without loading the model.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("instances", metavar="INSTANCES|MODEL", type=Path, help="one row per instance; or a model")
    add("aggregates", metavar="AGGREGATES", type=Path, nargs="?", help="one row per bag")
    add_columns(parser, required=False)
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Look at two tables, or at a model file."""
    known = options.positives or options.proportion
    if options.aggregates is None:
        if options.bag or known:
            options.parser.error("two tables are needed: INSTANCES and AGGREGATES")
        return _inspect_model(options)
    if not options.bag or not known:
        options.parser.error("two tables need --bag, and --positives or --proportion")
    need("pandas", extra="files")
    return _inspect_tables(options)


def _inspect_tables(options: argparse.Namespace) -> int:
    instances, aggregates = read_tables(options)
    with naming(options):
        found = find_contradictions(
            instances, aggregates, unmatched=options.unmatched, **join_options(options)
        )
    del instances, aggregates
    if found:
        if options.json:
            show_json({"contradictions": [one._asdict() for one in found]})
        else:
            show("\n".join(table_lines(("bag", "problem", "column", "stated", "rows"), found)))
        say(
            f"unbag: {options.aggregates} contradicts {options.instances} in "
            f"{counted(len(found), 'place')}"
        )
        return 1
    data = read_bags(options)
    with naming(options):
        information, assumption, effect = _look(data)
    columns = data.schema.to_dict()["columns"]
    if options.json:
        show_json(
            {
                "n_instances": information.n_instances,
                "n_bags": information.n_bags,
                "columns": columns,
                "contradictions": [],
                "information": _information_record(information),
                "assumption": _assumption_record(assumption),
                "bag_effect": effect.record(),
            }
        )
        return 0
    lines = [
        f"{counted(information.n_instances, 'instance')} in {counted(information.n_bags, 'bag')}; "
        "the tables do not contradict each other.",
        "",
        *_column_lines(columns),
        "",
        str(information),
        "",
        "Are instances of a class alike in all bags?",
        str(assumption),
        "",
        *effect.lines(),
    ]
    show("\n".join(lines))
    return 0


def _look(data: BagData) -> tuple[BagInformation, AssumptionTest | str, _Unexplained]:
    """What the bags are worth; the test of the assumption, or why there is none; bag effects."""
    with warnings.catch_warnings():
        # the information itself says so
        warnings.simplefilter("ignore", UserWarning)
        information = bag_information(data.y)
    features = make_features()
    X = features.fit_transform(data.X)
    assumption: AssumptionTest | str
    try:
        names = features.get_feature_names_out()
        assumption = assumption_test(X, data.y, feature_names=names)
    except ValueError as error:
        assumption = f"This cannot be tested: {error}"
    return information, assumption, _look_for_effect(X, data.y)


@dataclass(frozen=True)
class _Unexplained:
    """Bag effects, and how they were found; or why they were not."""

    effect: BagEffect | None
    note: str

    def lines(self) -> list[str]:
        """Two questions with their answers, or the first one with why there is none."""
        first = "What do features leave unexplained between bags?"
        if self.effect is None:
            return [first, textwrap.fill(self.note, _WIDTH)]
        return [
            first,
            textwrap.fill(sentence(str(self.effect)), _WIDTH),
            "",
            "Do bags differ in how many of each class they hold, or in who is in them?",
            textwrap.fill(self.effect.hint, _WIDTH),
            textwrap.fill(self.note, _WIDTH),
        ]

    def record(self) -> dict[str, Any]:
        if self.effect is None:
            return {"variance": None, "summary": self.note}
        names = ("spread", "present", "world", "hint")
        found = {name: getattr(self.effect, name) for name in names}
        return {**asdict(self.effect), **found, "summary": str(self.effect), "note": self.note}


def _look_for_effect(X: Any, y: Any) -> _Unexplained:
    """Fit a linear model to some bags, and compare it with those that it did not see."""
    rows = rows_of_some_bags(y, _ROWS_FOR_EFFECT, _SEED)
    bags = check_bag_target(y[rows])
    n_bags = int((~bags.labelled).sum())
    if n_bags < FEWEST_BAGS:
        few = f"This takes at least {FEWEST_BAGS} bags, and there are {n_bags}."
        return _Unexplained(None, few)
    if len(rows) > _MOST_ROWS:
        return _Unexplained(None, "Bags are too large for a quick look; 'unbag fit' tells.")
    # effects are looked for, not trained with
    model = LinearMCMClassifierCV(cv=min(5, bags.n_bags // 2), bag_effect=0)
    try:
        with warnings.catch_warnings():
            # a quick look need not be exact
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X[rows], y[rows])
    except (ValueError, ArithmeticError) as error:
        return _Unexplained(None, f"This cannot be told: {error}")
    scores = np.asarray(model.out_of_fold_scores_)
    some = f"{counted(len(rows), 'instance')} in {counted(n_bags, 'bag')}"
    if len(rows) < len(y):
        some = f"{some} drawn at random, of {len(y):,} instances in all"
    note = f"(From a linear model, checked on bags that it did not see: {some}.)"
    return _Unexplained(effect_of_scores(bags, scores, model.class_prior_), note)


def _information_record(information: BagInformation) -> dict[str, Any]:
    names = ("labelled_rows", "share_of_labels", "rows_for_difference", "pairing_share")
    return {
        **{name: getattr(information, name) for name in names},
        "rows_per_class": dict(
            zip(information.classes.tolist(), information.rows_per_class, strict=True)
        ),
        "summary": information.summary,
        "warning": information.warning,
        "by_bag": records(information.by_bag),
        "finer": records(information.finer),
    }


def _assumption_record(test: AssumptionTest | str) -> dict[str, Any]:
    if isinstance(test, str):
        return {"p_value": None, "reject": None, "summary": test}
    return {
        "p_value": test.p_value,
        "reject": test.reject,
        "level": test.level,
        "summary": test.summary,
        "notes": test.notes,
        "features": records(test.features),
        "bags": records(test.bags),
    }


def _column_lines(columns: list[dict[str, Any]]) -> list[str]:
    """One line per feature column: its kind, its categories, whether it has gaps."""
    rows = []
    for column in columns[:50]:
        values = column["values"]
        kinds = "many values" if column["kind"] == "category" else ""
        if values is not None:
            kinds = f"{counted(len(values), 'value')}"
        gaps = "gaps" if column["missing"] else ""
        rows.append((column["name"], column["kind"], kinds, gaps))
    more = [f"and {counted(len(columns) - 50, 'more column')}"] if len(columns) > 50 else []
    return [*table_lines(("column", "kind", "values", "gaps"), rows), *more]


def _inspect_model(options: argparse.Namespace) -> int:
    if "".join(options.instances.suffixes[:1]).lower() in (".csv", ".tsv", ".parquet", ".arrow"):
        options.parser.error("a table of instances needs one of bags beside it: AGGREGATES")
    about = describe_model(options.instances)
    if options.json:
        show_json(about)
        return 0
    metadata, schema = about["metadata"], about["schema"] or {}
    written = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    lines = [f"{metadata.get('model', 'A model')}, written {about['created']} by {written}."]
    if "n_instances" in metadata:
        lines.append(
            f"Fitted to {counted(metadata['n_instances'], 'instance')} in "
            f"{counted(metadata['n_bags'], 'bag')}."
        )
    if metadata.get("training"):
        lines.append(sentence(metadata["training"]["summary"]))
    told = [
        (name, ", ".join(value) if isinstance(value, list) else value)
        for name, value in metadata.get("fitted_with", {}).items()
        if value not in (None, [], {})
    ]
    lines += ["", *table_lines(("option", "value"), told)] if told else []
    if schema.get("columns"):
        lines += ["", f"Bags by: {', '.join(schema['keys']) or '-'}"]
        lines += _column_lines(schema["columns"])
    estimates = (metadata.get("evaluation") or {}).get("estimates", {})
    if estimates:
        rows = [
            (name, *(f"{e[key]:.4f}" for key in ("value", "low", "high")))
            for name, e in estimates.items()
        ]
        lines += ["", "Estimated without labels, on bags held out:"]
        lines += table_lines(("measure", "estimate", "low", "high"), rows)
    show("\n".join(lines))
    return 0
