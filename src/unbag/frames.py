"""From two tables, one of instances and one of bags, to what an estimator is fitted to.

Proportions are mostly published apart from the instances: a table of people with their district,
say, and a table of districts with their election results. `bags_from_frame` joins the two, and
says which bags do not fit before a model is trained on them.
"""

from __future__ import annotations

import datetime as dt
import difflib
import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag.bags import is_exact
from unbag.targets import bag_target

_INSTANCES = "instance table"
_BAGS = "bag table"
_LISTED = 5

# In this order: a bool is an integer to Python, and a datetime is a date.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "booleans"),
    (np.bool_, "booleans"),
    (numbers.Integral, "integers"),
    (float, "floats"),
    (np.floating, "floats"),
    (str, "text"),
    (dt.datetime, "times"),
    (dt.date, "dates"),
)


def bags_from_frame(
    instances: Any,
    aggregates: Any,
    *,
    on: str | Sequence[str],
    proportion: str | Sequence[str] | None = None,
    positives: str | Sequence[str] | None = None,
    size: str | None = None,
    noise: str | Sequence[str] | float | None = None,
    unmatched: Literal["error", "drop"] = "error",
) -> tuple[Any, NDArray[np.void]]:
    """Join a table of instances with a table of bags into `X` and `y`.

    Parameters
    ----------
    instances : data frame
        One row per instance, with its features and the key of its bag. A pandas or polars
        DataFrame, a pyarrow Table or any other eager frame that narwhals knows.
    aggregates : data frame
        One row per bag, with its key and what is known about its classes. It may be of another
        kind than ``instances``.
    on : str or list of str
        The key: columns present in both tables. Several columns together name a bag, whose id is
        then written like ``"north | 2024-05-01"``. A single key of integers or text is the id
        itself; any other is written as text.
    proportion : str or list of str
        Column of ``aggregates`` with the share of the positive class, or one column per class.
    positives : str or list of str
        Instead of ``proportion``: the column with the number of positive instances, or one column
        with the number of instances per class. The size of a bag is the number of its rows in
        ``instances``.
    size : str, optional
        Column of ``aggregates`` with the size of each bag, to be compared with the number of
        its rows in ``instances``.
    noise : str, list of str or number, optional
        Standard deviation of the noise in ``proportion`` or ``positives``: a column of
        ``aggregates``, one column per class, or one number for all bags. See `bag_target`.
    unmatched : {"error", "drop"}, default="error"
        What to do with bags that are in one of the tables only: raise an error that names them,
        or leave them out.

    Returns
    -------
    X : data frame
        The instance table without its key columns: the same kind of frame, rows in the same
        order.
    y : structured ndarray of shape (n_instances,)
        The target, as made by `bag_target`.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.frames import bags_from_frame
    >>> people = pd.DataFrame({"district": ["north", "south", "north"], "age": [31, 64, 47]})
    >>> results = pd.DataFrame({"district": ["south", "north"], "yes": [1.0, 0.5]})
    >>> X, y = bags_from_frame(people, results, on="district", proportion="yes")
    >>> X["age"].tolist()
    [31, 64, 47]
    >>> y["bag"].tolist(), y["proportion"].tolist()
    (['north', 'south', 'north'], [0.5, 1.0, 0.5])
    """
    if (proportion is None) == (positives is None):
        raise ValueError("Give either proportion or positives, and not both.")
    if unmatched not in ("error", "drop"):
        raise ValueError(f"unmatched must be 'error' or 'drop', not {unmatched!r}.")
    instance_table = _as_table(instances, "instances", _INSTANCES)
    bag_table = _as_table(aggregates, "aggregates", _BAGS)

    keys = _as_names(on, "on")
    given = "proportion" if positives is None else "positives"
    columns = _as_names(proportion if positives is None else positives, given)
    if len(columns) == 1 and not isinstance(proportion or positives, str):
        raise ValueError(f"{given} must be one column name, or a list of one name per class.")
    _check_columns(instance_table, keys, _INSTANCES)
    noise_columns = _noise_columns(noise, columns)
    known = [*keys, *columns, *([] if size is None else [size]), *noise_columns]
    _check_columns(bag_table, known, _BAGS)
    if len(instance_table.columns) == len(keys):
        raise ValueError(f"The {_INSTANCES} has no column besides its key, so there is no X.")

    match = _match(instance_table, bag_table, keys)
    _check_matched(match, unmatched)
    if size is not None:
        _check_sizes(_numbers(bag_table, size)[match.bag_rows], match, size)
    values = np.column_stack([_numbers(bag_table, name)[match.bag_rows] for name in columns])
    deviation = None
    if noise_columns:
        deviation = np.column_stack([_numbers(bag_table, name) for name in noise_columns])
        deviation = np.broadcast_to(deviation[match.bag_rows], values.shape)
    elif noise is not None:
        deviation = np.full(values.shape, noise, dtype=float)
    exact = np.ones(len(values), dtype=bool) if deviation is None else is_exact(deviation)
    if positives is not None:
        _check_counts(values, match, columns, exact)
        values = values / match.sizes[:, None]
        deviation = None if deviation is None else deviation / match.sizes[:, None]
    else:
        _check_proportions(values, match, columns, exact)

    shape = (-1,) if len(columns) == 1 else values.shape
    per_bag = bag_target(
        match.ids,
        values.reshape(shape),
        noise=None if deviation is None else deviation.reshape(shape),
    )
    y = per_bag[match.codes]
    y["size"] = match.sizes[match.codes]
    X = instance_table.drop(*keys)
    if match.rows is not None:
        X = X[match.rows]
    return X.to_native(), y


