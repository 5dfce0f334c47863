"""A table of any columns as a frame of numbers and categories, as the mixed model takes it."""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.validation import check_is_fitted

from unbag.bags.labels import fields_of
from unbag.defaults import FEWEST_ROWS, MOST_COMPONENTS
from unbag.tables.column_types import as_pandas, column_type, convert
from unbag.tables.features import (
    MISSING,
    DatetimeFeatures,
    TableTransformer,
    TfidfText,
    category_columns,
    check_table,
    datetime_columns,
    finite_floats,
    number_columns,
    text_columns,
)

# Levels of a category that are in few rows are one level together.
RARE = "(rare)"
_COMPONENT = re.compile(r"(.*) \(text \d+\)", re.DOTALL)


class MixedFeatures(TableTransformer):
    """Turn a table into numbers and categories, which `unbag.LLPClassifier` weighs term by term.

    Numbers, truth values and times become floats, NaN where they are missing or infinite; times
    also have their places in the day, week and year (`unbag.tables.features.DatetimeFeatures`).
    Categories stay columns of text, with one level for missing values and one for all levels that
    are in fewer than five rows. Free text becomes the scores of at most 50 components of its tf-idf
    weights, by a truncated singular value decomposition.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the columns of a table, and from ``y`` how many rows each stands for."""
        super().fit(X)
        if "multiplicity" in fields_of(y):
            times = y["multiplicity"]
            self.levels_ = [_common_levels(_levels(X, name), times) for name in self.categories_]
        return self

    def transform(self, X: Any) -> Any:
        """Turn the columns that were there in `fit` into a frame; others are ignored."""
        check_is_fitted(self)
        check_table(X)
        if set(self.columns_) <= set(X.columns):
            X = X[self.columns_]
        return super().transform(X)

    def _fit(self, X: Any) -> None:
        """Learn what columns hold, the levels of categories, and the components of text."""
        self.columns_ = list(X.columns)
        self.numbers_, self.categories_ = number_columns(X), category_columns(X)
        self.times_, self.texts_ = datetime_columns(X), text_columns(X)
        self.kinds_: list[str] = [column_type(as_pandas(X, name)) for name in self.numbers_]
        self.levels_ = [_common_levels(_levels(X, name)) for name in self.categories_]
        self.periods_ = [DatetimeFeatures().fit(_alone(X, name)) for name in self.times_]
        self.words_ = [TfidfText().fit(X[[name]]) for name in self.texts_]
        self.components_ = [
            _components(words.transform(X[[name]]))
            for name, words in zip(self.texts_, self.words_, strict=True)
        ]

    def _transform(self, X: Any) -> Any:
        """Give numbers, components of text, and then categories."""
        import pandas as pd

        columns = [finite_floats(X, *each) for each in zip(self.numbers_, self.kinds_, strict=True)]
        for name, periods in zip(self.times_, self.periods_, strict=True):
            columns += list(periods.transform(_alone(X, name)).T)
        for name, words, svd in zip(self.texts_, self.words_, self.components_, strict=True):
            if svd is not None:
                columns += list(svd.transform(words.transform(X[[name]])).T)
        for name, levels in zip(self.categories_, self.levels_, strict=True):
            text = _levels(X, name)
            columns.append(text if levels is None else text.where(text.isin(levels), RARE))
        values = map(np.asarray, columns)
        # names may be there twice
        frame = pd.DataFrame(dict(enumerate(values)), index=pd.RangeIndex(len(X)))
        return frame.set_axis(self._names_out(), axis=1)

    def _names_out(self) -> list[str]:
        names = list(map(str, self.numbers_))
        names += [part for periods in self.periods_ for part in periods.get_feature_names_out()]
        for name, svd in zip(self.texts_, self.components_, strict=True):
            n = 0 if svd is None else len(svd.components_)
            names += [f"{name} (text {i + 1})" for i in range(n)]
        return names + list(map(str, self.categories_))


def _alone(X: Any, name: Any) -> Any:
    """A column as a pandas frame: scikit-learn 1.6 does not read the names of others."""
    return as_pandas(X, name).to_frame(name)


def text_groups(names: list[str]) -> dict[str, list[int]]:
    """Groups of the columns that `MixedFeatures` makes of free text, for `unbag.LLPClassifier`."""
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found = _COMPONENT.fullmatch(name)
        if found:
            groups.setdefault(f"{found[1]} (text)", []).append(place)
    return groups


def _components(table: Any) -> TruncatedSVD | None:
    n = min(MOST_COMPONENTS, table.shape[1])
    # where all rows have the same words, shares of their variance are none
    with np.errstate(invalid="ignore", divide="ignore"):
        svd = TruncatedSVD(n, random_state=0).set_output(transform="default")
        return svd.fit(table) if n else None


def _common_levels(texts: Any, times: Any = 1) -> list[str] | None:
    counts = texts.to_frame("level").assign(n=times).groupby("level")["n"].sum()
    common = counts[counts >= FEWEST_ROWS].index.tolist()
    return None if len(common) == len(counts) else sorted(common)


def _levels(X: Any, name: Any) -> Any:
    return convert(as_pandas(X, name), "category").fillna(MISSING)
