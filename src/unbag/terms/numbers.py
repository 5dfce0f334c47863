"""Columns of numbers with a common variance of their standardised coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows, TrainingRows


class NumberTerm(Term):
    """Centred columns of numbers, missing values filled with the mean of their column.

    Columns with missing values in training have another column that marks these.

    Parameters
    ----------
    name : str
    columns : list of str
    places : list of int
        Which columns of `EncodedRows.numbers` these are.
    scaled : bool, default=True
        Whether columns are divided by their standard deviations. Without, coefficients of columns
        of 0 and 1 are effects of levels, rare ones no larger than others.
    """

    def __init__(
        self, name: str, columns: list[str], places: list[int], scaled: bool = True
    ) -> None:
        self.name, self.columns, self._scaled = name, columns, scaled
        self.places: Ints = np.array(places, dtype=np.intp)

    def fit(self, rows: TrainingRows) -> None:
        """Learn means and scales."""
        n, found = rows.n_instances, rows.moments(self.places)
        self._gappy: Ints = np.flatnonzero(found.counts < n)
        share = 1.0 - found.counts[self._gappy] / n
        deviation = np.sqrt(np.concatenate([found.squares / n, share * (1.0 - share)]))
        self._means = np.concatenate([found.means, share])
        # rounding may leave a little of a constant
        constant = deviation <= 1e-12 * np.maximum(np.abs(self._means), deviation)
        self._scales = np.where(constant, 1.0, deviation)
        self.names = self.columns + [f"missing_{self.columns[i]}" for i in self._gappy]

    def matrix(self, rows: EncodedRows) -> Floats:
        """Centred values, divided by standard deviations if wanted, and where they were missing."""
        return self.standardised(rows) if self._scaled else self._centred(rows)

    def standardised(self, rows: EncodedRows) -> Floats:
        """Values in standard deviations, and where they were missing."""
        values = self._centred(rows)
        values /= self._scales
        return values

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients and offset of the columns as they are in the table."""
        coef = beta / self._scales if self._scaled else beta
        return coef, -coef @ self._means

    def _centred(self, rows: EncodedRows) -> Floats:
        values = self._filled(rows.numbers)
        values -= self._means
        return values

    def _filled(self, numbers: Any) -> Floats:
        values = numbers[:, self.places].astype(np.float64)
        missing = np.isnan(values)
        if not len(self._gappy) and not missing.any():
            return values
        values = np.where(missing, self._means[: len(self.places)], values)
        return np.concatenate([values, missing[:, self._gappy].astype(float)], axis=1)
