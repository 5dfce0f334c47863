"""Trees of XGBoost, grown by gradients from outside over rows that are binned once.

XGBoost goes by sums of gradient and curvature alone, so that rows held out are left where they are,
with zeros for both. Slopes are rounded to a multiple of 2⁻²⁴: then these sums are exact in double
precision, and neither the number of threads nor who sums first makes a difference. Scores are of
single precision, as the columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from unbag._outputs import by_output
from unbag.models.boosted_json import rebuild_trees, scale_leaves
from unbag.models.boosted_library import (
    TEXTS_AT_HAND,
    Library,
    TreeShape,
    count_threads,
    refuse_constant,
)

# What slopes are multiples of.
_GRAIN = 2.0**-24


def xgboost() -> Any:
    """The package, or what to do to have it."""
    try:
        return import_module("xgboost")
    except ImportError:
        raise ImportError("These trees are those of XGBoost: pip install xgboost") from None


class QuantileRows:
    """Rows in bins, for any number of boosters.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        NaN is a value that is missing.
    categorical : list of int
        Columns that hold codes of categories.
    settings : dict
        Parameters of XGBoost for all boosters.
    """

    def __init__(self, X: Any, categorical: list[int], settings: Mapping[str, Any]) -> None:
        n_jobs = count_threads(settings.get("n_jobs"), X)
        table = single_precision(X)
        if not _some_column_differs(table):
            refuse_constant()
        self._settings = {
            "grow_policy": "lossguide",
            "max_depth": 0,
            # categories are taken as such anyway
            **{name: value for name, value in settings.items() if name != "enable_categorical"},
            "tree_method": "hist",
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            # to XGBoost, none is all
            "n_jobs": max(n_jobs, 0),
        }
        self._kinds = column_kinds(table.shape[1], categorical)
        self._data = xgboost().QuantileDMatrix(
            table,
            feature_types=self._kinds,
            enable_categorical=True,
            nthread=n_jobs,
            **{name: settings[name] for name in ("max_bin",) if name in settings},
        )
        self._every = np.ones(len(table), dtype=bool)

    def booster(self, n_outputs: int, num_leaves: int) -> Booster:
        """Begin to grow trees for so many scores, by all rows."""
        return self._begin(self._every, n_outputs, num_leaves)

    def without(self, held: NDArray[np.bool_]) -> Callable[[int, int], Booster]:
        """Make boosters, as above, that do not see the rows that are held out."""
        return partial(self._begin, ~held)

    def _begin(self, seen: NDArray[np.bool_], n_outputs: int, num_leaves: int) -> Booster:
        # to XGBoost, none is one score
        several = {"num_class": n_outputs if n_outputs > 1 else 0}
        settings = {**self._settings, **several, "max_leaves": num_leaves}
        return Booster(settings, self._data, self._kinds, seen)


class Booster:
    """A sum of trees over binned rows, zero at first.

    Parameters
    ----------
    settings : dict
        Parameters of XGBoost.
    data : QuantileDMatrix
    kinds : list of str
        Of columns: numbers ("q") or categories ("c").
    seen : ndarray of bool
        Rows to learn from.
    """

    def __init__(
        self, settings: Mapping[str, Any], data: Any, kinds: list[str], seen: NDArray[np.bool_]
    ) -> None:
        self._booster = xgboost().Booster(dict(settings), [data])
        self._data, self._kinds, self._seen = data, kinds, seen

    def scores(self) -> NDArray[np.float64]:
        """Scores (outputs, rows) of all rows."""
        return by_output(self._booster.predict(self._data, output_margin=True))

    def grow(self, gradient: NDArray[np.float64], curvature: NDArray[np.float64]) -> None:
        """Grow one tree for each score.

        Parameters
        ----------
        gradient, curvature : ndarray of shape (outputs, rows)
        """
        slopes = [
            np.round((values * self._seen).T / _GRAIN) * _GRAIN for values in (gradient, curvature)
        ]
        self._booster.update(self._data, self._booster.num_boosted_rounds(), fobj=lambda *_: slopes)

    def predict(self, X: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (outputs, rows) of rows by the first rounds, each times its weight."""
        if (weights == 1).all():
            return tree_scores(self._booster, self._kinds, X, len(weights))
        return tree_scores(_load(self.text(weights)), self._kinds, X)

    def gains(self, n_rounds: int) -> NDArray[np.float64]:
        """What splits by each column gained in the first rounds."""
        found = self._booster[:n_rounds].get_score(importance_type="total_gain")
        return np.array([found.get(f"f{i}", 0.0) for i in range(len(self._kinds))])

    def text(self, weights: NDArray[np.float64]) -> str:
        """Trees of the first rounds, times weights, from which `read_trees` makes them again."""
        text: str = self._booster[: len(weights)].save_raw("json").decode()
        return text if (weights == 1).all() else scale_leaves(text, weights.tolist())


