"""From a table of any columns to features: numbers standardised, text weighted, others one-hot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted, validate_data

from unbag._arrays import Floats
from unbag.defaults import FEWEST_ROWS, FEWEST_WORDS, MOST_WORDS
from unbag.tables.column_types import as_pandas, column_type, convert, seconds
from unbag.terms.encoding import as_frame

__all__ = ["make_features"]

MISSING = "(missing)"
# Proportion of entries that are not zero, below which a sparse matrix is smaller and faster.
_SPARSE = 0.1

# Text is free text if its values have so many words on average, in a sample of the rows.
_SAMPLE = 1000

_DAY = 86_400.0
# Decimals of sines and cosines, so that the same time is the same number everywhere.
DIGITS = 9
# The length of each period, and how long a table must last for it to be a feature.
PERIODS = {
    "hour": (_DAY, 2 * _DAY),
    "weekday": (7 * _DAY, 14 * _DAY),
    "season": (365.2425 * _DAY, 2 * 365 * _DAY),
}
_SIDES = {"sin": np.sin, "cos": np.cos}


class TableTransformer(TransformerMixin, BaseEstimator, ABC, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base of transformers of table columns into an array, whatever `sklearn.set_config` says."""

    @abstractmethod
    def _fit(self, X: Any) -> None:
        """Learn from the columns."""

    @abstractmethod
    def _transform(self, X: Any) -> Any:
        """Return the array of a table with the columns of ``fit``."""

    @abstractmethod
    def _names_out(self) -> list[str]:
        """Return the names of the features."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Learn from the columns of a table."""
        check_table(X)
        validate_data(self, X, skip_check_array=True)
        self._fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Turn the columns of a table into an array."""
        check_is_fitted(self)
        check_table(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self._transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array(self._names_out(), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")


class NumericFeatures(TableTransformer):
    """Turn columns of numbers, truth values and times into standardised floats.

    Truth values become 0 and 1, times become seconds since 1970, lengths of time become seconds.
    Missing and infinite values become the median of their column, and columns that had such values
    in training get another one that says where. All of them are brought to mean 0 and variance 1.
    A column that holds another type than in `fit` is an error. Columns are converted one at a time.
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _fit(self, X: Any) -> None:
        """Learn what each column holds, and its median, mean and standard deviation."""
        self.kinds_: list[str] = [column_type(as_pandas(X, name)) for name in X.columns]
        self.medians_ = np.zeros(len(self.kinds_))
        incomplete, moments, of_indicators = [], [], []
        for i, values in enumerate(self._columns(X)):
            missing = np.isnan(values)
            if missing.any():
                incomplete.append(i)
                of_indicators.append(_mean_and_scale(missing))
            if not missing.all():
                self.medians_[i] = np.median(values[~missing] if missing.any() else values)
            values[missing] = self.medians_[i]
            moments.append(_mean_and_scale(values))
        self.missing_columns_ = np.array(incomplete, dtype=np.intp)
        self.means_, self.scales_ = np.reshape(moments + of_indicators, (-1, 2)).T

    def _transform(self, X: Any) -> NDArray[Any]:
        """Give the columns, and then those that say where values are missing."""
        numbers = np.empty((len(X), len(self.means_)), dtype=self.dtype)
        of_indicators = dict(
            zip(self.missing_columns_, range(len(X.columns), len(self.means_)), strict=True)
        )
        for i, values in enumerate(self._columns(X)):
            missing = np.isnan(values)
            values[missing] = self.medians_[i]
            numbers[:, i] = (values - self.means_[i]) / self.scales_[i]
            if i in of_indicators:
                j = of_indicators[i]
                numbers[:, j] = (missing - self.means_[j]) / self.scales_[j]
        return numbers

    def _names_out(self) -> list[str]:
        names = [str(name) for name in self.feature_names_in_]
        return names + [f"missing_{names[i]}" for i in self.missing_columns_]

    def _columns(self, X: Any) -> Iterator[NDArray[Any]]:
        """Columns as floats, NaN where there is no finite value; the caller may change them."""
        for name, kind in zip(X.columns, self.kinds_, strict=True):
            yield finite_floats(X, name, kind)


