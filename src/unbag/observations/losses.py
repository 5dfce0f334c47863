"""Losses for training and for measuring, and what the theory asks of them.

All two-class losses here are functions of the margin: with a score f(x) = t, ℓ₊(t) = φ(t) and ℓ₋(t) = φ(−t).
`SoftmaxLoss` is the logistic loss for any number of classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf, log, sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from unbag._arrays import Array
from unbag._checks import check_choice


class ClassLoss(ABC):
    """A loss against each of several classes, in score space.

    Scores have the shape (columns, outputs, instances), losses (columns, classes, instances).
    """

    name: ClassVar[str]
    trainable: ClassVar[bool] = True
    gives_probabilities: ClassVar[bool] = False

    @abstractmethod
    def n_outputs(self, n_classes: int) -> int:
        """Count the scores that each instance needs."""

    @abstractmethod
    def losses(self, scores: Array) -> Array:
        """Losses against every class."""

    @abstractmethod
    def pull_back(self, scores: Array, weights: Array) -> Array:
        """Gradient of Σ_c u_c ℓ_c with respect to the scores, for weights u like the losses."""

    @abstractmethod
    def class_probabilities(self, decision: Array) -> Array:
        """Probability of each class (columns) for decision values as an estimator returns them."""


class Loss(ClassLoss):
    """A two-class margin loss: φ, its derivative and its constants.

    ``lipschitz`` is |ℓ|, the smallest Lipschitz constant, ``at_zero`` |ℓ|₀ = φ(0); ``symmetric`` whether
    ℓ₊(t) + ℓ₋(t) is constant, which makes the loss immune to contamination; ``convex`` whether φ is;
    ``even_curvature`` whether ℓ₊'' = ℓ₋'', the condition of the paper's convexity proposition.
    """

    lipschitz: ClassVar[float]
    at_zero: ClassVar[float]
    symmetric: ClassVar[bool] = False
    convex: ClassVar[bool] = False
    even_curvature: ClassVar[bool] = False

    @abstractmethod
    def value(self, margin: Array) -> Array:
        """φ(t)."""

    @abstractmethod
    def derivative(self, margin: Array) -> Array:
        """φ'(t); at a kink, a subgradient."""

    def n_outputs(self, n_classes: int) -> int:  # noqa: D102
        if n_classes != 2:
            raise ValueError(
                f"loss={self.name!r} is for two classes and there are {n_classes}; "
                "use loss='logistic'."
            )
        return 1

    def losses(self, scores: Array) -> Array:  # noqa: D102
        return np.concatenate([self.value(-scores), self.value(scores)], axis=1)

    def pull_back(self, scores: Array, weights: Array) -> Array:  # noqa: D102
        against, towards = self.derivative(-scores), self.derivative(scores)
        return weights[:, 1:2, :] * towards - weights[:, 0:1, :] * against

    def probability(self, scores: Array) -> Array:
        """Probability of the positive class that a score stands for."""
        del scores
        raise ValueError(f"loss={self.name!r} gives scores but no probabilities.")

    def class_probabilities(self, decision: Array) -> Array:  # noqa: D102
        positive = self.probability(decision)
        return np.stack([1.0 - positive, positive], axis=1)

    def corrected_is_convex(self, kappa_plus: float, kappa_minus: float) -> bool:
        """Whether the unbiased loss ℓ^κ of the paper's first proposition is convex.

        With ℓ₊'' = ℓ₋'' its second derivative is ℓ''·(1 − 2κ^{−σ})/(1 − κ⁺ − κ⁻), so that no
        contamination above one half is the exact condition. For the other losses ℓ^κ subtracts
        a function with kinks or curvature of its own, and stays convex only without contamination.
        """
        if min(kappa_plus, kappa_minus) < 0 or kappa_plus + kappa_minus >= 1:
            raise ValueError(
                "Contaminations must not be negative and must sum to less than 1; "
                f"got {kappa_plus} and {kappa_minus}."
            )
        if not self.convex:
            return False
        if self.even_curvature:
            return max(kappa_plus, kappa_minus) <= 0.5
        return kappa_plus == kappa_minus == 0


def sigmoid(scores: Array, numerator: Any = 1.0) -> Array:
    """1/(1 + e^−t), times a numerator; an e^−t that overflows is right, since its inverse is 0."""
    with np.errstate(over="ignore"):
        return numerator / (1.0 + np.exp(-scores))


class LogisticLoss(Loss):
    """φ(t) = log(1 + e^{−t}), φ'(t) = −1/(1 + e^t)."""

    name = "logistic"
    gives_probabilities = True
    lipschitz = 1.0
    at_zero = log(2)
    convex = True
    even_curvature = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        return -self.probability(-margin)

    def losses(self, scores: Array) -> Array:
        """Both sides from one exponential, since ℓ₋(t) = ℓ₊(t) + t."""
        size = np.abs(scores)
        shared, positive = np.log1p(np.exp(-size)), 0.5 * (scores + size)
        return np.concatenate([shared + positive, shared + (positive - scores)], axis=1)

    def pull_back(self, scores: Array, weights: Array) -> Array:
        """Both sides from one probability, since ℓ₋' = ℓ₊' + 1."""
        total = weights[:, 0:1, :] + weights[:, 1:2, :]
        return sigmoid(scores, total) - weights[:, 1:2, :]

    def probability(self, scores: Array) -> Array:  # noqa: D102
        return sigmoid(scores)