def add_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of what the workers have that grow trees together; what there is, if there is one."""
    collective = xgboost().collective
    found: NDArray[np.float64] = collective.allreduce(values, collective.Op.SUM)
    return found.reshape(values.shape)


def _some_column_differs(table: NDArray[np.float32]) -> bool:
    """Whether there is something to split by, in the rows of all workers that grow trees."""
    ends = [np.fmax.reduce(side, axis=0, initial=-np.inf) for side in (table, -table)]
    missing = np.isnan(table)
    present = [flags.any(axis=0).astype(np.float32) for flags in (missing, ~missing)]
    collective = xgboost().collective
    found = collective.allreduce(np.concatenate([*ends, *present]), collective.Op.MAX)
    high, minus_low, some_missing, some_there = found.reshape(4, -1)
    return bool(((high > -minus_low) | (some_missing * some_there > 0)).any())


def single_precision(X: Any) -> NDArray[np.float32]:
    """A table as XGBoost takes it."""
    if issparse(X):
        raise ValueError(
            "XGBoost takes what a sparse matrix does not hold for missing, not for zero; give it "
            "X.toarray(), or leave estimator out, since LightGBM takes sparse matrices as they are."
        )
    with np.errstate(over="ignore"):
        table = X.astype(np.float32)
    if np.isinf(table).any():
        raise ValueError(
            "X holds numbers beyond those of single precision (3.4e38), in which XGBoost computes; "
            "scale these columns down."
        )
    return table


def column_kinds(n_features: int, categorical: list[int]) -> list[str]:
    """Columns of numbers ("q") and of categories ("c")."""
    return ["c" if i in categorical else "q" for i in range(n_features)]


@lru_cache(maxsize=TEXTS_AT_HAND)
def read_trees(text: str, shape: TreeShape) -> Callable[[Any], NDArray[np.float64]]:
    """Make trees from their text, which may be that of a file, and score rows by them."""
    rebuilt, kinds = rebuild_trees(text, shape)
    return partial(tree_scores, _load(rebuilt), kinds)


def _load(text: str) -> Any:
    trees = xgboost().Booster()
    trees.load_model(bytearray(text.encode()))
    return trees


def tree_scores(
    trees: Any, kinds: list[str], X: Any, n_rounds: int | None = None
) -> NDArray[np.float64]:
    """Scores (outputs, rows) of new rows by the first rounds of trees, or by all of them."""
    data = xgboost().DMatrix(single_precision(X), feature_types=kinds, enable_categorical=True)
    return by_output(trees.predict(data, output_margin=True, iteration_range=(0, n_rounds or 0)))


XGBOOST = Library(
    estimator="xgboost.XGBClassifier",
    rows=QuantileRows,
    read=read_trees,
    spellings={
        "learning_rate": ("eta",),
        "reg_lambda": ("lambda",),
        "random_state": ("seed",),
        "n_jobs": ("nthread",),
        "num_leaves": ("max_leaves",),
        "n_estimators": ("num_boost_round",),
    },
    refused=frozenset(
        {
            "base_score",
            "booster",
            "callbacks",
            "early_stopping_rounds",
            "eval_metric",
            "feature_types",
            "feature_weights",
            "importance_type",
            "missing",
            "multi_strategy",
            "num_class",
            "num_parallel_tree",
            "objective",
            "scale_pos_weight",
            "tree_method",
        }
    ),
    sparse=False,
)
