"""Terms of the columns of a table: numbers, categories, and all columns of a sparse matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from unbag._arrays import Floats, Ints
from unbag.defaults import PRIOR_SD
from unbag.terms.encoding import EncodedRows, TrainingRows


class Term(ABC):
    """A part φ(x)ᵀβ of the score f(x), with β ~ N(0, σ²I) and one variance σ²."""

    # whether φ is a sparse matrix
    is_sparse: ClassVar[bool] = False

    # what the weak prior of σ is about
    prior_sd: ClassVar[float] = PRIOR_SD

    name: str  # in tables
    columns: list[str]  # of the table, of which it is a function
    names: list[str]  # of the columns of φ, as many as there are coefficients

    @abstractmethod
    def fit(self, rows: TrainingRows) -> None:
        """Learn from the rows of training what φ is: means, scales, levels, landmarks."""

    @abstractmethod
    def matrix(self, rows: EncodedRows) -> Any:
        """φ of each row: an ndarray or a sparse matrix of shape (n_rows, n_coefficients)."""

    @property
    def n_coefficients(self) -> int:
        """Length of φ(x)."""
        return len(self.names)

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients (n_outputs, n_coefficients) and offset in the units of the table."""
        return beta, np.zeros(len(beta))


class NumberTerm(Term):
    """Centred columns of numbers, missing values filled with the mean of their column.

    Columns with missing values in training have another column that marks these. Columns of 0 and 1
    are not scaled: their coefficients are effects of levels, and rare levels have no larger ones.
    ``places`` say which columns of `EncodedRows.numbers` these are; unless ``scaled``, columns are not
    divided by their standard deviations either.
    """

    def __init__(
        self, name: str, columns: list[str], places: list[int], scaled: bool = True
    ) -> None:
        self.name, self.columns, self._scaled = name, columns, scaled
        self.places: Ints = np.array(places, dtype=np.intp)

    def fit(self, rows: TrainingRows) -> None:
        """Learn means and scales."""
        n, found = rows.n_instances, rows.moments(self.places)
        self.missing_columns: Ints = np.flatnonzero(found.counts < n)
        share = 1.0 - found.counts[self.missing_columns] / n
        deviation = np.sqrt(found.squares / n)
        # rounding may leave a little of a constant
        constant = deviation <= 1e-12 * np.maximum(np.abs(found.means), deviation)
        scales = np.where(constant | (not self._scaled), 1.0, deviation)
        self.means = np.concatenate([found.means, share])
        self.scales = np.concatenate([scales, np.ones(len(share))])
        self.names = self.columns + [f"missing_{self.columns[i]}" for i in self.missing_columns]

    def matrix(self, rows: EncodedRows) -> Floats:
        """Centred and scaled values, and where they were missing."""
        first, n = int(self.places[0]), len(self.places)
        # neighbours need no copy of their own
        together = np.array_equal(self.places, np.arange(first, first + n))
        values = rows.numbers[:, slice(first, first + n) if together else self.places]
        values = values.astype(np.float64)
        missing = np.isnan(values)
        if len(self.missing_columns) or missing.any():
            values = np.where(missing, self.means[:n], values)
            marks = missing[:, self.missing_columns].astype(float)
            values = np.concatenate([values, marks], axis=1)
        values -= self.means
        values /= self.scales
        return values

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients and offset of the columns as they are in the table."""
        coef = beta / self.scales
        return coef, -coef @ self.means


class CategoryTerm(Term):
    """One coefficient for each level of a category; zero for levels that training did not have.

    ``place`` says which column of `EncodedRows.codes` it is.
    """

    is_sparse: ClassVar[bool] = True

    def __init__(self, column: str, place: int, levels: list[str]) -> None:
        self.name, self.columns = column, [column]
        self.names = [f"{column}_{level}" for level in levels]
        self.place = place

    def fit(self, rows: TrainingRows) -> None:
        """There is nothing to learn: the encoder knows the levels."""

    def matrix(self, rows: EncodedRows) -> Any:
        """One-hot codes."""
        codes = rows.codes[:, self.place]
        known = codes >= 0
        start = np.concatenate([[0], np.cumsum(known)])
        shape = (len(codes), self.n_coefficients)
        return csr_array((np.ones(start[-1]), codes[known], start), shape=shape)


class SparseTerm(Term):
    """All columns of a sparse matrix, divided by one number: the mean length of a row is one.

    So σ is about the standard deviation of the term, and columns keep their scales towards each
    other, as weights of words should.
    """

    is_sparse: ClassVar[bool] = True

    def __init__(self, name: str, columns: list[str]) -> None:
        self.name, self.columns, self.names = name, columns, columns

    def fit(self, rows: TrainingRows) -> None:
        """Learn the scale."""
        self.scale = np.sqrt(rows.sum_of_squares() / max(rows.n_instances, 1)) or 1.0

    def matrix(self, rows: EncodedRows) -> Any:
        """Scaled entries."""
        return csr_array(rows.numbers, dtype=np.float64) / self.scale

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients of the columns as they are in the table."""
        return beta / self.scale, np.zeros(len(beta))
