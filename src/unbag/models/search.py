"""One fit or a whole search, as columns of one problem.

A bag held out is a bag of weight zero. So a fit for every penalty on all bags, and one for every
penalty and fold, are columns of a single batched minimisation, and the scores of held-out bags
come with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags import Bags
from unbag.losses import to_host
from unbag.objectives import Objective
from unbag.progress import column_progress
from unbag.solvers import FunctionSpace, Solution, minimise

Selection = Literal["pooled", "folds"]
WeightMaker = Callable[[Bags], NDArray[np.float64]]
ObjectiveMaker = Callable[["Problems", Bags, Any], Objective]

# Scores of one batch: more columns than this allows are solved one batch after the other.
_BATCH_SCORES = 2**22


@dataclass(frozen=True, eq=False)
class Problems:
    """Several problems on the same bags, each of which may leave some of them out.

    Attributes
    ----------
    weights : ndarray of shape (n_problems, n_bags, n_classes)
        Zero for bags that are left out.
    included : ndarray of bool, shape (n_problems, n_bags)
    """

    weights: NDArray[np.float64]
    included: NDArray[np.bool_]


@dataclass(frozen=True)
class Training:
    """All that a fit needs besides the data.

    Attributes
    ----------
    make_weights : callable
        From `Bags` to a table of weights, one row per bag. It raises a ValueError for bags that
        cannot be learned from.
    make_objective : callable
        From `Problems`, the bags and an array to be like, to the objective. A bag that a problem
        leaves out must count for nothing.
    make_criterion : callable
        The same, to what penalties are chosen by on held-out bags.
    """

    make_weights: WeightMaker
    make_objective: ObjectiveMaker
    make_criterion: ObjectiveMaker
    tol: float
    max_iter: int
    verbose: int

    def whole(self, bags: Bags) -> Problems:
        """One problem that takes all bags."""
        return Problems(self.make_weights(bags)[None], np.ones((1, bags.n_bags), dtype=bool))

    def solve(
        self,
        space: FunctionSpace,
        bags: Bags,
        problems: Problems,
        penalty: NDArray[np.float64],
        problem: NDArray[np.intp],
    ) -> Solution:
        """Minimise all columns, in batches of bounded memory; the result is on the host."""
        objective = self.make_objective(problems, bags, space.like)
        size = max(1, _BATCH_SCORES // (bags.n_instances * objective.n_outputs))
        batches = [slice(i, i + size) for i in range(0, len(penalty), size)]
        with column_progress(len(penalty), self.verbose) as progress:
            parts = [
                minimise(
                    objective,
                    space,
                    penalty[batch],
                    problem[batch],
                    tol=self.tol,
                    max_iter=self.max_iter,
                    callback=progress.of_batch(len(penalty[batch])),
                )
                for batch in batches
            ]
        return _join(parts)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    solution : Solution
        Fits on all bags, one column per penalty.
    best : int
        The chosen column.
    risks : ndarray of shape (n_penalties,) or (n_folds, n_penalties)
        The criterion, pooled or by fold.
    held_out_scores : array of shape (n_penalties, n_outputs, n_instances) or None
        Out-of-fold scores, if every bag is held out exactly once.
    n_failed : int
        Columns that did not converge.
    """

    solution: Solution
    best: int
    risks: NDArray[np.float64]
    held_out_scores: Any
    n_failed: int


