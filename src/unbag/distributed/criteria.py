"""What is minimised, and what penalties are chosen by, where instances are in partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag._arrays import Bools, Floats, Ints
from unbag.distributed.count_table import make_count_table
from unbag.distributed.counts import DistributedCounts
from unbag.distributed.forward import DistributedForward, make_forward_table
from unbag.distributed.risk import DistributedData
from unbag.distributed.table import BagsById
from unbag.models.bag_goal import BagGoal
from unbag.models.goals import Problems
from unbag.models.training import Selection


def make_objective(
    goal: BagGoal, problems: Problems, table: BagsById, data: DistributedData
) -> Any:
    """What is minimised, as a function of coefficients."""
    likelihood, tables = _likelihoods(goal, table, problems.included)[0]
    return likelihood(tables, data)


def selection_risks(
    goal: BagGoal,
    theta: Floats,
    selection: Selection,
    table: BagsById,
    held: Bools,
    data: DistributedData,
) -> Floats:
    """Criteria of every penalty on held-out bags: (criteria, penalties), or with folds in between.

    Parameters
    ----------
    theta : ndarray of shape (n_folds, n_penalties, n_coefficients)
        Fits without the bags of each fold.
    selection : {"pooled", "folds"}
        "pooled": the weights of all bags, each bag scored by the fold that did not see it, so that
        a criterion is a sum over folds. "folds": those of each fold's bags alone.
    """
    bags, folds = table.bags, np.arange(len(held))
    if selection == "folds":
        folds = np.array(list(goal.of_telling_folds(bags, held)))
        alone = [_likelihoods(goal, table, out[None]) for out in held]
    else:
        whole = _likelihoods(goal, table, np.ones((1, bags.n_bags), dtype=bool))
        alone = [[(kind, known.of(out[bags.index])) for kind, known in whole] for out in held]
    columns, problem = _columns(theta)
    found = []
    for criterion in zip(*alone, strict=True):
        kinds, tables = zip(*criterion, strict=True)
        likelihood = kinds[0](tables[0].join(tables), data)
        values = likelihood.value(columns[:, None, :], problem).reshape(len(held), -1)[folds]
        found.append(values if selection == "folds" else values.sum(axis=0))
    return np.stack(found)


def _likelihoods(goal: BagGoal, table: BagsById, included: Bools) -> list[tuple[Any, Any]]:
    """Likelihoods with what workers need for them, that of the counts first if it is minimised."""
    bags = table.bags
    offsets = goal.offsets(included, bags)
    forward = DistributedForward, make_forward_table(included, bags, offsets)
    if goal.name == "forward":
        return [forward]
    known = goal.bag_effect, goal.looks
    counts = make_count_table(bags, table.rows, included, offsets, *known)
    return [(DistributedCounts, counts), forward]


def _columns(theta: Floats) -> tuple[Floats, Ints]:
    """Fits as columns, and the fold of each."""
    n_folds, n_penalties, n_coefficients = theta.shape
    problem = np.repeat(np.arange(n_folds), n_penalties)
    return theta.reshape(-1, n_coefficients), problem
