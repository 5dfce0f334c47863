"""A category as a random effect per level."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from unbag.terms.base import Term
from unbag.terms.encoding import EncodedRows, TrainingRows


class CategoryTerm(Term):
    """One coefficient for each level of a column; zero for levels that training did not have.

    Parameters
    ----------
    column : str
    place : int
        Which column of `EncodedRows.codes` it is.
    levels : list of str
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
