"""What boosting minimises where every worker has some of the rows, and all of a bag's if needed.

Sums over rows are what workers add up: of criteria on bags held out, and of chances for the effects
of bags. A gradient stays with its rows. Shares, sizes and noise are those of all bags.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._outputs import by_instance
from unbag.bags.bags import Bags
from unbag.distributed.table import BagsById
from unbag.evaluation.bag_effects import BagEffect, effect_of_means
from unbag.models.bag_goal import BagGoal
from unbag.models.boosted_xgboost import add_up
from unbag.models.goals import Problems
from unbag.observations.base import Objective, OffsetObjective
from unbag.observations.count_likelihood import EXACT_SIZE, what_counts_tell
from unbag.observations.losses import get_loss
from unbag.observations.weighed_bags import WeighedBags


class CountsHere:
    """The part of the likelihood of counts that is due to the bags of one worker.

    Parameters
    ----------
    included : ndarray of bool, shape (n_problems, n_bags)
    table : BagsById
        Of all bags.
    entry : ndarray of shape (n_rows,)
        Entry of each row here.
    bag_effect, looks : float
        As in `unbag.observations.count_likelihood.CountLikelihood`.
    """

    def __init__(
        self,
        included: NDArray[np.bool_],
        table: BagsById,
        entry: NDArray[np.intp],
        bag_effect: float,
        looks: float,
    ) -> None:
        pieces = table.with_labelled_rows_apart().bags
        told, covariance = what_counts_tell(pieces, bag_effect, looks)
        here, index = np.unique(pieces.index[entry], return_inverse=True)
        # a piece has one entry, and an entry one bag
        bag = np.empty(pieces.n_bags, dtype=np.intp)
        bag[pieces.index] = table.bags.index
        weights = (included / (included @ table.bags.sizes)[:, None])[:, bag[here]]
        own = replace(told.take(here)[0], index=index)
        self.n_outputs = 1 if pieces.n_classes == 2 else pieces.n_classes
        self._bags = WeighedBags(own, weights, covariance[here], EXACT_SIZE, np.empty(0))

    def value(self, scores: Floats, problem: NDArray[np.intp]) -> Floats:
        """What these bags add, per column."""
        return self._bags.evaluate(scores, problem, gradient=False)[0]

    def value_and_gradient(
        self, scores: Floats, problem: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """What these bags add, and its gradient with respect to the scores."""
        return self._bags.evaluate(scores, problem, gradient=True)


class AddedUp:
    """An objective that is a sum over rows, of all workers together."""

    def __init__(self, part: Objective) -> None:
        self._part, self.n_outputs = part, part.n_outputs

    def value(self, scores: Floats, problem: NDArray[np.intp]) -> Floats:
        """Value per column."""
        return add_up(self._part.value(scores, problem))

    def value_and_gradient(
        self, scores: Floats, problem: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """Value per column, and the gradient with respect to the scores here."""
        value, gradient = self._part.value_and_gradient(scores, problem)
        return add_up(value), gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class GoalTogether(BagGoal):
    """A goal of several workers.

    Attributes
    ----------
    table : BagsById
        Of all bags.
    entry : ndarray of shape (n_rows,)
        Entry of each row here.
    """

    table: BagsById
    entry: NDArray[np.intp]

    def objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What the rows here add to what is minimised."""
        if self.name != "likelihood":
            return super().objective(problems, bags, like)
        counts = CountsHere(problems.included, self.table, self.entry, self.bag_effect, self.looks)
        return OffsetObjective(counts, self.offsets(problems.included, bags))

    def criteria(self, problems: Problems, bags: Bags, like: Any) -> list[Objective]:
        """What is chosen by, of all workers together."""
        return [AddedUp(one) for one in super().criteria(problems, bags, like)]


def effect_together(offsets: Floats, bags: Bags, scores: Floats) -> BagEffect:
    """Effects of bags by the scores of the rows of all workers.

    Parameters
    ----------
    offsets : ndarray of shape (1, n_outputs)
        What is added to scores to have log-odds at the shares of all bags together.
    bags : Bags
        Of all workers; its index runs over the rows here.
    scores : ndarray of shape (n_outputs, n_rows)
    """
    log_odds = scores + offsets.T
    loss = get_loss("logistic", bags.n_classes)
    chances = loss.class_probabilities(by_instance(log_odds)).T
    means, variances = (add_up(bags.means(p)).T for p in (chances, chances * (1 - chances)))
    return effect_of_means(bags, means, variances)
