"""From two files to bags, with errors that name the file, the row and the column."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.bags.frames import join_bags
from unbag.bags.joining import BAGS, INSTANCES
from unbag.cli.options import one_or_all
from unbag.cli.output import counted, say
from unbag.tabular import column_names, read_table
from unbag.tabular.schema import Column, Kind, Schema, SchemaReport, convert, make_schema

# Beyond so many rows memory is saved.
MANY_ROWS = 300_000


@dataclass(frozen=True, eq=False)
class BagData:
    """Features, target, and what is known about them.

    Attributes
    ----------
    X : pandas DataFrame
        The features, in the types of the schema.
    y : structured ndarray
    schema : Schema
    report : SchemaReport
        How the table differs from a schema that was given.
    class_names : list of str or None
        For more than two classes, the columns that told of them.
    rows : ndarray of int or None
        Position of each row in the instance table, where some were left out.
    """

    X: Any
    y: NDArray[np.void]
    schema: Schema
    report: SchemaReport
    class_names: list[str] | None
    rows: NDArray[np.intp] | None = None


def read_bags(
    options: argparse.Namespace, schema: Schema | None = None, *, keep_names: bool = True
) -> BagData:
    """Read and join the tables that the options name; say what was left out on request.

    Parameters
    ----------
    options : Namespace
        Of `unbag.cli.options.add_tables`.
    schema : Schema, optional
        Of a model, which then says what the features are.
    keep_names : bool
        Whether bags are called by their names, however many rows there are.
    """
    instances, aggregates = read_tables(options, schema)
    with naming(options):
        joined = join_bags(
            instances,
            aggregates,
            unmatched=options.unmatched,
            number_bags=not keep_names and len(instances) > MANY_ROWS,
            **join_options(options),
        )
        del instances
        _say_left_out(joined.only_in_instances, joined.only_in_bags, options)
        if schema is None:
            schema = Schema(make_schema(joined.X).columns, tuple(options.bag))
            X, report = _in_types(joined.X, schema), SchemaReport(len(joined.X))
        else:
            X, report = schema.check(joined.X)
    columns = options.positives or options.proportion
    names = columns if len(columns) > 1 else None
    return BagData(X, joined.y, schema, report, names, joined.rows)


def _in_types(X: Any, schema: Schema) -> Any:
    """Bring a table into the types of its own schema, without a copy of what has them already."""
    dtypes, present = schema.dtypes, dict(X.dtypes)
    other = {
        column.name: convert(X[column.name], column.kind)
        for column in schema.columns
        if str(present[column.name]) != dtypes[column.name]
    }
    return X.assign(**other) if other else X


def read_tables(options: argparse.Namespace, schema: Schema | None = None) -> tuple[Any, Any]:
    """Read both tables, without joining them."""
    present = column_names(options.instances)
    dtypes = _dtypes(options.types)
    if schema is None:
        check_columns(options.instances, present, options.drop, "to drop")
        kept = [name for name in present if name not in options.drop]
    else:
        check_columns(options.instances, present, schema.names, "that the model needs")
        kept = list(
            dict.fromkeys([*(name for name in options.bag if name in present), *schema.names])
        )
        dtypes |= schema.dtypes
    known = column_names(options.aggregates)
    unknown = [name for name in options.types if name not in (*present, *known)]
    if unknown:
        raise ValueError(f"--types names the column {unknown[0]!r}, which neither table has")
    instances = read_table(options.instances, columns=kept, dtypes=dtypes)
    return instances, read_table(options.aggregates, dtypes=_dtypes(options.types))


def join_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `unbag.bags_from_frame` is to know about the tables."""
    return {
        "on": options.bag,
        "positives": one_or_all(options.positives),
        "proportion": one_or_all(options.proportion),
        "size": options.size,
        "noise": options.noise,
    }


@contextmanager
def naming(options: argparse.Namespace) -> Iterator[None]:
    """Put files and options into the words of functions that know data frames only."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        named = text.replace(INSTANCES, f"{INSTANCES} {options.instances}")
        named = named.replace(BAGS, f"{BAGS} {options.aggregates}")
        named = named.replace("pass unmatched='drop'", "use --unmatched drop")
        named = named.replace("convert one of them", "--types can make both a category")
        if named == text:
            named = f"{options.instances}, {options.aggregates}: {text}"
        raise ValueError(named) from error


def check_columns(path: Path, present: Sequence[str], wanted: Sequence[str], why: str) -> None:
    """Make sure that a table has all these columns."""
    found = set(present)
    absent = [name for name in wanted if name not in found]
    if absent:
        more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
        listed = ", ".join(map(repr, absent[:5]))
        raise ValueError(f"{path} has no column {listed}{more} {why}")


def say_differences(report: SchemaReport) -> None:
    """Tell how new data differ from those of the training: unseen categories, new gaps."""
    for name, count in report.unseen.items():
        examples = ", ".join(map(repr, report.examples[name]))
        say(
            f"Column {name!r}: {counted(count, 'row')} of categories that were not in the "
            f"training data, such as {examples}."
        )
    for name, count in report.missing.items():
        say(f"Column {name!r}: {counted(count, 'missing value')}, where training data had none.")


def _dtypes(kinds: Mapping[str, Kind]) -> dict[str, str]:
    return dict(Schema(tuple(Column(name, kind) for name, kind in kinds.items())).dtypes)


def _say_left_out(
    only_in_instances: Mapping[Any, int], only_in_bags: Sequence[Any], options: argparse.Namespace
) -> None:
    if only_in_instances:
        rows = counted(sum(only_in_instances.values()), "row")
        bags = counted(len(only_in_instances), "bag")
        say(f"Left out: {rows} of {options.instances}, of {bags} not in {options.aggregates}.")
    if only_in_bags:
        bags = counted(len(only_in_bags), "bag")
        say(f"Left out: {bags} of {options.aggregates} without a row in {options.instances}.")