def finite_floats(X: Any, name: Any, kind: Any) -> Floats:
    """A column as floats, NaN where there is no finite value; the caller may change them."""
    values = convert(as_pandas(X, name), kind)
    values = seconds(values) if kind == "time" else values
    numbers: Floats = values.to_numpy(dtype=float, na_value=np.nan, copy=True)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _mean_and_scale(values: NDArray[Any]) -> tuple[float, float]:
    """Mean and standard deviation, 1 for a constant, of which rounding may leave a little."""
    mean, deviation = float(values.mean()), float(values.std())
    constant = deviation <= 10 * np.finfo(float).eps * max(abs(mean), deviation)
    return mean, 1.0 if constant else deviation


class CategoryText(TableTransformer):
    """Turn columns of any kind into text, with ``"(missing)"`` where there is no value."""

    def _fit(self, X: Any) -> None:
        """Names of columns are all there is to know."""

    def _transform(self, X: Any) -> NDArray[Any]:
        text = np.empty(X.shape, dtype=object)
        for i, name in enumerate(X.columns):
            text[:, i] = convert(as_pandas(X, name), "category").fillna(MISSING)
        return text

    def _names_out(self) -> list[str]:
        return list(self.feature_names_in_)


class DatetimeFeatures(TableTransformer):
    """Encode the time of the day, of the week and of the year as points on a circle.

    A period becomes a sine and a cosine if the column lasts at least two of it and its values
    differ within it (dates are all at midnight): six features for each column at most. A missing
    time has zeros.
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _fit(self, X: Any) -> None:
        """Find the periods of each column."""
        self.periods_: list[list[str]] = [
            _periods(finite_floats(X, name, "time")) for name in X.columns
        ]

    def _transform(self, X: Any) -> NDArray[Any]:
        """Return a sine and a cosine for each period."""
        sides = []
        for name, periods in zip(X.columns, self.periods_, strict=True):
            times = finite_floats(X, name, "time")
            angles = [2 * np.pi * _place(times, part) for part in periods]
            sides += [side(angle) for angle in angles for side in _SIDES.values()]
        rounded = np.nan_to_num(np.round(sides, DIGITS))
        return rounded.astype(self.dtype).reshape(len(sides), len(X)).T

    def _names_out(self) -> list[str]:
        found = zip(self.feature_names_in_, self.periods_, strict=True)
        parts = [f"{name}_{part}" for name, periods in found for part in periods]
        return [f"{part}_{side}" for part in parts for side in _SIDES]


def _place(times: Floats, part: str) -> Floats:
    """Return the part of a period that has passed, from 0 to 1."""
    length = PERIODS[part][0]
    return times % length / length


def _periods(times: Floats) -> list[str]:
    known = times[np.isfinite(times)]
    lasts = float(np.ptp(known)) if len(known) else 0.0
    found = [name for name, (_, least) in PERIODS.items() if lasts >= least]
    return [name for name in found if np.ptp(_place(known, name)) > 0]


class TfidfText(TableTransformer):
    """Turn columns of free text into tf-idf weights of their words.

    Words in fewer than five rows are left out, and of those that remain all but the 20,000 most
    frequent ones of a column. A row without any of them is all zeros.
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _fit(self, X: Any) -> None:
        """Learn the words of each column, and how frequent they are."""
        self.vectorizers_: list[Any] = []
        for name in X.columns:
            words = TfidfVectorizer(
                min_df=FEWEST_ROWS,
                max_features=MOST_WORDS,
                sublinear_tf=True,
                strip_accents="unicode",
                dtype=np.dtype(self.dtype).type,
            )
            try:
                self.vectorizers_.append(words.fit(_texts(X, name)))
            except ValueError:  # no word is in enough rows
                self.vectorizers_.append(None)

    def _transform(self, X: Any) -> Any:
        """Give what each word weighs in each row, of all columns one after the other."""
        parts: list[Any] = [sparse.csr_matrix(np.empty((len(X), 0), dtype=self.dtype))]
        for name, words in zip(X.columns, self.vectorizers_, strict=True):
            if words is not None:
                parts.append(words.transform(_texts(X, name)))
        return sparse.hstack(parts, format="csr")

    def _names_out(self) -> list[str]:
        pairs = zip(self.feature_names_in_, self.vectorizers_, strict=True)
        return [
            f"{name}_{word}"
            for name, words in pairs
            if words is not None
            for word in words.get_feature_names_out()
        ]


