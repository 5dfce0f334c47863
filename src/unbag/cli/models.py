"""Model files as commands open them, and evaluations as JSON."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from unbag._text import counted
from unbag.bags.bags import check_bag_target
from unbag.cli.data import BagData, read_bags
from unbag.cli.options import add_tables, by_commas, file_place
from unbag.cli.output import need, say
from unbag.cli.parser import Parser, add_parser
from unbag.cli.records import check_records, read_schema
from unbag.evaluation import Estimate, Evaluation
from unbag.tables.column_types import ColumnType
from unbag.tables.persistence import ModelFile, UntrustedTypesError, load_model
from unbag.tables.schema import Schema, count_seen


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model file, and what to trust in it."""
    parser.add_argument(
        "model", metavar="MODEL", type=file_place, help="model file, from unbag fit"
    )
    parser.add_argument(
        "--trust",
        type=by_commas,
        default=[],
        metavar="TYPE[,TYPE]",
        help="further types in the model file to trust, by their full names; only if you know who "
        "made the file",
    )


def add_model_command(
    commands: Any, name: str, more: str = "", *, members: bool = False, **words: str
) -> Parser:
    """Add a command that takes a model, rows, and their bags; ``more`` of its usage."""
    lines = ["MODEL ROWS BAGS --bag COLUMN", "(--positives COLUMN | --proportion COLUMN)"]
    indent = "\n" + " " * len(f"usage: unbag {name} ")
    usage = indent.join([*lines, more] if more else lines)
    parser = add_parser(commands, name, f"{usage} [options]", **words)
    add_model(parser)
    add_tables(parser, features=False, members=members)
    return parser


class Opened(NamedTuple):
    """A model, its file, and the rows and bags for it."""

    model: Any
    found: ModelFile
    data: BagData
    class_names: list[Any]


def open_with_tables(
    options: argparse.Namespace, keep: Mapping[str, ColumnType | None] | None = None, why: str = ""
) -> Opened:
    """Load a model, and read tables with its columns and classes; see `read_bags`."""
    model, schema, found = open_model(options)
    data = read_bags(options, schema, keep=keep, why=why)
    say(*data.report.differences)
    names = class_names(found, model.classes_)
    given = 2 if data.class_names is None else len(data.class_names)
    if given != len(names):
        raise ValueError(
            f"the model in {options.model} has {len(names)} classes, and "
            f"{options.aggregates} has {given} by the options"
        )
    return Opened(model, found, data, names)


def open_model(options: argparse.Namespace) -> tuple[Any, Schema, ModelFile]:
    """Load a model, and the schema of its table."""
    need("pandas", "skops", extra="files")
    try:
        found = load_model(options.model, trusted=options.trust)
    except UntrustedTypesError as error:
        names = ",".join(sorted({*options.trust, *error.types}))
        raise ValueError(
            f"{options.model} holds types that are not trusted, by which a forged file can do "
            f"harm. If you know who made the file, and only then, use --trust {names}"
        ) from None
    if found.schema is None:
        raise ValueError(
            f"{options.model} does not say which columns its model takes; save models with "
            "unbag fit, or with the schema of their table"
        )
    check_records(options.model, found.metadata)
    return found.model, read_schema(options.model, found.schema), found


def warn_of_known_bags(found: ModelFile, data: BagData) -> None:
    """Warn where a model is evaluated on bags that it was trained on."""
    kept = found.metadata.get("training_bags")
    n_seen = 0 if kept is None else count_seen(kept, data.X, data.y)
    if kept is not None and n_seen:
        among = "" if len(kept["bags"]) == kept["n_bags"] else "at least "
        n_bags = check_bag_target(data.y).n_bags
        known = "; see 'unbag inspect MODEL' for estimates from held-out bags"
        warnings.warn(
            f"the model was trained on {among}{n_seen} of these {counted(n_bags, 'bag')}, and "
            f"estimates on these are too high{known if found.metadata.get('evaluation') else ''}",
            UserWarning,
            stacklevel=2,
        )


def class_names(found: ModelFile, classes: Any) -> list[Any]:
    """Return the names of the classes of a model."""
    names = found.metadata.get("class_names")
    if isinstance(names, list) and len(names) == len(classes):
        return list(map(str, names))
    return list(classes.tolist())


def evaluation_record(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers of an evaluation, for JSON."""
    fold = evaluation.fold
    return {
        "n_bags": evaluation.n_bags,
        "n_instances": evaluation.n_instances,
        "n_labels": getattr(next(iter(evaluation.estimates.values())), "n_labels", 0),
        "folds": None if fold is None else int(fold.max()) + 1,
        "threshold": evaluation.threshold,
        "verdict": asdict(evaluation.verdict),
        "verdicts": {name: asdict(one) for name, one in evaluation.verdicts.items()},
        "drift": evaluation.drift,
        "estimates": _numbers(evaluation.estimates),
        "by_assumption": {
            assumption: _numbers(found) for assumption, found in evaluation.by_assumption.items()
        },
    }


def _numbers(estimates: dict[str, Estimate]) -> dict[str, Any]:
    # the verdict is the same for all of them, and stands above
    return {name: asdict(replace(value, verdict=None)) for name, value in estimates.items()}
