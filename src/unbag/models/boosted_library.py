"""What boosting asks of a library of trees, whichever it is.

A library grows trees by a gradient and a curvature for every row and score, all else is done here:
what is minimised (`unbag.models.boosted_goal`), rounds and folds (`unbag.models.boosted_search`).
Trees are kept as the text that the library writes, and checked before it reads them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag.models.threads import FEW_NUMBERS

# Texts whose trees are not read again every time: those of a few models.
TEXTS_AT_HAND = 128


class Booster(Protocol):
    """A sum of trees over the rows of a table, zero at first."""

    def scores(self) -> Floats:
        """Scores (outputs, rows) of all rows, also of those that it does not learn from."""

    def grow(self, gradient: Floats, curvature: Floats) -> None:
        """Grow one tree for each score, by slopes of shape (outputs, rows)."""

    def predict(self, X: Any, weights: Floats) -> Floats:
        """Scores (outputs, rows) of rows by the first rounds, each times its weight."""

    def gains(self, n_rounds: int) -> Floats:
        """What splits by each column gained in the first rounds."""

    def text(self, weights: Floats) -> str:
        """Trees of the first rounds, each times its weight, as text for `Library.read`."""


class Rows(Protocol):
    """A table in bins, for any number of boosters."""

    def booster(self, n_outputs: int, num_leaves: int) -> Booster:
        """Begin to grow trees for so many scores, by all rows."""

    def without(self, held: NDArray[np.bool_]) -> Callable[[int, int], Booster]:
        """Make boosters, as above, that do not learn from the rows that are held out."""


@dataclass(frozen=True)
class TreeShape:
    """What trees were grown on, and for.

    Attributes
    ----------
    n_features, n_outputs : int
        Columns, and scores: one for two classes, or one for each.
    n_categories : int
        The most that a column holds.
    """

    n_features: int
    n_outputs: int
    n_categories: int = 0


@dataclass(frozen=True)
class Library:
    """A library of boosted trees.

    Attributes
    ----------
    estimator : str
        Full name of the classifier that stands for it, short of modules inside the package.
    rows : callable
        Makes `Rows` of a table, the positions of columns of categories, and settings.
    read : callable
        Makes a function, from rows to scores (outputs, rows), of the text of trees and their
        `TreeShape`, or raises a ValueError.
    spellings : dict
        What the library may also call a parameter of `unbag.LLPBoostingClassifier`, by that name.
    refused : frozenset of str
        What cannot be set, since it is fixed here, or does nothing.
    sparse : bool
        Whether tables may be sparse matrices.
    """

    estimator: str
    rows: Callable[[Any, list[int], Mapping[str, Any]], Rows]
    read: Callable[[str, TreeShape], Callable[[Any], Floats]]
    spellings: Mapping[str, tuple[str, ...]]
    refused: frozenset[str]
    sparse: bool

    def own_name(self, name: str) -> str:
        """What `unbag.LLPBoostingClassifier` calls a setting; its name as it is for others."""
        return next((own for own, others in self.spellings.items() if name in others), name)


def count_threads(n_jobs: int | None, X: Any) -> int:
    """Number of threads for a table, −1 for all: by default one if it is small."""
    if n_jobs is not None:
        return n_jobs
    return 1 if X.shape[0] * X.shape[1] < FEW_NUMBERS else -1


def refuse_constant() -> None:
    """Say that there is nothing to learn from."""
    raise ValueError(
        "No column of X has values that differ, so that trees have nothing to split by."
    )


@contextmanager
def damage_told() -> Iterator[None]:
    """Say in one sentence that the text of trees cannot be read."""
    damaged = "The text of the trees is damaged: {}."
    try:
        yield
    except KeyError as error:
        raise ValueError(damaged.format(f"it has no {error}")) from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(damaged.format(error)) from None
