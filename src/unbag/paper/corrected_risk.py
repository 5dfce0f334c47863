"""The corrected risk: what a classifier's risk would be with labels, from bags alone.

With decontamination weights W (`unbag.paper.weights`) and scores f, the risk on class c

    R_c(f) = Σ_i W[i, c] · (1/n_i) Σ_{x in bag i} ℓ_c(f(x))

is an unbiased estimate of E[ℓ_c(f(X)) | class c], and with class priors π the corrected risk is

    R(f) = Σ_c π_c R_c(f),

the paper's Ê_w for π = (½, ½) and W from pairs of bags. Some weights are negative, so that R_c
may become negative although no mean of losses can: a flexible model then fits the noise of the
weights. The non-negative correction replaces R_c by h(R_c), where h(R) is R from s on, 0 up to
−s, and the parabola (R + s)²/4s in between.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.observations.losses import ClassLoss

Correction = Literal["nonnegative", "none"]
ClassPrior = Literal["balanced", "empirical"] | NDArray[Any] | list[float] | tuple[float, ...]

# s, half the width over which h is curved. It is there for the solver, which wants a smooth function
# (a tenth of it takes three times the iterations), and changes the classifiers hardly at all.
_HALF_WIDTH = 0.1

# Weights of pure bags that should be zero are of this relative size at most.
_ROUNDING = 1e-12


class CorrectedRisk:
    """Corrected risk in score space, for one or several sets of weights.

    Weights are of shape (n_bags, n_classes) or (n_problems, n_bags, n_classes); a bag of weight zero is
    a bag held out. The prior π, one or one for each problem, is how much the risk on each class counts.
    Offsets (n_problems, n_outputs) are added to the scores: log-odds at one class prior and at another
    differ by a constant.
    """

    def __init__(
        self,
        weights: Floats,
        bags: Bags,
        loss: ClassLoss,
        prior: Floats,
        correction: Correction = "nonnegative",
        offsets: Floats | float = 0.0,
    ) -> None:
        check_choice(correction, get_args(Correction), "correction")
        table = weights[None] if weights.ndim == 2 else weights
        n_problems, _, n_classes = table.shape
        self.n_outputs = loss.n_outputs(n_classes)
        self._weights = np.swapaxes(table / bags.sizes[:, None], 1, 2)
        self._index, self._loss = bags.index, loss
        self._prior = np.broadcast_to(prior, (n_problems, n_classes))
        self._offsets = np.broadcast_to(offsets, (n_problems, self.n_outputs))
        # A class without negative weights has a risk that cannot turn negative by itself.
        self._curved: Bools = np.logical_and(
            (table < -_ROUNDING * np.abs(table).max(axis=1, keepdims=True)).any(axis=1),
            correction == "nonnegative",
        )

    def class_risks(self, scores: Array, problem: Ints) -> Floats:
        """R_c for every column (columns, outputs, instances) and class, before any correction.

        ``problem`` says which problem each column belongs to.
        """
        losses = self._loss.losses(scores + self._offsets[problem][:, :, None])
        return np.sum(losses * self._weights_of_rows(problem), axis=-1)

    def combine(self, risks: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Σ_c π_c h(R_c) of given class risks (columns, classes), and its derivatives by them."""
        curved, prior = self._curved[problem], self._prior[problem]
        inside = np.clip(risks, -_HALF_WIDTH, _HALF_WIDTH) + _HALF_WIDTH
        corrected = inside**2 / (4 * _HALF_WIDTH) + np.maximum(risks - _HALF_WIDTH, 0)
        value = np.sum(np.where(curved, corrected, risks) * prior, axis=1)
        return value, np.where(curved, inside / (2 * _HALF_WIDTH), 1.0) * prior

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Corrected risk per column."""
        return self.combine(self.class_risks(scores, problem), problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Corrected risk per column and its gradient with respect to the scores."""
        value, slope = self.combine(self.class_risks(scores, problem), problem)
        weights = self._weights_of_rows(problem) * slope[:, :, None]
        return value, self._loss.pull_back(scores + self._offsets[problem][:, :, None], weights)

    def _weights_of_rows(self, problem: Ints) -> Floats:
        """Weights (columns, classes, instances) from those of the bags."""
        table = self._weights if len(self._weights) == 1 else self._weights[problem]
        return table[:, :, self._index]
