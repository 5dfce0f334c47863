"""Columns of a sparse matrix with a common variance of their scaled coefficients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from unbag._arrays import Floats
from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows, TrainingRows


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
