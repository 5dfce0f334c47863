"""Choosing a penalty from bags, where the instances are spread over partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import Bags
from unbag.distributed.partitions import share
from unbag.distributed.risk import DistributedData, Floats, RowWeights, read_risk
from unbag.models.search import Selection, Training, check_selection, fold_criteria


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
    check_selection(selection)
    if selection == "pooled":
        (whole,) = training.make_criteria(training.whole(bags), bags, None)
        risk, table = read_risk(whole, data.n_outputs)
        out = held[:, bags.index]
        pooled = RowWeights(
            table.weights * out[:, None, :], np.repeat(table.offsets, len(held), axis=0)
        )
        by_class = _class_risks(theta, pooled, data).sum(axis=0)
        risks, _ = risk.combine(by_class, np.zeros(len(by_class), dtype=np.intp))
    else:
        shape = (len(held), bags.n_classes, len(bags.index))
        alone = RowWeights(np.zeros(shape), np.zeros((len(held), data.n_outputs)))
        of_fold = {}
        for number, ((criterion,), entries) in fold_criteria(bags, held, training).items():
            of_fold[number], table = read_risk(criterion, data.n_outputs)
            alone.weights[number][:, entries] = table.weights[0]
            alone.offsets[number] = table.offsets[0]
        by_class = _class_risks(theta, alone, data)
        first = np.zeros(by_class.shape[1], dtype=np.intp)
        risks = np.stack([risk.combine(by_class[k], first)[0] for k, risk in of_fold.items()])
    return risks


def _class_risks(theta: Floats, table: RowWeights, data: DistributedData) -> Floats:
    """R_c of each fold and penalty, with the weights of the fold: (folds, penalties, classes)."""
    n_folds = len(table.weights)
    problem = np.repeat(np.arange(n_folds), len(theta) // n_folds)
    risks, _ = data.sums(share(table), theta, problem, gradient=False)
    return risks.reshape(n_folds, -1, risks.shape[1])
