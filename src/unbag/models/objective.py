"""The log-likelihood of what is known of bags, by which learners are trained and compared."""

from __future__ import annotations

import numpy as np

from unbag._arrays import Array, Bools, Floats, Ints
from unbag.bags.bags import Bags
from unbag.bags.priors import prior_offset
from unbag.observations.count_likelihood import CountLikelihood

# Least class prior: of a class that the bags of a fold do not hold.
_LEAST_PRIOR = 1e-9


class BagObjective:
    """Mean negative log-likelihood of bags, of scores at the class prior of all bags together.

    The bags that a problem includes have a class prior of their own, and
    likelihoods are about log-odds at that prior, to which scores are moved.

    Parameters
    ----------
    bags : Bags
    included : ndarray of bool, shape (n_problems, n_bags), optional
        The bags that each problem includes; by default there is one problem, of all bags.

    Attributes
    ----------
    n_outputs : int
        Scores of a row: one for two classes, else one for each.
    offsets : ndarray of shape (n_problems, n_outputs)
        What is added to scores to have log-odds at the class prior of each problem.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.models.objective import BagObjective
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], counts=[1, 1, 2, 2]))
    >>> BagObjective(bags).bag_losses(np.zeros((1, 1, 4))).round(2)  # log 2 and log 4
    array([[0.69, 1.39]])
    """

    def __init__(self, bags: Bags, included: Bools | None = None) -> None:
        if included is None:
            included = np.ones((1, bags.n_bags), dtype=bool)
        self._likelihood = CountLikelihood(included, bags)
        self.n_outputs = self._likelihood.n_outputs
        rows = included * bags.sizes
        priors = rows @ bags.proportions / rows.sum(axis=1, keepdims=True)
        at_least = (np.maximum(prior, _LEAST_PRIOR) for prior in (bags.class_shares, priors))
        self.offsets = prior_offset(*at_least)

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Mean negative log-likelihood per column, for scores (columns, outputs, rows)."""
        return self._likelihood.value(scores + self.offsets[problem][:, :, None], problem)

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """The same with its gradient by the scores."""
        moved = scores + self.offsets[problem][:, :, None]
        return self._likelihood.value_and_gradient(moved, problem)

    def bag_losses(self, scores: Array) -> Floats:
        """Negative log-likelihood of every bag (columns, bags), whatever problems include."""
        return self._likelihood.bag_losses(scores)
