"""From two tables, one of instances and one of bags, to what an estimator is fitted to.

Proportions are mostly published apart from the instances: a table of people with their district,
say, and a table of districts with their election results. `bags_from_frame` joins the two, and
says which bags do not fit before a model is trained on them.
"""

from __future__ import annotations

import difflib
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._text import counted, listing, plural, quoted
from unbag.bags.bag_table import (
    BagNumbers,
    Inconsistency,
    InconsistencyError,
    check_counts,
    check_matched,
    check_reported_proportions,
    check_sizes_hold_rows,
    read_class_numbers,
    read_numbers,
)
from unbag.bags.cells import MOST_CELLS, FetchedCells, collect_cells
from unbag.bags.joining import WORDS, JoinError, Match, check_ignore, match_bags
from unbag.bags.shares import check_multiplicity, exact_bags
from unbag.bags.targets import make_target, read_labels


def bags_from_frame(
    instances: Any,
    aggregates: Any,
    *,
    on: str | Sequence[str],
    proportion: str | Sequence[str] | None = None,
    positives: str | Sequence[str] | None = None,
    bag_size: str | None = None,
    noise: str | Sequence[str] | float | None = None,
    percent: bool = False,
    ignore: str | Sequence[str] | None = None,
    labels: str | None = None,
    multiplicity: str | None = None,
    hidden: str | None = None,
    unmatched: Literal["error", "drop"] = "error",
    bins: int | None = None,
    max_cells: int = MOST_CELLS,
) -> tuple[Any, NDArray[np.void]]:
    """Join a table of instances with a table of bags into `X` and `y`.

    Parameters
    ----------
    instances : data frame
        One row per instance, with its features and the key of its bag. A pandas or polars
        DataFrame, a pyarrow Table or any other frame that narwhals knows. A lazy one (a relation
        of DuckDB, a LazyFrame of polars, a DataFrame of Spark, a table of Ibis) is grouped by its
        columns where it is, and only different rows are fetched, with their multiplicities.
    aggregates : data frame
        One row per bag, with its key and its counts or proportions. It may come from another library
        than ``instances``. Counts of several rows for one bag are added up, with a warning.
    on : str or list of str
        The key: columns present in both tables. Several columns together name a bag, whose id is
        then written like ``"north | 2024-05-01"``. A single key of integers or text is the id
        itself; any other is written as text.
    proportion : str or list of str, optional
        Column of ``aggregates`` with the share of the positive class, or one column per class.
        Text such as "24%" is read as 0.24.
    positives : str or list of str, optional
        Instead of ``proportion``: the column with the number of positive instances, or one column
        with the number of instances per class. The size of a bag is the number of its rows in
        ``instances``.
    bag_size : str, optional
        Column of ``aggregates`` with the size of each bag, to be compared with the number of
        its rows in ``instances``. If it is larger, the rows are a random sample of their bag, with
        the same proportions; a warning says so.
    noise : str, list of str or number, optional
        Standard deviation of the noise in ``proportion`` or ``positives``: a column of
        ``aggregates``, one column per class, or one number for all bags. See `bag_target`.
    percent : bool, default=False
        Whether ``proportion``, and its noise, are in percent.
    ignore : {"case", "whitespace", "leading_zeros", "date_format", "time"} or list, optional
        Differences between keys to ignore: upper and lower case; whitespace around and within;
        leading zeros; the format of dates; the time of day.
    labels : str, optional
        Column of ``instances`` with the labels of some rows, missing for the others: class numbers
        0, 1, ... or, where there is a column for each class, their names. See `bag_target`.
    multiplicity : str, optional
        Column of ``instances`` with the number of identical instances that a row stands for.
    hidden : str, optional
        What counts that are missing, or "*" or "suppressed", may be, such as "1-9" or "unknown".
        Cells of ``positives`` that name a set, such as "<10" or "10-19", need no option.
    unmatched : {"error", "drop"}, default="error"
        What to do with bags that are in one of the tables only: raise an error that names them,
        or leave them out.
    bins : int, optional
        Of a lazy frame: bins of a column of numbers that has more values than these, which then
        are the means of their bin. By default 256, or fewer where rows would be too many.
    max_cells : int, default=2000000
        Of a lazy frame: different rows that are fetched at most, about. Where there are more, whole
        bags are drawn by a hash of their keys, with a warning.

    Returns
    -------
    X : data frame
        The row table without its key columns and labels: the same kind of frame, rows in
        the same order; of a lazy one, a DataFrame of polars or pandas.
    y : structured ndarray of shape (n_instances,)
        The target, as made by `bag_target`.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.bags.frames import bags_from_frame
    >>> people = pd.DataFrame({"district": ["north", "south", "north"], "age": [31, 64, 47]})
    >>> results = pd.DataFrame({"district": ["south", "north"], "yes": [1.0, 0.5]})
    >>> X, y = bags_from_frame(people, results, on="district", proportion="yes")
    >>> X["age"].tolist()
    [31, 64, 47]
    >>> y["bag"].tolist(), y["proportion"].tolist()
    (['north', 'south', 'north'], [0.5, 1.0, 0.5])
    """
    given = locals()
    tables = match_tables(**{name: given[name] for name in given if name != "unmatched"})
    joined = tables.join(unmatched)
    tables.warn()
    return joined


