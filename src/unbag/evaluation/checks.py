"""Tests of what estimates without labels assume, on scores and on what the model sees.

Whether estimates without labels are to be believed: a verdict before a number.

Estimates by the weights W hold where classes keep their look. Four checks say whether they do:

- the scores: do their bag means follow the proportions (`unbag.evaluation.label_shift`)?
- the features: do theirs?
- the estimates: do they leave what is possible by more than their error?
- the promise: do shares of held-out bags follow mean chances as they would if classes kept their
  look, or as if rows kept their odds (`unbag.evaluation.bag_effects`)?

The last one knows which of the worlds it is, the others only that it is not the first. Rows of a
bag that are alike for reasons of their own (one household, one shift) make bag means scatter and
the tests reject, and do no harm to estimates; that is why a clear answer of the last one turns
*refuted* into *doubtful*. How often a verdict is wrong was simulated (benchmarks/results/evaluation.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from unbag._arrays import Floats, Ints
from unbag._text import listing
from unbag.bags.bags import check_bag_target
from unbag.evaluation.bag_effects import NORMAL_95, BagEffect
from unbag.evaluation.columns import Columns, read_columns
from unbag.evaluation.label_shift import LabelShiftTest, label_shift_test
from unbag.evaluation.uncertainty import Estimate, Verdict, VerdictName
from unbag.model_selection.fitted import names_behind
from unbag.model_selection.splitters import rows_of_some_bags

# Of more columns than this only the scores are tested.
MOST_COLUMNS = 5000

# Numbers of the columns that are tested; of more rows some bags are taken.
_MOST_NUMBERS = 2**26


@dataclass(frozen=True, eq=False)
class Check:
    """What one kind of column says about the assumption.

    Attributes
    ----------
    what : str
        Such as "The scores".
    test : LabelShiftTest or str
        Or why there is none.
    worst_column : Columns or None
        The column that speaks most against the assumption, for a picture.
    groups : ndarray or None
        Groups within which bags were compared.
    notes : tuple of str
        What was left out.
    """

    what: str
    test: LabelShiftTest | str
    worst_column: Columns | None = None
    groups: Ints | None = None
    notes: tuple[str, ...] = ()


def check_scores(y: Any, scores: Floats, groups: Ints | None = None) -> Check:
    """Test scores; of several classes, each column of them."""
    classes = check_bag_target(y).class_names
    names = ["score"] if scores.ndim == 1 else [f"score of class {name}" for name in classes]
    return _hear("The scores", y, read_columns(scores, names), groups)


def check_columns(
    y: Any, X: Any, feature_names: ArrayLike | None = None, what: str = "The columns of X"
) -> Check:
    """Test the columns of X, as numbers."""
    columns = read_columns(X, feature_names)
    notes = []
    if columns.left_out:
        listed = listing(columns.left_out)
        notes.append(f"Not tested, since hardly any rows share a value: {listed}.")
    n_columns = len(columns.names)
    if n_columns == 0:
        return Check(what, "none of them has values that rows share.", notes=(*notes,))
    if n_columns > MOST_COLUMNS:
        text = f"there are {n_columns:,}; unbag.label_shift_test looks at them one by one."
        return Check(what, text, notes=(*notes,))
    return _hear(what, y, columns, None, notes)


def check_features(
    y: Any, X: Any, estimator: Any, feature_names: ArrayLike | None = None, *, fitted: bool = False
) -> Check:
    """Test what a model sees: X itself, or what the steps of a pipeline before it make of X."""
    if len(getattr(estimator, "steps", ())) < 2:
        return check_columns(y, X, feature_names)
    before = estimator[:-1] if fitted else clone(estimator[:-1]).fit(X, y)
    seen = before.transform(X)
    if feature_names is None:
        feature_names = names_behind(before)
    return check_columns(y, seen, feature_names, "The features")


def _hear(
    what: str, y: Any, columns: Columns, groups: Ints | None, notes: list[str] | None = None
) -> Check:
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
        return Check(what, str(error), notes=tuple(notes))
    name = test.worst_feature
    worst_column = columns
    if len(columns.names) > 1:
        worst_column = Columns(columns.column(name)[:, None], np.array([name]))
    return Check(what, test, worst_column, groups, tuple(notes))


def _some_rows(y: Any, n_numbers: int) -> Ints | None:
    """Rows of whole bags that are tested, if all would take too long."""
    most = _MOST_NUMBERS * len(y) // n_numbers
    if len(y) <= most:
        return None
    return rows_of_some_bags(y, most, 20, np.random.default_rng(0))


# P-values below which tests raise a doubt, below which they do so against a clear hint that
# classes keep their look, and below which they refute.
_DOUBT, _CLEAR_DOUBT, _REFUTE = 0.05, 0.01, 0.001

# Standard errors by which an estimate must leave what is possible.
_OUT_IN_DOUBT, _OUT = 1.7, 2.5

Reason = tuple[VerdictName, str]


_LABELS = (
    "Labels of a few hundred rows drawn at random would give an answer whatever the bags are "
    "(unbag sample-labels; in Python unbag.evaluation.sample_rows_to_label)."
)


def labels_verdict() -> Verdict:
    """Give the verdict on estimates from labels."""
    return Verdict("not_rejected", ("All rows have labels, so that no proportion enters.",), ())


def judge(
    estimates: dict[str, Estimate],
    tests: dict[str, LabelShiftTest | str],
    effect: BagEffect | None,
) -> Verdict:
    """Weigh what the checks say.

    Parameters
    ----------
    estimates : dict of str to Estimate
        By W.
    tests : dict of str to LabelShiftTest or str
        Of the scores and, where they are at hand, of the features; or why there is none.
    effect : BagEffect or None
        Of the shares of held-out bags on their mean chances, if scores are log-odds.
    """
    world = None if effect is None else effect.shift_type
    findings = [*_of_tests(tests, world), *_of_range(estimates), *_of_slope(effect)]
    names = {name for name, _ in findings}
    reasons = tuple(text for _, text in findings)
    if "rejected" in names:
        return Verdict("rejected", reasons, (_LABELS,))
    if "inconclusive" in names:
        return Verdict("inconclusive", reasons, (_LABELS,))
    silent = not any(_could_fail(test) for test in tests.values()) and world is None
    if silent:
        text = "There are too few bags, or too similar ones, to check the assumption."
        return Verdict("inconclusive", (text, *reasons), (_LABELS,))
    return Verdict("not_rejected", reasons, ())


def _could_fail(test: LabelShiftTest | str) -> bool:
    return not isinstance(test, str) and test.could_fail


def _of_tests(tests: dict[str, LabelShiftTest | str], world: str | None) -> list[Reason]:
    """What every test says, whether it speaks against the assumption or not."""
    found: list[Reason] = []
    doubt = _CLEAR_DOUBT if world == "label_shift" else _DOUBT
    for what, test in tests.items():
        if isinstance(test, str):
            found.append(("not_rejected", f"{what} could not be tested: {test}"))
            continue
        name: VerdictName = "not_rejected"
        if test.p_value < doubt:
            name = (
                "rejected" if test.p_value < _REFUTE and world != "label_shift" else "inconclusive"
            )
        text = f"{what}: {test.brief}."
        if test.reject and world == "label_shift":
            text += " Rows of a bag that are alike for reasons of their own would do this, too."
        found.append((name, text))
    return found


def _of_range(estimates: dict[str, Estimate]) -> list[Reason]:
    """Estimates that leave [0, 1] by more than their error."""
    out = {
        name: max(e.value - 1, -e.value) / e.standard_error
        for name, e in estimates.items()
        if e.bounded and e.standard_error > 0 and np.isfinite(e.value)
    }
    if not out or max(out.values()) <= _OUT_IN_DOUBT:
        return []
    name = max(out, key=lambda key: out[key])
    found = estimates[name]
    text = (
        f"If a class looked the same in all bags, {name} would be {found.value:.2f} ± "
        f"{found.standard_error:.2f}, which is impossible."
    )
    return [("rejected" if out[name] > _OUT else "inconclusive", text)]


def _of_slope(effect: BagEffect | None) -> list[Reason]:
    if effect is None or effect.shift_type is None:
        return []
    if effect.shift_type == "label_shift":
        text = "Bags differ in how many of each class they hold, as assumed"
    else:
        text = "Bags seem to differ in who is in them, not in how many of each class they hold"
    margin = NORMAL_95 * effect.slope_error
    text += (
        f" (shares follow mean chances with the slope {effect.slope:.2f} ± {margin:.2f}; "
        f"expected are 1 in the one case and {effect.slope_label_shift:.2f} in the other)."
        if effect.shift_type == "covariate_shift"
        else "."
    )
    return [("rejected" if effect.shift_type == "covariate_shift" else "not_rejected", text)]
