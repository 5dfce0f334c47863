"""What boosting minimises: a likelihood of bags or the corrected risk, as a task for rounds.

All of them are functions of log-odds at the shares of the classes in the bags that are learned
from. Trees add to these shares: scores that are zero stand for chances that are the shares, and are
log-odds at equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import Bags
from unbag.models.boosted_rounds import Task
from unbag.objectives.base import Objective, Shifted
from unbag.objectives.corrected_risk import CorrectedRisk, Correction
from unbag.objectives.count_likelihood import CountLikelihood
from unbag.objectives.forward import ForwardLikelihood
from unbag.objectives.losses import get_loss
from unbag.weights.decontamination import check_contrast, decontamination_weights, pooled_shares

AimName = Literal["likelihood", "forward", "corrected"]

# Shares of classes that the bags of a fold do not hold at all.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Aim:
    """What is minimised, and what numbers of rounds are chosen by.

    Attributes
    ----------
    name : {"likelihood", "forward", "corrected"}
    bag_effect, looks : float
        As in `unbag.objectives.count_likelihood.CountLikelihood`.
    """

    name: AimName
    bag_effect: float = 0.0
    looks: float = 0.0

    def task(self, included: NDArray[np.bool_], bags: Bags) -> Task:
        """Pose the problems of the bags that each line includes."""
        offsets = _log_shares(included, bags)
        objective = Shifted(self._objective(self.name, included, bags), offsets)
        return Task(objective, offsets, self._row_weights(included, bags), bags)

    def fold_task(self, held: NDArray[np.bool_], bags: Bags) -> Task:
        """Pose the problems of folds, each of which holds out some bags."""
        for number, out in enumerate(held):
            try:
                check_contrast(bags.take(~out)[0])
            except ValueError as error:
                raise ValueError(
                    f"Fold {number + 1} of {len(held)} cannot be trained: {error} "
                    "Use fewer folds, or cv=None."
                ) from None
        return self.task(~held, bags)

    def criteria(self, bags: Bags) -> list[Objective]:
        """What scores of bags held out are judged by; of several, the sum of ranks decides."""
        every = np.ones((1, bags.n_bags), dtype=bool)
        # each errs in its own way: what both rank high was best (results/selection.md)
        names = {"likelihood": ("likelihood", "forward")}.get(self.name, (self.name,))
        # without a bound below, the risk would choose what fits the noise of its weights best
        found = [self._objective(name, every, bags, "nonnegative") for name in names]
        offsets = _log_shares(every, bags)
        return [Shifted(objective, offsets) for objective in found]

    def _objective(
        self,
        name: str,
        included: NDArray[np.bool_],
        bags: Bags,
        correction: Correction = "none",
    ) -> Objective:
        if name == "likelihood":
            return CountLikelihood(included, bags, bag_effect=self.bag_effect, looks=self.looks)
        if name == "forward":
            return ForwardLikelihood(included, bags)
        loss, prior = get_loss("logistic", bags.n_classes), _shares(included, bags)
        return CorrectedRisk(_weights(included, bags), bags.membership, loss, prior, correction)

    def _row_weights(self, included: NDArray[np.bool_], bags: Bags) -> NDArray[np.float64]:
        """What a row of each bag (problems, bags) weighs in the second derivative."""
        if self.name != "corrected":
            return included.astype(float)
        # those of Σ_c q_c R_c, one but for noise in the shares
        of_bags = np.einsum("pbc,pc->pb", _weights(included, bags), _shares(included, bags))
        return np.abs(of_bags) / bags.sizes * (included @ bags.sizes)[:, None]


def _weights(included: NDArray[np.bool_], bags: Bags) -> NDArray[np.float64]:
    """Decontamination weights (problems, bags, classes), zero for bags that are left out."""
    tables = np.zeros((*included.shape, bags.n_classes))
    for table, line in zip(tables, included, strict=True):
        table[line] = decontamination_weights(bags.take(line)[0])
    return tables


def _shares(included: NDArray[np.bool_], bags: Bags) -> NDArray[np.float64]:
    """Shares of the classes in the bags of every problem."""
    return np.maximum(pooled_shares(bags, "instances", included), _LEAST_SHARE)


def _log_shares(included: NDArray[np.bool_], bags: Bags) -> NDArray[np.float64]:
    return as_scores(np.log(_shares(included, bags)))


def as_scores(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of logarithms for every class (..., classes), the log-odds of two, or all of several."""
    return logs[..., 1:] - logs[..., :1] if logs.shape[-1] == 2 else logs
