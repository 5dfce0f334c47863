"""What all transformers of tables have in common: they check columns, and learn and give arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data


class TableTransformer(TransformerMixin, BaseEstimator, ABC):
    """Turns columns of a table into an array; a transformer adds what it learns, and how."""

    @abstractmethod
    def _learn(self, X: Any) -> None:
        """Store what is to be known of the columns."""

    @abstractmethod
    def _turn(self, X: Any) -> Any:
        """Give the array of a table with the columns of ``fit``."""

    @abstractmethod
    def _names_out(self) -> list[str]:
        """Names of the columns of that array."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Learn what there is to know of the columns.

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
        self._learn(X)
        return self

    def transform(self, X: Any) -> Any:
        """Turn the columns of a table into an array.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            The table.

        Returns
        -------
        turned : ndarray or sparse matrix of shape (n_rows, n_columns_out)
            What comes out.
        """
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self._turn(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Names of the columns that come out.

        Parameters
        ----------
        input_features : object, default=None
            Not used; names are those of ``fit``.

        Returns
        -------
        names : ndarray of str
            The names.
        """
        check_is_fitted(self)
        return np.array(self._names_out(), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")
