"""Tables that live in an engine, such as DuckDB or Spark, as counts of their different rows.

Models see a row that stands for n identical ones as they would see all of these. So a table of any
size is grouped where it is, by bag and columns, and what is fetched are the groups, the cells.
Columns of numbers with many values are grouped in bins, each of which has the mean of its rows in
every cell. A bin is an interval of u / (1 + |u|), u being the distance from the median in units of
the interquartile range: bins are narrow where values are many, and few values are far out.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from unbag._text import counted, listing
from unbag.bags.joining import JoinError

MOST_CELLS = 2_000_000

# Bins of a column of numbers: the first of these that gives few enough cells.
_BINS = (256, 128, 64, 48, 32, 24, 16, 12, 8)

# Half the number of intervals by which quantiles, and whether values are few, are found.
_GRID = 2048

# Rows of the bags by which cells are counted before all are fetched.
_PILOT = 500_000


class FetchedCells(NamedTuple):
    """Different rows of a table, their numbers in the last column."""

    frame: nw.DataFrame[Any]
    multiplicity: str  # the column of their numbers
    summary: str  # how many there are
    notes: list[str]  # what is not as in the rows
    are_drawn: bool  # whether they are of some bags only


class _Numbers(NamedTuple):
    """A column of numbers: where its bins are, and how many values it has, at least."""

    name: str
    centre: float
    scale: float
    n_values: float

    def interval(self, half: float) -> nw.Expr:
        """The interval of u / (1 + |u|), of twice as many as this number."""
        u = (nw.col(self.name) - self.centre) / self.scale
        return (u / (u.abs() + 1.0) * half).round(0)


def collect_cells(
    rows: nw.LazyFrame[Any],
    keys: Sequence[str],
    *,
    bins: int | None = None,
    max_cells: int = MOST_CELLS,
) -> FetchedCells:
    """Group the rows of a table in its engine, and fetch the groups.

    ``keys`` name the bag, and are never binned. By default there are 256
    bins, or fewer if there would be more than ``max_cells``; of still more, whole bags are drawn.
    """
    if bins is not None and bins < 2:
        raise ValueError(f"bins must be at least 2, not {bins!r}.")
    if max_cells < 1:
        raise ValueError(f"max_cells must be at least 1, not {max_cells!r}.")
    try:
        return _collect(rows, list(keys), bins, max_cells)
    except (NotImplementedError, AttributeError) as error:
        engine = getattr(rows.implementation, "value", None) or str(rows.implementation)
        raise ValueError(
            f"{engine} lacks what grouping needs ({' '.join(str(error).split())[:120]}): group by a "
            "query of your own, with the number of rows of each group, and give its column as "
            "multiplicity."
        ) from error


def _collect(
    rows: nw.LazyFrame[Any], keys: list[str], bins: int | None, max_cells: int
) -> FetchedCells:
    schema, notes = rows.collect_schema(), list[str]()
    names = list(schema.names())
    count = _new_name("n", names)
    free = {name: kind for name, kind in schema.items() if name not in keys}
    days = [name for name, kind in free.items() if isinstance(kind, nw.Datetime)]
    numeric = [name for name, kind in free.items() if kind.is_numeric()]
    # numbers in double precision, null where they are not finite
    floats = {name: nw.col(name).cast(nw.Float64()) for name in numeric}
    read = [nw.col(name).dt.truncate("1d") for name in days]
    read += [nw.when(v.is_finite()).then(v).alias(name) for name, v in floats.items()]
    rows = rows.with_columns(*read) if read else rows
    n_rows = int(_fetch(rows.select(nw.len().alias(count)))[count][0])
    if not n_rows:
        raise JoinError("The {instances} has no rows.", {})
    numbers = [_place_bins(rows, name, count) for name in numeric]

    def grouped(some: nw.LazyFrame[Any], n_bins: int) -> nw.LazyFrame[Any]:
        """Cells of some bags: their columns, and their numbers."""
        binned = {c.name: _new_name(f"bin {c.name}", names) for c in numbers if c.n_values > n_bins}
        intervals = [
            c.interval(n_bins / 2).alias(binned[c.name]) for c in numbers if c.name in binned
        ]
        by = [binned.get(name, name) for name in names]
        means = [nw.col(name).mean() for name in binned]
        some = some.with_columns(*intervals) if intervals else some
        return some.group_by(*by).agg(nw.len().alias(count), *means).select(*names, count)

    n_bags = n_kept = n_cells = 0
    if n_rows > max_cells:
        bags = _fetch(rows.select(_key(keys)).group_by("key").agg(nw.len().alias(count)))
        bags = bags.filter(~nw.col("key").is_null())
        texts = map(str, bags["key"].to_list())
        bags = bags[np.argsort([sha256(text.encode()).hexdigest() for text in texts]).tolist()]
        sizes, n_bags = bags[count].to_numpy(), len(bags)
        n_pilot = int(np.searchsorted(np.cumsum(sizes), _PILOT)) + 1
        names_of_bags = bags["key"].to_list()
        pilot = rows.filter(_key(keys).is_in(names_of_bags[:n_pilot]))
        for bins in _BINS if bins is None else (bins,):  # noqa: B020
            found = int(_fetch(grouped(pilot, bins).select(nw.len().alias(count)))[count][0])
            n_cells = round(found * n_bags / min(n_pilot, n_bags))
            if n_cells <= max_cells:
                break
        n_kept = min(n_bags, max(2, int(n_bags * max_cells / max(n_cells, 1))))
        if n_kept < n_bags:
            rows = rows.filter(_key(keys).is_in(names_of_bags[:n_kept]))
    n_bins = _BINS[0] if bins is None else bins
    frame = _fetch(grouped(rows, n_bins)).sort(*names)
    summary = (
        f"{int(frame[count].sum()):,} rows of the {{instances}} are {len(frame):,} different ones, "
        "each of which counts by its number."
    )
    if n_kept < n_bags:
        notes.append(
            f"These are rows of {n_kept:,} of {counted(n_bags, 'bag')}, drawn by a hash of their "
            f"keys, as all would be some {n_cells:,} different rows, more than {max_cells:,}: "
            f"standard errors are about {np.sqrt(n_bags / n_kept):.1f} times those of all bags."
        )
    binned = [column.name for column in numbers if column.n_values > n_bins]
    if binned:
        notes.append(f"Numbers in up to {n_bins} bins, by the means of these: {listing(binned)}.")
    if days:
        notes.append(f"Times by their days: {listing(days)}.")
    return FetchedCells(frame, count, summary, notes, n_kept < n_bags)


def _place_bins(rows: nw.LazyFrame[Any], name: str, count: str) -> _Numbers:
    """Find the median and the interquartile range of a column, and whether it has few values."""
    own = rows.select(name).filter(~nw.col(name).is_null())
    moments = own.select(nw.col(name).mean().alias("mean"), nw.col(name).std(ddof=0).alias("sd"))
    mean, sd = (float(_fetch(moments)[what][0] or 0.0) for what in ("mean", "sd"))
    column = _Numbers(name, mean, sd or 1.0, np.inf)
    place = _new_name("place", [name, count])
    found = own.with_columns(column.interval(_GRID).alias(place)).group_by(place)
    spans = found.agg(
        nw.len().alias(count), nw.col(name).min().alias("low"), nw.col(name).max().alias("high")
    )
    grid = _fetch(spans).sort(place)
    low, high = grid["low"].to_numpy(), grid["high"].to_numpy()
    if not len(low):
        return column._replace(n_values=0)
    passed = np.cumsum(grid[count].to_numpy())
    lower, median, upper = (
        float((low + high)[np.searchsorted(passed, q * passed[-1])] / 2) for q in (0.25, 0.5, 0.75)
    )
    n_values = float(len(low)) if (low == high).all() else np.inf
    return _Numbers(name, median, upper - lower or sd or 1.0, n_values)


def _key(keys: list[str]) -> nw.Expr:
    """One column that names the bag."""
    if len(keys) == 1:
        return nw.col(keys[0]).alias("key")
    return nw.concat_str([nw.col(k).cast(nw.String()) for k in keys], separator=" | ").alias("key")


def _fetch(rows: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """What a query gives, in the library of frames that goes with its engine."""
    if rows.implementation is nw.Implementation.POLARS:
        return rows.collect()
    return nw.from_native(rows.collect(backend="pyarrow").to_pandas())


def _new_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
