"""Rounds of boosting on an objective in score space, for one fit or for the folds of a search.

In every round the objective gives its gradient at the scores of all trees so far, which for a
likelihood is p − P(class | row and bag): posteriors are those of this round. The curvature is that
of labels, p(1 − p), or twice that where one round moves the scores of several classes. The second
derivative of each objective here is that of labels less the covariance of the labels given the
counts, which is not negative; and diag(p) − ppᵀ lies below diag 2p(1 − p), by the sum of its rows.

That holds where scores are. On the way of a leaf that moves by d log-odds p(1 − p) grows up to e^d
times, so that the objective changes there by at most Gv + Hv²ψ(d), ψ(d) = (e^d − 1 − d)/d², for G
and H the gradient and curvature of the leaf. At a rate of η the move is v = −ηG/(H + λ): it leads
downhill if ηψ(d) < 1, that is, up to d = 1.79 at a rate of one and 3.6 at .4. Further moves only a
leaf of rows that are taken for certain, and wrongly, if nothing like λ or a least H keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbag._deadlines import check_time
from unbag.bags.bags import Bags
from unbag.models.boosted_library import Booster
from unbag.observations.base import Objective

# The only problem of an objective.
FIRST = np.zeros(1, dtype=np.intp)

# Scores that are worked on together: what is made of them should stay near the processor.
_SCORES_TOGETHER = 2**19


@dataclass(frozen=True, eq=False)
class BoostedProblems:
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
    start : ndarray of shape (n_problems, n_outputs, n_rows or 1)
        Scores that trees are added to.
    """

    objective: Objective
    offsets: NDArray[np.float64]
    weights: NDArray[np.float64]
    bags: Bags
    start: NDArray[np.float64]

    def scores(self, boosters: list[Booster], problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Scores (boosters, outputs, rows) by the trees so far and what they are added to."""
        scores = np.stack([booster.scores() for booster in boosters])
        scores += self.start[problem]
        return scores

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
        small = np.abs(log_odds)
        np.negative(small, out=small)
        np.exp(small, out=small)
        whole = 1 + small
        small /= whole
        small /= whole
        return small
    powers = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    chances = powers / powers.sum(axis=1, keepdims=True)
    return 2 * chances * (1 - chances)


def boost(task: BoostedProblems, boosters: list[Booster], problem: NDArray[np.intp]) -> None:
    """One round of every booster, each on its problem."""
    check_time()
    some = max(1, _SCORES_TOGETHER // task.bags.n_instances)
    for start in range(0, len(boosters), some):
        own = boosters[start : start + some]
        which = problem[start : start + some]
        slopes = task.slopes(task.scores(own, which), which)
        for booster, gradient, bound in zip(own, *slopes, strict=True):
            booster.grow(gradient, bound)
