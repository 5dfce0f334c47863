"""Columns of a table of bags as numbers: counts, proportions, their noise, hidden counts."""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from itertools import chain
from typing import Any

import narwhals as nw
import numpy as np

from unbag._arrays import Floats
from unbag.bags.count_sets import is_missing, read_cells, read_set
from unbag.bags.joining import JoinError, Match


class BagNumbers:
    """Columns of the bag table as numbers of the bags that are in both tables."""

    def __init__(self, table: nw.DataFrame[Any], match: Match, percent: bool) -> None:
        self._table, self._match, self._percent = table, match, percent

    def counts(self, names: list[str]) -> Floats:
        """Counts of each bag, summed over its rows."""
        return self._per_bag([read_numbers(self._table, name) for name in names])

    def limits(self, names: list[str], hidden: str | None) -> tuple[Floats | None, tuple[str, ...]]:
        """Lowest and highest counts, if some cell names a set; and what such cells say."""
        columns = {name: self._table[name].to_list() for name in names}
        cells_of_all = chain.from_iterable(columns.values())
        if hidden is None and not any(read_set(cell) or is_missing(cell) for cell in cells_of_all):
            return None, ()
        found, notes = [], []
        for name, cells in columns.items():
            limits, note = read_cells(cells, name, hidden)
            found += list(limits.T)
            notes += note
        if not notes:
            return None, ()
        limits = self._per_bag(found).reshape(len(self._match.ids), len(names), 2)
        return limits, tuple(notes)

    def proportions(self, names: list[str], size: str | None) -> Floats:
        """Proportions of each bag; of several rows, weighted by their sizes."""
        columns = [self._proportions(name) for name in names]
        if not self._match.several:
            return self._per_bag(columns)
        if size is None:
            raise self._match.repeated_error()
        sizes = read_numbers(self._table, size)
        whole = self._per_bag([sizes])
        return self._per_bag([column * sizes for column in columns]) / whole

    def deviations(self, names: list[str], are_counts: bool) -> Floats:
        """Standard deviations of the noise, which adds up in its squares."""
        if not are_counts:
            if self._match.several:
                raise self._match.repeated_error("")
            return self._per_bag([self._proportions(name) for name in names])
        columns = [read_numbers(self._table, name) for name in names]
        if not self._match.several:
            return self._per_bag(columns)
        # an invalid deviation stays invalid
        squares = [np.where(column < 0, np.nan, column**2) for column in columns]
        return np.sqrt(self._per_bag(squares))

    def number(self, value: float) -> float:
        """One deviation for all bags, in the unit of the shares."""
        return value / 100 if self._percent else value

    def _proportions(self, name: str) -> Floats:
        values = read_numbers(self._table, name, may_be_percent=True)
        return values / 100 if self._percent and not _has_sign(self._table[name]) else values

    def _per_bag(self, columns: list[Floats]) -> Floats:
        codes = self._match.bag_codes
        used = codes >= 0
        n_bags = len(self._match.ids)
        return np.column_stack(
            [np.bincount(codes[used], column[used], minlength=n_bags) for column in columns]
        )


def read_numbers(frame: nw.DataFrame[Any], name: str, may_be_percent: bool = False) -> Floats:
    """Read a column as floats, NaN where a value is missing."""
    column = frame[name]
    if column.dtype.is_numeric():
        return column.cast(nw.Float64).to_numpy().astype(float)
    # columns of Python objects or text, and columns without any value
    numeric = np.full(len(column), np.nan)
    present = ~column.is_null().to_numpy().astype(bool)
    values = column.filter(present.tolist()).to_list()
    if all(isinstance(v, numbers.Number) and not isinstance(v, bool) for v in values):
        numeric[present] = values
        return numeric
    if not all(isinstance(v, str) for v in values):
        fields = {"column": name, "dtype": str(column.dtype)}
        raise JoinError("Column {column!r} of the {bags} holds {dtype}, not numbers.", fields)
    for row, value in zip(np.flatnonzero(present).tolist(), values, strict=True):
        plain, is_percent, unit = value.strip(), value.strip().endswith("%"), 1
        if may_be_percent and is_percent:
            # decimal commas, too: a percentage is not a list
            plain, unit = plain[:-1].strip().replace(",", "."), 100
        with suppress(ValueError):
            numeric[row] = float(plain) / unit
        if math.isnan(numeric[row]):
            hint = "; if these are proportions, {proportion}" if is_percent else ""
            hint = "" if may_be_percent else hint
            raise JoinError(
                "Column {column!r} of the {bags} must hold numbers; row {row} holds {value!r}"
                f"{hint}.",
                {"column": name, "row": row + 1, "value": value},
            )
    return numeric


def _has_sign(column: nw.Series[Any]) -> bool:
    """Whether shares carry their own percent sign."""
    if column.dtype.is_numeric():
        return False
    first = next((v for v in column.to_list() if isinstance(v, str)), "")
    return first.strip().endswith("%")
