"""What the models of a search say that were trained without a fold, kept for its evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SearchFolds:
    """Scores of all rows by the models of every fold.

    The model of a fold did not see its bags, and its settings were chosen by the other folds: what
    it says of the bags held out is as good as what a search without them would have said, for
    which nothing had to be fitted again.

    Attributes
    ----------
    fold : ndarray of int, shape (n_instances,)
        The fold that holds each row out.
    scores : ndarray of shape (n_folds, n_outputs, n_instances)
    are_log_odds : bool
        Whether scores say what the chances of the classes are.
    """

    fold: NDArray[np.intp]
    scores: NDArray[np.floating[Any]]
    are_log_odds: bool

    @property
    def held_out(self) -> NDArray[np.float64]:
        """Scores (n_outputs, n_instances) by the models that did not see the rows."""
        own = np.take_along_axis(self.scores, self.fold[None, None, :], axis=0)[0]
        return own.astype(float)


def collect_folds(
    fold: NDArray[np.intp], scores: Iterable[NDArray[Any]], are_log_odds: bool
) -> SearchFolds:
    """Keep the scores (n_outputs, n_instances) of every fold's model in single precision."""
    kept = np.empty(0, dtype=np.float32)
    # each written to its place: of many rows there is no room for all of them twice
    for number, one in enumerate(scores):
        if number == 0:
            kept = np.empty((int(fold.max()) + 1, *one.shape), dtype=np.float32)
        kept[number] = one
    return SearchFolds(fold, kept, are_log_odds)
