"""A table of any columns as arrays: numbers, codes of categories, or a sparse matrix.

What is slow, the reading of text, is done once; terms work on blocks of rows of the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._arrays import Floats, Ints

# Rows that are converted to double precision at the same time.
_BLOCK = 2**16

# The level of a category where a table has no value.
MISSING_LEVEL = "(missing)"


class Moments(NamedTuple):
    """What is summed of each column of a table."""

    counts: Floats  # numbers of values
    means: Floats
    squares: Floats  # sums of squares around the means
    binary: NDArray[np.bool_]  # whether all values are 0 or 1

    @classmethod
    def of(cls, values: Floats, multiplicity: Any = None) -> Moments:
        """Take the moments of the columns of a table, without NaN; rows may stand for many."""
        missing = np.isnan(values)
        number = np.ones(len(values)) if multiplicity is None else multiplicity.astype(float)
        counts = number @ ~missing
        some = missing.any()
        means = number @ (np.where(missing, 0.0, values) if some else values)
        means /= np.maximum(counts, 1.0)
        distances = values - means
        if some:
            distances[missing] = 0.0
        squares = number @ np.square(distances, out=distances)
        binary = (missing | (values == 0) | (values == 1)).all(axis=0)
        return cls(counts, means, squares, binary)

    @classmethod
    def join(cls, parts: Sequence[Moments]) -> Moments:
        """Moments of all rows of some tables of the same columns."""
        counts, means, squares, binary = (np.array(each) for each in zip(*parts, strict=True))
        n = counts.sum(axis=0)
        mean = (counts * means).sum(axis=0) / np.maximum(n, 1.0)
        squares = (squares + counts * (means - mean) ** 2).sum(axis=0)
        return cls(n, mean, squares, np.asarray(binary.all(axis=0)))

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Which columns hold the values 0 and 1, both of them and no others."""
        return self.binary & (self.means > 0) & (self.means < 1)


class TrainingRows(Protocol):
    """What terms need of the rows that they are fitted to."""

    @property
    def n_instances(self) -> int:
        """Number of rows, counted by their multiplicities."""

    @property
    def is_sparse(self) -> bool:
        """Whether numbers are a sparse matrix."""

    def moments(self, places: Ints) -> Moments:
        """Moments of some columns of numbers."""

    def sum_of_squares(self) -> float:
        """Sum of the squares of all entries of a sparse matrix."""

    def instances(self, positions: Ints) -> EncodedRows:
        """Some instances, by their positions in rising order; a row stands for one or several."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of a table as arrays: `TrainingRows` in memory.

    Numbers are an array or a sparse matrix, NaN where a value is missing; codes (n_rows, n_categories) say
    which of the levels of a column a row has, −1 for levels that training did not have.
    """

    numbers: Any
    codes: NDArray[np.int32]
    multiplicity: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, chosen: Any) -> EncodedRows:
        """Some of the rows."""
        number = None if self.multiplicity is None else self.multiplicity[chosen]
        return EncodedRows(self.numbers[chosen], self.codes[chosen], number)

    @property
    def n_instances(self) -> int:
        """Number of rows, counted by their multiplicities."""
        return len(self) if self.multiplicity is None else int(self.multiplicity.sum())

    def instances(self, positions: Ints) -> EncodedRows:
        """Some instances, by their positions; a row stands for one or several."""
        if self.multiplicity is None:
            return self[positions]
        found = self[np.searchsorted(np.cumsum(self.multiplicity), positions, side="right")]
        return replace(found, multiplicity=None)

    @property
    def is_sparse(self) -> bool:
        """Whether numbers are a sparse matrix."""
        return is_sparse(self.numbers)

    def moments(self, places: Ints) -> Moments:
        """Moments of some columns of numbers."""
        parts = []
        for start in range(0, len(self), _BLOCK):
            block = self[start : start + _BLOCK]
            parts.append(Moments.of(block.numbers[:, places].astype(float), block.multiplicity))
        return Moments.join(parts)

    def sum_of_squares(self) -> float:
        """Sum of the squares of all entries of a sparse matrix."""
        squares = self.numbers.data.astype(np.float64) ** 2
        if self.multiplicity is not None:
            squares *= np.repeat(self.multiplicity, np.diff(self.numbers.indptr))
        return float(squares.sum())


