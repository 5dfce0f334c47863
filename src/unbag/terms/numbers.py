"""Columns of numbers with a common variance of their standardised coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.kernels.rows import ColumnMoments
from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows

# Rows that are converted to double precision at the same time.
_BLOCK = 2**16


class NumberTerm(Term):
    """Standardised columns of numbers, missing values filled with the median of their column.

    Columns with missing values in training have another column that marks these.

    Parameters
    ----------
    name : str
    columns : list of str
    places : list of int
        Which columns of `EncodedRows.numbers` these are.
    """

    def __init__(self, name: str, columns: list[str], places: list[int]) -> None:
        self.name, self.columns = name, columns
        self._places: Ints = np.array(places, dtype=np.intp)

    def fit(self, rows: EncodedRows) -> None:
        """Learn medians, means and scales."""
        blocks = [rows.numbers[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
        gappy = np.any([np.isnan(block[:, self._places]).any(axis=0) for block in blocks], axis=0)
        self._gappy: Ints = np.flatnonzero(gappy)
        self._medians = np.zeros(len(self._places))
        for column in self._gappy:
            values = rows.numbers[:, self._places[column]]
            if not np.isnan(values).all():
                self._medians[column] = np.nanmedian(values)
        moments = ColumnMoments.join([ColumnMoments.of(self._filled(block)) for block in blocks])
        deviation = np.sqrt(moments.of_columns())
        # rounding may leave a little of a constant
        constant = deviation <= 1e-12 * np.maximum(np.abs(moments.means), deviation)
        self._means, self._scales = moments.means, np.where(constant, 1.0, deviation)
        self.names = self.columns + [f"missing_{self.columns[i]}" for i in self._gappy]

    def matrix(self, rows: EncodedRows) -> Floats:
        """Standardised values, and where they were missing."""
        values = self._filled(rows.numbers)
        values -= self._means
        values /= self._scales
        return values

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients and offset of the columns as they are in the table."""
        coef = beta / self._scales
        return coef, -coef @ self._means

    def _filled(self, numbers: Any) -> Floats:
        values = numbers[:, self._places].astype(np.float64)
        missing = np.isnan(values)
        if not len(self._gappy) and not missing.any():
            return values
        values = np.where(missing, self._medians, values)
        return np.concatenate([values, missing[:, self._gappy].astype(float)], axis=1)