@dataclass(frozen=True, eq=False)
class MatchedTables:
    """Both tables, read and matched, but not yet checked against each other."""

    instances: nw.DataFrame[Any]  # without its key
    match: Match
    keys: list[str]
    columns: list[str]
    values: Floats  # of each matched bag: proportions, or counts
    deviation: Floats | None
    are_counts: bool
    size: tuple[str, Floats] | None
    labels: Floats | None = None  # class numbers of all instance rows, or NaN
    multiplicity: NDArray[np.int64] | None = None  # of matched rows
    limits: Floats | None = None  # of counts, (n_bags, n_columns, 2)
    cells: tuple[str, ...] = ()  # what named them
    fetched: FetchedCells | None = None  # what an engine gave

    def checks(self, unmatched: str) -> Iterator[Callable[[], None]]:
        """Checks of one table against the other, each of which raises what it finds."""
        check_choice(unmatched, ("error", "drop"), "unmatched")
        match, deviation = self.match, self.deviation
        yield lambda: check_matched(match, unmatched, self.keys)
        if not len(match.ids):
            return
        if self.size is not None:
            name, reported = self.size
            yield lambda: check_sizes_hold_rows(reported, match, name)
        exact = exact_bags(deviation, len(self.values))
        if not self.are_counts:
            yield lambda: check_reported_proportions(self.values, match, self.columns, exact)
        elif self.limits is None:
            yield lambda: check_counts(self.values, match, self.columns, exact, self.sizes)

    @property
    def sizes(self) -> Floats:
        """Sizes that counts belong to: of whole bags, where rows are a sample of them."""
        if self.size is None or not (self.size[1] >= self.match.sizes).all():
            return self.match.sizes.astype(float)
        return self.size[1]

    def notes(self) -> list[str]:
        """What a reader should know about how the tables were joined; tables in braces."""
        notes = self.match.notes()
        n = int((self.sizes > self.match.sizes).sum())
        if n:
            notes.append(
                f"{counted(n, 'bag')} {plural(n, 'has', 'have')} fewer rows in the {{instances}} than "
                "the size says: they are taken for random samples with the shares of their bags."
            )
        n = len(self.match.only_in_instances)
        # a table of counts per bag often has no row where the count is 0
        if n and self.are_counts and (self.values > 0).all():
            notes.append(
                f"{counted(n, 'bag')} without a row in the {{bags}} {plural(n, 'is', 'are')} left out, "
                "and no count there is 0: if bags with a count of 0 are not listed, this selects rows "
                "by their outcome; give such bags a row with a count of 0."
            )
        return [*notes, *self.cells, *([] if self.fetched is None else self.fetched.notes)]

    def warn(self) -> None:
        """Warn of it, for a function that users call."""
        for note in self.notes():
            warnings.warn(note.format(**WORDS), UserWarning, stacklevel=3)

    def inconsistencies(self, unmatched: str) -> list[Inconsistency]:
        """List every bag for which the tables do not fit together."""
        found: list[Inconsistency] = []
        for check in self.checks(unmatched):
            try:
                check()
            except InconsistencyError as error:
                found += error.inconsistencies
        return found

    def join(self, unmatched: str, number_bags: bool = False) -> tuple[Any, NDArray[np.void]]:
        """Make X and y, if the tables fit together.

        With ``number_bags`` the bags are called 0, 1, ... in y: of millions of rows, names would
        take most of the memory.
        """
        for check in self.checks(unmatched):
            check()
        rows, X = self.match.rows, self.instances
        return (X if rows is None else X[rows]).to_native(), self.target(number_bags)

    def target(self, number_bags: bool) -> NDArray[np.void]:
        """Target of every instance, its bag named by a number or by its key."""
        match, several = self.match, len(self.columns) > 1
        values, deviation, ends, known = self.values, self.deviation, None, None
        if self.limits is not None:
            if (self.sizes > match.sizes).any():
                raise ValueError("Where counts are hidden, all rows of a bag are needed.")
            limits = self.limits if several else self.limits[:, 0]
            ends = [limits[..., 0], limits[..., 1]]
            deviation = None if deviation is None else deviation[:, -1]
        elif self.are_counts:
            values = values / self.sizes[:, None]
            deviation = None if deviation is None else deviation / self.sizes[:, None]
        elif several:
            exact = exact_bags(deviation, len(values))
            # what rounding made of shares that sum to 1, which checks have seen
            values = np.where(exact[:, None], values / values.sum(axis=1, keepdims=True), values)
        if not several:
            values, deviation = values[:, 0], None if deviation is None else deviation.reshape(-1)
        if self.labels is not None:
            known = read_labels(self.labels if match.rows is None else self.labels[match.rows])
        return make_target(
            match.codes,
            np.arange(len(match.ids)) if number_bags else match.ids,
            match.sizes,
            None if ends is not None else values,
            deviation,
            ends,
            known,
            self.multiplicity,
            self.columns if several else None,
        )


