"""Permutation importance of columns, as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag._text import aligned, percent, shown
from unbag.evaluation import bag_permutation_importance
from unbag.reports.drawing import BLUE, Display

_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceDisplay(Display):
    """Importance of the columns of a model.

    Attributes
    ----------
    columns : ndarray of str
        The most important first.
    importance : ndarray of shape (n_columns,)
        Permutation importance (`unbag.evaluation.bag_permutation_importance`) as a proportion of
        the total over all columns.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import ImportanceDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> names = ["height", "nothing"]
    >>> display = ImportanceDisplay.from_estimator(model, data.X, data.y, feature_names=names)
    >>> display.columns[0], bool(display.importance[0] > 0.9)
    ('height', True)
    """

    columns: NDArray[Any]
    importance: Floats

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, feature_names: ArrayLike | None = None
    ) -> Self:
        """Shuffle the columns of a table one by one.

        Parameters
        ----------
        model : classifier or pipeline
            Fitted.
        X : array, sparse matrix or data frame
            The instances.
        y : structured array from `unbag.bag_target`
            The bag of each instance and its proportions.
        feature_names : sequence of str, optional
            Names of the columns of an array.

        Returns
        -------
        display : ImportanceDisplay
            The display.
        """
        found = bag_permutation_importance(model, X, y, feature_names=feature_names)
        loss = np.maximum(found.loss, 0.0)
        return cls(found.columns, loss / max(loss.sum(), np.finfo(float).tiny))

    def frame(self) -> Any:
        """One row per column, the most important first."""
        return make_frame({"column": self.columns, "importance": self.importance})

    def _draw(self, ax: Any) -> None:
        names = [shown(name, 24) for name in self.columns[:_SHOWN]]
        ax.barh(np.arange(len(names)), 100 * self.importance[:_SHOWN], color=BLUE)
        ax.set_yticks(np.arange(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("% of total importance")

    header = ("Column", "Importance")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The most important columns, in words."""
        found = zip(self.columns[:_SHOWN], self.importance, strict=False)
        return tuple((shown(name, 60), percent(share)) for name, share in found)

    def __str__(self) -> str:
        return "\n".join(aligned([self.header, *self.rows]))
