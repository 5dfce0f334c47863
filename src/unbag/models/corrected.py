"""What models learn from bags: the corrected risk, the likelihood of counts, or both.

The corrected risk R uses the proportion of a bag as a moment, the count likelihood L also which
instances can be the positive ones. Both are log losses per instance, R as if of the labelled
rows that the bags are worth and L of all instances, so that together

    R + μL,    μ = (instances) / (labelled rows that the bags are worth),

weighs each by how much it knows.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags import Bags
from unbag.decontamination import decontamination_weights
from unbag.likelihood import CountLikelihood
from unbag.losses import get_loss
from unbag.models.base import ObjectiveClassifier, check_positive
from unbag.models.search import Problems
from unbag.objectives import Objective, WeightedSum
from unbag.risk import CorrectedRisk, resolve_class_prior

ObjectiveName = Literal["auto", "combined", "corrected", "likelihood"]


class CorrectedRiskClassifier(ObjectiveClassifier):
    """A classifier that minimises the corrected risk, the count likelihood, or both."""

    objective: Any
    likelihood_weight: Any
    weights: Any
    bag_model: Any
    merge: Any
    merge_size: Any
    loss: Any
    class_prior: Any
    correction: Any

    def _prepare(self, bags: Bags) -> None:
        if self.objective not in get_args(ObjectiveName):
            names = ", ".join(map(repr, get_args(ObjectiveName)))
            raise ValueError(f"objective must be one of {names}, not {self.objective!r}.")
        if self.likelihood_weight != "auto":
            check_positive(self.likelihood_weight, "likelihood_weight")
        self._loss = get_loss(self.loss, bags.n_classes)
        if not self._loss.trainable:
            raise ValueError(f"loss={self.loss!r} measures a classifier but cannot train one.")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags)
        obstacle = self._why_no_counts(bags)
        if self.objective == "auto":
            self.objective_ = "combined" if obstacle is None else "corrected"
        elif self.objective != "corrected" and obstacle is not None:
            raise ValueError(
                f"objective={self.objective!r} uses the counts of bags, and {obstacle}; use "
                "objective='corrected'."
            )
        else:
            self.objective_ = self.objective

    def _why_no_counts(self, bags: Bags) -> str | None:
        """Say what keeps the likelihood of counts from being used, if anything."""
        if bags.n_classes != 2:
            return f"their likelihood is for two classes while there are {bags.n_classes}"
        if self._loss.name != "logistic":
            return f"loss={self.loss!r} does not estimate odds, which it needs"
        if bags.noise is not None:
            return "these are not known exactly"
        if self.bag_model == "bags":
            return "bag_model='bags' allows instances that depend on each other"
        if bags.labelled.all():
            return "there are labels only"
        if (self.class_prior_ == 0).any():
            return "class_prior leaves a class out"
        return None

    def _weights(self, bags: Bags) -> NDArray[np.float64]:
        return decontamination_weights(
            bags,
            method=self.weights,
            bag_model=self.bag_model,
            merge=self.merge,
            merge_size=self.merge_size,
        )

    def _objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        if self.objective_ == "likelihood":
            return self._likelihood(problems, bags, like)
        risk = self._risk(problems, bags, like)
        if self.objective_ == "corrected":
            return risk
        likelihood = self._likelihood(problems, bags, like)
        factor = np.array([self._likelihood_weight(bags, row) for row in problems.included])
        return WeightedSum([risk, likelihood], np.stack([np.ones_like(factor), factor]))

    def _criterion(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        if self.objective_ == "likelihood":
            return self._likelihood(problems, bags, like)
        # of few bags the counts say less about held-out scores than all their instances do
        return self._risk(problems, bags, like)

    def _risk(self, problems: Problems, bags: Bags, like: Any) -> CorrectedRisk:
        return CorrectedRisk(
            problems.weights, bags, self._loss, self.class_prior_, self.correction, like
        )

    def _likelihood(self, problems: Problems, bags: Bags, like: Any) -> CountLikelihood:
        # scores are the odds at the class prior, of which the likelihood wants those at equal ones
        negative, positive = self.class_prior_
        return CountLikelihood(problems.included, bags, like, offset=np.log(positive / negative))

    def _likelihood_weight(self, bags: Bags, included: NDArray[np.bool_]) -> float:
        """μ: by default one over the share of what labels would tell that proportions do."""
        if self.likelihood_weight != "auto":
            return float(self.likelihood_weight)
        sizes, positive = bags.sizes[included], bags.clipped_proportions[included, 1]
        mean = np.average(positive, weights=sizes)
        spread = np.average((positive - mean) ** 2, weights=sizes)
        return float(mean * (1 - mean) / spread)