class _Match(NamedTuple):
    """The bags that are in both tables, and the ids of those that are not."""

    codes: NDArray[np.intp]  # bag of each instance row that is kept, as a position in the next
    ids: NDArray[Any]
    sizes: NDArray[np.int64]
    bag_rows: NDArray[np.intp]  # where each bag stands in the bag table
    rows: NDArray[np.intp] | None  # instance rows that are kept; None for all
    only_in_instances: list[Any]
    only_in_bags: list[Any]


def _match(instance_table: nw.DataFrame, bag_table: nw.DataFrame, keys: list[str]) -> _Match:
    for name in keys:
        _check_present(instance_table, name, _INSTANCES)
        _check_present(bag_table, name, _BAGS)
    codes, distinct = _number_keys(instance_table, keys)
    here = [_values(distinct[name]) for name in distinct.columns]
    there = [_values(bag_table[name]) for name in keys]
    for position, name in enumerate(keys):
        dtypes = (instance_table[name].dtype, bag_table[name].dtype)
        here[position], there[position] = _align(here[position], there[position], name, dtypes)

    bag_keys = list(zip(*there, strict=True))
    place = dict(zip(bag_keys, range(len(bag_keys)), strict=True))
    if len(place) < len(bag_keys):
        _raise_repeated(bag_keys)
    instance_keys = list(zip(*here, strict=True))
    bag_row = np.fromiter((place.get(key, -1) for key in instance_keys), np.intp)[codes]

    rows = np.flatnonzero(bag_row >= 0)
    sizes = np.bincount(bag_row[rows], minlength=len(bag_keys))
    used = np.flatnonzero(sizes)
    position_of = np.full(len(bag_keys), -1)
    position_of[used] = np.arange(len(used))
    return _Match(
        codes=position_of[bag_row[rows]],
        ids=_distinct_ids([bag_keys[i] for i in used.tolist()]),
        sizes=sizes[used],
        bag_rows=used,
        rows=None if len(rows) == len(bag_row) else rows,
        only_in_instances=[_id(key) for key in instance_keys if key not in place],
        only_in_bags=[_id(bag_keys[i]) for i in np.flatnonzero(sizes == 0).tolist()],
    )


def _number_keys(table: nw.DataFrame, keys: list[str]) -> tuple[NDArray[np.intp], nw.DataFrame]:
    """Number the distinct keys of a table 0, 1, ...; give each row's number and the keys."""
    # own names, so that no key is called like one of the two numbers
    renamed = table.select(*[nw.col(name).alias(f"key {i}") for i, name in enumerate(keys)])
    try:
        distinct = renamed.unique(maintain_order=True)
        numbered = renamed.with_row_index("row").join(
            distinct.with_row_index("number"), on=renamed.columns, how="left"
        )
    except Exception as error:
        dtypes = " and ".join(str(table[name].dtype) for name in keys)
        raise ValueError(
            f"The key {_quoted(keys)} of the {_INSTANCES} holds {dtypes}, which cannot name a bag."
        ) from error
    # not every kind of frame keeps the order of rows in a join
    codes = numbered.select("row", "number").sort("row")["number"].to_numpy()
    return codes.astype(np.intp, copy=False), distinct


