"""What models learn from bags: the likelihood of counts, or of single rows.

The likelihood of the counts (`unbag.observations.count_likelihood`) holds under label shift and
under covariate shift, the forward likelihood (`unbag.observations.forward`) where labels were drawn
from known shares. Both are of the log-odds at the shares of the classes in all bags together, so
that scores are moved from there to the class prior asked for, by the difference of the log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.bags.priors import resolve_class_prior
from unbag.evaluation.bag_effects import FEWEST_BAGS, BagEffect
from unbag.models.goals import Goal, Problems
from unbag.observations.base import Objective, OffsetObjective
from unbag.observations.count_likelihood import CountLikelihood, impossible_counts
from unbag.observations.forward import ForwardLikelihood
from unbag.observations.losses import get_loss
from unbag.weights import check_contrast, pooled_shares

ObjectiveName = Literal["auto", "likelihood", "forward"]

# Shares of classes that the bags of a fold do not hold at all.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class BagGoal(Goal):
    """A likelihood of bags.

    Attributes
    ----------
    name : {"likelihood", "forward"}
        What is minimised.
    effect_interval : ndarray of shape (2,)
        Where the variance of bag effects lies, if it was estimated.
    """

    name: str
    effect_interval: Floats

    def attributes(self) -> dict[str, Any]:
        """What a fitted model says of its goal."""
        return {
            "class_prior_": self.class_prior,
            "objective_": self.name,
            "bag_effect_": self.bag_effect,
            "bag_effect_interval_": self.effect_interval,
            "looks_": self.looks,
        }

    def weights(self, bags: Bags) -> Floats:
        """Likelihoods need none."""
        check_contrast(bags)
        return np.zeros((bags.n_bags, bags.n_classes))

    def objective(self, problems: Problems, bags: Bags, like: Any) -> Objective:
        """What is minimised, at the class prior asked for."""
        if self.name == "forward":
            return self._forward(problems, bags, like)
        likelihood = CountLikelihood(
            problems.included, bags, like, self.bag_effect, looks=self.looks
        )
        return OffsetObjective(likelihood, self.offsets(problems.included, bags))

    def criteria(self, problems: Problems, bags: Bags, like: Any) -> list[Objective]:
        """The objective itself; for counts, the forward likelihood beside it."""
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
        looks = 1.0 if found is None or found.prefers_label_shift else 0.0
        return replace(self, looks=looks, asks_for_looks=False)

    def told_of_effect(self, found: BagEffect) -> Self:
        """Go on with effects of bags, if many say beyond doubt that there are any."""
        variance = found.variance if found.use_in_training else 0.0
        return replace(self, bag_effect=variance, effect_interval=np.array([found.low, found.high]))

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
    class_prior = resolve_class_prior(settings.class_prior, bags.class_shares)
    if (class_prior == 0).any():
        raise ValueError("class_prior must be positive for every class.")
    name = settings.objective
    if name == "auto":
        # labels that no counts describe were drawn from the shares
        name = "forward" if impossible_counts(bags).any() else "likelihood"
    effect = check_effect(settings.bag_effect)
    noisy = name == "likelihood" and bags.noise is not None
    enough = (~bags.labelled).sum() >= FEWEST_BAGS
    searches = hasattr(settings, "alphas")
    two_mixed = bool(bags.n_classes == 2 and not bags.labelled.any())
    return BagGoal(
        loss=get_loss("logistic", bags.n_classes),
        class_prior=class_prior,
        free_intercept=True,
        name=name,
        bag_effect=0.0 if effect is None else effect,
        effect_interval=np.full(2, np.nan),
        looks=1.0 if noisy and not enough else 0.0,
        asks_for_looks=bool(noisy and enough),
        asks_for_effect=effect is None and name == "likelihood",
        asks_for_variance=searches and name == "likelihood" and two_mixed,
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
