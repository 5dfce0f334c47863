"""What boosting minimises: a goal of bags (`unbag.models.bag_goal`), as a task for rounds.

Scores are log-odds at equal shares of the classes: zero stands for chances that are the shares in
the bags that are learned from.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag.bags.bags import Bags
from unbag.models.bag_goal import BagGoal, make_bag_goal
from unbag.models.boosted_rounds import BoostedProblems
from unbag.models.goals import Problems

# Scores of problems that start from nothing.
NOTHING: Floats = np.zeros((1, 1, 1))


def make_goal_at_equal_shares(objective: Any, bag_effect: Any, bags: Bags) -> BagGoal:
    """Check what is to be minimised.

    Parameters
    ----------
    objective, bag_effect
        As in `unbag.LLPBoostingClassifier`.
    """
    settings = SimpleNamespace(objective=objective, bag_effect=bag_effect, class_prior="balanced")
    return make_bag_goal(settings, bags)


def pose(goal: BagGoal, bags: Bags, start: Floats = NOTHING) -> BoostedProblems:
    """Pose the problem of all bags, with scores (1, outputs, rows) to start from."""
    return _task(goal, goal.whole(bags), bags, start)


def pose_folds(
    goal: BagGoal, bags: Bags, held: NDArray[np.bool_], start: Floats = NOTHING
) -> BoostedProblems:
    """Pose the problems of folds, each of which holds out some bags: (folds, bags)."""
    found = goal.of_folds(bags, held)
    return _task(goal, Problems(found.weights[1:], found.included[1:]), bags, start)


def _task(goal: BagGoal, problems: Problems, bags: Bags, start: Floats) -> BoostedProblems:
    objective = goal.objective(problems, bags, None)
    offsets = goal.offsets(problems.included, bags)
    start = np.broadcast_to(start, (*offsets.shape, bags.n_instances))
    return BoostedProblems(objective, offsets, problems.included.astype(float), bags, start)
