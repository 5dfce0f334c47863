"""Trees that grow by gradients from outside, over rows that are binned once.

LightGBM takes a gradient and a curvature for every row and score, and grows one tree for each
score. Several boosters share one table of bins: a row that one of them must not see has gradient
and curvature zero, and then adds nothing to any sum that a split or a leaf is made from. (Number
of rows in a leaf is a sum that would; so the smallest leaf is given by its curvature.) Scores of
rows that were not seen come with those of the others.

Sums over rows are made column by column, so that the number of threads makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers in a table below which more threads than one cost more than they bring.
_FEW = 1_000_000


def lightgbm() -> Any:
    """The package, or what to do to have it."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise ImportError("Boosted trees need LightGBM: pip install 'unbag[boosting]'") from None


class BinnedRows:
    """Rows in bins, for any number of boosters.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        NaN is a value that is missing.
    categorical : list of int
        Columns that hold codes of categories.
    settings : dict
        Parameters of LightGBM for all boosters.
    n_jobs : int, optional
        Number of threads; by default one for small tables, and as many as there are for others.
    """

    def __init__(
        self, X: Any, categorical: list[int], settings: Mapping[str, Any], n_jobs: int | None
    ) -> None:
        few = X.shape[0] * X.shape[1] < _FEW
        self._settings = {
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "min_data_in_leaf": 1,
            "verbosity": -1,
            **settings,
            "objective": "none",
            "metric": "none",
            "num_threads": n_jobs if n_jobs is not None else int(few),
        }
        data = lightgbm().Dataset(
            X,
            np.zeros(X.shape[0]),
            params=self._settings,
            categorical_feature=categorical,
        )
        self._data = data.construct()

    def booster(self, n_outputs: int, **settings: Any) -> Booster:
        """Begin to grow trees for so many scores."""
        return Booster(self._data, {**self._settings, **settings, "num_class": n_outputs})


class Booster:
    """A sum of trees over binned rows, zero at first."""

    def __init__(self, data: Any, settings: Mapping[str, Any]) -> None:
        self._booster = lightgbm().Booster(dict(settings), data)
        self._n_outputs = int(settings["num_class"])

    def scores(self) -> NDArray[np.float64]:
        """Scores (outputs, rows) of all rows."""
        found: list[NDArray[np.float64]] = []

        def look(scores: NDArray[np.float64], _: Any) -> tuple[str, float, bool]:
            found.append(scores)
            return "", 0.0, True

        self._booster.eval_train(look)
        return found[0].reshape(-1, self._n_outputs).T

    def grow(self, gradient: NDArray[np.float64], curvature: NDArray[np.float64]) -> bool:
        """Grow one tree for each score; False if there was nothing to gain by any.

        Parameters
        ----------
        gradient, curvature : ndarray of shape (outputs, rows)
        """
        both = np.squeeze(gradient.T), np.squeeze(curvature.T)
        return not self._booster.update(fobj=lambda *_: both)

    def predict(self, X: Any, n_rounds: int) -> NDArray[np.float64]:
        """Scores (outputs, rows) of rows by the first rounds."""
        return tree_scores(self._booster, X, n_rounds)

    def importances(self) -> NDArray[np.float64]:
        """Share of each column in all that splits gained; zeros if nothing was split."""
        gains = np.asarray(self._booster.feature_importance("gain"), dtype=float)
        return gains / (gains.sum() or 1.0)

    def text(self) -> str:
        """The trees as text, from which `read_trees` makes them again."""
        text: str = self._booster.model_to_string()
        # what follows is settings of the training, such as the number of threads
        return text[: text.index("\nparameters:") + 1]


def read_trees(text: str) -> Any:
    """Make a booster of LightGBM from its text."""
    return lightgbm().Booster(model_str=text)


def tree_scores(trees: Any, X: Any, n_rounds: int | None = None) -> NDArray[np.float64]:
    """Scores (outputs, rows) of new rows by the first rounds of trees, or by all of them."""
    found = trees.predict(X, raw_score=True, num_iteration=n_rounds)
    return np.asarray(found, dtype=float).reshape(X.shape[0], -1).T
