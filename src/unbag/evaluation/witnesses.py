"""Tests of what estimates without labels assume, on scores and on what the model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from unbag._arrays import Floats, Ints
from unbag._text import listing
from unbag.bags.bags import check_bag_target
from unbag.evaluation.label_shift import LabelShiftTest, label_shift_test
from unbag.evaluation.numeric_columns import Columns, read_columns
from unbag.model_selection.fitted import names_behind
from unbag.model_selection.splitters import rows_of_some_bags

# Of more columns than this only the scores are tested.
MOST_COLUMNS = 5000

# Numbers of the columns that are tested; of more rows some bags are taken.
_MOST_NUMBERS = 2**26


@dataclass(frozen=True, eq=False)
class Witness:
    """What one kind of column says about the assumption.

    Attributes
    ----------
    what : str
        Such as "The scores".
    test : LabelShiftTest or str
        Or why there is none.
    loudest : Columns or None
        The column that speaks most against the assumption, for a picture.
    groups : ndarray or None
        Groups within which bags were compared.
    notes : tuple of str
        What was left out.
    """

    what: str
    test: LabelShiftTest | str
    loudest: Columns | None = None
    groups: Ints | None = None
    notes: tuple[str, ...] = ()


def hear_scores(y: Any, scores: Floats, groups: Ints | None = None) -> Witness:
    """Test scores; of several classes, each column of them."""
    classes = check_bag_target(y).class_names
    names = ["score"] if scores.ndim == 1 else [f"score of class {name}" for name in classes]
    return _hear("The scores", y, read_columns(scores, names), groups)


def hear_columns(
    y: Any, X: Any, feature_names: ArrayLike | None = None, what: str = "The columns of X"
) -> Witness:
    """Test the columns of X, as numbers."""
    columns = read_columns(X, feature_names)
    notes = []
    if columns.left_out:
        listed = listing(columns.left_out)
        notes.append(f"Not tested, since hardly any rows share a value: {listed}.")
    n_columns = len(columns.names)
    if n_columns == 0:
        return Witness(what, "none of them has values that rows share.", notes=(*notes,))
    if n_columns > MOST_COLUMNS:
        text = f"there are {n_columns:,}; unbag.label_shift_test looks at them one by one."
        return Witness(what, text, notes=(*notes,))
    return _hear(what, y, columns, None, notes)


def hear_features(
    y: Any, X: Any, estimator: Any, feature_names: ArrayLike | None = None, *, fitted: bool = False
) -> Witness:
    """Test what a model sees: X itself, or what the steps of a pipeline before it make of X."""
    if len(getattr(estimator, "steps", ())) < 2:
        return hear_columns(y, X, feature_names)
    before = estimator[:-1] if fitted else clone(estimator[:-1]).fit(X, y)
    seen = before.transform(X)
    if feature_names is None:
        feature_names = names_behind(before)
    return hear_columns(y, seen, feature_names, "The features")


def _hear(
    what: str, y: Any, columns: Columns, groups: Ints | None, notes: list[str] | None = None
) -> Witness:
    notes = notes or []
    rows = _some_rows(y, columns.n_numbers)
    values, some = columns.values, groups
    if rows is not None:
        notes.append(f"Tested on {len(rows):,} rows of some of the bags.")
        values, y = values[rows], y[rows]
        some = None if groups is None else groups[rows]
    try:
        test = label_shift_test(values, y, groups=some, feature_names=columns.names)
    except ValueError as error:
        return Witness(what, str(error), notes=tuple(notes))
    name = test.worst_feature
    loudest = columns
    if len(columns.names) > 1:
        loudest = Columns(columns.column(name)[:, None], np.array([name]))
    return Witness(what, test, loudest, groups, tuple(notes))


def _some_rows(y: Any, n_numbers: int) -> Ints | None:
    """Rows of whole bags that are tested, if all would take too long."""
    most = _MOST_NUMBERS * len(y) // n_numbers
    if len(y) <= most:
        return None
    return rows_of_some_bags(y, most, 20, np.random.default_rng(0))
