"""What commands read: two tables as bags, and model files; errors name the file, the row, the column."""

from __future__ import annotations

import argparse
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Ints
from unbag._text import counted, listing, plural
from unbag.bags.bags import check_bag_target
from unbag.bags.frames import MatchedTables, match_tables
from unbag.bags.joining import WORDS, JoinError
from unbag.bags.margins import MEMBERS, make_cells
from unbag.cli.options import add_tables, by_commas, file_place, one_or_all
from unbag.cli.output import need, say
from unbag.cli.parser import Parser, add_parser
from unbag.cli.records import check_records, read_schema
from unbag.evaluation import Evaluation
from unbag.tables import open_table
from unbag.tables.column_types import (
    ColumnError,
    ColumnType,
    cast,
    dtypes_of,
    find_stray,
    is_id,
    parse_texts,
)
from unbag.tables.features import is_free_text
from unbag.tables.files import STANDARD_INPUT, TableError
from unbag.tables.persistence import ModelFile, UntrustedTypesError, load_model
from unbag.tables.reading import Table
from unbag.tables.schema import Schema, SchemaReport, count_seen, make_schema

# Rows beyond which bags are numbered rather than named, which saves memory.
MANY_ROWS = 300_000


@dataclass(frozen=True, eq=False)
class BagData:
    """Features, target, and what is known about them."""

    X: Any  # the features, in the types of the schema
    y: NDArray[np.void]
    schema: Schema
    report: SchemaReport  # how the table differs from a schema that was given
    class_names: list[str] | None  # the class columns, if there are more than two
    rows: Ints | None  # positions of rows, where some were left out
    kept: Any = None  # on request, the key and more columns of all rows
    others: Any = None  # on request, features of rows whose bags have no total


def read_bags(
    options: argparse.Namespace,
    schema: Schema | None = None,
    *,
    keep_names: bool = True,
    keep: Mapping[str, ColumnType | None] | None = None,
    why: str = "",
) -> BagData:
    """Read and join the tables that the options name.

    With a ``schema``, that of a model, its features are read. ``keep`` are columns to keep in
    addition to the key, and their types (None to infer one); ``why`` they are needed, in an error.
    """
    tables, kept = match_files(options, schema, keep, why)
    return join_files(options, tables, schema, keep_names=keep_names, kept=kept)


def match_files(
    options: argparse.Namespace,
    schema: Schema | None = None,
    keep: Mapping[str, ColumnType | None] | None = None,
    why: str = "",
) -> tuple[MatchedTables, Any]:
    """Read and match both tables, without checking whether they agree; see `read_bags`."""
    if options.percent and not options.proportion:
        options.parser.error("--percent goes with --proportion")
    if str(options.instances) == str(options.aggregates) == STANDARD_INPUT:
        options.parser.error("only one of the two tables can come from standard input")
    instances, aggregates = open_instances(options), open_aggregates(options)
    columns, kinds = _to_read(options, instances, schema, keep or {}, why)
    unknown = [n for n in options.types if n not in (*instances.names, *aggregates.names)]
    if unknown:
        raise ValueError(f"--types names the column {unknown[0]!r}, which neither table has")
    bags = aggregates.read(types=options.types)
    if options.group_rows:
        with instances.lazy(columns, kinds) as lazy:
            return match_frames(options, lazy, bags), None
    frame, kept = instances.read(columns, kinds), None
    if options.margins:
        with naming(options):
            frame = make_cells(frame, options.bag, options.margins, "group")
        options.multiplicity = MEMBERS
    if keep is not None:
        kept = frame[[n for n in dict.fromkeys([*options.bag, *keep]) if n in frame.columns]]
    tables = match_frames(options, frame, bags)
    features = [] if schema is None else [name for name in options.bag if name in schema.names]
    if features:
        # what names the bags here is a feature of the model
        rows = tables.instances.with_columns(**{n: nw.from_native(frame)[n] for n in features})
        tables = replace(tables, instances=rows)
    return tables, kept


def match_frames(options: argparse.Namespace, instances: Any, aggregates: Any) -> MatchedTables:
    """Match two data frames as the options say."""
    same = ("bag_size", "noise", "percent", "ignore", "multiplicity", "hidden", "bins")
    with naming(options):
        return match_tables(
            instances,
            aggregates,
            on=options.bag,
            positives=one_or_all(options.positives),
            proportion=one_or_all(options.proportion),
            labels=options.label_column,
            **{name: getattr(options, name) for name in same},
        )