def match_tables(
    instances: Any,
    aggregates: Any,
    *,
    on: Any,
    proportion: Any = None,
    positives: Any = None,
    bag_size: str | None = None,
    noise: Any = None,
    percent: bool = False,
    ignore: Any = None,
    labels: str | None = None,
    multiplicity: str | None = None,
    hidden: str | None = None,
    bins: int | None = None,
    max_cells: int = MOST_CELLS,
) -> MatchedTables:
    """Read both tables and match their keys, without checking whether they agree."""
    if (proportion is None) == (positives is None):
        raise ValueError("Give either proportion or positives, and not both.")
    lazy, fetched = None, None
    with suppress(ValueError):
        lazy = nw.from_native(instances, pass_through=True)
    if isinstance(lazy, nw.LazyFrame):
        if multiplicity is not None:
            raise ValueError(
                "multiplicity is for rows in memory; those of lazy frames are counted."
            )
        taken = [*as_column_names(on, "on"), *([] if labels is None else [labels])]
        _check_columns(lazy, taken, "instances")
        fetched = collect_cells(lazy, taken, bins=bins, max_cells=max_cells)
        instances, multiplicity = fetched.frame, fetched.multiplicity
    elif bins is not None:
        raise ValueError("bins is for lazy frames, whose rows are grouped; these are in memory.")
    instance_table = _as_table(instances, "instances", "instances")
    bag_table = _as_table(aggregates, "aggregates", "bags")
    keys = as_column_names(on, "on")
    given = "proportion" if positives is None else "positives"
    columns = as_column_names(proportion if positives is None else positives, given)
    if len(columns) == 1 and not isinstance(proportion or positives, str):
        raise ValueError(f"{given} must be one column name, or a list of one name per class.")
    if percent and positives is not None:
        raise ValueError("percent is about proportion, not about positives.")
    if hidden is not None and positives is None:
        raise ValueError("hidden is about positives, not about proportion.")
    _check_not_swapped(instance_table, bag_table, keys, columns)
    taken = [*keys, *(name for name in (labels, multiplicity) if name is not None)]
    _check_columns(instance_table, taken, "instances")
    noise_columns = _noise_columns(noise, columns)
    known = [*keys, *columns, *([] if bag_size is None else [bag_size]), *noise_columns]
    _check_columns(bag_table, known, "bags")
    if len(instance_table.columns) == len(taken):
        raise JoinError("The {instances} has no column except its key, so there is no X.", {})

    match = match_bags(instance_table, bag_table, keys, check_ignore(ignore))
    if fetched is not None and fetched.are_drawn:
        match = match._replace(only_in_bags=[])
    are_counts, times = positives is not None, None
    if multiplicity is not None:
        times = check_multiplicity(read_numbers(instance_table, multiplicity), len(instance_table))
        times = times if match.rows is None else times[match.rows]
        sizes = np.bincount(match.codes, times, len(match.ids))
        match = match._replace(sizes=sizes.astype(np.int64))
    if match.several:
        # a row that stands there twice is a copy, and hardly a part of a bag
        whole = list(zip(*(bag_table[name].to_list() for name in bag_table.columns), strict=True))
        if len(set(map(repr, whole))) < len(whole):
            raise match.repeated_error("")
    reported = BagNumbers(bag_table, match, percent)
    limits, cells = reported.limits(columns, hidden) if are_counts else (None, ())
    if limits is not None:
        values = limits.mean(axis=2)
    else:
        values = reported.counts(columns) if are_counts else reported.proportions(columns, bag_size)
    deviation = None
    if noise_columns:
        deviation = np.broadcast_to(reported.deviations(noise_columns, are_counts), values.shape)
    elif noise is not None:
        if match.several:
            raise match.repeated_error("")
        deviation = np.full(values.shape, noise / 100 if percent else noise, dtype=float)
    return MatchedTables(
        instance_table.drop(*taken),
        match,
        keys,
        columns,
        values,
        deviation,
        are_counts,
        None if bag_size is None else (bag_size, reported.counts([bag_size])[:, 0]),
        None if labels is None else read_class_numbers(instance_table[labels], columns),
        times,
        limits,
        cells,
        fetched,
    )


