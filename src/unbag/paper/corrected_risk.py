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

from unbag._arrays import Array, Bools, Floats, Ints, Latest
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.observations.losses import ClassLoss

Correction = Literal["nonnegative", "none"]
ClassPrior = Literal["balanced", "empirical"] | NDArray[Any] | list[float] | tuple[float, ...]

# Half the width s over which h is curved. It is there for the solver, which wants a smooth function
# (a tenth of it takes three times the iterations), and changes the classifiers hardly at all.
_BEND = 0.1

# Scores that NumPy works on together: intermediate results of more leave the cache, and those of
# ten million come with fresh memory every time, which took a sixth of a fit.
_BLOCK_SCORES = 2**17

_ALL = slice(None)

# Weights of pure bags that should be zero are of this relative size at most.
_ROUNDING = 1e-12


class CorrectedRisk:
    """Corrected risk in score space, for one or several sets of weights.

    Weights are of shape (n_bags, n_classes) or (n_problems, n_bags, n_classes); a bag of weight zero is
    a bag held out. The prior π, one or one for each problem, is how much the risk on each class counts.
    Computation has the type of ``like``.

    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.losses import get_loss
    >>> from unbag.paper.corrected_risk import CorrectedRisk
    >>> from unbag.weights import decontamination_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> W, half = decontamination_weights(bags), np.array([0.5, 0.5])
    >>> risk = CorrectedRisk(W, bags, get_loss("logistic"), half, correction="none")
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> float(risk.value(scores, problem)[0].round(4))  # log 2, whatever the labels
    0.6931
    """

    def __init__(
        self,
        weights: Floats,
        bags: Bags,
        loss: ClassLoss,
        prior: Floats,
        correction: Correction = "nonnegative",
        like: Array | None = None,
    ) -> None:
        check_choice(correction, get_args(Correction), "correction")
        table = weights[None] if weights.ndim == 2 else weights
        dtype = np.float64 if like is None else like.dtype
        self.n_outputs, self.n_problems = loss.n_outputs(table.shape[2]), len(table)
        per_bag = np.swapaxes(table / bags.sizes[:, None], 1, 2)
        self._weights = per_bag.astype(dtype, copy=False)
        self._index = bags.index
        self._choose, self._spread = Latest(_choose), Latest(_spread)
        self._loss = loss
        self._prior = np.broadcast_to(prior, (len(table), table.shape[2]))
        # A class without negative weights has a risk that cannot turn negative by itself.
        self._bent: Bools = np.logical_and(
            (table < -_ROUNDING * np.abs(table).max(axis=1, keepdims=True)).any(axis=1),
            correction == "nonnegative",
        )

    def class_risks(self, scores: Array, problem: Ints) -> Floats:
        """R_c for every column (columns, outputs, instances) and class, before any correction.

        ``problem`` says which problem each column belongs to.
        """
        risks = np.zeros((scores.shape[0], self._weights.shape[1]))
        for here in _blocks(scores):
            weighed = self._loss.losses(scores[:, :, here]) * self._weights_in(here, problem)
            risks += np.sum(weighed, axis=-1, dtype=np.float64)
        return risks

    def combine(self, risks: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Σ_c π_c h(R_c) of given class risks (columns, classes), and its derivatives by them."""
        where, prior = self._bent[problem], self._prior[problem]
        bent, slope = _bend(risks, where)
        return np.sum(bent * prior, axis=1), slope * prior

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Corrected risk per column."""
        return self.combine(self.class_risks(scores, problem), problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Corrected risk per column and its gradient with respect to the scores."""
        value, slope = self.combine(self.class_risks(scores, problem), problem)
        factor = slope[:, :, None].astype(scores.dtype)
        # from the scores again: what the losses had in common would not stay in the cache
        blocks = _blocks(scores)
        parts = (
            self._loss.pull_back(scores[:, :, here], self._weights_in(here, problem) * factor)
            for here in blocks
        )
        if len(blocks) == 1:
            return value, next(parts)
        gradient = np.empty_like(scores)
        for here, part in zip(blocks, parts, strict=True):
            gradient[:, :, here] = part
        return value, gradient

    def _weights_in(self, here: slice, problem: Ints) -> Array:
        """Weights of some instances, from those of the bags; of all, they are kept."""
        table = self._choose(problem, self._weights)
        if here == _ALL:
            return self._spread(table, self._index)
        return _spread(table, self._index[here])


def _choose(problem: Ints, table: Array) -> Array:
    """Weights of the bags (columns, classes, bags), or of one column if all are the same."""
    return table if len(table) == 1 else table[problem]


def _spread(table: Array, index: Array) -> Array:
    """Weights of instances from those of their bags."""
    return table[:, :, index]


def _blocks(scores: Array) -> list[slice]:
    """Instances to be worked on together."""
    columns, outputs, n = scores.shape
    size = max(1, _BLOCK_SCORES // (columns * outputs))
    if n <= size:
        return [_ALL]
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _bend(risks: Floats, where: Bools) -> tuple[Floats, Floats]:
    """Give h and h' where asked for, the identity elsewhere."""
    inside = np.clip(risks, -_BEND, _BEND) + _BEND
    bent = inside**2 / (4 * _BEND) + np.maximum(risks - _BEND, 0)
    slope = inside / (2 * _BEND)
    return np.where(where, bent, risks), np.where(where, slope, 1.0)