def open_aggregates(options: argparse.Namespace) -> Table:
    """Open the table of bags."""
    return _open(options, options.aggregates, options.bags_query)


def open_instances(options: argparse.Namespace) -> Table:
    """Open the table of rows."""
    return _open(options, options.instances, options.query)


def _open(options: argparse.Namespace, place: Any, query: str | None) -> Table:
    how = {"encoding": options.encoding, "na_values": options.na_values}
    return open_table(place, query=query, on_message=say, **how)


def _to_read(
    options: argparse.Namespace,
    instances: Table,
    schema: Schema | None,
    keep: Mapping[str, ColumnType | None],
    why: str,
) -> tuple[list[str], dict[str, ColumnType]]:
    """Columns of the row table to be read, and what is known to be in them."""
    if schema is None:
        keys = [name for name in options.bag if name in options.exclude]
        if keys:
            options.parser.error(
                f"{keys[0]!r} names the bags, and is not a feature: --exclude is not for it"
            )
        instances.need(options.exclude, "to exclude")
        return [name for name in instances.names if name not in options.exclude], options.types
    if options.margins:
        return list(dict.fromkeys([*options.bag, *options.margins])), options.types
    counts = [options.multiplicity] if options.multiplicity else []
    instances.need(schema.names, "that the model needs")
    instances.need(list(keep), why)
    instances.need(counts, "with numbers of rows")
    keys = [name for name in options.bag if name in instances.names]
    # what is to be written again stays as it is, and becomes a feature later
    features = {n: k for n, k in schema.kinds.items() if n not in keep or k == "category"}
    given = {name: kind for name, kind in keep.items() if kind is not None}
    columns = list(dict.fromkeys([*keys, *schema.names, *keep, *counts]))
    return columns, options.types | features | given


def join_files(
    options: argparse.Namespace,
    tables: MatchedTables,
    schema: Schema | None = None,
    *,
    keep_names: bool = True,
    kept: Any = None,
) -> BagData:
    """Join tables that `match_files` read; say what was left out on request."""
    with naming(options):
        number_bags = not keep_names and len(tables.instances) > MANY_ROWS
        keeps = options.unmatched == "keep"
        X, y = tables.join("drop" if keeps else options.unmatched, number_bags)
        _say_left_out(tables, options)
        say_notes(tables, options)
        if schema is None:
            X = X.assign(**parse_texts(X, options.types))
            _check_strays(X, options)
            schema, report = make_schema(X, options.bag), SchemaReport()
            _say_unsuitable(X, y["bag"], schema)
            X = X.assign(**cast(X, dtypes_of(schema.kinds)))
        else:
            X, report = schema.check(X)
        others = None
        if keeps and tables.match.rows is not None:
            rest = np.setdiff1d(np.arange(len(tables.instances)), tables.match.rows)
            others, more = schema.check(tables.instances[rest].to_native())
            report += more
    columns = options.positives or options.proportion
    names = columns if len(columns) > 1 else None
    return BagData(X, y, schema, report, names, tables.match.rows, kept, others)


# --- words --------------------------------------------------------------------------------------


@contextmanager
def naming(options: argparse.Namespace) -> Iterator[None]:
    """Word errors of functions that know data frames only for those who know files and options."""
    try:
        yield
    except ValueError as error:
        text = error.worded(**_words(options)) if isinstance(error, JoinError) else str(error)
        if isinstance(error, ColumnError):
            text = f"{options.instances}: {error.in_file()}"
        elif text == str(error) and not isinstance(error, TableError):
            text = f"{options.instances}, {options.aggregates}: {text}"
        raise ValueError(text) from error


def _words(options: argparse.Namespace) -> dict[str, Any]:
    """What sentences about two tables call them, and what they advise, on the command line."""
    several = bool(getattr(options, "grouping", None))
    whose = f" {getattr(options, 'noise_of', 'COLUMN')}=NUMBER" if several else ""
    drop, fit = "use --unmatched drop", ""
    if getattr(options, "may_keep", False):
        drop = "use --unmatched keep for what the model says of their rows alone, or drop"
        fit = " of unbag fit, as which this table is read"
    return {
        "instances": f"{WORDS['instances']} {options.instances}",
        "bags": f"{WORDS['bags']} {options.aggregates}",
        "drop": "take their rows out of all tables" if several else drop,
        "convert": f"--types{fit} can make both a category",
        "swap": "ROWS come first, then BAGS",
        "proportion": f"use --proportion{fit}",
        "positives": f"use --positives{fit}",
        "percent": f"use --percent{fit}",
        "hidden": f"where counts are hidden, say what they may be: --hidden 1-9 or --hidden unknown{fit}",
        "noise": f"give its standard deviation by --noise{whose}{fit}",
        "add_size": "with --bag-size, or --positives, they would be added up",
        "ignore": lambda names: f"--ignore {','.join(names).replace('_', '-')}{fit}",
    }


