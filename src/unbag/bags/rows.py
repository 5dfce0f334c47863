"""The type of one row of a target, which answers tools that take it for a label."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

_NO_LABELS = (
    "y holds bags and their proportions, and this tool of scikit-learn needs one label per row; "
    "use cv=unbag.BagKFold(5) for folds, scoring=unbag.evaluation.SCORERS['roc_auc'] for scores, "
    "unbag.LLPEnsembleClassifier to vote or stack, and see docs/howto/pitfalls.md for others."
)

_NO_ROWS = (
    "y holds the cells of several groupings, which share rows, and this tool of scikit-learn needs "
    "for one label per row; fit unbag.LLPClassifier to it as it is, or give the tool one grouping "
    "alone, y[{!r}]."
)


class _LikeVoid(type):
    """Lets `numpy.isdtype`, which knows NumPy's own types only, take it for `numpy.void`."""

    def __eq__(cls, other: object) -> bool:
        return other is np.void or cls is other

    def __hash__(cls) -> int:
        return hash(np.void)


class BagRow(np.void, metaclass=_LikeVoid):  # type: ignore[misc]
    """One row of a target: fields by name, and no label.

    The type belongs to the dtype, so that it outlives slices, copies, pickles and `numpy.asarray`.
    `sklearn.utils.multiclass.type_of_target` reads ``__array__`` of the first row, which raises the
    error. NumPy itself never does, since a row is a scalar.
    """

    @property
    def __array__(self) -> NoReturn:
        names = self.dtype.names or ()
        if names and all(self.dtype[name].names for name in names):
            raise ValueError(_NO_ROWS.format(names[0]))
        raise ValueError(_NO_LABELS)


def row_type(fields: Any, **metadata: Any) -> np.dtype[np.void]:
    """The dtype of a target with such fields."""
    dtype = np.dtype((BagRow, fields))
    return np.dtype(dtype, metadata=metadata) if metadata else dtype
