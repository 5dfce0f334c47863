"""The search for leaves and rounds on bags held out.

Trees of every number of leaves are grown on every fold, all of them side by side, and looked at
after every few rounds: each bag is scored by the trees that did not see it, and judged by the
criteria of the goal. A path ends when it has not gained for a while, or so little that it will
hardly come up with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import Bags
from unbag.model_selection.folds import SearchFolds, collect_folds
from unbag.models.bag_goal import BagGoal
from unbag.models.boosted_forest import Forest, weigh
from unbag.models.boosted_goal import pose_folds
from unbag.models.boosted_library import Booster, Rows
from unbag.models.boosted_rounds import FIRST, BoostedProblems, boost
from unbag.models.training import choose
from unbag.observations.base import Objective

# Of trees with so many leaves, the numbers of rounds, and the criteria (n_criteria, n_rounds).
Look = tuple[int, NDArray[np.intp], NDArray[np.float64]]

# Rounds between two looks at the bags held out.
STEP = 5

# Gains become smaller: at most so many times the last one is yet to come, for all we know.
_MORE_TO_COME = 3


@dataclass(eq=False)
class Path:
    """What bags held out say of trees of one kind, after some numbers of rounds.

    Attributes
    ----------
    num_leaves : int
    boosters : list of Booster
        One for each fold.
    rounds : list of int
        Numbers of rounds after which they were looked at.
    risks : list of list of float
        All criteria, at every look.
    others : list of list of list of float
        The same without the bags of each fold, if that is asked for.
    """

    num_leaves: int
    boosters: list[Booster]
    rounds: list[int] = field(default_factory=list)
    risks: list[list[float]] = field(default_factory=list)
    others: list[list[list[float]]] = field(default_factory=list)

    @property
    def best(self) -> NDArray[np.float64]:
        """The least of each criterion so far."""
        return np.min(self.risks, axis=0)

    def has_hope(self, patience: int, leader: NDArray[np.float64]) -> bool:
        """Whether some criterion gained of late, enough to come up with the best of all paths."""
        recent = [i for i, rounds in enumerate(self.rounds) if rounds > self.rounds[-1] - patience]
        if recent[0] == 0:
            return True
        gain = np.min(self.risks[: recent[0]], axis=0) - self.best
        return bool(((gain > 0) & (self.best - leader <= _MORE_TO_COME * gain)).any())

    def look(self, rounds: int, task: BoostedProblems, judges: list[Judge]) -> None:
        """Judge the scores of rows by the booster of the fold that holds them out."""
        held = task.weights == 0
        scores = task.scores(self.boosters, np.arange(len(held)))
        fold = held.argmax(axis=0)[task.bags.index]
        held_out = np.take_along_axis(scores, fold[None, None, :], axis=0)
        self.rounds.append(rounds)
        of_all, *others = (judge(held_out) for judge in judges)
        self.risks.append(of_all)
        self.others.append(others)


@dataclass(frozen=True, eq=False)
class Judge:
    """Criteria of the scores of all rows, or of some."""

    criteria: list[Objective]
    rows: NDArray[np.intp] | None = None

    def __call__(self, scores: NDArray[np.float64]) -> list[float]:
        """Judge scores (1, outputs, rows) of all rows."""
        own = scores if self.rows is None else scores[:, :, self.rows]
        return [float(one.value(own, FIRST)[0]) for one in self.criteria]


def _judge(goal: BagGoal, bags: Bags, rows: NDArray[np.intp] | None = None) -> Judge:
    return Judge(goal.criteria(goal.whole(bags), bags, None), rows)


def follow(
    task: BoostedProblems,
    paths: list[Path],
    judges: list[Judge],
    most: int,
    patience: int,
    tell: Callable[[int], Any],
) -> None:
    """Boost the folds of every path while bags held out gain by some criterion.

    Parameters
    ----------
    judges : list of Judge
        Of the scores of all bags by the fold that holds them out, which decides; others may stand
        by.
    most, patience : int
        Rounds at most, and those within which there must be a gain.
    tell : callable
        Hears how many more rounds are done.
    """
    n_folds = len(task.weights)
    going, done = paths, 0
    while going and done < most:
        # the objective takes all of them together
        boosters = [booster for path in going for booster in path.boosters]
        problem = np.tile(np.arange(n_folds), len(going))
        n = min(STEP, most - done)
        for _ in range(n):
            boost(task, boosters, problem)
        done += n
        for path in going:
            path.look(done, task, judges)
        leader = np.min([path.best for path in paths], axis=0)
        going = [path for path in going if path.has_hope(patience, leader)]
        tell(n)


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Attributes
    ----------
    num_leaves, n_rounds : int
        The best.
    forests : list of Forest
        Of every fold, one for each number of leaves that counts: the model is their mean.
    held_out : ndarray of shape (n_outputs, n_instances)
        Scores of each instance by the trees that did not see its bag.
    looks : list of tuple (num_leaves, rounds, criteria)
        All that was looked at.
    folds : SearchFolds or None
        What the trees of every fold say, leaves and rounds weighed by the other folds.
    """

    num_leaves: int
    n_rounds: int
    forests: list[Forest]
    held_out: NDArray[np.float64]
    looks: list[Look]
    folds: SearchFolds | None


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched on: rows, the same in bins, and the bags (folds, bags) held out.

    Trees are added to what they start from, ``start``, scores of shape (folds, outputs, rows). How
    much each look counts is a matter of the ``temperature``; where it is 0, the best alone does.
    """

    X: Any
    rows: Rows
    bags: Bags
    held: NDArray[np.bool_]
    n_outputs: int
    store_folds: bool
    start: NDArray[np.float64]
    temperature: float

    def run(
        self, goal: BagGoal, leaves: list[int], most: int, patience: int, tell: Callable[[int], Any]
    ) -> Found:
        """Tell what the criteria rank best together, and weigh; `follow` has the parameters."""
        unseen = self.held[:, self.bags.index]
        folds = [self.rows.without(out) for out in unseen]
        paths = [Path(n, [begin(self.n_outputs, n) for begin in folds]) for n in leaves]
        task = pose_folds(goal, self.bags, self.held, self.start)
        judges = [_judge(goal, self.bags)]
        if self.store_folds:
            judges += [_judge(goal, *self.bags.take(~out)) for out in self.held]
        if self.start.any():
            # all paths start from there, so that the first will do
            paths[0].look(0, task, judges)
        follow(task, paths, judges, most, patience, tell)
        candidates = [(path.num_leaves, n) for path in paths for n in path.rounds]
        risks = np.array([risk for path in paths for risk in path.risks])
        shares = self._weigh(risks)
        forests = [self._forests(paths, shares, number) for number in range(len(unseen))]
        scores = np.empty((self.n_outputs, self.bags.n_instances))
        for number, out in enumerate(unseen):
            scores[:, out] = self._scores(forests[number], number, np.flatnonzero(out))
        looks = [(p.num_leaves, np.array(p.rounds), np.array(p.risks).T) for p in paths]
        kept = self._folds(paths) if self.store_folds else None
        # their sums are a fold, and the mean of all of them is the mean of folds
        together = [one.times(len(own)) for own in forests for one in own]
        return Found(*candidates[choose(risks.T)], together, scores, looks, kept)

    def _weigh(self, risks: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much each look counts by its criteria (looks, criteria)."""
        if self.temperature:
            return weigh(risks, int(self.bags.sizes.sum()), self.temperature)
        return np.eye(len(risks))[choose(risks.T)]

    def _forests(self, paths: list[Path], shares: NDArray[np.float64], fold: int) -> list[Forest]:
        """Trees of a fold, of every number of leaves that counts."""
        found, begin = [], 0
        for path in paths:
            own = shares[begin : begin + len(path.rounds)]
            rounds = np.array(path.rounds)
            if (own * rounds).any():
                found.append(Forest(path.boosters[fold], rounds[own > 0], own[own > 0]))
            begin += len(rounds)
        return found

    def _scores(self, forests: list[Forest], fold: int, rows: Any) -> NDArray[np.float64]:
        """Scores of some rows by the trees of a fold and what they are added to."""
        scores = self.start[fold][:, rows].copy()
        for one in forests:
            scores += one.predict(self.X[rows])
        return scores

    def _folds(self, paths: list[Path]) -> SearchFolds:
        """Scores of all rows by the trees of every fold as the other folds weigh them."""
        others = np.array([risks for path in paths for risks in path.others])

        def scores_of_fold(number: int) -> NDArray[np.float64]:
            forests = self._forests(paths, self._weigh(others[:, number]), number)
            return self._scores(forests, number, slice(None))

        fold = self.held.argmax(axis=0)[self.bags.index]
        return collect_folds(fold, map(scores_of_fold, range(len(self.held))), True)
