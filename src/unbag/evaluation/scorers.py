"""Scorers of models by bags, without labels, and what a model loses without a column.

A scorer of `SCORERS` is called with an estimator, instances and the target of
whole bags, so it goes with `unbag.BagKFold`:
``GridSearchCV(model, grid, cv=BagKFold(5), scoring=SCORERS["roc_auc"])``. Larger is better for all
of them. The log-likelihood is valid under label shift and under covariate shift, and the default
``score`` of every model with probabilities; the others assume label shift.

**Permutation importance**: which columns a model uses.
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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from unbag._arrays import Floats
from unbag._outputs import by_output
from unbag._text import aligned, percent
from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.priors import adjust_probabilities
from unbag.evaluation.label_shift import column_names
from unbag.evaluation.measures import Area, Cost, Measure, Risk, Sample, make_sample
from unbag.model_selection.fitted import check_gives_probabilities, last_step, log_odds_of
from unbag.model_selection.splitters import rows_of_some_bags
from unbag.observations.count_likelihood import CountLikelihood

# Rows of whole bags that are scored again for every column, and bags that these are at least.
_ROWS, _FEWEST_BAGS = 2000, 20

# More columns take too long, and nobody reads of them.
_MOST_SHUFFLED = 200

# Times that the model scores its rows again, all columns together; each column five times at most.
_LOOKS, _MOST_REPEATS = 40, 5


def mean_log_likelihood(bags: Bags, log_odds: Floats) -> float:
    """Log-likelihood of the counts of bags, per row."""
    likelihood = CountLikelihood(np.ones((1, bags.n_bags), dtype=bool), bags)
    losses = likelihood.bag_losses(by_output(log_odds)[None])
    return -float(losses.sum() / bags.n_instances)


def log_likelihood_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the log-likelihood of the counts per row, by a model with probabilities."""
    check_gives_probabilities(estimator)
    probabilities, model = np.asarray(estimator.predict_proba(X)), last_step(estimator)
    if hasattr(model, "empirical_prior_"):
        prior = model.class_prior_, model.empirical_prior_
        probabilities = adjust_probabilities(probabilities, *prior)
    return mean_log_likelihood(check_bag_target(y), log_odds_of(probabilities))


def _score_by(measure: Measure, sign: float, estimator: Any, X: Any, y: Any) -> float:
    return sign * measure.value(make_sample(y, estimator.decision_function(X), trusted=True))


def roc_auc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score by the area under the ROC curve; for several classes, its mean for each against the rest."""
    sample = make_sample(y, estimator.decision_function(X), trusted=True)
    bags, scores = sample.bags, sample.scores
    if bags.n_classes == 2:
        return Area().value(sample)
    found = []
    for c, own in enumerate(scores.T):
        others = np.logaddexp.reduce(np.delete(scores, c, axis=1), axis=1)
        side = np.eye(2)[(np.arange(bags.n_classes) == c).astype(int)]
        noise = None if bags.noise is None else side.T @ bags.noise @ side
        two = {"proportions": bags.proportions @ side, "classes": np.arange(2), "noise": noise}
        found.append(Area().value(Sample(replace(bags, names=None, **two), own - others)))
    return float(np.mean(found))


SCORERS: dict[str, Callable[[Any, Any, Any], float]] = {
    "log_likelihood": log_likelihood_scorer,
    # with the logistic loss and balanced classes
    "corrected_risk": partial(_score_by, Risk(), -1.0),
    "balanced_accuracy": partial(_score_by, Cost(complement=True), 1.0),
    "roc_auc": roc_auc_scorer,
}


# --- permutation importance -----------------------------------------------------------------------


def log_odds_at_shares(model: Any, X: Any, bags: Bags) -> Floats:
    """Log-odds that a model gives to rows, at the shares of the classes in some bags together."""
    probabilities = np.asarray(model.predict_proba(X), dtype=float)
    prior = getattr(last_step(model), "class_prior_", None)
    if prior is not None:
        probabilities = adjust_probabilities(probabilities, prior, bags.class_shares)
    return log_odds_of(probabilities)


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
    X : as in `cross_fit`
    y : structured array from `unbag.bag_target`
        Of many rows, whole bags are drawn.
    feature_names : as in `evaluate`
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

    full, shares = of(table), np.tile(held.class_shares, (held.n_instances, 1))
    alone = mean_log_likelihood(held, log_odds_of(shares))
    if full <= alone:
        raise ValueError("The model makes the counts no more probable than the shares alone do.")
    repeats = int(np.clip(_LOOKS // len(names), 1, _MOST_REPEATS))
    found = [of(shuffle_column(table, j, rng)) for j in range(len(names)) for _ in range(repeats)]
    lost = (full - np.reshape(found, (len(names), repeats))) / (full - alone)
    loss = lost.mean(axis=1)
    spread = lost.std(axis=1, ddof=1) if repeats > 1 else np.full(len(names), np.nan)
    order = np.argsort(-loss, kind="stable")
    return PermutationImportance(names[order], loss[order], spread[order])


def shuffle_column(table: Any, column: int, rng: np.random.Generator) -> Any:
    """The same table with the values of a column in another order."""
    order = rng.permutation(np.shape(table)[0])
    frame: Any = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        own = frame.get_column(frame.columns[column])[order.tolist()]
        return frame.with_columns(own).to_native()
    is_sparse, given = sparse.issparse(table), table
    mixed: Any = given.tolil() if is_sparse else np.array(given)
    mixed[:, [column]] = mixed[:, [column]][order]
    return mixed.tocsr() if is_sparse else mixed
