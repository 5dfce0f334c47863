"""Plain labels in place of a target, and what is mistaken for them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from unbag._arrays import Floats, Ints
from unbag._text import plural, quoted
from unbag.bags.joining import JoinError

# Ten digits are classes; more values than that are ids of bags far more often than classes. Of so
# few rows it is left to scikit-learn, whose checks of estimators have as many classes, to warn.
_MOST_CLASSES = 10
_FEW_ROWS = 20

_MAKE_IT = "make the target with unbag.bag_target(bag, proportion)."


def fields_of(y: Any) -> tuple[str, ...]:
    """Names of the fields of a target; plain labels have none."""
    return getattr(getattr(y, "dtype", None), "names", None) or ()


def check_labels(y: Any) -> tuple[NDArray[Any], Ints]:
    """Read plain labels: the classes, and the number of each row's class.

    Tables, proportions, and so many values that they will be ids are refused. Such ids also come
    from tools of scikit-learn that number the values of a target before they fit anything to it,
    as if each bag were a class.
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


def read_class_numbers(column: Any, names: list[str]) -> Floats:
    """Class numbers of a column of known labels, NaN where there is none."""
    n_classes = max(len(names), 2)
    known: dict[Any, int] = {number: number for number in range(n_classes)}
    known |= {str(number): number for number in range(n_classes)}
    if len(names) > 1:
        known |= {name: number for number, name in enumerate(names)}
    found = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_list()):
        if value is None or value != value or value == "":
            continue
        label = value.strip() if isinstance(value, str) else value
        if label not in known:
            classes = ", ".join(map(str, [*range(n_classes), *(names if len(names) > 1 else [])]))
            raise JoinError(
                "Column {column!r} of the {instances} must hold labels ({classes}) or nothing; row "
                "{row} holds {value!r}.",
                {"column": column.name, "classes": classes, "row": row + 1, "value": value},
            )
        found[row] = known[label]
    return found
