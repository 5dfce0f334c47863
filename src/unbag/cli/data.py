"""From two files to bags, with errors that name the file, the row and the column."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Ints
from unbag._text import counted, listing, plural
from unbag.bags.frames import MatchedTables, match_tables
from unbag.bags.joining import WORDS, JoinError
from unbag.bags.margins import MEMBERS, make_cells
from unbag.cli.options import one_or_all
from unbag.cli.output import say
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
from unbag.tables.reading import Table
from unbag.tables.schema import Schema, SchemaReport, make_schema

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
    if getattr(options, "group_rows", False):
        with instances.lazy(columns, kinds) as lazy:
            return match_frames(options, lazy, bags), None
    frame, kept = instances.read(columns, kinds), None
    if getattr(options, "margins", None):
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
    with naming(options):
        return match_tables(
            instances,
            aggregates,
            on=options.bag,
            positives=one_or_all(options.positives),
            proportion=one_or_all(options.proportion),
            bag_size=options.bag_size,
            noise=options.noise,
            percent=options.percent,
            ignore=options.ignore,
            labels=options.label_column,
            multiplicity=getattr(options, "multiplicity", None),
            hidden=getattr(options, "hidden", None),
            bins=getattr(options, "bins", None),
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
    if getattr(options, "margins", None):
        return list(dict.fromkeys([*options.bag, *options.margins])), options.types
    counts = [options.multiplicity] if getattr(options, "multiplicity", None) else []
    instances.need(schema.names, "that the model needs")
    instances.need(list(keep), why)
    instances.need(counts, "with numbers of rows")
    keys = [name for name in options.bag if name in instances.names]
    # what is to be written again stays as it is, and becomes a feature later
    features = {n: k for n, k in schema.kinds.items() if n not in keep or k == "category"}
    given = {name: kind for name, kind in keep.items() if kind is not None}
    return list(
        dict.fromkeys([*keys, *schema.names, *keep, *counts])
    ), options.types | features | given


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
            _say_unsuitable(X)
            schema = Schema(make_schema(X).columns, tuple(options.bag))
            X, report = X.assign(**cast(X, dtypes_of(schema.kinds))), SchemaReport()
            _say_times_of_bags(X, y["bag"], schema)
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
            column=taken[0],
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
                column=name,
            )


def _say_unsuitable(X: Any) -> None:
    """Name columns that differ in every row, and columns without values."""
    names = [name for name in X.columns if is_id(X[name]) and not is_free_text(X[name])]
    if names:
        are = plural(len(names), "is", "are")
        say(f"{listing(names)} {are} different in every row: --exclude {','.join(names)}")
    names = [name for name in X.columns if X[name].isna().all()]
    if names:
        have, are = plural(len(names), "has", "have"), plural(len(names), "is", "are")
        say(f"{listing(names)} {have} no value in any row, and {are} left out.")


def _say_times_of_bags(X: Any, bag: NDArray[Any], schema: Schema) -> None:
    """Name times with one value in each bag: later ones have not been seen."""
    times = [name for name, kind in schema.kinds.items() if kind == "time"]
    names = [n for n in times if X[n].nunique() > 1 and X[n].groupby(bag).nunique().max() == 1]
    if names:
        say(
            f"{listing(names)} {plural(len(names), 'has', 'have')} one value in each bag, so a "
            f"model learns nothing about later times: --exclude {','.join(names)}"
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