def search(
    space: FunctionSpace,
    bags: Bags,
    held: NDArray[np.bool_],
    penalties: NDArray[np.float64],
    selection: Selection,
    training: Training,
) -> SearchResult:
    """Fit every penalty on all bags and on every fold, and choose.

    Parameters
    ----------
    held : ndarray of bool, shape (n_folds, n_bags)
        Bags that each fold holds out.
    selection : {"pooled", "folds"}
        Whether the criterion is that of all out-of-fold scores together, with the weights of all
        bags, or the mean over folds of that of each fold's bags alone.
    """
    if selection not in get_args(Selection):
        raise ValueError(f"selection must be 'pooled' or 'folds', not {selection!r}.")
    once = bool((held.sum(axis=0) == 1).all())
    if selection == "pooled" and not once:
        raise ValueError(
            "selection='pooled' needs a cv that holds out every bag exactly once, such as "
            "unbag.BagKFold; with other splitters use selection='folds'."
        )
    n_folds, n_penalties = len(held), len(penalties)
    on_all = training.whole(bags)
    folds = _fold_weights(bags, held, training)
    problems = Problems(np.stack([*on_all.weights, *folds]), np.vstack([on_all.included, ~held]))
    solution = training.solve(
        space,
        bags,
        problems,
        np.tile(penalties, n_folds + 1),
        np.repeat(np.arange(n_folds + 1), n_penalties),
    )
    by_fold = solution.scores.reshape(n_folds + 1, n_penalties, *solution.scores.shape[1:])
    held_out = _gather_held_out(by_fold[1:], bags, held) if once else None
    if selection == "pooled":
        risks = training.make_criterion(on_all, bags, None).value(
            np.asarray(held_out, dtype=float), np.zeros(n_penalties, dtype=np.intp)
        )
        criterion = risks
    else:
        risks = _risk_by_fold(by_fold[1:], bags, held, training)
        criterion = risks.mean(axis=0)
    if not np.isfinite(criterion).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    of_all = Solution(
        solution.theta[:n_penalties],
        solution.scores[:n_penalties],
        solution.value[:n_penalties],
        solution.n_iter[:n_penalties],
        solution.converged[:n_penalties],
    )
    failed = int((~solution.converged).sum())
    return SearchResult(of_all, int(np.argmin(criterion)), risks, held_out, failed)


def _fold_weights(
    bags: Bags, held: NDArray[np.bool_], training: Training
) -> list[NDArray[np.float64]]:
    """Weights of the bags that each fold trains on, zero for those it holds out."""
    tables = []
    for number, out in enumerate(held):
        table = np.zeros((bags.n_bags, bags.n_classes))
        try:
            table[~out] = training.make_weights(bags.take(~out)[0])
        except ValueError as error:
            raise ValueError(
                f"Fold {number + 1} of {len(held)} cannot be trained: {error} "
                "Use fewer folds, or the estimator without CV."
            ) from None
        tables.append(table)
    return tables


def _gather_held_out(by_fold: Any, bags: Bags, held: NDArray[np.bool_]) -> Any:
    """Scores of every instance by the fold that did not see its bag."""
    fold = held.argmax(axis=0)[bags.index]
    gathered = np.empty_like(by_fold[0])
    for number in range(len(held)):
        rows = np.flatnonzero(fold == number)
        gathered[..., rows] = by_fold[number][..., rows]
    return gathered


def _risk_by_fold(
    by_fold: Any, bags: Bags, held: NDArray[np.bool_], training: Training
) -> NDArray[np.float64]:
    """Criterion of each fold's held-out bags, weighed among themselves."""
    risks, without = [], []
    for number, out in enumerate(held):
        part, rows = bags.take(out)
        try:
            alone = training.whole(part)
        except ValueError:
            without.append(number + 1)
            continue
        scores = np.asarray(by_fold[number][..., rows], dtype=float)
        criterion = training.make_criterion(alone, part, None)
        risks.append(criterion.value(scores, np.zeros(len(scores), dtype=np.intp)))
    if not risks:
        raise ValueError(
            "In no fold do the held-out bags differ in proportion, so that selection='folds' has "
            "nothing to go by; use selection='pooled' or fewer folds."
        )
    if without:
        warnings.warn(
            f"The held-out bags of fold(s) {without} all have the same proportion and say nothing "
            "about any alpha; the choice rests on the other folds. selection='pooled' uses all.",
            UserWarning,
            stacklevel=2,
        )
    return np.stack(risks)


def _join(parts: list[Solution]) -> Solution:
    """Bring all batches to the host, one behind the other."""
    fields = ("theta", "scores", "value", "n_iter", "converged")
    return Solution(
        *(np.concatenate([to_host(getattr(p, name)) for p in parts]) for name in fields)
    )
