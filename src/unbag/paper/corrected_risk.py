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
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from unbag._arrays import Array, Bools, Floats, Ints, Latest, beside, index_beside, take, to_host
from unbag._checks import check_choice
from unbag.bags.bags import Membership
from unbag.observations.losses import ClassLoss

Correction = Literal["nonnegative", "none"]
ClassPrior = Literal["balanced", "empirical"] | NDArray[Any] | list[float] | tuple[float, ...]

# Half the width s over which h bends. It is there for the solver, which wants a smooth function
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

    Parameters
    ----------
    weights : ndarray of shape (n_bags, n_classes) or (n_problems, n_bags, n_classes)
        Decontamination weights; a bag of weight zero is a bag held out.
    membership : Membership
        Who is in which bag; behind the weights, proportions do not matter.
    loss : ClassLoss
        The loss in score space.
    prior : ndarray of shape (n_classes,) or (n_problems, n_classes)
        π, how much the risk on each class counts; see `unbag.bags.priors.resolve_class_prior`.
    correction : {"nonnegative", "none"}, default="nonnegative"
        Whether to bend class risks away from negative values.
    like : array, optional
        Array whose namespace, type and device the computation should have.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations.losses import get_loss
    >>> from unbag.paper import CorrectedRisk
    >>> from unbag.weights import decontamination_weights
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> W, half = decontamination_weights(bags), np.array([0.5, 0.5])
    >>> risk = CorrectedRisk(W, bags.membership, get_loss("logistic"), half, correction="none")
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> float(risk.value(scores, problem)[0].round(4))  # log 2, whatever the labels
    0.6931
    """

    def __init__(
        self,
        weights: Floats,
        membership: Membership,
        loss: ClassLoss,
        prior: Floats,
        correction: Correction = "nonnegative",
        like: Array | None = None,
    ) -> None:
        check_choice(correction, get_args(Correction), "correction")
        table = weights[None] if weights.ndim == 2 else weights
        like = np.empty(0) if like is None else like
        self.n_outputs, self.n_problems = loss.n_outputs(table.shape[2]), len(table)
        per_bag = np.swapaxes(table / membership.sizes[:, None], 1, 2)
        self._weights = beside(per_bag, like)
        self._index = index_beside(membership.index, like)
        self._choose, self._spread = Latest(_choose), Latest(_spread)
        self._of_columns = Latest(lambda problem, *tables: [table[problem] for table in tables])
        self._loss = loss
        self._prior = np.broadcast_to(prior, (len(table), table.shape[2]))
        # A class without negative weights has a risk that cannot turn negative by itself.
        self._bent: Bools = np.logical_and(
            (table < -_ROUNDING * np.abs(table).max(axis=1, keepdims=True)).any(axis=1),
            correction == "nonnegative",
        )

    def class_risks(self, scores: Array, problem: Ints) -> Floats:
        """R_c for every column and class, before any correction.

        Parameters
        ----------
        scores : array of shape (columns, outputs, instances)
            Scores of the instances, for each column.
        problem : ndarray of int, shape (columns,)
            The problem that each column belongs to.

        Returns
        -------
        risks : ndarray of shape (columns, n_classes)
            The risks.
        """
        xp = array_namespace(scores)
        risks = np.zeros((scores.shape[0], self._weights.shape[1]))
        for here in _blocks(scores):
            weighed = self._loss.losses(_part(scores, here)) * self._weights_in(here, problem)
            risks += to_host(xp.sum(weighed, axis=-1, dtype=xp.float64))
        return risks

    def combine(self, risks: Floats, problem: Ints) -> tuple[Floats, Floats]:
        """Σ_c π_c h(R_c) of given class risks, and its derivatives by them.

        Parameters
        ----------
        risks : ndarray of shape (columns, n_classes)
            Class risks.
        problem : ndarray of int, shape (columns,)
            The problem that each column belongs to.

        Returns
        -------
        value : ndarray of shape (columns,)
            The sums.
        slope : ndarray of shape (columns, n_classes)
            Their derivatives.
        """
        where, prior = self._of_columns(problem, self._bent, self._prior)
        bent, slope = _bend(risks, where)
        return np.sum(bent * prior, axis=1), slope * prior

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Corrected risk per column."""
        return self.combine(self.class_risks(scores, problem), problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Corrected risk per column and its gradient with respect to the scores."""
        value, slope = self.combine(self.class_risks(scores, problem), problem)
        factor = beside(slope[:, :, None], scores)
        # from the scores again: what the losses had in common would not stay in the cache
        blocks = _blocks(scores)
        parts = (
            self._loss.pull_back(_part(scores, here), self._weights_in(here, problem) * factor)
            for here in blocks
        )
        if len(blocks) == 1:
            return value, next(parts)
        gradient = array_namespace(scores).empty_like(scores)
        for here, part in zip(blocks, parts, strict=True):
            gradient[:, :, here] = part
        return value, gradient

    def weights_of(self, problem: Ints) -> Array:
        """Weights of all instances, or of one column if all are the same.

        Parameters
        ----------
        problem : ndarray of int, shape (columns,)
            The problem that each column belongs to.

        Returns
        -------
        weights : array of shape (columns, n_classes, n_instances)
            The weights; one column stands for all that are the same.
        """
        return self._weights_in(_ALL, problem)

    def _weights_in(self, here: slice, problem: Ints) -> Array:
        """Weights of some instances, from those of the bags; of all, they are kept."""
        table = self._choose(problem, self._weights)
        if here == _ALL:
            return self._spread(table, self._index)
        return _spread(table, self._index[here])


def _choose(problem: Ints, table: Array) -> Array:
    """Weights of the bags (columns, classes, bags), or of one column if all are the same."""
    return table if table.shape[0] == 1 else take(table, index_beside(problem, table), axis=0)


def _spread(table: Array, index: Array) -> Array:
    """Weights of instances from those of their bags."""
    return take(table, index, axis=2)


def _blocks(scores: Array) -> list[slice]:
    """Instances to be worked on together."""
    columns, outputs, n = scores.shape
    size = max(1, _BLOCK_SCORES // (columns * outputs))
    if n <= size or not is_numpy_array(scores):
        return [_ALL]
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _part(scores: Array, here: slice) -> Array:
    return scores if here == _ALL else scores[:, :, here]


def _bend(risks: Floats, where: Bools) -> tuple[Floats, Floats]:
    """Give h and h' where asked for, the identity elsewhere."""
    inside = np.clip(risks, -_BEND, _BEND) + _BEND
    bent = inside**2 / (4 * _BEND) + np.maximum(risks - _BEND, 0)
    slope = inside / (2 * _BEND)
    return np.where(where, bent, risks), np.where(where, slope, 1.0)