def check_names(place: Any, written: Sequence[str], kept: Sequence[str]) -> None:
    """Refuse to keep columns that have the name of one that is written."""
    taken = [name for name in written if name in kept]
    if taken:
        raise TableError(
            place,
            f"has a column {taken[0]!r} to keep, and the output has one of that name; rename it, or "
            "leave it out",
        )


def _check_strays(X: Any, options: argparse.Namespace) -> None:
    """Refuse columns of numbers that a few texts would make categories."""
    for name in X.columns:
        stray = None if name in options.types else find_stray(X[name])
        if stray is not None:
            raise TableError(
                options.instances,
                f"holds {stray.value!r} in row {stray.row + 1} of column {name!r}, which has "
                f"numbers in {counted(stray.n_numbers, 'row')}: correct it, or use --na-values "
                f"{shlex.quote(stray.value)} or --types {name}=category",
            )


def _say_unsuitable(X: Any, bag: NDArray[Any], schema: Schema) -> None:
    """Name columns that no model learns from: those that differ in every row, and the like."""
    ids = [name for name in X.columns if is_id(X[name]) and not is_free_text(X[name])]
    if ids:
        are = plural(len(ids), "is", "are")
        say(f"{listing(ids)} {are} different in every row: --exclude {','.join(ids)}")
    empty = [name for name in X.columns if X[name].isna().all()]
    if empty:
        have, are = plural(len(empty), "has", "have"), plural(len(empty), "is", "are")
        say(f"{listing(empty)} {have} no value in any row, and {are} left out.")
    times = [name for name, kind in schema.kinds.items() if kind == "time"]
    times = [n for n in times if X[n].nunique() > 1 and X[n].groupby(bag).nunique().max() == 1]
    if times:
        say(
            f"{listing(times)} {plural(len(times), 'has', 'have')} one value in each bag, so a "
            f"model learns nothing about later times: --exclude {','.join(times)}"
        )


def say_notes(tables: MatchedTables, options: argparse.Namespace) -> None:
    """Say what a reader should know about how the tables were joined."""
    summary = [] if tables.fetched is None else [tables.fetched.summary]
    say(*(note.format(**_words(options)) for note in [*summary, *tables.notes()]))


def _say_left_out(tables: MatchedTables, options: argparse.Namespace) -> None:
    match = tables.match
    if match.only_in_instances:
        rows = counted(sum(match.only_in_instances.values()), "row")
        bags = counted(len(match.only_in_instances), "bag")
        where = f"{rows} of {options.instances}, of {bags} not in {options.aggregates}"
        if options.unmatched == "keep":
            say(f"Probabilities in the population of the training bags: {where}.")
        else:
            say(f"Left out: {where}.")
    if match.only_in_bags:
        bags = counted(len(match.only_in_bags), "bag")
        say(f"Left out: {bags} of {options.aggregates} without a row in {options.instances}.")


# --- model files --------------------------------------------------------------------------------


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

    def numbers(estimates: dict[str, Any]) -> dict[str, Any]:
        # the verdict is the same for all of them, and stands above
        return {name: asdict(replace(one, verdict=None)) for name, one in estimates.items()}

    fold, estimates = evaluation.fold, evaluation.estimates
    return {
        "n_bags": evaluation.n_bags,
        "n_instances": evaluation.n_instances,
        "n_labels": getattr(next(iter(estimates.values())), "n_labels", 0),
        "folds": None if fold is None else int(fold.max()) + 1,
        "threshold": evaluation.threshold,
        "verdict": asdict(evaluation.verdict),
        "verdicts": {name: asdict(one) for name, one in evaluation.verdicts.items()},
        "drift": evaluation.drift,
        "estimates": numbers(estimates),
        "by_assumption": {name: numbers(one) for name, one in evaluation.by_assumption.items()},
    }
