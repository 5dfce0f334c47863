"""What models learn from bags: the likelihood of counts or of single rows, or the corrected risk.

The likelihood of the counts (`unbag.observations.count_likelihood`) holds both where classes keep
their look and where rows keep their odds, the forward likelihood (`unbag.observations.forward`) where
labels were drawn from known shares, and the corrected risk (`unbag.observations.corrected_risk`) is
the paper's method.

Likelihoods are of the log-odds at the shares of the classes in all bags together, so that scores
are moved from there to the class prior asked for, by the difference of the log-odds. The corrected
risk is minimised there as well with the logistic loss and the weights of least squares: at these
shares the weights of all instances in Σ_c q_c R_c are 1/N, and R is convex, log-sum-exp less a
linear function of the scores. At other priors the curvature of some bags is negative. For weights
of pairs it is the median share that makes R convex (`unbag.weights.convex_priors`).
With the non-negative correction R is convex nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice
from unbag.bags.bags import BagModel, Bags
from unbag.bags.priors import resolve_class_prior
from unbag.evaluation.bag_effects import FEWEST_BAGS, BagEffect
from unbag.models.goals import Goal, Problems
from unbag.observations.base import Objective, OffsetObjective
from unbag.observations.corrected_risk import CorrectedRisk, Correction
from unbag.observations.count_likelihood import CountLikelihood, impossible_counts
from unbag.observations.forward import ForwardLikelihood
from unbag.observations.losses import ClassLoss, get_loss
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


@dataclass(frozen=True, eq=False, kw_only=True)
class BagGoal(Goal):
    """A likelihood of bags, or the corrected risk.

    Attributes
    ----------
    name : {"likelihood", "forward", "corrected"}
        What is minimised.
    training_prior : {"pooled", "same", "convex"}
        The class prior at which the corrected risk is minimised.
    weight_method, bag_model, merge, merge_size, correction
        Of the corrected risk alone.
    by_folds : bool
        Whether penalties are chosen by the mean over folds.
    effect_interval : ndarray of shape (2,)
        Where the variance of bag effects lies, if it was estimated.
    """

    name: str
    training_prior: str
    weight_method: WeightMethod
    bag_model: BagModel
    merge: Any
    merge_size: Any
    correction: Correction
    by_folds: bool
    effect_interval: Floats

    def attributes(self) -> dict[str, Any]:
        """What a fitted model says of its goal."""
        return {
            "class_prior_": self.class_prior,
            "objective_": self.name,
            "training_prior_": self.training_prior,
            "bag_effect_": self.bag_effect,
            "bag_effect_interval_": self.effect_interval,
            "looks_": self.looks,
        }

    def weights(self, bags: Bags) -> Floats:
        """W for the corrected risk; likelihoods need none."""
        if self.name != "corrected":
            check_contrast(bags)
            return np.zeros((bags.n_bags, bags.n_classes))
        return decontamination_weights(
            bags,
            method=self.weight_method,
            bag_model=self.bag_model,
            merge=self.merge,
            merge_size=self.merge_size,
        )

    def objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What is minimised, at the class prior asked for."""
        if self.name == "corrected":
            return self._risk(problems, bags, like, self.correction)
        if self.name == "forward":
            return self._forward(problems, bags, like)
        likelihood = CountLikelihood(
            problems.included, bags, like, self.bag_effect, looks=self.looks
        )
        return OffsetObjective(likelihood, self.offsets(problems.included, bags))

    def criteria(self, problems: Problems, bags: Bags, like: Any) -> list[Objective]:
        """The objective itself; for counts, the forward likelihood beside it."""
        if self.name == "corrected" and not self.by_folds:
            # without a bound below, the risk would choose what fits the noise of its weights best
            return [self._risk(problems, bags, like, "nonnegative")]
        objective = self.objective(problems, bags, like)
        if self.name != "likelihood":
            return [objective]
        # each errs in its own way: what both rank high was best (results/selection.md)
        return [objective, self._forward(problems, bags, like)]

    def offsets(self, included: Bools, bags: Bags) -> Floats:
        """What is added to scores to have them at the shares of each problem's bags together."""
        return self._to_prior(np.maximum(pooled_shares(bags, "instances", included), _LEAST_SHARE))

    def told_of_looks(self, found: BagEffect | None) -> Self:
        """Go on with classes that keep their look, unless rows seem to keep their odds."""
        looks = 1.0 if found is None or found.leans_to_looks else 0.0
        return replace(self, looks=looks, asks_for_looks=False)

    def told_of_effect(self, found: BagEffect) -> Self:
        """Go on with effects of bags, if many say beyond doubt that there are any."""
        variance = found.variance if found.matters else 0.0
        return replace(self, bag_effect=variance, effect_interval=np.array([found.low, found.high]))

    def _risk(self, problems: Problems, bags: Bags, like: Any, correction: Correction) -> Objective:
        prior = self.class_prior
        if self.training_prior == "pooled":
            prior = pooled_shares(bags, self.bag_model, problems.included)
        elif self.training_prior == "convex":
            share = convex_priors(problems.weights).mean(axis=-1)
            prior = np.clip(np.column_stack([1 - share, share]), _LEAST_SHARE, 1)
        risk = CorrectedRisk(problems.weights, bags.membership, self.loss, prior, correction, like)
        return (
            risk if self.training_prior == "same" else OffsetObjective(risk, self._to_prior(prior))
        )

    def _forward(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        forward = ForwardLikelihood(problems.included, bags, like)
        return OffsetObjective(forward, self.offsets(problems.included, bags))

    def _to_prior(self, prior: Floats) -> Floats:
        """What is added to scores to have them at a prior, for every problem."""
        offset = np.log(prior) - np.log(self.class_prior)
        return offset[:, 1:] - offset[:, :1] if offset.shape[1] == 2 else offset


def make_bag_goal(settings: Any, bags: Bags) -> BagGoal:
    """Check the settings of an estimator, and say what "auto" stands for with these bags."""
    check_choice(settings.objective, get_args(ObjectiveName), "objective")
    check_choice(settings.training_prior, get_args(TrainingPrior), "training_prior")
    check_choice(settings.weights, get_args(WeightMethod), "weights")
    check_choice(settings.bag_model, get_args(BagModel), "bag_model")
    check_choice(settings.correction, get_args(Correction), "correction")
    loss = get_loss(settings.loss, bags.n_classes)
    if not loss.trainable:
        raise ValueError(f"loss={settings.loss!r} measures a classifier but cannot train one.")
    class_prior = resolve_class_prior(settings.class_prior, bags.class_shares)
    training_prior = _resolve_training_prior(settings, loss, class_prior, bags)
    name = _resolve_objective(settings, loss, class_prior, bags)
    effect = check_effect(settings.bag_effect)
    noisy = name == "likelihood" and bags.noise is not None
    enough = (~bags.labelled).sum() >= FEWEST_BAGS
    searches = hasattr(settings, "alphas")
    two_mixed = bool(bags.n_classes == 2 and not bags.labelled.any())
    return BagGoal(
        loss=loss,
        class_prior=class_prior,
        free_intercept=name != "corrected",
        name=name,
        training_prior=training_prior,
        weight_method=settings.weights,
        bag_model=settings.bag_model,
        merge=settings.merge,
        merge_size=settings.merge_size,
        correction=settings.correction,
        by_folds=getattr(settings, "selection", "pooled") == "folds",
        bag_effect=0.0 if effect is None else effect,
        effect_interval=np.full(2, np.nan),
        looks=1.0 if noisy and not enough else 0.0,
        asks_for_looks=bool(noisy and enough),
        asks_for_effect=effect is None and name == "likelihood",
        asks_for_variance=searches and name == "likelihood" and two_mixed,
    )


def _resolve_objective(settings: Any, loss: ClassLoss, class_prior: Floats, bags: Bags) -> str:
    obstacle = _why_no_likelihood(settings, loss, class_prior)
    of_the_risk = _settings_of_the_risk(settings)
    if settings.objective == "auto":
        if obstacle or of_the_risk:
            return "corrected"
        # labels that no counts describe were drawn from the shares
        return "forward" if impossible_counts(bags).any() else "likelihood"
    if settings.objective != "corrected" and obstacle:
        raise ValueError(
            f"objective={settings.objective!r} is a likelihood, and {obstacle}; use "
            "objective='corrected'."
        )
    if settings.objective != "corrected" and of_the_risk:
        raise ValueError(
            f"objective={settings.objective!r} makes no use of {of_the_risk}, which belongs to "
            "the corrected risk; leave it out, or use objective='corrected'."
        )
    return str(settings.objective)


def _resolve_training_prior(settings: Any, loss: ClassLoss, class_prior: Floats, bags: Bags) -> str:
    wanted = settings.training_prior
    movable = loss.name == "logistic" and (class_prior > 0).all()
    if wanted in ("pooled", "convex") and not movable:
        raise ValueError(
            f"training_prior={wanted!r} moves scores by log-odds, for which loss must be "
            "'logistic' and class_prior positive for every class; use training_prior='same'."
        )
    if wanted == "convex" and bags.n_classes != 2:
        raise ValueError(
            f"training_prior='convex' is for two classes and there are {bags.n_classes}; use "
            "training_prior='pooled'."
        )
    if wanted != "auto":
        return str(wanted)
    # labels alone make R convex at any prior, and pairs stay as the paper has them
    pooled = movable and settings.weights == "least_squares" and not bags.labelled.all()
    return "pooled" if pooled else "same"


def _settings_of_the_risk(settings: Any) -> str | None:
    """Name the first setting that only the corrected risk has a use for."""
    if settings.weights == "pairs":
        return "weights='pairs'"
    if settings.merge is not None:
        return f"merge={settings.merge!r}"
    return "bag_model='bags'" if settings.bag_model == "bags" else None


def _why_no_likelihood(settings: Any, loss: ClassLoss, class_prior: Floats) -> str | None:
    """Say what keeps likelihoods from being used, if anything."""
    if loss.name != "logistic":
        return f"loss={settings.loss!r} does not estimate odds, which it needs"
    return "class_prior leaves a class out" if (class_prior == 0).any() else None


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