def _check_not_swapped(
    instance_table: nw.DataFrame[Any],
    bag_table: nw.DataFrame[Any],
    keys: list[str],
    columns: list[str],
) -> None:
    """Recognise tables that were given in the wrong order."""
    absent = [name for name in columns if name not in bag_table.columns]
    if not absent or not {*columns, *keys} <= set(instance_table.columns):
        return
    if len(instance_table.select(keys).unique()) == len(instance_table) > 1:
        raise JoinError(
            "The two tables seem to be swapped: column {column!r} is in the {instances}, which has "
            "one row for each bag; {swap}.",
            {"column": absent[0]},
        )


def _as_table(data: Any, parameter: str, table: str) -> nw.DataFrame[Any]:
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        hint = " (collect it first)" if hasattr(data, "collect") else ""
        raise TypeError(
            f"{parameter} must be a data frame, such as one of pandas or polars, not "
            f"{type(data).__name__}{hint}."
        ) from None
    except ValueError as error:
        # two columns of one name, for one
        reason = {"reason": " ".join(str(error).split())}
        raise JoinError(f"Cannot read the {{{table}}}: {{reason}}.", reason) from None
    if len(frame) == 0:
        raise JoinError(f"The {{{table}}} has no rows.", {})
    return frame


def as_column_names(names: Any, parameter: str) -> list[str]:
    """Read one column name, or several that differ, as a list."""
    listed = [names] if isinstance(names, str) else names
    if (
        not isinstance(listed, Iterable)
        or not (listed := list(listed))
        or not all(isinstance(name, str) for name in listed)
    ):
        raise ValueError(f"{parameter} must be a column name or a list of them, not {names!r}.")
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise ValueError(f"{parameter} names column {twice!r} twice.")
    return listed


def _noise_columns(noise: Any, columns: list[str]) -> list[str]:
    """Names of the columns that hold the noise; none if it is a number."""
    if noise is None or isinstance(noise, numbers.Real):
        return []
    if not isinstance(noise, str) and len(noise) != len(columns):
        raise ValueError(
            f"noise must be a number, one column name, or a list of {len(columns)} for as many "
            f"columns of proportions or counts, not {noise!r}."
        )
    return as_column_names(noise, "noise")


def _check_columns(
    frame: nw.DataFrame[Any] | nw.LazyFrame[Any], names: Iterable[Any], table: str
) -> None:
    columns = frame.collect_schema().names()
    # a pandas column may be named by anything
    present = [column for column in columns if isinstance(column, str)]
    for name in names:
        if name in present:
            continue
        close = difflib.get_close_matches(str(name), present, n=3)
        hint = (
            f"did you mean {quoted(close, ' or ')}?"
            if close
            else f"it has {listing(map(repr, columns))}."
        )
        fields = {"column": name, "hint": hint}
        raise JoinError(f"The {{{table}}} has no column {{column!r}}; {{hint}}", fields)