class SquaredLoss(Loss):
    """φ(t) = (1 − t)²."""

    name = "squared"
    gives_probabilities = True
    lipschitz = inf
    at_zero = 1.0
    convex = True
    even_curvature = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return (1.0 - margin) ** 2

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        return 2.0 * (margin - 1.0)

    def probability(self, scores: Array) -> Array:
        """E[Y | x] is the minimiser, so that (1 + f)/2 is the probability."""
        return np.clip((1.0 + scores) / 2.0, 0.0, 1.0)


class HuberLoss(Loss):
    """φ(t) = max(0, 1 − t)² for t ≥ −1 and −4t below: squared inside, linear outside."""

    name = "huber"
    gives_probabilities = True
    lipschitz = 4.0
    at_zero = 1.0
    convex = True
    even_curvature = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        inside = np.maximum(1.0 - np.clip(margin, -1.0, 1.0), 0.0) ** 2
        return inside + 4.0 * np.maximum(-1.0 - margin, 0.0)

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        return 2.0 * (np.clip(margin, -1.0, 1.0) - 1.0)

    def probability(self, scores: Array) -> Array:  # noqa: D102
        return (1.0 + np.clip(scores, -1.0, 1.0)) / 2.0


class HingeLoss(Loss):
    """φ(t) = max(0, 1 − t)."""

    name = "hinge"
    lipschitz = 1.0
    at_zero = 1.0
    convex = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return np.maximum(1.0 - margin, 0.0)

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        return -(margin < 1.0).astype(margin.dtype)


class SigmoidLoss(Loss):
    """φ(t) = 1/(1 + e^t)."""

    name = "sigmoid"
    lipschitz = 0.25
    at_zero = 0.5
    symmetric = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return sigmoid(-margin)

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        small = np.exp(-np.abs(margin))
        return -small / (1.0 + small) ** 2


class RampLoss(Loss):
    """φ(t) = (1 − t)/2, cut off at 0 and 1."""

    name = "ramp"
    lipschitz = 0.5
    at_zero = 0.5
    symmetric = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return np.clip((1.0 - margin) / 2.0, 0.0, 1.0)

    def derivative(self, margin: Array) -> Array:  # noqa: D102
        return -0.5 * (np.abs(margin) < 1.0).astype(margin.dtype)


class ZeroOneLoss(Loss):
    """φ(t) = 1 for t < 0, ½ at 0, and 0 above: for measuring, not for training."""

    name = "zero_one"
    trainable = False
    lipschitz = inf
    at_zero = 0.5
    symmetric = True

    def value(self, margin: Array) -> Array:  # noqa: D102
        return (1.0 - np.sign(margin)) / 2.0

    def derivative(self, margin: Array) -> Array:
        """Zero at all points that have one."""
        return np.zeros_like(margin)


class SoftmaxLoss(ClassLoss):
    """ℓ_c(f) = log Σ_k e^{f_k} − f_c: the logistic loss for any number of classes.

    Its gradient is softmax f − e_c, of Euclidean norm below √2: that is its Lipschitz constant.
    """

    name = "logistic"
    gives_probabilities = True
    lipschitz = sqrt(2)

    def n_outputs(self, n_classes: int) -> int:  # noqa: D102
        return n_classes

    def losses(self, scores: Array) -> Array:  # noqa: D102
        largest = np.max(scores, axis=1, keepdims=True)
        total = np.sum(np.exp(scores - largest), axis=1, keepdims=True)
        return (largest - scores) + np.log(total)

    def pull_back(self, scores: Array, weights: Array) -> Array:  # noqa: D102
        total = np.sum(weights, axis=1, keepdims=True)
        return total * self.probability(scores) - weights

    def probability(self, scores: Array) -> Array:
        """Softmax of the scores."""
        return softmax(scores, axis=1)

    def class_probabilities(self, decision: Array) -> Array:  # noqa: D102
        return self.probability(decision)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        LogisticLoss(),
        SquaredLoss(),
        HuberLoss(),
        HingeLoss(),
        SigmoidLoss(),
        RampLoss(),
        ZeroOneLoss(),
    )
}


def get_loss(loss: str | ClassLoss, n_classes: int = 2) -> ClassLoss:
    """Look a loss up by its name, in the form that fits the number of classes."""
    if isinstance(loss, ClassLoss):
        found = loss
    else:
        check_choice(loss, LOSSES, "loss")
        found = SoftmaxLoss() if loss == "logistic" and n_classes > 2 else LOSSES[loss]
    found.n_outputs(n_classes)
    return found
