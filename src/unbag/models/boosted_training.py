"""Boosting from bags: leaves and rounds are chosen on bags held out, or given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from unbag._outputs import by_instance
from unbag._progress import progress_bar
from unbag.bags.bags import Bags
from unbag.evaluation.bag_effects import BagEffect, effect_of_scores
from unbag.model_selection.folds import SearchFolds
from unbag.model_selection.splitters import check_held_once
from unbag.models.bag_goal import BagGoal
from unbag.models.boosted_forest import Forest, all_rounds
from unbag.models.boosted_goal import pose
from unbag.models.boosted_library import Rows
from unbag.models.boosted_rounds import FIRST, boost
from unbag.models.boosted_search import Found, Look, Search
from unbag.models.boosted_settings import Plan
from unbag.models.boosted_start import Start, find_start, teach_little

# Estimates effects of bags by scores (outputs, rows) of models that did not see them.
FindEffect = Callable[[Bags, NDArray[np.float64]], BagEffect]


@dataclass(frozen=True, eq=False)
class Trained:
    """What training comes to.

    Attributes
    ----------
    goal : BagGoal
        With what bags held out told of it.
    num_leaves, n_rounds : int
    texts : list of str
        Trees of every fold, for each number of leaves that counts, or of all bags together.
    gains : ndarray of shape (n_features,)
        What splits by each column gained.
    path : list of tuple (num_leaves, rounds, criteria)
        What was looked at.
    start : Start
        What trees are added to.
    held_out : ndarray of shape (n_outputs, n_instances), optional
        Scores of each instance by the trees that did not see its bag.
    folds : SearchFolds, optional
        What the trees of every fold say, if that is to be kept.
    """

    goal: BagGoal
    num_leaves: int
    n_rounds: int
    texts: list[str]
    gains: NDArray[np.float64]
    path: list[Look]
    start: Start
    held_out: NDArray[np.float64] | None = None
    folds: SearchFolds | None = None


@dataclass(frozen=True, eq=False)
class Trainer:
    """Rows to learn from, in bins, and how.

    Attributes
    ----------
    X : array or sparse matrix
    rows : Rows
        The same in bins.
    bags : Bags
    plan : Plan
    categorical : list of int
        Columns that hold codes of categories.
    verbose : int
        Whether to show a progress bar.
    store_folds : bool
        Whether to keep what the trees of every fold say.
    """

    X: Any
    rows: Rows
    bags: Bags
    plan: Plan
    categorical: list[int]
    verbose: int
    store_folds: bool = False

    @property
    def n_outputs(self) -> int:
        """Number of scores of a row."""
        return 1 if self.bags.n_classes == 2 else self.bags.n_classes

    def run(
        self,
        goal: BagGoal,
        held: NDArray[np.bool_] | None,
        refit: bool,
        find_effect: FindEffect,
    ) -> Trained:
        """Search on bags held out, or without any grow trees as they are planned.

        Parameters
        ----------
        held : ndarray of bool, shape (n_folds, n_bags), optional
            Bags that each fold holds out.
        refit : bool
            Whether to grow trees on all bags after the choice.
        """
        if held is None:
            return self._fit(goal)
        check_held_once(held)
        return self._search(goal, held, refit, find_effect)

    def _fit(self, goal: BagGoal) -> Trained:
        """Grow trees on all bags, with the only number of leaves there is, and all rounds."""
        if goal.asks_for_looks:
            goal = goal.told_of_looks(None)
        if len(self.plan.leaves) > 1:
            raise ValueError(
                "With cv=None nothing is chosen: num_leaves must be one number, not "
                f"{self.plan.leaves!r}."
            )
        leaves, rounds = self.plan.leaves[0], self.plan.n_rounds
        start = self._nothing(1)
        return self._summary(goal, self._grow(goal, start, leaves, rounds), leaves, rounds, start)

    def _search(
        self, goal: BagGoal, held: NDArray[np.bool_], refit: bool, find_effect: FindEffect
    ) -> Trained:
        """Choose, and choose rounds again if bags held out tell of noise or effects."""
        whole, folds = self._nothing(1), self._nothing(len(held))
        wanted = self.plan.start
        if wanted == "linear" or (wanted == "auto" and teach_little(self.bags)):
            whole, folds, goal = find_start(self.X, self.bags, held, goal, self.categorical)
        search = Search(
            self.X,
            self.rows,
            self.bags,
            held,
            self.n_outputs,
            self.store_folds,
            folds.scores(self.X),
            0.0 if refit else self.plan.temperature,
        )
        found = self._choose(search, goal, self.plan.leaves)
        if goal.asks_for_looks:
            before, goal = goal, goal.told_of_looks(find_effect(self.bags, found.held_out))
            if goal.looks != before.looks:
                found = self._choose(search, goal, [found.num_leaves])
        if goal.asks_for_effect:
            before, goal = goal, goal.told_of_effect(find_effect(self.bags, found.held_out))
            if goal.bag_effect != before.bag_effect:
                found = self._choose(search, goal, [found.num_leaves])
        leaves, rounds = found.num_leaves, found.n_rounds
        start = whole if refit else folds.mean()
        forests = self._grow(goal, whole, leaves, rounds) if refit else found.forests
        trained = self._summary(goal, forests, leaves, rounds, start)
        return replace(trained, path=found.looks, held_out=found.held_out, folds=found.folds)

    def _choose(self, search: Search, goal: BagGoal, leaves: list[int]) -> Found:
        most = self.plan.n_rounds
        with self._bar(most) as bar:
            return search.run(goal, leaves, most, self.plan.patience, bar.update)

    def _nothing(self, n_problems: int) -> Start:
        return Start.nothing(n_problems, self.n_outputs, self.X.shape[1])

    def _grow(self, goal: BagGoal, start: Start, num_leaves: int, n_rounds: int) -> list[Forest]:
        """Grow trees on all bags; a search may find that none are best."""
        task = pose(goal, self.bags, start.scores(self.X))
        booster = self.rows.booster(self.n_outputs, num_leaves)
        with self._bar(n_rounds) as bar:
            for _ in range(n_rounds):
                boost(task, [booster], FIRST)
                bar.update()
        return [all_rounds(booster, n_rounds)] if n_rounds else []

    def _summary(
        self, goal: BagGoal, forests: list[Forest], num_leaves: int, n_rounds: int, start: Start
    ) -> Trained:
        texts = [one.text() for one in forests]
        gains = np.zeros(self.X.shape[1])
        for one in forests:
            gains += one.gains()
        return Trained(goal, num_leaves, n_rounds, texts, gains, [], start)

    def _bar(self, total: int) -> tqdm:
        return progress_bar(total=total, verbose=self.verbose, desc="boosting", unit="round")


def effect_here(bags: Bags, scores: NDArray[np.float64]) -> BagEffect:
    """Effects of bags by scores of all their rows, which are log-odds at equal shares."""
    equal = np.full(bags.n_classes, 1 / bags.n_classes)
    return effect_of_scores(bags, by_instance(scores), equal)
