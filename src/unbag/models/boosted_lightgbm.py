"""Trees of LightGBM, grown by gradients from outside over rows that are binned once.

LightGBM takes a gradient and a curvature for every row and score, and grows one tree for each
score. All boosters share one table of bins. One that must not see some rows has them beside its
own, so that their scores come with those of the others. (It would not do to leave them in with
curvature zero: LightGBM estimates the rows of a leaf from its share of all curvature, and skips
splits where that says that one side has none.)

Sums over rows are made column by column, so that the number of threads makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._optional import install_command
from unbag.models.boosted_library import (
    TEXTS_AT_HAND,
    Library,
    TreeShape,
    count_threads,
    refuse_constant,
)
from unbag.models.boosted_text import check_trees, scale_trees

# Binned rows, and which of all rows they are.
Part = tuple[Any, NDArray[np.intp]]


def lightgbm() -> Any:
    """The package, or what to do to have it."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise ImportError(f"Boosted trees need LightGBM: {install_command('boosting')}") from None


def check_names(settings: Mapping[str, Any]) -> None:
    """Refuse names that LightGBM does not know, which it would pass over in silence."""
    # its own list of what it takes; there is no public way to it
    listed = lightgbm().basic._ConfigAliases._get_all_param_aliases()
    known = set(listed).union(*listed.values())
    for name in sorted(set(settings) - known):
        close = get_close_matches(name, sorted(known), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"LightGBM knows no parameter {name!r}{hint}")


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
    """

    def __init__(self, X: Any, categorical: list[int], settings: Mapping[str, Any]) -> None:
        n_jobs = count_threads(settings.get("n_jobs"), X)
        check_names(settings)
        self._settings = {
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "min_child_samples": 1,
            "verbosity": -1,
            **{name: value for name, value in settings.items() if name != "n_jobs"},
            "objective": "none",
            "metric": "none",
            # to LightGBM, none is all
            "num_threads": max(n_jobs, 0),
        }
        self._data = lightgbm().Dataset(
            X,
            np.zeros(X.shape[0]),
            params=self._settings,
            categorical_feature=categorical,
        )
        self._data.construct()
        if not any(self._data.feature_num_bin(i) > 1 for i in range(X.shape[1])):
            refuse_constant()
        self._every = np.arange(X.shape[0])

    def booster(self, n_outputs: int, num_leaves: int) -> Booster:
        """Begin to grow trees for so many scores, by all rows."""
        return self._begin((self._data, self._every), None, n_outputs, num_leaves)

    def without(self, held: NDArray[np.bool_]) -> Callable[[int, int], Booster]:
        """Make boosters, as above, that do not see the rows that are held out."""
        return partial(self._begin, self._part(~held), self._part(held))

    def _part(self, chosen: NDArray[np.bool_]) -> Part:
        rows = np.flatnonzero(chosen)
        return self._data.subset(rows.tolist()), rows

    def _begin(self, seen: Part, unseen: Part | None, n_outputs: int, num_leaves: int) -> Booster:
        own = {**self._settings, "num_leaves": num_leaves, "num_class": n_outputs}
        return Booster(own, len(self._every), seen, unseen)


class Booster:
    """A sum of trees over binned rows, zero at first.

    Parameters
    ----------
    settings : dict
        Parameters of LightGBM.
    n_rows : int
    seen, unseen : (Dataset, ndarray of int)
        Binned rows to learn from, and others whose scores are wanted, with their positions.
    """

    def __init__(
        self, settings: Mapping[str, Any], n_rows: int, seen: Part, unseen: Part | None
    ) -> None:
        data, self._seen = seen
        self._booster = lightgbm().Booster(dict(settings), data)
        self._shape = int(settings["num_class"]), n_rows
        self._unseen = None
        if unseen is not None:
            other, self._unseen = unseen
            self._booster.add_valid(other, "unseen")

    def scores(self) -> NDArray[np.float64]:
        """Scores (outputs, rows) of all rows."""
        found = np.empty(self._shape)
        found[:, self._seen] = self._look(self._booster.eval_train)
        if self._unseen is not None:
            found[:, self._unseen] = self._look(self._booster.eval_valid)
        return found

    def _look(self, evaluate: Callable[..., Any]) -> NDArray[np.float64]:
        """Scores as an evaluation gets to see them."""
        found: list[NDArray[np.float64]] = []

        def look(scores: NDArray[np.float64], _: Any) -> tuple[str, float, bool]:
            found.append(scores)
            return "", 0.0, True

        evaluate(look)
        return found[0].reshape(-1, self._shape[0]).T

    def grow(self, gradient: NDArray[np.float64], curvature: NDArray[np.float64]) -> None:
        """Grow one tree for each score.

        Parameters
        ----------
        gradient, curvature : ndarray of shape (outputs, rows)
        """
        slopes = [np.squeeze(values[:, self._seen].T) for values in (gradient, curvature)]
        self._booster.update(fobj=lambda *_: slopes)

    def predict(self, X: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (outputs, rows) of rows by the first rounds, each times its weight."""
        if (weights == 1).all():
            return tree_scores(self._booster, X, len(weights))
        return tree_scores(lightgbm().Booster(model_str=self.text(weights)), X)

    def gains(self, n_rounds: int) -> NDArray[np.float64]:
        """What splits by each column gained in the first rounds."""
        return np.asarray(self._booster.feature_importance("gain", n_rounds), dtype=float)

    def text(self, weights: NDArray[np.float64]) -> str:
        """Trees of the first rounds, times weights, from which `read_trees` makes them again."""
        text: str = self._booster.model_to_string(num_iteration=len(weights))
        # what follows is settings of the training, such as the number of threads
        text = text[: text.index("\nparameters:") + 1]
        if (weights == 1).all():
            return text
        return scale_trees(text, np.repeat(weights, self._shape[0]).tolist())


