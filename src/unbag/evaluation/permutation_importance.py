"""Which columns a model uses, estimated from bags alone.

A column is shuffled over all rows, and the model scores them again: how much less probable are the
counts of the bags now? Shuffling *within* bags would not do. It leaves every bag the values that it
had, so that mean probabilities of bags, and with them the likelihood of their counts, hardly change
however much the model uses the column. Shuffled over all rows, a column separates bags no
longer, nor rows.

The importance is the part of the explained loss that is lost: with L the negative log-likelihood of the counts,

    (L(column shuffled) − L(model)) / (L(shares alone) − L(model)),

0 for a column that the model does not use. Columns with the same information stand in for each other,
and what works together is lost with each of its parts, so that losses need not add up to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._text import aligned, percent
from unbag.bags.bags import check_bag_target
from unbag.evaluation.held_out import log_odds_at_shares
from unbag.evaluation.label_shift import column_names
from unbag.evaluation.scorers import mean_log_likelihood
from unbag.model_selection.fitted import check_gives_probabilities, log_odds_of
from unbag.model_selection.splitters import rows_of_some_bags

# Rows of whole bags that are scored again for every column, and bags that these are at least.
_ROWS, _FEWEST_BAGS = 2000, 20

# More columns take too long, and nobody reads of them.
_MOST_SHUFFLED = 200

# Times that the model scores its rows again, all columns together; each column five times at most.
_LOOKS, _MOST_REPEATS = 40, 5


@dataclass(frozen=True, eq=False, repr=False)
class PermutationImportance:
    """What a model loses without each of its columns, the greatest loss first; print it."""

    columns: NDArray[Any]  # names
    loss: Floats  # share of what the model explains of the counts that is lost by shuffling
    spread: Floats  # standard deviation of that over shuffles; NaN for a single one

    def __str__(self) -> str:
        rows = [
            (str(name), percent(loss, 1), "" if np.isnan(spread) else f"±{percent(spread, 1)}")
            for name, loss, spread in zip(self.columns, self.loss, self.spread, strict=True)
        ]
        return "\n".join(aligned([("column", "lost if shuffled", ""), *rows]))

    __repr__ = __str__


def bag_permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    feature_names: ArrayLike | None = None,
    random_state: int = 0,
) -> PermutationImportance:
    """Permutation importance: what a fitted model loses if one column is shuffled.

    No label is needed. Bags that the model was trained on show what it has learned, whether that
    holds elsewhere or not; others show how well it predicts.

    Parameters
    ----------
    model : classifier or pipeline
        Fitted, with ``predict_proba``. Columns are those of the table that a pipeline begins with.
    X : array, sparse matrix or data frame with n_instances rows
        The instances.
    y : structured array from `unbag.bag_target`
        Of many rows, whole bags are drawn.
    feature_names : sequence of str, optional
        Names of the columns of an array.
    random_state : int, default=0
        Of the shuffling.

    Returns
    -------
    found : PermutationImportance
        Print it, or take ``columns`` and ``loss``.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import bag_permutation_importance
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, random_state=0)
    >>> data.X[:, 1] = 0
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> found = bag_permutation_importance(model, data.X, data.y, feature_names=["height", "nothing"])
    >>> found.columns.tolist(), float(found.loss[1])
    (['height', 'nothing'], 0.0)
    """
    check_gives_probabilities(model)
    rng = np.random.default_rng(random_state)
    rows = rows_of_some_bags(y, _ROWS, _FEWEST_BAGS, rng)
    names = column_names(np.shape(X)[1], feature_names, X)
    table, bags = _safe_indexing(X, rows), y[rows]
    if len(names) > _MOST_SHUFFLED:
        raise ValueError(
            f"There are {len(names):,} columns, and this takes {_MOST_SHUFFLED} at most."
        )
    held = check_bag_target(bags)

    def of(rows: Any) -> float:
        return mean_log_likelihood(held, log_odds_at_shares(model, rows, held))

    full = of(table)
    alone = mean_log_likelihood(
        held, log_odds_of(np.tile(held.class_shares, (held.n_instances, 1)))
    )
    if full <= alone:
        raise ValueError("The model makes the counts no more probable than the shares alone do.")
    repeats = int(np.clip(_LOOKS // len(names), 1, _MOST_REPEATS))
    found = [
        [full - of(shuffle_column(table, j, rng)) for _ in range(repeats)]
        for j in range(len(names))
    ]
    lost = np.array(found) / (full - alone)
    loss = lost.mean(axis=1)
    spread = lost.std(axis=1, ddof=1) if repeats > 1 else np.full(len(names), np.nan)
    order = np.argsort(-loss, kind="stable")
    return PermutationImportance(names[order], loss[order], spread[order])


def shuffle_column(table: Any, column: int, rng: np.random.Generator) -> Any:
    """The same table with the values of a column in another order."""
    order = rng.permutation(np.shape(table)[0])
    frame: Any = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        mixed = frame.get_column(frame.columns[column])[order.tolist()]
        return frame.with_columns(mixed).to_native()
    if sparse.issparse(table):
        given: Any = table
        by_column = given.tocsc()
        parts = [by_column[:, [j]] for j in range(by_column.shape[1])]
        parts[column] = parts[column][order]
        return sparse.csr_array(sparse.hstack(parts))
    mixed = np.array(table)
    mixed[:, column] = mixed[order, column]
    return mixed
