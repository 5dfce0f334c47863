"""From a table of any columns to features: numbers standardised, words weighed, others one-hot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from unbag.tables.column_types import as_pandas, column_type, convert, seconds
from unbag.tables.prose import FEWEST_ROWS, ToWords, is_prose, prose_columns
from unbag.tables.times import TimeParts, time_columns
from unbag.tables.transformers import TableTransformer

MISSING = "(missing)"


# Share of entries that are not zero, below which a sparse matrix is smaller and faster.
_SPARSE = 0.1


class ToNumbers(TableTransformer):
    """Turn columns of numbers, truth values and times into standardised floats without gaps.

    Truth values become 0 and 1, times become seconds since 1970, lengths of time become seconds.
    Missing and infinite values become the median of their column, and columns that had such gaps
    in training get another one that says where. All of them are brought to mean 0 and variance 1.
    What a column holds is learnt in `fit`, so that a column of the same name that holds something
    else later is an error that names it. Works on one column at a time, to save memory.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of what comes out; all is computed in float64.

    Attributes
    ----------
    kinds_ : list of str
        What each column holds; see `unbag.tables.column_types`.
    medians_ : ndarray of shape (n_features_in_,)
        What gaps are filled with; 0 if a column has no value.
    gappy_ : ndarray of int
        The columns that had gaps.
    means_ : ndarray of shape (n_features_in_ + len(gappy_),)
        Mean of each column that comes out.
    scales_ : ndarray of shape (n_features_in_ + len(gappy_),)
        Its standard deviation; 1 for a constant.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.features import ToNumbers
    >>> frame = pd.DataFrame({"age": [31.0, None, 65.0], "colour": ["red", None, "blue"]})
    >>> numbers = ToNumbers().fit(frame[["age"]])
    >>> numbers.get_feature_names_out().tolist()
    ['age', 'missing_age']
    >>> numbers.transform(frame[["age"]]).round(3)
    array([[-1.225, -0.707],
           [ 0.   ,  1.414],
           [ 1.225, -0.707]])
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _learn(self, X: Any) -> None:
        """Learn what each column holds, and its median, mean and standard deviation."""
        self.kinds_: list[str] = [column_type(as_pandas(X, name)) for name in X.columns]
        self.medians_ = np.zeros(len(self.kinds_))
        gappy, moments = [], []
        for i, values in enumerate(self._columns(X)):
            gaps = np.isnan(values)
            if gaps.any():
                gappy.append(i)
            if not gaps.all():
                self.medians_[i] = np.median(values[~gaps] if gaps.any() else values)
            values[gaps] = self.medians_[i]
            moments.append(_mean_and_scale(values))
        self.gappy_ = np.array(gappy, dtype=np.intp)
        moments += [_mean_and_scale(np.isnan(v)) for v in self._columns(X, gappy)]
        self.means_, self.scales_ = np.reshape(moments, (-1, 2)).T

    def _turn(self, X: Any) -> NDArray[Any]:
        """Give the columns, and then those that say where gaps were."""
        n_columns = len(self.medians_)
        numbers = np.empty((len(X), len(self.means_)), dtype=self.dtype)
        place = {int(column): n_columns + i for i, column in enumerate(self.gappy_)}
        for i, values in enumerate(self._columns(X)):
            gaps = np.isnan(values)
            values[gaps] = self.medians_[i]
            for j, column in ((i, values), (place.get(i), gaps)):
                if j is not None:
                    numbers[:, j] = (column - self.means_[j]) / self.scales_[j]
        return numbers

    def _names_out(self) -> list[str]:
        names = [str(name) for name in self.feature_names_in_]
        return names + [f"missing_{names[i]}" for i in self.gappy_]

    def _columns(self, X: Any, chosen: Sequence[int] | None = None) -> Iterator[NDArray[Any]]:
        """Columns as floats, NaN where there is no finite value; the caller may change them."""
        kinds: Any = self.kinds_
        for i in range(len(kinds)) if chosen is None else chosen:
            values = convert(as_pandas(X, X.columns[i]), kinds[i])
            values = seconds(values) if kinds[i] == "time" else values
            numbers = values.to_numpy(dtype=float, na_value=np.nan, copy=True)
            numbers[~np.isfinite(numbers)] = np.nan
            yield numbers