@lru_cache(maxsize=TEXTS_AT_HAND)
def read_booster(text: str, shape: TreeShape) -> Any:
    """Make a booster of LightGBM from the text of its trees, which may be that of a file."""
    check_trees(text, shape.n_features, shape.n_outputs)
    return lightgbm().Booster(model_str=text)


def read_trees(text: str, shape: TreeShape) -> Callable[[Any], NDArray[np.float64]]:
    """Make trees from their text, and score rows by them."""
    return partial(tree_scores, read_booster(text, shape))


def tree_scores(trees: Any, X: Any, n_rounds: int | None = None) -> NDArray[np.float64]:
    """Scores (outputs, rows) of new rows by the first rounds of trees, or by all of them."""
    found = trees.predict(X, raw_score=True, num_iteration=n_rounds)
    return np.asarray(found, dtype=float).reshape(X.shape[0], -1).T


LIGHTGBM = Library(
    estimator="lightgbm.LGBMClassifier",
    rows=BinnedRows,
    read=read_trees,
    spellings={
        "learning_rate": ("eta", "shrinkage_rate"),
        "min_child_weight": ("min_sum_hessian_in_leaf", "min_sum_hessian", "min_hessian"),
        "reg_lambda": ("lambda_l2", "lambda", "l2_regularization"),
        "colsample_bytree": ("feature_fraction", "sub_feature"),
        "random_state": ("seed", "random_seed"),
        "n_jobs": ("num_threads", "num_thread", "nthread", "nthreads"),
        "num_leaves": ("num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
        "n_estimators": ("num_iterations", "num_iteration", "num_trees", "num_rounds", "max_iter"),
        # not its own, but set for it
        "min_child_samples": ("min_data_in_leaf", "min_data", "min_samples_leaf"),
    },
    refused=frozenset(
        {
            "boosting",
            "boosting_type",
            "class_weight",
            "deterministic",
            "early_stopping_round",
            "early_stopping_rounds",
            "importance_type",
            "is_unbalance",
            "linear_tree",
            "metric",
            "num_class",
            "objective",
            "scale_pos_weight",
        }
    ),
    sparse=True,
)