def _values(column: nw.Series) -> list[Any]:
    """List the values of a key column."""
    if isinstance(column.dtype, nw.Datetime) and column.dtype.time_zone is None:
        # many times faster than the time objects of pandas; those still serve for nanoseconds
        times = column.to_numpy()
        short = times.astype("datetime64[us]")
        if (short == times).all():
            return short.tolist()
    return column.to_list()


def _align(
    here: list[Any], there: list[Any], name: str, dtypes: tuple[Any, Any]
) -> tuple[list[Any], list[Any]]:
    """Make sure that the key values of two tables can be equal, and write dates as dates."""
    kinds = [_kind(values, name, table) for values, table in ((here, _INSTANCES), (there, _BAGS))]
    # a table without a type for dates holds them as times at midnight
    whole_days = [
        kind == "dates" or (kind == "times" and all(map(_is_midnight, values)))
        for kind, values in zip(kinds, (here, there), strict=True)
    ]
    if all(whole_days):
        return [_day(v) for v in here], [_day(v) for v in there]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"The key column {name!r} holds {kinds[0]} ({dtypes[0]}) in the {_INSTANCES} but "
            f"{kinds[1]} ({dtypes[1]}) in the {_BAGS}, so that no bag can match; convert one of "
            "them."
        )
    return here, there


def _kind(values: list[Any], name: str, table: str) -> str:
    kinds = {_kind_of_type(t) for t in set(map(type, values))}
    if len(kinds) > 1:
        raise ValueError(
            f"The key column {name!r} of the {table} mixes {' and '.join(sorted(kinds))}; convert "
            "it to one of them."
        )
    kind = kinds.pop()
    if values[0].__hash__ is None:
        raise ValueError(
            f"The key column {name!r} of the {table} holds {kind}, which cannot name a bag."
        )
    if kind == "times":
        zoned = {v.tzinfo is not None for v in values}
        if zoned == {True}:
            return "times with a time zone"
    return kind


def _kind_of_type(value_type: type) -> str:
    for known, kind in _KINDS:
        if issubclass(value_type, known):
            return kind
    return f"values of type {value_type.__name__}"


def _is_midnight(value: dt.datetime) -> bool:
    # compared as a whole, since nanoseconds are no part of time()
    return bool(value == dt.datetime.combine(value.date(), dt.time()))


def _day(value: dt.date) -> dt.date:
    return value.date() if isinstance(value, dt.datetime) else value


def _id(key: tuple[Any, ...]) -> int | str:
    """Name a bag after its key."""
    if len(key) > 1:
        return " | ".join(map(str, key))
    value = key[0]
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return str(value)


def _distinct_ids(keys: list[tuple[Any, ...]]) -> NDArray[Any]:
    ids: list[Any] = [_id(key) for key in keys]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise ValueError(
            f"Two different keys would both be written as bag {twice!r}; rename one of them."
        )
    if ids and isinstance(ids[0], int):
        # NumPy would make floats of a list with small and very large integers
        return np.array(ids, dtype=np.int64 if max(ids) < 2**63 else np.uint64)
    return np.array(ids)


def _as_table(data: Any, parameter: str, table: str) -> nw.DataFrame:
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
        raise ValueError(f"Cannot read the {table}: {' '.join(str(error).split())}.") from None
    if len(frame) == 0:
        raise ValueError(f"The {table} has no rows.")
    return frame


def _as_names(names: Any, parameter: str) -> list[str]:
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
    return _as_names(noise, "noise")


def _check_columns(frame: nw.DataFrame, names: Iterable[Any], table: str) -> None:
    # a pandas column may be named by anything
    present = [column for column in frame.columns if isinstance(column, str)]
    for name in names:
        if name in present:
            continue
        close = difflib.get_close_matches(str(name), present, n=3)
        hint = (
            f"did you mean {_quoted(close, ' or ')}?"
            if close
            else f"it has {_listed([repr(column) for column in frame.columns])}."
        )
        raise ValueError(f"The {table} has no column {name!r}; {hint}")


def _check_present(frame: nw.DataFrame, name: str, table: str) -> None:
    column = frame[name]
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan().fill_null(True)
    if missing.any():
        row = int(missing.to_numpy().astype(bool).argmax())
        raise ValueError(f"Row {row} of the {table} has no value in the key column {name!r}.")


