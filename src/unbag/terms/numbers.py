"""Columns of numbers with a common variance of their standardised coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows, TrainingRows


class NumberTerm(Term):
    """Standardised columns of numbers, missing values filled with the mean of their column.

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

    def fit(self, rows: TrainingRows) -> None:
        """Learn means and scales."""
        n, found = len(rows), rows.moments(self._places)
        self._gappy: Ints = np.flatnonzero(found.counts < n)
        share = 1.0 - found.counts[self._gappy] / n
        deviation = np.sqrt(np.concatenate([found.squares / n, share * (1.0 - share)]))
        self._means = np.concatenate([found.means, share])
        # rounding may leave a little of a constant
        constant = deviation <= 1e-12 * np.maximum(np.abs(self._means), deviation)
        self._scales = np.where(constant, 1.0, deviation)
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
        values = np.where(missing, self._means[: len(self._places)], values)
        return np.concatenate([values, missing[:, self._gappy].astype(float)], axis=1)
