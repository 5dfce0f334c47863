"""What models learn from bags: the corrected risk, the likelihood of counts, or both.

The corrected risk R uses the proportion of a bag as a moment, the count likelihood L also which
instances can be the positive ones. Both are log losses per instance, R as if of the labelled
rows that the bags are worth and L of all instances, so that together

    R + μL,    μ = (instances) / (labelled rows that the bags are worth),

weighs each by how much it knows. How much L can add to R depends on the overdispersion of the
counts, their variance over that of coin tosses: n·Var(γ)/(q(1 − q)) for bags of n with proportions
γ around q. Where it is large, bags differ by what they are, and R uses all of that; what a count
says beyond it is of the size of the tosses.

With the logistic loss, R is minimised at the pooled shares q of the classes and the scores are
moved from there to the class prior asked for, by the difference of the log-odds. At q the weights
of all instances in Σ_c q_c R_c are 1/N: R is convex, log-sum-exp less a linear function of the
scores, while at other priors the curvature of some bags is negative.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags import Bags
from unbag.decontamination import decontamination_weights, pooled_shares
from unbag.likelihood import CountLikelihood
from unbag.losses import get_loss
from unbag.models.base import ObjectiveClassifier, check_positive
from unbag.models.search import Problems
from unbag.multiclass_likelihood import OneAgainstRestLikelihood
from unbag.objectives import Objective, Shifted, WeightedSum
from unbag.risk import CorrectedRisk, resolve_class_prior

ObjectiveName = Literal["auto", "combined", "corrected", "likelihood"]
TrainingPrior = Literal["auto", "pooled", "same"]

# Above this overdispersion of the counts their likelihood was no gain: docs/beyond-the-paper.md.
_MOST_OVERDISPERSED = 10.0


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
    training_prior: Any = "auto"
    correction: Any

    def _prepare(self, bags: Bags) -> None:
        _check_name(self.objective, "objective", get_args(ObjectiveName))
        _check_name(self.training_prior, "training_prior", get_args(TrainingPrior))
        if self.likelihood_weight != "auto":
            check_positive(self.likelihood_weight, "likelihood_weight")
        self._loss = get_loss(self.loss, bags.n_classes)
        if not self._loss.trainable:
            raise ValueError(f"loss={self.loss!r} measures a classifier but cannot train one.")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags)
        self.training_prior_ = self._resolve_training_prior(bags)
        obstacle = self._why_no_counts(bags)
        if self.objective == "auto":
            useful = obstacle is None and _overdispersion(bags) <= _MOST_OVERDISPERSED
            self.objective_ = "combined" if useful else "corrected"
        elif self.objective != "corrected" and obstacle is not None:
            raise ValueError(
                f"objective={self.objective!r} uses the counts of bags, and {obstacle}; use "
                "objective='corrected'."
            )
        else:
            self.objective_ = self.objective

    def _resolve_training_prior(self, bags: Bags) -> str:
        movable = self._loss.name == "logistic" and (self.class_prior_ > 0).all()
        if self.training_prior == "pooled" and not movable:
            raise ValueError(
                "training_prior='pooled' moves scores by log-odds, for which loss must be "
                "'logistic' and class_prior positive for every class; use training_prior='same'."
            )
        if self.training_prior != "auto":
            return str(self.training_prior)
        # with labels alone, or weights of pairs, pooled shares make nothing convex
        pooled = movable and self.weights == "least_squares" and not bags.labelled.all()
        return "pooled" if pooled else "same"

    def _why_no_counts(self, bags: Bags) -> str | None:
        """Say what keeps the likelihood of counts from being used, if anything."""
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

    def _risk(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        prior = self.class_prior_
        if self.training_prior_ == "pooled":
            prior = pooled_shares(bags, self.bag_model, problems.included)
        risk = CorrectedRisk(problems.weights, bags, self._loss, prior, self.correction, like)
        return self._at_prior(risk, prior) if self.training_prior_ == "pooled" else risk

    def _likelihood(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        make = CountLikelihood if bags.n_classes == 2 else OneAgainstRestLikelihood
        equal = np.full((len(problems.included), bags.n_classes), 1 / bags.n_classes)
        return self._at_prior(make(problems.included, bags, like), equal)

    def _at_prior(self, objective: Objective, prior: NDArray[np.float64]) -> Objective:
        """Give an objective of the log-odds at a prior, for every problem, those at ours."""
        offset = np.log(prior) - np.log(self.class_prior_)
        if objective.n_outputs == 1:
            offset = offset[:, 1:] - offset[:, :1]
        return Shifted(objective, offset)

    def _likelihood_weight(self, bags: Bags, included: NDArray[np.bool_]) -> float:
        """μ: by default one over the share of what labels would tell that proportions do."""
        if self.likelihood_weight != "auto":
            return float(self.likelihood_weight)
        sizes, shares = bags.sizes[included], bags.clipped_proportions[included]
        return float(1 / np.average(_contrast(sizes, shares), weights=sizes))


def _check_name(value: Any, parameter: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ValueError(
            f"{parameter} must be one of {', '.join(map(repr, names))}, not {value!r}."
        )


def _overdispersion(bags: Bags) -> float:
    """Variance of the counts of bags without labels, over that of coin tosses (Pearson's)."""
    sizes, shares = bags.sizes[~bags.labelled], bags.clipped_proportions[~bags.labelled]
    return float(np.mean(sizes * _contrast(sizes, shares)))


def _contrast(sizes: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_c (γ_c − q_c)²/q_c/(C − 1) for every bag: (γ − q)²/(q(1 − q)) for two classes."""
    mean = np.average(shares, axis=0, weights=sizes)
    present = mean > 0
    square = (shares - mean)[:, present] ** 2 / mean[present]
    return square.sum(axis=1) / (shares.shape[1] - 1)
