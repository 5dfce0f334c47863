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
from scipy.stats import rankdata

from unbag._arrays import Array, index_beside, take, to_host
from unbag._progress import column_progress
from unbag.bags.bags import Bags
from unbag.objectives.base import Objective
from unbag.solvers import FunctionSpace, minimise

Selection = Literal["pooled", "folds"]
WeightMaker = Callable[[Bags], NDArray[np.float64]]
ObjectiveMaker = Callable[["Problems", Bags, Any], Objective]
CriteriaMaker = Callable[["Problems", Bags, Any], list[Objective]]
ScoreKeeper = Callable[[slice, Array], None]

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


@dataclass(frozen=True, eq=False)
class Fits:
    """What is kept of solved columns.

    Attributes
    ----------
    theta : ndarray of shape (columns, coefficients)
    n_iter : ndarray of int, shape (columns,)
    converged : ndarray of bool, shape (columns,)
    """

    theta: NDArray[Any]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]


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
    make_criteria : callable
        The same, to what penalties are chosen by on held-out bags. Of several criteria, the sum of
        ranks decides.
    """

    make_weights: WeightMaker
    make_objective: ObjectiveMaker
    make_criteria: CriteriaMaker
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
        keep_scores: ScoreKeeper | None = None,
    ) -> Fits:
        """Minimise all columns, in batches of bounded memory; the result is on the host.

        Scores of all instances are too many to keep for all columns: ``keep_scores`` is called
        after each batch, with its columns and their scores, to take what it needs.
        """
        objective = self.make_objective(problems, bags, space.like)
        size = max(1, _BATCH_SCORES // (bags.n_instances * objective.n_outputs))
        parts = []
        with column_progress(len(penalty), self.verbose) as progress:
            for start in range(0, len(penalty), size):
                batch = slice(start, min(start + size, len(penalty)))
                part = minimise(
                    objective,
                    space,
                    penalty[batch],
                    problem[batch],
                    tol=self.tol,
                    max_iter=self.max_iter,
                    callback=progress.of_batch(len(penalty[batch])),
                )
                if keep_scores is not None:
                    keep_scores(batch, part.scores)
                parts.append((to_host(part.theta), part.n_iter, part.converged))
        return Fits(*(np.concatenate(rows) for rows in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    fits : Fits
        On all bags, one column per penalty.
    best : int
        The chosen column.
    risks : ndarray of shape (n_criteria, n_penalties) or (n_criteria, n_folds, n_penalties)
        The criteria, pooled or by fold.
    held_out : HeldOut
        Scores of held-out bags.
    n_failed : int
        Columns that did not converge.
    """

    fits: Fits
    best: int
    risks: NDArray[np.float64]
    held_out: HeldOut
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
        Whether a criterion is that of all out-of-fold scores together, with the weights of all
        bags, or the mean over folds of that of each fold's bags alone.
    """
    check_selection(selection)
    held_out = HeldOut(bags, held, len(penalties))
    if selection == "pooled" and not held_out.once:
        raise ValueError(
            "selection='pooled' needs a cv that holds out every bag exactly once, such as "
            "unbag.BagKFold; with other splitters use selection='folds'."
        )
    problems = fold_problems(bags, held, training)
    # fits of the same penalty, which need about the same number of iterations, come together
    n_problems = len(held) + 1
    fits = training.solve(
        space,
        bags,
        problems,
        np.repeat(penalties, n_problems),
        np.tile(np.arange(n_problems), len(penalties)),
        held_out.keep,
    )
    if selection == "pooled":
        risks = _pooled_risks(held_out, bags, training)
    else:
        risks = _risk_by_fold(held_out, bags, held, training)
    every = slice(None, None, n_problems)
    of_all = Fits(fits.theta[every], fits.n_iter[every], fits.converged[every])
    failed = int((~fits.converged).sum())
    return SearchResult(of_all, choose(risks), risks, held_out, failed)


def choose(risks: NDArray[np.float64]) -> int:
    """Choose the penalty that criteria rank best together, and of equals the strongest.

    Parameters
    ----------
    risks : ndarray of shape (n_criteria, n_penalties) or (n_criteria, n_folds, n_penalties)
    """
    criteria = risks if risks.ndim == 2 else risks.mean(axis=1)
    if not np.isfinite(criteria).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    return int(np.argmin(rankdata(criteria, method="min", axis=1).sum(axis=0)))


class HeldOut:
    """Scores of the bags that each fold holds out, for every penalty.

    Columns run over the penalties and, for each, over the fit on all bags and those of the folds.
    """

    def __init__(self, bags: Bags, held: NDArray[np.bool_], n_penalties: int) -> None:
        self.once = bool((held.sum(axis=0) == 1).all())
        self.n_penalties = n_penalties
        self._rows = [np.flatnonzero(out[bags.index]) for out in held]
        self._order = np.argsort(np.concatenate(self._rows)) if self.once else None
        self._scores: list[list[Any]] = [[None] * n_penalties for _ in held]

    def keep(self, columns: slice, scores: Array) -> None:
        """Take what is held out from the scores (columns, outputs, instances) of a batch."""
        penalty, problem = np.divmod(np.arange(columns.start, columns.stop), len(self._rows) + 1)
        for fold, rows in enumerate(self._rows):
            own = np.flatnonzero(problem == fold + 1)
            if len(own):
                found = take(scores, index_beside(own, scores), axis=0)
                found = to_host(take(found, index_beside(rows, scores), axis=2))
                for which, part in zip(penalty[own], found, strict=True):
                    self._scores[fold][which] = part

    def of_fold(self, fold: int) -> NDArray[np.float64]:
        """Scores of the instances that a fold holds out: (penalties, outputs, held out)."""
        return np.stack(self._scores[fold]).astype(float)

    def of_penalty(self, penalty: int) -> NDArray[np.float64]:
        """Scores of all instances (outputs, instances), if every bag is held out once."""
        parts = [scores[penalty] for scores in self._scores]
        return np.concatenate(parts, axis=1)[:, self._order].astype(float)


def _pooled_risks(held_out: HeldOut, bags: Bags, training: Training) -> NDArray[np.float64]:
    """Criteria of all out-of-fold scores together, one penalty at a time."""
    criteria = training.make_criteria(training.whole(bags), bags, None)
    problem = np.zeros(1, dtype=np.intp)
    values = []
    for penalty in range(held_out.n_penalties):
        scores = held_out.of_penalty(penalty)[None]
        values.append([float(criterion.value(scores, problem)[0]) for criterion in criteria])
    return np.array(values).T


def check_selection(selection: Any) -> None:
    """Refuse an unknown way to choose."""
    if selection not in get_args(Selection):
        raise ValueError(f"selection must be 'pooled' or 'folds', not {selection!r}.")


def fold_problems(bags: Bags, held: NDArray[np.bool_], training: Training) -> Problems:
    """Pose the problem of all bags, then for every fold that of the bags it trains on."""
    on_all = training.whole(bags)
    tables = [*on_all.weights]
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
    return Problems(np.stack(tables), np.vstack([on_all.included, ~held]))


def telling_folds(bags: Bags, held: NDArray[np.bool_], training: Training) -> dict[int, Problems]:
    """Folds whose held-out bags differ, each with the problem of these bags alone.

    Those whose bags are all alike say nothing about a penalty; that is said.
    """
    found: dict[int, Problems] = {}
    for number, out in enumerate(held):
        try:
            found[number] = training.whole(bags.take(out)[0])
        except ValueError:
            continue
    if not found:
        raise ValueError(
            "In no fold do the held-out bags differ in proportion, so that selection='folds' has "
            "nothing to go by; use selection='pooled' or fewer folds."
        )
    without = [number + 1 for number in range(len(held)) if number not in found]
    if without:
        warnings.warn(
            f"The held-out bags of fold(s) {without} all have the same proportion and say nothing "
            "about any alpha; the choice rests on the other folds. selection='pooled' uses all.",
            UserWarning,
            stacklevel=2,
        )
    return found


def fold_criteria(
    bags: Bags, held: NDArray[np.bool_], training: Training
) -> dict[int, tuple[list[Objective], NDArray[np.intp]]]:
    """Criteria of each fold's held-out bags, weighed among themselves, and their instances."""
    found = {}
    for number, alone in telling_folds(bags, held, training).items():
        part, rows = bags.take(held[number])
        found[number] = training.make_criteria(alone, part, None), rows
    return found


def _risk_by_fold(
    held_out: HeldOut, bags: Bags, held: NDArray[np.bool_], training: Training
) -> NDArray[np.float64]:
    risks = []
    for number, (criteria, _) in fold_criteria(bags, held, training).items():
        scores = held_out.of_fold(number)
        problem = np.zeros(len(scores), dtype=np.intp)
        risks.append([criterion.value(scores, problem) for criterion in criteria])
    return np.swapaxes(np.array(risks), 0, 1)
