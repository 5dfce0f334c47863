"""Columns of numbers with a common variance of their standardised coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Floats, Ints
from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows, TrainingRows


class NumberTerm(Term):
    """Centred columns of numbers, missing values filled with the mean of their column.

    Columns with missing values in training have another column that marks these. Columns of 0 and 1
    are not scaled: their coefficients are effects of levels, and rare levels have no larger ones.

    Parameters
    ----------
    name : str
    columns : list of str
    places : list of int
        Which columns of `EncodedRows.numbers` these are.
    scaled : bool, default=True
        Whether columns are divided by their standard deviations.
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
        values = self._filled(rows.numbers)
        values -= self.means
        values /= self.scales
        return values

    def in_units(self, beta: Floats) -> tuple[Floats, Floats]:
        """Coefficients and offset of the columns as they are in the table."""
        coef = beta / self.scales
        return coef, -coef @ self.means

    def _filled(self, numbers: Any) -> Floats:
        first, n = int(self.places[0]), len(self.places)
        # neighbours need no copy of their own
        together = np.array_equal(self.places, np.arange(first, first + n))
        chosen = numbers[:, first : first + n] if together else numbers[:, self.places]
        values = chosen.astype(np.float64)
        missing = np.isnan(values)
        if not len(self.missing_columns) and not missing.any():
            return values
        values = np.where(missing, self.means[: len(self.places)], values)
        return np.concatenate([values, missing[:, self.missing_columns].astype(float)], axis=1)
