"""What the clock and the calendar say of points in time, as a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.tables.column_types import as_pandas, column_type, convert, seconds
from unbag.tables.transformers import TableTransformer

_DAY = 86_400.0

# Of sines and cosines.
DIGITS = 9

# Each round of time: its length, and how long a table must last for it to say something.
ROUNDS = {
    "hour": (_DAY, 2 * _DAY),
    "weekday": (7 * _DAY, 14 * _DAY),
    "season": (365.2425 * _DAY, 2 * 365 * _DAY),
}
_SIDES = {"sin": np.sin, "cos": np.cos}


def time_columns(frame: Any) -> list[str]:
    """Names of the columns that hold dates or times.

    Parameters
    ----------
    frame : data frame
        A table of pandas, polars or another library that narwhals knows.

    Returns
    -------
    names : list of str
        In the order of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.times import time_columns
    >>> frame = pd.DataFrame({"age": [31.0, None, 65.0], "colour": ["red", None, "blue"]})
    >>> frame["at"] = pd.date_range("2024-05-01", periods=3)
    >>> time_columns(frame)
    ['at']
    """
    return [name for name in frame.columns if column_type(as_pandas(frame, name)) == "time"]


class TimeParts(TableTransformer):
    """Say where in the day, the week and the year a time is, as points on a circle.

    Only rounds that a column goes through at least twice are told, and only where times are not
    all at the same place of it, as dates are at midnight: six numbers for each column at most.
    Where there is no time, they are 0, the middle of the circle.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of what comes out.

    Attributes
    ----------
    rounds_ : list of list of str
        For each column, the rounds that are told.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.times import TimeParts
    >>> visits = pd.DataFrame({"at": pd.date_range("2024-05-01 03:00", periods=9, freq="6h")})
    >>> parts = TimeParts().fit(visits)
    >>> parts.get_feature_names_out().tolist()
    ['at_hour_sin', 'at_hour_cos']
    >>> parts.transform(visits)[:2].round(3).tolist()
    [[0.707, 0.707], [0.707, -0.707]]
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _learn(self, X: Any) -> None:
        """Find which rounds each column goes through."""
        self.rounds_: list[list[str]] = [_rounds(_seconds(X, name)) for name in X.columns]

    def _turn(self, X: Any) -> NDArray[Any]:
        """Give a sine and a cosine for each round."""
        parts = []
        for name, rounds in zip(X.columns, self.rounds_, strict=True):
            times = _seconds(X, name)
            angles = [2 * np.pi * _place(times, part) for part in rounds]
            sides = [side(angle) for angle in angles for side in _SIDES.values()]
            # so that the same time is the same number wherever it is computed
            parts += [np.nan_to_num(np.round(side, DIGITS)) for side in sides]
        return np.array(parts, dtype=self.dtype).reshape(len(parts), len(X)).T

    def _names_out(self) -> list[str]:
        told = zip(self.feature_names_in_, self.rounds_, strict=True)
        parts = [f"{name}_{part}" for name, rounds in told for part in rounds]
        return [f"{part}_{side}" for part in parts for side in _SIDES]


def _seconds(X: Any, name: Any) -> NDArray[np.float64]:
    times = seconds(convert(as_pandas(X, name), "time"))
    return times.to_numpy(dtype=float, na_value=np.nan)


def _place(times: NDArray[np.float64], part: str) -> NDArray[np.float64]:
    """Where in a round times are, from 0 to 1."""
    length = ROUNDS[part][0]
    return times % length / length


def _rounds(times: NDArray[np.float64]) -> list[str]:
    known = times[np.isfinite(times)]
    if not len(known):
        return []
    lasts = float(np.ptp(known))
    found = [name for name, (_, least) in ROUNDS.items() if lasts >= least]
    return [name for name in found if np.ptp(_place(known, name)) > 0]
