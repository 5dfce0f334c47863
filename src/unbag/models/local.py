"""Training on instances in memory.

A fit for every penalty on all bags, and one for every penalty and fold, are columns of a single
batched minimisation, and the scores of held-out bags come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from array_api_compat import is_numpy_array
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints, beside, index_beside, take, to_host
from unbag._outputs import by_instance
from unbag._progress import column_progress
from unbag.bags.bags import Bags
from unbag.evaluation.bag_effects import BagEffect, dispersion_of_scores, effect_of_scores
from unbag.model_selection.folds import SearchFolds, collect_folds
from unbag.model_selection.splitters import check_cv, cut_by_folds
from unbag.models.goals import Goal, Problems
from unbag.models.row_order import RowOrder
from unbag.models.threads import few_blas_threads
from unbag.models.training import Fits, Selection, choose, choose_with_prior
from unbag.solvers import minimise
from unbag.solvers.spaces import SpaceInMemory

ScoreKeeper = Callable[[slice, Array], None]

# Scores of one batch: more columns than this allows are solved one batch after the other.
_BATCH_SCORES = 2**22

# Of more rows, scores of bags held out are kept in single precision: they tell penalties apart.
_MANY_ROWS = 2**20

# Penalties come one after the other, too, where what products read stays in the cache of a
# processor, so that few columns at a time are no slower than many, and where there is enough to do.
_BYTES_IN_CACHE, _ENOUGH_SCORES = 2**23, 2**16

# Who starts near the end stops as soon as the tolerance is met, and who comes from afar mostly goes
# beyond: for as good an end, the tolerance is less.
_NEAR = 0.3


@dataclass(frozen=True, eq=False)
class LocalBackend:
    """Instances in memory, as functions over them are.

    Attributes
    ----------
    space : SpaceInMemory
        Functions over the instances.
    X, y
        Instances and target, as splitters want them.
    bags : Bags
    held : ndarray of bool, shape (n_folds, n_bags)
    tol, max_iter, verbose
        Of the solver.
    order : RowOrder
        In which rows of ``space`` and ``bags`` are; X and y stay as they were given.
    """

    space: SpaceInMemory
    X: Any
    y: NDArray[Any]
    bags: Bags
    held: Bools
    tol: float
    max_iter: int
    verbose: int
    order: RowOrder

    def folded(self, cv: Any) -> Self:
        """Deal the bags out to folds; rows of known label are dealt out one by one."""
        held = check_cv(cv, self.X, self.y)
        bags, held = cut_by_folds(self.bags, self.order.arrange(held.T).T)
        return replace(self, bags=bags, held=held)

    def solve(self, goal: Goal, penalties: Floats) -> LocallySolved:
        """Minimise the goal for every penalty, on all bags and without those of each fold."""
        held_out = HeldOutScores(self.bags, self.held, len(penalties))
        problems = goal.of_folds(self.bags, self.held)
        n_problems = len(problems.weights)
        # fits of the same penalty, which need about the same number of iterations, come together
        fits = self._minimise(
            goal,
            problems,
            np.repeat(penalties, n_problems),
            np.tile(np.arange(n_problems), len(penalties)),
            held_out.keep,
        )
        prior = goal.prior_of(penalties, self.bags)
        return LocallySolved(
            goal, self.space, self.bags, self.held, fits, held_out, self.order, self.tol, prior
        )

    def _minimise(
        self,
        goal: Goal,
        problems: Problems,
        penalty: Floats,
        problem: Ints,
        keep_scores: ScoreKeeper,
    ) -> Fits:
        """Minimise all columns, in batches of bounded memory; the result is on the host.

        Where there is more than one batch, or where products with few columns are no slower,
        penalties come one after the other, from the strongest on, and each starts from where the
        one before has ended, which halves the evaluations.
        Scores of all instances are too many to keep for all columns: ``keep_scores`` is called
        after each batch, with its columns and their scores, to take what it needs.
        """
        objective = goal.objective(problems, self.bags, self.space.like)
        n_scores = self.bags.n_instances * objective.n_outputs
        size = max(1, _BATCH_SCORES // n_scores)
        n_problems = len(problems.included)
        in_turn = n_problems < len(penalty) and (
            size < len(penalty) or (goal.start is None and self._light(n_problems * n_scores))
        )
        size, tol = (min(size, n_problems), _NEAR * self.tol) if in_turn else (size, self.tol)
        parts: list[tuple[NDArray[Any], Any, Any]] = []
        threads = few_blas_threads(self.bags.n_instances, self.space.n_coefficients)
        with threads, column_progress(len(penalty), self.verbose) as progress:
            for first in range(0, len(penalty), size):
                batch = slice(first, min(first + size, len(penalty)))
                start = None if goal.start is None else goal.start[batch]
                if start is None and first >= n_problems:
                    # where the same problem has ended with the penalty before
                    known = np.concatenate([theta for theta, *_ in parts])
                    start = known[np.arange(batch.start, batch.stop) - n_problems]
                part = minimise(
                    objective,
                    self.space,
                    penalty[batch],
                    problem[batch],
                    tol=tol,
                    max_iter=self.max_iter,
                    callback=progress.of_batch(len(penalty[batch])),
                    start=None if start is None else beside(start, self.space.like),
                )
                keep_scores(batch, part.scores)
                parts.append((to_host(part.theta), part.n_iter, part.converged))
        return Fits(*(np.concatenate(rows) for rows in zip(*parts, strict=True)))

    def _light(self, n_scores: int) -> bool:
        """Whether one penalty at a time, of so many scores, takes no longer than all together."""
        in_cache = is_numpy_array(self.space.like) and self.space.n_bytes <= _BYTES_IN_CACHE
        return in_cache and n_scores >= _ENOUGH_SCORES


@dataclass(frozen=True, eq=False)
class LocallySolved:
    """What was solved in memory, with the scores of bags held out."""

    goal: Goal
    space: SpaceInMemory
    bags: Bags
    held: Bools
    fits: Fits
    held_out: HeldOutScores
    order: RowOrder
    tol: float
    prior: Floats | None

    def risks(self, selection: Selection) -> Floats:
        """Criteria on bags held out: (criteria, penalties), or with folds in between."""
        return self._pooled_risks() if selection == "pooled" else self._risks_by_fold()

    def effect(self, penalty: int) -> BagEffect | None:
        """What bags leave unexplained, if each has been scored once."""
        scores = self.held_out.by_instance(penalty)
        if scores is None:
            return None
        return effect_of_scores(self.bags, scores, self.goal.class_prior)

    def dispersion(self, penalty: int) -> float:
        """How much more than by chance counts vary, if each bag has been scored once."""
        return self._dispersion(penalty) if self.held_out.once else 1.0

    def out_of_fold_scores(self, penalty: int) -> Floats | None:
        """Scores of all instances by models that did not see them, if all are held out once."""
        scores = self.held_out.by_instance(penalty)
        return scores if scores is None else self.order.restore(scores)

    def folds(self) -> SearchFolds | None:
        """What the model of every fold says of all instances, its penalty chosen by the others."""
        if self.out_of_fold_scores(0) is None:
            return None
        fold = self.order.restore(self.held.argmax(axis=0)[self.bags.index])
        scores = (self._scores_of_fold(number) for number in range(len(self.held)))
        return collect_folds(fold, scores, self.goal.loss.name == "logistic")

    def _scores_of_fold(self, number: int) -> NDArray[Any]:
        others = ~self.held[number]
        risks = self._pooled_risks(others)
        best = choose(risks, self.tol)
        if self.prior is not None:
            best = choose_with_prior(risks, self.prior, self._dispersion(best, others))
        column = best * (len(self.held) + 1) + number + 1
        theta = beside(self.fits.theta[column][None], self.space.like)
        scores = to_host(self.space.scores(theta, self.space.dual(theta)))[0]
        return self.order.restore(scores.T).T

    def _dispersion(self, penalty: int, which: Bools | None = None) -> float:
        """That of all bags, or of some."""
        bags, rows = self._some(which)
        scores = self.held_out.of_penalty(penalty)[:, rows]
        return dispersion_of_scores(bags, scores, self.goal.class_prior)

    def _some(self, which: Bools | None) -> tuple[Bags, Any]:
        """Some bags, or all, and their rows."""
        return (self.bags, slice(None)) if which is None else self.bags.take(which)

    def _pooled_risks(self, which: Bools | None = None) -> Floats:
        """Criteria of the out-of-fold scores of all bags, or of some, a few penalties at a time."""
        bags, rows = self._some(which)
        criteria = self.goal.criteria(self.goal.whole(bags), bags, None)
        n_penalties = self.held_out.n_penalties
        size = max(1, _BATCH_SCORES // self.bags.n_instances)
        values = []
        for start in range(0, n_penalties, size):
            part = range(start, min(start + size, n_penalties))
            scores = np.stack([self.held_out.of_penalty(penalty)[:, rows] for penalty in part])
            problem = np.zeros(len(part), dtype=np.intp)
            values.append(np.array([one.value(scores, problem) for one in criteria]))
        return np.concatenate(values, axis=1)

    def _risks_by_fold(self) -> Floats:
        risks = []
        for number, (criteria, _) in self.goal.fold_criteria(self.bags, self.held).items():
            scores = self.held_out.of_fold(number)
            problem = np.zeros(len(scores), dtype=np.intp)
            risks.append([criterion.value(scores, problem) for criterion in criteria])
        return np.swapaxes(np.array(risks), 0, 1)


class HeldOutScores:
    """Scores of the bags that each fold holds out, for every penalty; without folds, of all bags.

    Columns run over the penalties and, for each, over the fit on all bags and those of the folds.
    """

    def __init__(self, bags: Bags, held: Bools, n_penalties: int) -> None:
        self.n_penalties = n_penalties
        self._n_problems = len(held) + 1
        # without folds, the fit on all bags scores them
        self._first = 1 if len(held) else 0
        scored = held if len(held) else np.ones((1, bags.n_bags), dtype=bool)
        self._rows = [np.flatnonzero(out[bags.index]) for out in scored]
        self.once = bool((scored.sum(axis=0) == 1).all())
        # for each fold, (penalties, outputs, held out)
        self._scores: list[Any] = [None] * len(scored)
        self._single = bags.n_instances > _MANY_ROWS

    def keep(self, columns: slice, scores: Array) -> None:
        """Take what is held out from the scores (columns, outputs, instances) of a batch."""
        penalty, problem = np.divmod(np.arange(columns.start, columns.stop), self._n_problems)
        for fold, rows in enumerate(self._rows):
            own = np.flatnonzero(problem == fold + self._first)
            if len(own):
                found = take(scores, index_beside(own, scores), axis=0)
                found = to_host(take(found, index_beside(rows, scores), axis=2))
                if self._scores[fold] is None:
                    dtype = np.float32 if self._single else found.dtype
                    self._scores[fold] = np.empty((self.n_penalties, *found.shape[1:]), dtype)
                self._scores[fold][penalty[own]] = found

    def of_fold(self, fold: int) -> Floats:
        """Scores of the instances that a fold holds out: (penalties, outputs, held out)."""
        return self._scores[fold].astype(float)

    def of_penalty(self, penalty: int) -> Floats:
        """Scores of all instances (outputs, instances), if every bag is held out once."""
        found = np.empty((self._scores[0].shape[1], sum(map(len, self._rows))))
        for rows, scores in zip(self._rows, self._scores, strict=True):
            found[:, rows] = scores[penalty]
        return found

    def by_instance(self, penalty: int) -> Floats | None:
        """Scores (instances,) or (instances, classes), if every bag is held out once."""
        return by_instance(self.of_penalty(penalty)) if self.once else None
