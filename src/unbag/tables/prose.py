"""Columns of prose, such as titles and comments, as the words that are in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from unbag.tables.column_types import as_pandas, column_type, convert
from unbag.tables.transformers import TableTransformer

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

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.prose import is_prose
    >>> is_prose(pd.Series([f"room {i} smells of paint" for i in range(20)]))
    True
    >>> is_prose(pd.Series(["New York City", "Salt Lake City"] * 10))
    False
    """
    if column_type(values) != "category":
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

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.prose import prose_columns
    >>> frame = pd.DataFrame({"note": [f"call {i} was cut off" for i in range(9)], "by": "ann"})
    >>> prose_columns(frame)
    ['note']
    """
    return [name for name in frame.columns if is_prose(as_pandas(frame, name))]


class ToWords(TableTransformer):
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

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag.tables.prose import ToWords
    >>> notes = pd.DataFrame({"note": ["too late", "too cold", None, "too late", "in time"] * 5})
    >>> words = ToWords().fit(notes)
    >>> words.get_feature_names_out().tolist()
    ['note_cold', 'note_in', 'note_late', 'note_time', 'note_too']
    >>> float(words.transform(notes)[2].sum())
    0.0
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def _learn(self, X: Any) -> None:
        """Learn the words of each column, and how frequent they are."""
        self.vectorizers_: list[Any] = [self._words(_texts(X, name)) for name in X.columns]

    def _words(self, texts: list[str]) -> TfidfVectorizer | None:
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

    def _turn(self, X: Any) -> Any:
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