def _texts(frame: Any, name: Any) -> list[str]:
    return list(convert(as_pandas(frame, name), "category").fillna(""))


def check_table(X: Any) -> None:
    """Refuse what has no named columns, and lazy frames."""
    if as_frame(X) is None:
        raise ValueError(
            "X must be a table with named columns, such as a DataFrame of pandas or polars, not "
            f"{type(X).__name__}."
        )


def number_columns(frame: Any) -> list[str]:
    """Return the names of the columns that hold numbers, truth values or times."""
    return [name for name in _names(frame) if column_type(as_pandas(frame, name)) != "category"]


def category_columns(frame: Any) -> list[str]:
    """Return the names of the columns that hold categories, which includes text unless it is free text."""
    columns = ((name, as_pandas(frame, name)) for name in _names(frame))
    return [
        name for name, own in columns if column_type(own) == "category" and not is_free_text(own)
    ]


def _names(frame: Any) -> Any:
    if not hasattr(frame, "columns"):
        raise ValueError(
            "make_features takes a table with named columns, such as a DataFrame of pandas or "
            f"polars, not {type(frame).__name__}."
        )
    as_frame(frame)  # names that are there twice are refused
    return frame.columns


def datetime_columns(frame: Any) -> list[str]:
    """Return the names of the columns that hold dates or times."""
    return [name for name in frame.columns if column_type(as_pandas(frame, name)) == "time"]


def is_free_text(values: Any) -> bool:
    """Whether a pandas column holds free text: several words each, most of them in few rows."""
    if column_type(values) != "category":
        return False
    present = values.dropna().astype(str)
    some = present.iloc[:: max(1, len(present) // _SAMPLE)]
    if len(some) < FEWEST_ROWS or some.str.split().str.len().mean() < FEWEST_WORDS:
        return False
    rows = present.value_counts()
    return bool(2 * rows[rows >= FEWEST_ROWS].sum() < len(present))


def text_columns(frame: Any) -> list[str]:
    """Return the names of the columns that hold free text."""
    return [name for name in frame.columns if is_free_text(as_pandas(frame, name))]


def make_features(dtype: Literal["float64", "float32"] = "float64") -> ColumnTransformer:
    """Make a transformer of numbers, categories, times and free text to features.

    Missing and infinite numbers are replaced by the median of their column, with an indicator column.
    Booleans become 0 and 1. Times become seconds and, if the data span at least two periods of each,
    the time of day, week and year (`DatetimeFeatures`). Other missing values are a category of their
    own. Categories that were not in the training rows become zeros; those in fewer than five rows
    share one. Columns of free text become tf-idf weights of their words (`TfidfText`). Tables
    may be of pandas or polars. Features of which fewer than a tenth are not zero, as with words or
    columns of many categories, are a sparse matrix.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of the features; float32 halves the memory that they, and models of them, need.

    Returns
    -------
    ColumnTransformer
        With the parts ``"numbers"`` (`NumericFeatures`), ``"times"`` (`DatetimeFeatures`), ``"categories"``
        (`CategoryText` and scikit-learn's ``OneHotEncoder``) and ``"words"`` (`TfidfText`).

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.features import make_features
    >>> people = pd.DataFrame({"age": [31, 64] * 5, "colour": ["red", None] * 5})
    >>> features = make_features().fit(people)
    >>> features.get_feature_names_out().tolist()
    ['age', 'colour_(missing)', 'colour_red']
    """
    others = OneHotEncoder(
        handle_unknown="ignore", min_frequency=FEWEST_ROWS, dtype=np.dtype(dtype).type
    )
    features = ColumnTransformer(
        [
            ("numbers", NumericFeatures(dtype), number_columns),
            ("times", DatetimeFeatures(dtype), datetime_columns),
            ("categories", make_pipeline(CategoryText(), others), category_columns),
            ("words", TfidfText(dtype), text_columns),
        ],
        sparse_threshold=_SPARSE,
        verbose_feature_names_out=False,
    )
    # what pandas and polars cannot hold is sparse
    return features.set_output(transform="default")
