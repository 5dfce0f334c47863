"""What boosting minimises: a goal of bags (`unbag.models.bag_goal`), as a task for rounds.

Trees add to the shares of the classes in the bags that are learned from: scores that are zero stand
for chances that are these shares, and are log-odds at equal ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import Bags
from unbag.models.bag_goal import BagGoal, make_bag_goal
from unbag.models.boosted_rounds import Task
from unbag.models.goals import Problems
from unbag.weights.decontamination import pooled_shares


def make_goal_at_equal_shares(objective: Any, bag_effect: Any, bags: Bags) -> BagGoal:
    """Check what is to be minimised; the corrected risk is that of least squares, as it is convex.

    Parameters
    ----------
    objective, bag_effect
        As in `unbag.BoostedMCMClassifier`.
    """
    settings = SimpleNamespace(
        objective=objective,
        bag_effect=bag_effect,
        loss="logistic",
        class_prior="balanced",
        training_prior="pooled",
        weights="least_squares",
        bag_model="instances",
        correction="none",
        merge=None,
        merge_size=None,
    )
    return make_bag_goal(settings, bags)


def pose(goal: BagGoal, bags: Bags) -> Task:
    """Pose the problem of all bags."""
    return _task(goal, goal.whole(bags), bags)


def pose_folds(goal: BagGoal, bags: Bags, held: NDArray[np.bool_]) -> Task:
    """Pose the problems of folds, each of which holds out some bags: (folds, bags)."""
    found = goal.of_folds(bags, held)
    return _task(goal, Problems(found.weights[1:], found.included[1:]), bags)


def _task(goal: BagGoal, problems: Problems, bags: Bags) -> Task:
    objective = goal.objective(problems, bags, None)
    offsets = goal.offsets(problems.included, bags)
    return Task(objective, offsets, _row_weights(goal, problems, bags), bags)


def _row_weights(goal: BagGoal, problems: Problems, bags: Bags) -> NDArray[np.float64]:
    """What a row of each bag (problems, bags) weighs in the second derivative."""
    included = problems.included
    if goal.name != "corrected":
        return included.astype(float)
    # those of Σ_c q_c R_c, one but for noise in the shares
    shares = pooled_shares(bags, "instances", included)
    of_bags = np.einsum("pbc,pc->pb", problems.weights, shares)
    return np.abs(of_bags) / bags.sizes * (included @ bags.sizes)[:, None]
