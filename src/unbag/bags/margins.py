"""From group totals of bags, without rows, to what an estimator is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from unbag.bags.bag_table import read_numbers
from unbag.bags.frames import as_column_names, bags_from_frame
from unbag.bags.joining import JoinError

# Column of the cells that says how many members a group has.
MEMBERS = "members"


def bags_from_margins(
    groups: Any,
    outcomes: Any | None = None,
    *,
    on: str | Sequence[str],
    members: Sequence[str],
    positives: str | Sequence[str],
    features: Sequence[str] = (),
    name: str = "group",
    **options: Any,
) -> tuple[Any, NDArray[np.void]]:
    """Make `X` and `y` from margins: group sizes and outcome totals of each bag.

    Parameters
    ----------
    groups : data frame
        One row per bag, with a column for each group: the number of its members.
    outcomes : data frame, optional
        One row per bag, with its outcomes; by default these are columns of ``groups`` as well.
    on : str or list of str
        Columns that name a bag, in both tables.
    members : list of str
        Columns of ``groups`` with numbers of members, which together are the bag.
    positives : str or list of str
        Column of ``outcomes``: number of positives; or one column of counts for each class.
    features : list of str, default=()
        Columns of ``groups`` that are features of the bags.
    name : str, default="group"
        What the column of `X` is called that says which group it is.
    **options
        As in `bags_from_frame`: ``noise``, ``hidden``, ``bag_size``, ``ignore``, ``unmatched``.

    Returns
    -------
    X : data frame
        One row for each bag and group that has members: the group, and the features.
    y : structured ndarray
        The target, with multiplicities.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import LLPClassifier
    >>> from unbag.bags import bags_from_margins
    >>> precincts = pd.DataFrame({"precinct": [1, 2, 3, 4], "urban": [90, 20, 50, 0],
    ...                           "rural": [10, 80, 50, 40], "yes": [82, 34, 55, 8]})
    >>> X, y = bags_from_margins(
    ...     precincts, on="precinct", members=["urban", "rural"], positives="yes")
    >>> X["group"].tolist(), y["multiplicity"].tolist()
    (['urban', 'rural', 'urban', 'rural', 'urban', 'rural', 'rural'], [90, 10, 20, 80, 50, 50, 40])
    >>> model = LLPClassifier(kernel=None).fit(X, y)
    >>> model.predict_proba(X[:2])[:, 1].round(1)
    array([0.9, 0.2])
    """
    keys = as_column_names(on, "on")
    cells = make_cells(groups, keys, members, name, list(features))
    known = groups if outcomes is None else outcomes
    return bags_from_frame(
        cells, known, on=on, positives=positives, multiplicity=MEMBERS, **options
    )


def make_cells(
    table: Any, keys: list[str], members: Sequence[str], name: str, features: Sequence[str] = ()
) -> Any:
    """A table with a row for each bag and group, and its number of members."""
    frame, members = nw.from_native(table, eager_only=True), as_column_names(members, "members")
    absent = [column for column in (*keys, *members, *features) if column not in frame.columns]
    if absent:
        raise JoinError("The table of groups has no column {column!r}.", {"column": absent[0]})
    if len(members) < 2:
        raise ValueError("members must name the columns of two or more groups.")
    kept = [*keys, *features]
    if {name, MEMBERS} & set(kept):
        raise ValueError(f"Columns may not be called {name!r} or {MEMBERS!r} in a table of groups.")
    if set(members) & set(kept):
        raise ValueError(
            f"members names {min(set(members) & set(kept))!r}, which is not a group size."
        )
    numbers = np.column_stack([read_numbers(frame, column) for column in members])
    wrong = np.argwhere(~((numbers >= 0) & (numbers == np.round(numbers))).T)
    if len(wrong):
        column, row = wrong[0]
        raise JoinError(
            "Column {column!r} must hold numbers of members, whole and not negative; row {row} "
            "holds {value:g}.",
            {"column": members[column], "row": row + 1, "value": numbers[row, column]},
        )
    place, group = np.nonzero(numbers)
    found = nw.maybe_reset_index(frame.select(kept)[place])
    columns = {name: np.array(members)[group], MEMBERS: numbers[place, group].astype(np.int64)}
    kind = frame.implementation
    new = [nw.new_series(n, values.tolist(), backend=kind) for n, values in columns.items()]
    return found.with_columns(*new).to_native()
