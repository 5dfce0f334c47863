"""Choosing a penalty from bags, where the instances are spread over partitions."""

from __future__ import annotations

import warnings
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags import Bags
from unbag.distributed.partitions import share
from unbag.distributed.risk import DistributedData, Floats, RowWeights, read_risk
from unbag.models.search import Problems, Selection, Training, fold_weights
from unbag.risk import CorrectedRisk


def fold_problems(bags: Bags, held: NDArray[np.bool_], training: Training) -> Problems:
    """Pose the problem of all bags, then for every fold that of the bags it trains on."""
    on_all = training.whole(bags)
    folds = fold_weights(bags, held, training)
    return Problems(np.stack([*on_all.weights, *folds]), np.vstack([on_all.included, ~held]))


def selection_risks(
    theta: Floats,
    selection: Selection,
    bags: Bags,
    held: NDArray[np.bool_],
    data: DistributedData,
    training: Training,
) -> Floats:
    """Criterion of every penalty on held-out bags, pooled or by fold; one pass over the data.

    Parameters
    ----------
    theta : ndarray of shape (n_folds · n_penalties, n_coefficients)
        Fits without the bags of each fold.
    selection : {"pooled", "folds"}
        "pooled": the weights of all bags, each bag scored by the fold that did not see it, so that
        the risk of a class is a sum over folds. "folds": those of each fold's bags alone.
    """
    if selection not in get_args(Selection):
        raise ValueError(f"selection must be 'pooled' or 'folds', not {selection!r}.")
    if selection == "pooled":
        whole = training.make_criterion(training.whole(bags), bags, None)
        risk, table = read_risk(whole, data.n_outputs)
        out = held[:, bags.index]
        pooled = RowWeights(
            table.weights * out[:, None, :], np.repeat(table.offsets, len(held), axis=0)
        )
        by_class = _class_risks(theta, pooled, data).sum(axis=0)
        risks, _ = risk.combine(by_class, np.zeros(len(by_class), dtype=np.intp))
    else:
        of_fold = _criteria_of_folds(bags, held, data.n_outputs, training)
        shape = (len(held), bags.n_classes, len(bags.index))
        alone = RowWeights(np.zeros(shape), np.zeros((len(held), data.n_outputs)))
        for number, (_, table, entries) in of_fold.items():
            alone.weights[number][:, entries] = table.weights[0]
            alone.offsets[number] = table.offsets[0]
        by_class = _class_risks(theta, alone, data)
        first = np.zeros(by_class.shape[1], dtype=np.intp)
        risks = np.stack([risk.combine(by_class[k], first)[0] for k, (risk, *_) in of_fold.items()])
    if not np.isfinite(risks).all():
        raise FloatingPointError("The selection criterion is not finite for every alpha.")
    return risks


def _class_risks(theta: Floats, table: RowWeights, data: DistributedData) -> Floats:
    """R_c of each fold and penalty, with the weights of the fold: (folds, penalties, classes)."""
    n_folds = len(table.weights)
    problem = np.repeat(np.arange(n_folds), len(theta) // n_folds)
    risks, _ = data.sums(share(table), theta, problem, gradient=False)
    return risks.reshape(n_folds, -1, risks.shape[1])


def _criteria_of_folds(
    bags: Bags, held: NDArray[np.bool_], n_outputs: int, training: Training
) -> dict[int, tuple[CorrectedRisk, RowWeights, Any]]:
    """Risk over the held-out bags of each fold alone, where these differ in proportion."""
    found: dict[int, tuple[CorrectedRisk, RowWeights, Any]] = {}
    for number, out in enumerate(held):
        part, entries = bags.take(out)
        try:
            alone = training.whole(part)
        except ValueError:
            continue
        criterion = training.make_criterion(alone, part, None)
        found[number] = (*read_risk(criterion, n_outputs), entries)
    if not found:
        raise ValueError(
            "In no fold do the held-out bags differ in proportion, so that selection='folds' has "
            "nothing to go by; use selection='pooled' or fewer folds."
        )
    without = [number + 1 for number in range(len(held)) if number not in found]
    if without:
        warnings.warn(
            f"The held-out bags of fold(s) {without} all have the same proportion and say nothing "
            "about any alpha; the choice rests on the other folds. selection='pooled' uses all.",
            UserWarning,
            stacklevel=2,
        )
    return found
