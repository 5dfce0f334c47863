"""Rounds of boosting on an objective in score space, for one fit or for the folds of a search.

In every round the objective gives its gradient at the scores of all trees so far, which for a
likelihood is p − P(class | row and bag): posteriors are those of this round. The curvature is that
of labels, p(1 − p), or twice that where one round moves the scores of several classes. The second
derivative of each objective here is that of labels less the covariance of the labels given the
counts, which is not negative; and diag(p) − ppᵀ lies below diag 2p(1 − p), by the sum of its rows.
So no tree can lead uphill at a rate of at most one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import Bags
from unbag.models.boosted_trees import Booster
from unbag.models.search import choose
from unbag.objectives.base import Objective

# Rounds between two looks at the bags held out.
STEP = 5

# The only problem of an objective.
FIRST = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Task:
    """Problems that are boosted side by side.

    Attributes
    ----------
    objective : Objective
        Of scores that start at zero: a mean over the rows of a problem.
    offsets : ndarray of shape (n_problems, n_outputs)
        What the objective adds to the scores to have log-odds.
    weights : ndarray of shape (n_problems, n_bags)
        What a row of each bag weighs, one as a rule; zero in bags held out.
    bags : Bags
    """

    objective: Objective
    offsets: NDArray[np.float64]
    weights: NDArray[np.float64]
    bags: Bags

    def slopes(
        self, scores: NDArray[np.float64], problem: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradient and curvature of sums over rows, for scores (columns, outputs, rows)."""
        n_rows = (self.weights != 0) @ self.bags.sizes
        gradient = self.objective.value_and_gradient(scores, problem)[1]
        gradient *= n_rows[problem][:, None, None]
        bound = curvature(scores + self.offsets[problem][:, :, None])
        bound *= self.weights[problem][:, None, self.bags.index]
        return gradient, bound


def curvature(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound of the second derivative at log-odds (columns, outputs, rows): see above."""
    if log_odds.shape[1] == 1:
        small = np.exp(-np.abs(log_odds))
        return small / (1 + small) ** 2
    powers = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    chances = powers / powers.sum(axis=1, keepdims=True)
    return 2 * chances * (1 - chances)


def boost(task: Task, boosters: list[Booster], problem: NDArray[np.intp]) -> None:
    """One round of every booster, each on its problem."""
    scores = np.stack([booster.scores() for booster in boosters])
    for booster, *slopes in zip(boosters, *task.slopes(scores, problem), strict=True):
        booster.grow(*slopes)


@dataclass(eq=False)
class Path:
    """What bags held out say of trees of one kind, after some numbers of rounds.

    Attributes
    ----------
    boosters : list of Booster
        One for each fold.
    rounds : list of int
        Numbers of rounds after which they were looked at.
    risks : list of list of float
        All criteria, at every look.
    """

    boosters: list[Booster]
    rounds: list[int] = field(default_factory=list)
    risks: list[list[float]] = field(default_factory=list)

    @property
    def rounds_without_gain(self) -> int:
        """How long ago a criterion gained, the last of them."""
        if not self.rounds:
            return 0
        return self.rounds[-1] - self.rounds[np.argmin(self.risks, axis=0).max()]

    def look(self, rounds: int, criteria: list[Objective], fold: NDArray[np.intp]) -> None:
        """Judge the scores of rows by the booster of the fold that holds them out."""
        scores = np.stack([booster.scores() for booster in self.boosters])
        held_out = np.take_along_axis(scores, fold[None, None, :], axis=0)
        self.rounds.append(rounds)
        self.risks.append([float(one.value(held_out, FIRST)[0]) for one in criteria])


def follow(
    task: Task,
    paths: list[Path],
    criteria: list[Objective],
    most: int,
    patience: int,
    tell: Callable[[int], None],
) -> None:
    """Boost the folds of every path until bags held out gain no more by any criterion.

    Parameters
    ----------
    criteria : list of Objective
        Of the scores of all bags by the fold that holds them out.
    most, patience : int
        Rounds at most, and without any gain.
    tell : callable
        Hears how many more rounds are done.
    """
    fold = (task.weights == 0).argmax(axis=0)[task.bags.index]
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
            path.look(done, criteria, fold)
        going = [path for path in going if path.rounds_without_gain < patience]
        tell(n)


def best_of(paths: list[Path]) -> tuple[int, int]:
    """Which path, and which number of rounds, the criteria rank best together."""
    candidates = [(which, n) for which, path in enumerate(paths) for n in path.rounds]
    risks = np.array([risk for path in paths for risk in path.risks])
    return candidates[choose(risks.T)]
