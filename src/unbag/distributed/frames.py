"""From a Dask data frame of instances and a small table of bags to X and y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag.bags.frames import as_column_names, match_tables
from unbag.distributed.partitions import array_of, is_frame, partitions_of, share

_ROWS = "number of rows"


def bags_from_frame(
    instances: Any,
    aggregates: Any,
    *,
    on: str | Sequence[str],
    unmatched: Literal["error", "drop"] = "error",
    **options: Any,
) -> tuple[Any, Any]:
    """Join a Dask data frame of instances with a table of bags into `X` and `y`.

    One pass over the key columns counts the rows of each bag; X and y stay lazy.

    Parameters
    ----------
    instances : Dask data frame
        One row per instance, with its features and the key of its bag, such as
        ``dask.dataframe.read_parquet(directory)`` gives.
    aggregates : data frame
        One row per bag, with its key and what is known about its classes: in memory, of any kind
        that `unbag.bags_from_frame` takes.
    on : str or list of str
        The key: columns present in both tables.
    unmatched : {"error", "drop"}, default="error"
        What to do with bags that are in one of the tables only: raise an error that names them,
        or leave them out.
    **options
        Of `unbag.bags_from_frame`, such as ``proportion`` or ``positives``; all but ``labels``,
        ``multiplicity`` and ``hidden``.

    Returns
    -------
    X : Dask data frame
        The instances without the key columns.
    y : Dask array
        The target, in partitions of the same rows.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from unbag.distributed import bags_from_frame
    >>> people = pd.DataFrame({"district": ["north", "south", "north"], "age": [31, 64, 47]})
    >>> results = pd.DataFrame({"district": ["south", "north"], "yes": [1.0, 0.5]})
    >>> X, y = bags_from_frame(
    ...     dd.from_pandas(people, npartitions=2), results, on="district", proportion="yes"
    ... )
    >>> y.compute()["proportion"].tolist()
    [0.5, 1.0, 0.5]
    """
    check_choice(unmatched, ("error", "drop"), "unmatched")
    if not is_frame(instances):
        raise TypeError(
            f"instances must be a Dask data frame, not {type(instances).__name__}; "
            "unbag.bags_from_frame takes tables in memory."
        )
    if options.get("labels") is not None:
        raise ValueError(
            f"labels={options['labels']!r} cannot be used with Dask, where bags are known by their counts "
            "alone; for tables in memory there is unbag.bags_from_frame, and labels of some rows "
            "estimate how good a model is (unbag.evaluation.evaluate)."
        )
    for name in ("multiplicity", "hidden"):
        if options.get(name) is not None:
            raise ValueError(f"{name}={options[name]!r} is for tables in memory: bags_from_frame.")
    keys = as_column_names(on, "on")
    missing = [name for name in keys if name not in instances.columns]
    if missing:
        raise ValueError(f"The row table has no column {missing[0]!r}.")
    partitions = partitions_of(instances[keys])
    counts = partitions.reduce(_count_keys, _join_counts)
    tables = match_tables(counts, aggregates, on=on, **options)
    match = tables.match
    known = counts if match.rows is None else counts.iloc[match.rows]
    sizes = np.bincount(match.codes, known[_ROWS], len(match.ids)).astype(np.int64)
    tables = replace(tables, match=match._replace(sizes=sizes))
    for check in tables.checks(unmatched):
        check()
    tables.warn()
    target = tables.target(number_bags=False)
    keyed = known[keys].assign(**{_ROWS: np.arange(len(known))})
    table = share((keyed, target))
    y = array_of(partitions.map(_look_up, table), target[:0])
    X = instances
    if match.rows is not None:
        X = X.map_partitions(_leave_unknown_out, keyed, meta=X._meta)
    return X.drop(columns=keys), y


def _count_keys(keys: Any) -> Any:
    counts = keys.groupby(list(keys.columns), dropna=False, observed=True, sort=False).size()
    return counts.rename(_ROWS).reset_index()


def _join_counts(parts: list[Any]) -> Any:
    import pandas as pd

    together = pd.concat(parts, ignore_index=True)
    keys = [name for name in together.columns if name != _ROWS]
    grouped = together.groupby(keys, dropna=False, observed=True, sort=False)[_ROWS].sum()
    return grouped.reset_index()


def _entries(keys: Any, keyed: Any) -> Floats:
    """Row of each key in the table of keys, NaN where it is not there."""
    names = [name for name in keyed.columns if name != _ROWS]
    return keys[names].merge(keyed, on=names, how="left")[_ROWS].to_numpy(dtype=float)


def _look_up(keys: Any, table: tuple[Any, NDArray[np.void]]) -> NDArray[np.void]:
    keyed, target = table
    entries = _entries(keys, keyed)
    return target[entries[~np.isnan(entries)].astype(np.intp)]


def _leave_unknown_out(rows: Any, keyed: Any) -> Any:
    return rows[~np.isnan(_entries(rows, keyed))]
