"""Columns of prose, such as titles and comments, as the words that are in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted, validate_data

from unbag.tabular.kinds import as_pandas, column_kind, convert

# Rows that a word or a category must be in to be told apart from others.
FEWEST_ROWS = 5

_LOOKED_AT = 1000
_FEWEST_WORDS = 3.0
_MOST_WORDS = 20_000


def is_prose(values: Any) -> bool:
    """Whether a pandas column holds sentences: some words each, in most rows not seen before.

    As categories, which take five rows each, they would say nothing of most rows.

    Parameters
    ----------
    values : pandas.Series
        The column.

    Returns
    -------
    found : bool
        Whether it does.

    See Also
    --------
    unbag.tabular.prose.prose_columns : Names of the columns that hold sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tabular.prose import is_prose
    >>> is_prose(pd.Series([f"room {i} smells of paint" for i in range(20)]))
    True
    >>> is_prose(pd.Series(["New York City", "Salt Lake City"] * 10))
    False
    """
    if column_kind(values) != "category":
        return False
    present = values.dropna().astype(str)
    some = present.iloc[:: max(1, len(present) // _LOOKED_AT)]
    if len(some) < FEWEST_ROWS or some.str.split().str.len().mean() < _FEWEST_WORDS:
        return False
    rows = present.value_counts()
    return bool(2 * rows[rows >= FEWEST_ROWS].sum() < len(present))


def prose_columns(frame: Any) -> list[str]:
    """Names of the columns that hold sentences.

    Parameters
    ----------
    frame : data frame
        A table of pandas, polars or another library that narwhals knows.

    Returns
    -------
    names : list of str
        In the order of the table.

    See Also
    --------
    unbag.tabular.prose.ToWords : Turn columns of prose into the words that are in them.
    unbag.tabular.prose.is_prose : Whether a pandas column holds sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tabular.prose import prose_columns
    >>> frame = pd.DataFrame({"note": [f"call {i} was cut off" for i in range(9)], "by": "ann"})
    >>> prose_columns(frame)
    ['note']
    """
    return [name for name in frame.columns if is_prose(as_pandas(frame, name))]


class ToWords(TransformerMixin, BaseEstimator):
    """Turn columns of prose into the words that are in them, rare ones weighing more (tf-idf).

    Words in fewer than five rows are left out, and of those that remain all but the 20,000 most
    frequent ones of a column. A row without any of them is all zeros.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of what comes out.

    Attributes
    ----------
    vectorizers_ : list of TfidfVectorizer or None
        One for each column; None where no word is in five rows.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns.

    See Also
    --------
    unbag.tabular.features.make_features : Standardise numbers, encode everything else one-hot.
    unbag.tabular.prose.prose_columns : Names of the columns that hold sentences.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tabular.prose import ToWords
    >>> notes = pd.DataFrame({"note": ["too late", "too cold", None, "too late", "in time"] * 5})
    >>> words = ToWords().fit(notes)
    >>> words.get_feature_names_out().tolist()
    ['note_cold', 'note_in', 'note_late', 'note_time', 'note_too']
    >>> float(words.transform(notes)[2].sum())
    0.0
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> ToWords:  # noqa: ARG002 (scikit-learn's signature)
        """Learn the words of each column, and how frequent they are.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            The table.
        y : object, default=None
            Not used; here as scikit-learn gives it.

        Returns
        -------
        self : transformer
            The fitted transformer.
        """
        validate_data(self, X, skip_check_array=True)
        self.vectorizers_: list[Any] = [self._learn(_texts(X, name)) for name in X.columns]
        return self

    def _learn(self, texts: list[str]) -> TfidfVectorizer | None:
        words = TfidfVectorizer(
            min_df=FEWEST_ROWS,
            max_features=_MOST_WORDS,
            sublinear_tf=True,
            strip_accents="unicode",
            dtype=np.dtype(self.dtype).type,
        )
        try:
            return words.fit(texts)
        except ValueError:  # no word is in enough rows
            return None

    def transform(self, X: Any) -> Any:
        """Give a sparse matrix: what each word weighs in each row.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            The table.

        Returns
        -------
        weights : sparse matrix of shape (n_rows, n_words)
            Of all columns, one after the other.
        """
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        parts: list[Any] = [sparse.csr_matrix(np.empty((len(X), 0), dtype=self.dtype))]
        for name, words in zip(X.columns, self.vectorizers_, strict=True):
            if words is not None:
                parts.append(words.transform(_texts(X, name)))
        return sparse.hstack(parts, format="csr")

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Names of the columns that come out.

        Parameters
        ----------
        input_features : object, default=None
            Not used; names are those of ``fit``.

        Returns
        -------
        names : ndarray of str
            A column and a word each.
        """
        check_is_fitted(self)
        columns: Any = self.feature_names_in_
        pairs = zip(columns, self.vectorizers_, strict=True)
        names = [
            f"{name}_{word}"
            for name, words in pairs
            if words is not None
            for word in words.get_feature_names_out()
        ]
        return np.array(names, dtype=object)


def _texts(frame: Any, name: Any) -> list[str]:
    return list(convert(as_pandas(frame, name), "category").fillna(""))