def _check_matched(match: _Match, unmatched: str) -> None:
    if len(match.ids) == 0:
        raise ValueError(
            "No bag is in both tables: the first is "
            f"{match.only_in_instances[0]!r} in the {_INSTANCES} and {match.only_in_bags[0]!r} in "
            f"the {_BAGS}."
        )
    if unmatched == "drop":
        return
    problems = [
        f"{_plural([repr(i) for i in ids], 'bag')} {'has' if len(ids) == 1 else 'have'} {what}"
        for ids, what in (
            (match.only_in_instances, f"instances but no row in the {_BAGS}"),
            (match.only_in_bags, f"a row in the {_BAGS} but no instances"),
        )
        if ids
    ]
    if problems:
        problem = ", and ".join(problems)
        raise ValueError(
            f"B{problem[1:]}; correct the key, or pass unmatched='drop' to leave such bags out."
        )


def _raise_repeated(keys: list[tuple[Any, ...]]) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for row, key in enumerate(keys):
        if key in first:
            raise ValueError(
                f"Bag {_id(key)!r} appears twice in the {_BAGS}, in rows {first[key]} and {row}."
            )
        first[key] = row


def _check_sizes(stated: NDArray[np.float64], match: _Match, name: str) -> None:
    wrong = np.flatnonzero(stated != match.sizes)
    if len(wrong):
        raise ValueError(
            f"The size column {name!r} contradicts the number of instance rows of "
            f"{_compared(wrong, stated, match)}."
        )


def _check_counts(
    counts: NDArray[np.float64], match: _Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    for name, column in zip(names, counts.T, strict=True):
        wrong = ~np.isfinite(column) | ((column < 0) & exact)
        if wrong.any():
            raise ValueError(
                f"Column {name!r} of the {_BAGS} must hold counts; it does not for "
                f"{_valued(wrong, column, match)}."
            )
    total = counts.sum(axis=1)
    if len(names) == 1:
        wrong = np.flatnonzero((total > match.sizes) & exact)
        problem = f"Column {names[0]!r} counts more positives than there are instance rows"
    else:
        wrong = np.flatnonzero((total != match.sizes) & exact)
        problem = f"The counts {_quoted(names)} do not sum to the number of instance rows"
    if len(wrong):
        raise ValueError(f"{problem} for {_compared(wrong, total, match)}.")


def _check_proportions(
    shares: NDArray[np.float64], match: _Match, names: list[str], exact: NDArray[np.bool_]
) -> None:
    for name, column in zip(names, shares.T, strict=True):
        wrong = ~np.isfinite(column) | (((column < 0) | (column > 1)) & exact)
        if wrong.any():
            raise ValueError(
                f"Column {name!r} of the {_BAGS} must hold proportions in [0, 1]; it does not for "
                f"{_valued(wrong, column, match)}."
            )


def _numbers(frame: nw.DataFrame, name: str) -> NDArray[np.float64]:
    """Read a column as floats, NaN where a value is missing."""
    column = frame[name]
    if column.dtype.is_numeric():
        return column.cast(nw.Float64).to_numpy().astype(float)
    # columns of Python objects, and columns without any value
    numeric = np.full(len(column), np.nan)
    present = ~column.is_null().to_numpy().astype(bool)
    values = column.filter(present.tolist()).to_list()
    if all(isinstance(v, numbers.Number) and not isinstance(v, bool) for v in values):
        numeric[present] = values
        return numeric
    raise ValueError(f"Column {name!r} of the {_BAGS} holds {column.dtype}, not numbers.")


def _valued(wrong: NDArray[np.bool_], values: NDArray[np.float64], match: _Match) -> str:
    pairs = zip(match.ids[wrong].tolist(), values[wrong].tolist(), strict=True)
    told = [f"{bag!r} ({'missing' if np.isnan(v) else f'{v:.12g}'})" for bag, v in pairs]
    return _plural(told, "bag")


def _compared(wrong: NDArray[np.intp], stated: NDArray[np.float64], match: _Match) -> str:
    bags, sizes = match.ids[wrong].tolist(), match.sizes[wrong].tolist()
    told = [
        f"{bag!r} ({'missing' if np.isnan(v) else f'{v:.12g}'}, but {n} row{'s' * (n != 1)})"
        for bag, v, n in zip(bags, stated[wrong].tolist(), sizes, strict=True)
    ]
    return _plural(told, "bag")


def _plural(told: list[str], noun: str) -> str:
    return f"{noun}{'s' * (len(told) != 1)} {_listed(told)}"


def _listed(told: list[str]) -> str:
    more = len(told) - _LISTED
    return ", ".join(told[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _quoted(names: list[str], link: str = ", ") -> str:
    return link.join(repr(name) for name in names)
