"""What models learn from bags: the likelihood of counts or of single rows, or the corrected risk.

The likelihood of the counts (`unbag.objectives.count_likelihood`) holds both where classes keep
their look and where rows keep their odds, the forward likelihood (`unbag.objectives.forward`) where
labels were drawn from known shares, and the corrected risk (`unbag.objectives.corrected_risk`) is
the paper's method.

Likelihoods are of the log-odds at the shares of the classes in all bags together, so that scores
are moved from there to the class prior asked for, by the difference of the log-odds. The corrected
risk is minimised there as well with the logistic loss and the weights of least squares: at these
shares the weights of all instances in Σ_c q_c R_c are 1/N, and R is convex, log-sum-exp less a
linear function of the scores. At other priors the curvature of some bags is negative. For weights
of pairs it is the median share that makes R convex (`unbag.weights.decontamination.convex_priors`).
With the non-negative correction R is convex nowhere.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag.bags.bags import BagModel, Bags
from unbag.diagnostics.bag_effects import FEWEST_BAGS, BagEffect, effect_of_scores
from unbag.models.base import ObjectiveClassifier
from unbag.models.search import Problems
from unbag.objectives.base import Objective, Shifted
from unbag.objectives.corrected_risk import CorrectedRisk, Correction, resolve_class_prior
from unbag.objectives.count_likelihood import CountLikelihood, impossible_counts
from unbag.objectives.forward import ForwardLikelihood
from unbag.objectives.losses import get_loss
from unbag.weights.decontamination import (
    WeightMethod,
    check_contrast,
    convex_priors,
    decontamination_weights,
    pooled_shares,
)

ObjectiveName = Literal["auto", "likelihood", "forward", "corrected"]
TrainingPrior = Literal["auto", "pooled", "same", "convex"]

# Shares of classes that the bags of a fold do not hold at all.
_LEAST_SHARE = 1e-9


class CorrectedRiskClassifier(ObjectiveClassifier):
    """A classifier that minimises a likelihood of bags or the corrected risk."""

    objective: Any
    bag_effect: Any
    weights: Any
    bag_model: Any
    merge: Any
    merge_size: Any
    loss: Any
    class_prior: Any
    training_prior: Any = "auto"
    correction: Any
    selection: Any = "pooled"

    looks_: float
    bag_effect_interval_: NDArray[np.float64]

    def _prepare(self, bags: Bags) -> None:
        _check_name(self.objective, "objective", get_args(ObjectiveName))
        _check_name(self.training_prior, "training_prior", get_args(TrainingPrior))
        _check_name(self.weights, "weights", get_args(WeightMethod))
        _check_name(self.bag_model, "bag_model", get_args(BagModel))
        _check_name(self.correction, "correction", get_args(Correction))
        self._loss = get_loss(self.loss, bags.n_classes)
        if not self._loss.trainable:
            raise ValueError(f"loss={self.loss!r} measures a classifier but cannot train one.")
        self.class_prior_ = resolve_class_prior(self.class_prior, bags)
        self.training_prior_ = self._resolve_training_prior(bags)
        self.objective_ = self._resolve_objective(bags)
        given = check_effect(self.bag_effect)
        self.bag_effect_ = 0.0 if given is None else given
        self.bag_effect_interval_ = np.full(2, np.nan)
        self._wants_looks = self.objective_ == "likelihood" and bags.noise is not None
        self.looks_ = 0.0
        if self._wants_looks and (~bags.labelled).sum() < FEWEST_BAGS:
            self._takes_looks(None)

    def _resolve_objective(self, bags: Bags) -> str:
        obstacle = self._why_no_likelihood()
        of_the_risk = self._settings_of_the_risk()
        if self.objective == "auto":
            if obstacle or of_the_risk:
                return "corrected"
            # labels that no counts describe were drawn from the shares
            return "forward" if impossible_counts(bags).any() else "likelihood"
        if self.objective != "corrected" and obstacle:
            raise ValueError(
                f"objective={self.objective!r} is a likelihood, and {obstacle}; use "
                "objective='corrected'."
            )
        if self.objective != "corrected" and of_the_risk:
            raise ValueError(
                f"objective={self.objective!r} makes no use of {of_the_risk}, which belongs to "
                "the corrected risk; leave it out, or use objective='corrected'."
            )
        return str(self.objective)

    def _resolve_training_prior(self, bags: Bags) -> str:
        movable = self._loss.name == "logistic" and (self.class_prior_ > 0).all()
        if self.training_prior in ("pooled", "convex") and not movable:
            raise ValueError(
                f"training_prior={self.training_prior!r} moves scores by log-odds, for which loss "
                "must be 'logistic' and class_prior positive for every class; use "
                "training_prior='same'."
            )
        if self.training_prior == "convex" and bags.n_classes != 2:
            raise ValueError(
                f"training_prior='convex' is for two classes and there are {bags.n_classes}; use "
                "training_prior='pooled'."
            )
        if self.training_prior != "auto":
            return str(self.training_prior)
        # labels alone make R convex at any prior, and pairs stay as the paper has them
        pooled = movable and self.weights == "least_squares" and not bags.labelled.all()
        return "pooled" if pooled else "same"

    def _settings_of_the_risk(self) -> str | None:
        """Name the first setting that only the corrected risk has a use for."""
        if self.weights == "pairs":
            return "weights='pairs'"
        if self.merge is not None:
            return f"merge={self.merge!r}"
        return "bag_model='bags'" if self.bag_model == "bags" else None

    def _why_no_likelihood(self) -> str | None:
        """Say what keeps likelihoods from being used, if anything."""
        if self._loss.name != "logistic":
            return f"loss={self.loss!r} does not estimate odds, which it needs"
        if (self.class_prior_ == 0).any():
            return "class_prior leaves a class out"
        return None

    @property
    def _free_intercept(self) -> bool:
        return self.objective_ != "corrected"

    def _weights(self, bags: Bags) -> NDArray[np.float64]:
        if self.objective_ != "corrected":
            check_contrast(bags)
            return np.zeros((bags.n_bags, bags.n_classes))
        return decontamination_weights(
            bags,
            method=self.weights,
            bag_model=self.bag_model,
            merge=self.merge,
            merge_size=self.merge_size,
        )

    def _objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        if self.objective_ == "corrected":
            return self._risk(problems, bags, like, self.correction)
        if self.objective_ == "forward":
            return self._forward(problems, bags, like)
        likelihood = CountLikelihood(
            problems.included, bags, like, self.bag_effect_, looks=self.looks_
        )
        return self._at_pooled_shares(likelihood, problems, bags)

    def _criteria(self, problems: Problems, bags: Bags, like: Any) -> list[Objective]:
        if self.objective_ == "corrected" and self.selection == "pooled":
            # without a bound below, the risk would choose what fits the noise of its weights best
            return [self._risk(problems, bags, like, "nonnegative")]
        objective = self._objective(problems, bags, like)
        if self.objective_ != "likelihood":
            return [objective]
        # each errs in its own way: what both rank high was best (results/selection.md)
        return [objective, self._forward(problems, bags, like)]

    def _risk(self, problems: Problems, bags: Bags, like: Any, correction: Correction) -> Objective:
        prior = self.class_prior_
        if self.training_prior_ == "pooled":
            prior = pooled_shares(bags, self.bag_model, problems.included)
        elif self.training_prior_ == "convex":
            share = convex_priors(problems.weights).mean(axis=-1)
            prior = np.clip(np.column_stack([1 - share, share]), _LEAST_SHARE, 1)
        risk = CorrectedRisk(problems.weights, bags, self._loss, prior, correction, like)
        return risk if self.training_prior_ == "same" else self._at_prior(risk, prior)

    def _forward(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        forward = ForwardLikelihood(problems.included, bags, like)
        return self._at_pooled_shares(forward, problems, bags)

    def _at_pooled_shares(self, objective: Objective, problems: Problems, bags: Bags) -> Objective:
        return self._at_prior(objective, self._shares(problems.included, bags))

    @staticmethod
    def _shares(included: NDArray[np.bool_], bags: Bags) -> NDArray[np.float64]:
        """Shares of the classes in the bags of every problem."""
        return np.maximum(pooled_shares(bags, "instances", included), _LEAST_SHARE)

    def _at_prior(self, objective: Objective, prior: NDArray[np.float64]) -> Objective:
        """Give an objective of the log-odds at a prior, for every problem, those at ours."""
        return Shifted(objective, self._offsets(prior))

    def _offsets(self, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is to be added to scores to have them at a prior, for every problem."""
        offset = np.log(prior) - np.log(self.class_prior_)
        return offset[:, 1:] - offset[:, :1] if offset.shape[1] == 2 else offset

    def _finds_looks(self, bags: Bags, scores: NDArray[np.float64] | None) -> bool:
        if not self._wants_looks:
            return False
        return self._takes_looks(None if scores is None else self._effect(bags, scores))

    def _takes_looks(self, found: BagEffect | None) -> bool:
        """Go on with classes that keep their look, unless rows seem to keep their odds."""
        self._wants_looks = False
        self.looks_ = 1.0 if found is None or found.leans_to_looks else 0.0
        return self.looks_ > 0

    def _finds_bag_effect(self, bags: Bags, scores: NDArray[np.float64]) -> bool:
        return self._wants_bag_effect and self._takes_bag_effect(self._effect(bags, scores))

    def _effect(self, bags: Bags, scores: NDArray[np.float64]) -> BagEffect:
        by_row = scores[0] if len(scores) == 1 else scores.T
        return effect_of_scores(bags, by_row, self.class_prior_)

    @property
    def _wants_bag_effect(self) -> bool:
        return bool(self.bag_effect == "auto" and self.objective_ == "likelihood")

    def _takes_bag_effect(self, found: BagEffect) -> bool:
        """Go on with effects that were found, if there are any beyond doubt."""
        self.bag_effect_interval_ = np.array([found.low, found.high])
        self.bag_effect_ = found.variance if found.present else 0.0
        return found.present


def _check_name(value: Any, parameter: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ValueError(
            f"{parameter} must be one of {', '.join(map(repr, names))}, not {value!r}."
        )


def check_effect(bag_effect: Any) -> float | None:
    """Variance of bag effects, or None for one that is to be estimated."""
    if isinstance(bag_effect, str) and bag_effect == "auto":
        return None
    if not isinstance(bag_effect, Real) or not 0 <= float(bag_effect) < np.inf:
        raise ValueError(
            "bag_effect must be 'auto' or a variance, which is finite and not negative, not "
            f"{bag_effect!r}."
        )
    return float(bag_effect)
