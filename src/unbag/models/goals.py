"""What is learned from bags: an objective over several problems, and what to choose by.

A bag held out is a bag of weight zero. So a fit on all bags and one for every fold are problems on
the same bags, and all of them can be solved together (`unbag.models.training`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unbag._text import plural
from unbag.bags.bags import Bags
from unbag.evaluation.bag_effects import BagEffect
from unbag.model_selection.splitters import naming_fold
from unbag.observations.base import Criterion, Objective
from unbag.observations.losses import ClassLoss

# The usual spread of scores τ, and the standard deviation of log₁₀ τ² (results/few_bags.md).
_USUAL_SPREAD, _DECADES = 1.2, 0.25

# By such a factor the penalty of the usual spread may lie beyond those that there are: further off,
# features are not of the scale that these were made for.
_NEAR = 10.0


@dataclass(frozen=True, eq=False)
class Problems:
    """Several problems on the same bags, each of which may leave some of them out.

    Attributes
    ----------
    weights : ndarray of shape (n_problems, n_bags, n_classes)
        Zero for bags that are left out.
    included : ndarray of bool, shape (n_problems, n_bags)
    """

    weights: NDArray[np.float64]
    included: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Goal(ABC):
    """What a model learns from bags; made once from its parameters, and never changed.

    Attributes
    ----------
    loss : ClassLoss
        The link between scores and chances.
    class_prior : ndarray of shape (n_classes,)
        Shares of the classes that scores are for.
    free_intercept : bool
        Whether kernel functions get a constant that nothing penalises.
    bag_effect : float
        Variance of what bags differ by beyond their rows.
    looks : float
        1 if noisy counts are taken to be those of classes that keep their look.
    asks_for_effect, asks_for_looks : bool
        Whether bags held out are yet to tell the two.
    start : ndarray of shape (columns, coefficients), optional
        Where to start from, for every penalty and problem; by default at zero.
    asks_for_variance : bool
        Whether it helps a few bags to choose among penalties to know how functions vary.
    variance : float or None
        How much functions of norm one vary over the instances, if there are few bags.
    """

    loss: ClassLoss
    class_prior: NDArray[np.float64]
    free_intercept: bool = False
    bag_effect: float = 0.0
    looks: float = 0.0
    asks_for_effect: bool = False
    asks_for_looks: bool = False
    start: NDArray[Any] | None = None
    asks_for_variance: bool = False
    variance: float | None = None

    @abstractmethod
    def weights(self, bags: Bags) -> NDArray[np.float64]:
        """Table of weights, one row per bag; a ValueError for bags that teach nothing."""

    @abstractmethod
    def objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What is minimised; a bag that a problem leaves out counts for nothing."""

    def criteria(self, problems: Problems, bags: Bags, like: Any) -> Sequence[Criterion]:
        """What penalties are chosen by on bags held out, see `unbag.models.training.choose`."""
        return [self.objective(problems, bags, like)]

    def attributes(self) -> dict[str, Any]:
        """What a fitted model says of its goal."""
        return {"class_prior_": self.class_prior}

    def told_of_looks(self, found: BagEffect | None) -> Self:  # noqa: ARG002
        """Go on with what bags held out say about the look of classes."""
        return self

    def told_of_effect(self, found: BagEffect) -> Self:  # noqa: ARG002
        """Go on with effects of bags, if bags held out show any beyond doubt."""
        return self

    def prior_of(self, penalties: NDArray[np.float64], bags: Bags) -> NDArray[np.float64] | None:
        """−log of what is known of penalties beforehand, per instance, if that is to count.

        A penalty α‖f‖² is a prior: f is drawn with covariance k/(2Nα), and so varies over the
        instances by τ² = V/(2Nα), V being ``variance``. Log-odds vary by about one, so that log τ²
        is taken to be normal around that. If no penalty is near, nothing is known.
        """
        if self.variance is None:
            return None
        n_instances = bags.sizes.sum()
        usual = self.variance / (2 * n_instances * _USUAL_SPREAD**2)
        if not penalties.min() / _NEAR <= usual <= penalties.max() * _NEAR:
            return None
        away = np.log10(penalties / usual) / _DECADES
        return away**2 / (2 * n_instances)

    def n_outputs(self, bags: Bags) -> int:
        """Number of scores of an instance."""
        return self.loss.n_outputs(bags.n_classes)

    def whole(self, bags: Bags) -> Problems:
        """Pose one problem that takes all bags."""
        return Problems(self.weights(bags)[None], np.ones((1, bags.n_bags), dtype=bool))

    def of_folds(self, bags: Bags, held: NDArray[np.bool_]) -> Problems:
        """Pose the problem of all bags, then for every fold that of the bags it trains on.

        Parameters
        ----------
        held : ndarray of bool, shape (n_folds, n_bags)
            Bags that each fold holds out.
        """
        on_all = self.whole(bags)
        tables = [*on_all.weights]
        for number, out in enumerate(held):
            table = np.zeros((bags.n_bags, bags.n_classes))
            with naming_fold(number, len(held)):
                table[~out] = self.weights(bags.take(~out)[0])
            tables.append(table)
        return Problems(np.stack(tables), np.vstack([on_all.included, ~held]))

    def of_telling_folds(self, bags: Bags, held: NDArray[np.bool_]) -> dict[int, Problems]:
        """Pose, for every fold whose held-out bags differ, the problem of these bags alone.

        Those whose bags are all alike say nothing about a penalty; that is said.
        """
        found: dict[int, Problems] = {}
        for number, out in enumerate(held):
            try:
                found[number] = self.whole(bags.take(out)[0])
            except ValueError:
                continue
        if not found:
            raise ValueError(
                "In no fold do the held-out bags differ in proportion, so that selection='folds' "
                "has nothing to go by; use selection='pooled' or fewer folds."
            )
        without = [number + 1 for number in range(len(held)) if number not in found]
        if without:
            warnings.warn(
                f"The held-out bags of {plural(len(without), 'fold')} {without} all have the same "
                "proportion and say nothing about any alpha; the choice rests on the other folds. "
                "selection='pooled' uses all.",
                UserWarning,
                stacklevel=2,
            )
        return found

    def fold_criteria(
        self, bags: Bags, held: NDArray[np.bool_]
    ) -> dict[int, tuple[Sequence[Criterion], NDArray[np.intp]]]:
        """Criteria of each fold's held-out bags, weighed among themselves, and their instances."""
        found = {}
        for number, alone in self.of_telling_folds(bags, held).items():
            part, rows = bags.take(held[number])
            found[number] = self.criteria(alone, part, None), rows
        return found
