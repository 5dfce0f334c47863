"""What the clock and the calendar say of points in time, as a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unbag.tabular.kinds import as_pandas, column_kind, convert, seconds

_DAY = 86_400.0

# Of sines and cosines.
DIGITS = 9
# Each round of time: its length, and how long a table must last for it to say something.
ROUNDS = {
    "hour": (_DAY, 2 * _DAY),
    "weekday": (7 * _DAY, 14 * _DAY),
    "season": (365.2425 * _DAY, 2 * 365 * _DAY),
}


def time_columns(frame: Any) -> list[str]:
    """Names of the columns that hold dates or times."""
    return [name for name in frame.columns if column_kind(as_pandas(frame, name)) == "time"]


class TimeParts(TransformerMixin, BaseEstimator):
    """Say where in the day, the week and the year a time is, as points on a circle.

    Only rounds that a column goes through at least twice are told, and the hour only where times
    are not all at midnight: six numbers for each column at most. Where there is no time, they are
    0, the middle of the circle.

    Attributes
    ----------
    rounds_ : list of list of str
        For each column, the rounds that are told.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tabular.times import TimeParts
    >>> visits = pd.DataFrame({"at": pd.date_range("2024-05-01 03:00", periods=3, freq="D")})
    >>> TimeParts().fit_transform(visits).round(3).to_dict("list")
    {'at_hour_sin': [0.707, 0.707, 0.707], 'at_hour_cos': [0.707, 0.707, 0.707]}
    """

    def fit(self, X: Any, y: Any = None) -> TimeParts:  # noqa: ARG002 (scikit-learn's signature)
        """Find which rounds each column goes through."""
        validate_data(self, X, skip_check_array=True)
        self.rounds_: list[list[str]] = [_rounds(_seconds(X, name)) for name in X.columns]
        return self

    def transform(self, X: Any) -> Any:
        """Give a pandas DataFrame: a sine and a cosine for each round."""
        import pandas as pd

        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        parts = {}
        for name, rounds in zip(X.columns, self.rounds_, strict=True):
            times = _seconds(X, name)
            for part in rounds:
                length = ROUNDS[part][0]
                angle = 2 * np.pi * (times % length) / length
                for side, turn in (("sin", np.sin), ("cos", np.cos)):
                    # so that the same time is the same number wherever it is computed
                    parts[f"{name}_{part}_{side}"] = np.nan_to_num(np.round(turn(angle), DIGITS))
        return pd.DataFrame(parts, index=range(len(X)))

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Names of the columns that come out."""
        check_is_fitted(self)
        told = zip(self.feature_names_in_, self.rounds_, strict=True)
        parts = [f"{name}_{part}" for name, rounds in told for part in rounds]
        return np.array(
            [f"{part}_{side}" for part in parts for side in ("sin", "cos")], dtype=object
        )


def _seconds(X: Any, name: Any) -> Any:
    times = seconds(convert(as_pandas(X, name), "time"))
    return times.to_numpy(dtype=float, na_value=np.nan)


def _rounds(times: Any) -> list[str]:
    known = times[np.isfinite(times)]
    if not len(known):
        return []
    lasts = float(known.max() - known.min())
    found = [name for name, (_, least) in ROUNDS.items() if lasts >= least]
    at_midnight = bool((known % _DAY == 0).all())
    return [name for name in found if name != "hour" or not at_midnight]
