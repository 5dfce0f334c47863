"""Plain labels in place of a target, and targets where tools of scikit-learn expect labels."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from unbag._arrays import Ints
from unbag._text import plural, quoted

# Ten digits are classes; more values than that are ids of bags far more often than classes. Of so
# few rows it is left to scikit-learn, whose checks of estimators have as many classes, to warn.
_MOST_CLASSES = 10
_FEW_ROWS = 20

_NO_LABELS = (
    "y holds bags and their proportions, and this tool of scikit-learn needs one label per row; "
    "use cv=unbag.BagKFold(5) for folds, scoring=unbag.evaluation.SCORERS['roc_auc'] for "
    "scores, unbag.LLPEnsembleClassifier to vote or stack, and see docs/howto/pitfalls.md for others."
)

_NO_ROWS = (
    "y holds the cells of several groupings, which share rows, and this tool of scikit-learn needs "
    "for one label per row; fit unbag.LLPClassifier to it as it is, or give the tool one grouping "
    "alone, y[{!r}]."
)

_MAKE_IT = "make the target with unbag.bag_target(bag, proportion)."


def fields_of(y: Any) -> tuple[str, ...]:
    """Names of the fields of a target; plain labels have none."""
    return getattr(getattr(y, "dtype", None), "names", None) or ()


def check_labels(y: Any) -> tuple[NDArray[Any], Ints]:
    """Read plain labels: the classes, and the number of each row's class.

    So many values that they will be ids are refused: tools of scikit-learn number the values of a target
    before they fit anything to it, as if each bag were a class.
    """
    if hasattr(y, "columns"):
        raise ValueError(
            f"y is a table with the {plural(len(y.columns), 'column')} {quoted(y.columns)}, and "
            f"not one array; {_MAKE_IT}"
        )
    shape = np.asarray(y).shape
    if len(shape) > 1 and shape[1] != 1:
        raise ValueError(f"y has the shape {shape}, not one entry for each row; {_MAKE_IT}")
    y = column_or_1d(y, warn=True)
    if len(y) == 0:
        raise ValueError("The target has no rows.")
    assert_all_finite(y, input_name="y")
    try:
        with warnings.catch_warnings():
            if len(y) > _FEW_ROWS:
                # classes of less than two rows each, which are refused below
                warnings.filterwarnings("ignore", "The number of unique classes is greater")
            check_classification_targets(y)
    except ValueError:
        raise ValueError(
            f"Unknown label type: y holds neither classes nor bags with their proportions; "
            f"{_MAKE_IT}"
        ) from None
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) > _MOST_CLASSES and len(y) > _FEW_ROWS:
        raise ValueError(
            f"y holds {len(classes)} different values, which are taken for ids of bags, not for "
            f"classes; {_MAKE_IT} If you did, scikit-learn has numbered the bags as if they were "
            "classes, and docs/howto/pitfalls.md says what to call instead; if they are classes, say so "
            "by bag_target(range(n_rows), proportion) with one column per class."
        )
    return classes, index


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