def _mean_and_scale(values: NDArray[Any]) -> tuple[float, float]:
    """Mean and standard deviation, 1 for a constant, of which rounding may leave a little."""
    mean, deviation = float(values.mean()), float(values.std())
    constant = deviation <= 10 * np.finfo(float).eps * max(abs(mean), deviation)
    return mean, 1.0 if constant else deviation


class ToText(TableTransformer):
    """Turn columns of any kind into text, with ``"(missing)"`` where there is no value.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.features import ToText
    >>> frame = pd.DataFrame({"age": [31.0, None, 65.0], "colour": ["red", None, "blue"]})
    >>> ToText().fit_transform(frame[["colour"]]).ravel().tolist()
    ['red', '(missing)', 'blue']
    """

    def _learn(self, X: Any) -> None:
        """Names of columns are all there is to know."""

    def _turn(self, X: Any) -> NDArray[Any]:
        text = np.empty(X.shape, dtype=object)
        for i, name in enumerate(X.columns):
            text[:, i] = convert(as_pandas(X, name), "category").fillna(MISSING)
        return text

    def _names_out(self) -> list[str]:
        return list(self.feature_names_in_)


def number_columns(frame: Any) -> list[str]:
    """Names of the columns that hold numbers, truth values or times.

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
    >>> from unbag.tables.features import number_columns
    >>> frame = pd.DataFrame({"age": [31.0, None, 65.0], "colour": ["red", None, "blue"]})
    >>> number_columns(frame)
    ['age']
    """
    return [name for name in _names(frame) if column_type(as_pandas(frame, name)) != "category"]


def category_columns(frame: Any) -> list[str]:
    """Names of the columns that hold categories, which includes text unless it is prose.

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
    >>> from unbag.tables.features import category_columns
    >>> frame = pd.DataFrame({"age": [31.0, None, 65.0], "colour": ["red", None, "blue"]})
    >>> category_columns(frame)
    ['colour']
    """
    columns = ((name, as_pandas(frame, name)) for name in _names(frame))
    return [name for name, own in columns if column_type(own) == "category" and not is_prose(own)]


def _names(frame: Any) -> Any:
    if not hasattr(frame, "columns"):
        raise ValueError(
            "make_features takes a table with named columns, such as a DataFrame of pandas or "
            f"polars, not {type(frame).__name__}."
        )
    return frame.columns


def make_features(dtype: Literal["float64", "float32"] = "float64") -> ColumnTransformer:
    """Standardise numbers, encode everything else one-hot; missing values are filled in.

    Numbers get the median of their column, with a column that says where; infinite values count
    as missing, truth values as 0 and 1, times as seconds and, where a table lasts long enough, as
    places in the day, the week and the year (`TimeParts`). Other missing values are a category of
    their own. Categories that were not seen in training become zeros; those in fewer than five
    rows are taken together. Columns of prose become the words that are in them (`ToWords`). Tables
    may be of pandas or polars. Features of which fewer than a tenth are not zero, as with words or
    columns of many categories, are a sparse matrix.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of the features; float32 halves the memory that they, and models of them, need.

    Returns
    -------
    ColumnTransformer
        With the parts ``"numbers"`` (`ToNumbers`), ``"times"`` (`TimeParts`), ``"categories"``
        (`ToText` and scikit-learn's ``OneHotEncoder``) and ``"words"`` (`ToWords`).

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
    return ColumnTransformer(
        [
            ("numbers", ToNumbers(dtype), number_columns),
            ("times", TimeParts(dtype), time_columns),
            ("categories", make_pipeline(ToText(), others), category_columns),
            ("words", ToWords(dtype), prose_columns),
        ],
        sparse_threshold=_SPARSE,
        verbose_feature_names_out=False,
    )