class TableEncoder:
    """Separates columns of numbers from categories, and turns tables into `EncodedRows`.

    Numbers, truth values and times are numbers; categoricals, text and all else are categories.
    Arrays and sparse matrices hold numbers only.

    >>> import pandas as pd
    >>> from unbag.terms.encoding import TableEncoder
    >>> table = pd.DataFrame({"age": [31, 45, None], "city": ["Rome", "Oslo", None]})
    >>> encoder = TableEncoder().fit(table)
    >>> rows = encoder.encode(table)
    >>> rows.numbers.ravel(), rows.codes.ravel(), encoder.levels
    (array([31., 45., nan]), array([2, 1, 0], dtype=int32), [['(missing)', 'Oslo', 'Rome']])
    """

    number_names: list[str]
    category_names: list[str]
    number_places: list[int]  # which columns of the table these are
    category_places: list[int]
    levels: list[list[str]]  # of each category, in alphabetical order

    def fit(self, X: Any) -> TableEncoder:
        """Learn what each column holds."""
        frame = as_frame(X)
        if frame is None:
            self.number_names = [f"x{i}" for i in range(X.shape[1])]
            self.category_names, self.levels = [], []
            self.number_places, self.category_places = list(range(X.shape[1])), []
            return self
        names = [str(name) for name in frame.columns]
        columns = list(frame.iter_columns())
        self.category_places = [i for i, column in enumerate(columns) if _is_category(column)]
        self.number_places = [i for i in range(len(columns)) if i not in set(self.category_places)]
        self.number_names = [names[i] for i in self.number_places]
        self.category_names = [names[i] for i in self.category_places]
        self.levels = [sorted(set(_texts(columns[i]))) for i in self.category_places]
        return self

    @classmethod
    def join(cls, encoders: Sequence[TableEncoder]) -> TableEncoder:
        """What fits tables of the same columns one after the other."""
        joined = copy(encoders[0])
        names = set(joined.category_names)
        for one in encoders:
            odd = names.symmetric_difference(one.category_names)
            if odd:
                raise ValueError(
                    f"Column {min(odd)!r} holds numbers in one part of the table and categories in "
                    "another; make it text or numbers in all."
                )
        levels = zip(*(one.levels for one in encoders), strict=True)
        joined.levels = [sorted(set().union(*own)) for own in levels]
        return joined

    def encode(self, X: Any) -> EncodedRows:
        """Turn a table of the same columns, in the same order, into arrays."""
        frame = as_frame(X)
        if frame is None:
            numbers = X.tocsr() if is_sparse(X) else X
            return EncodedRows(numbers, np.empty((X.shape[0], 0), dtype=np.int32))
        columns = list(frame.iter_columns())
        numbers = np.empty((len(frame), len(self.number_places)))
        for j, place in enumerate(self.number_places):
            numbers[:, j] = _numbers(columns[place])
        codes = np.empty((len(frame), len(self.category_places)), dtype=np.int32)
        for j, place in enumerate(self.category_places):
            code = {level: i for i, level in enumerate(self.levels[j])}
            codes[:, j] = [code.get(text, -1) for text in _texts(columns[place])]
        return EncodedRows(numbers, codes)

    def check_array(self, X: Any) -> None:
        """Refuse arrays where columns are categories."""
        if self.category_places:
            raise ValueError(
                f"The model was fitted to a data frame with the categories {self.category_names}, "
                f"and cannot be applied to a {type(X).__name__}."
            )


def is_sparse(X: Any) -> bool:
    """Whether a table is a sparse matrix."""
    return bool(issparse(X))


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Give a data frame of any library as narwhals has it, None for other tables."""
    try:
        found = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = list(X.columns)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has more than one column {twice!r}.") from None
    if isinstance(found, nw.LazyFrame):
        raise ValueError("X is a lazy frame, whose rows have no order yet: call collect() first.")
    return found if isinstance(found, nw.DataFrame) else None


def _is_category(column: nw.Series[Any]) -> bool:
    dtype = column.dtype
    if isinstance(dtype, nw.Categorical | nw.Enum | nw.String):
        return True
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean | nw.Datetime | nw.Date | nw.Duration):
        return False
    try:
        _numbers(column)
    except ValueError:
        return True
    return False


def _texts(column: nw.Series[Any]) -> list[str]:
    return [
        MISSING_LEVEL if value is None or value != value else str(value)
        for value in column.to_list()
    ]


def _numbers(column: nw.Series[Any]) -> Floats:
    """Values as floats, times as seconds, NaN where a value is missing or infinite."""
    if isinstance(column.dtype, nw.Duration):
        column = column.dt.total_milliseconds().cast(nw.Float64()) / 1e3
    elif isinstance(column.dtype, (nw.Datetime, nw.Date)):
        column = column.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64()) / 1e6
    if isinstance(column.dtype, nw.Object):
        try:
            found = [np.nan if value is None else float(value) for value in column.to_list()]
        except TypeError as error:
            raise TypeError(
                f"Column {column.name!r} holds neither numbers, nor times, nor text: {error}."
            ) from None
        values = np.array(found, dtype=float)
    else:
        try:
            values = np.array(column.cast(nw.Float64()).to_numpy(), dtype=float)
        except Exception as error:  # every library of frames has an error of its own
            raise ValueError(f"Column {column.name!r} does not hold numbers: {error}") from None
    values[~np.isfinite(values)] = np.nan
    return values
