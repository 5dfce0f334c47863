"""What all terms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from unbag._arrays import Floats
from unbag.defaults import PRIOR_SD
from unbag.terms.encoding import EncodedRows, TrainingRows


class Term(ABC):
    """A part φ(x)ᵀβ of the score f(x), with β ~ N(0, σ²I) and one variance σ².

    Attributes
    ----------
    name : str
        What to call it in tables.
    columns : list of str
        Columns of the table that it is a function of.
    names : list of str
        Names of the columns of φ, as many as there are coefficients.
    """

    # whether φ is a sparse matrix
    is_sparse: ClassVar[bool] = False

    # what the weak prior of σ is about
    prior_sd: ClassVar[float] = PRIOR_SD

    name: str
    columns: list[str]
    names: list[str]

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
