"""Empirical proportion risk (EPR): predict the right share of every class in every bag.

With p̂_i[c] the mean chance of class c that a classifier gives to the instances of bag i, and γ_i
the known proportions, the empirical proportion risk is

    Σ_i (n_i/T) · d(p̂_i, γ_i),    T = Σ_i n_i,

where the divergence d is one of

    squared          ½ Σ_c (p̂[c] − γ[c])²,
    absolute         ½ Σ_c |p̂[c] − γ[c]|,
    cross-entropy    −Σ_c γ[c] log p̂[c].

For two classes the first two are (p̂ − γ)² and |p̂ − γ| of the positive class. On bags of one
instance the cross-entropy is the loss of logistic regression and the squared divergence the
Brier score.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace, device

from unbag._arrays import Array, Floats, Ints, index_beside, take, to_host
from unbag._checks import check_choice
from unbag.bags.bags import Bags
from unbag.observations.bag_rows import equal_sizes
from unbag.observations.losses import ClassLoss

# From log p̂ and γ, of shape (columns, classes, bags) or what broadcasts to it: d, summed over
# classes, and its derivative with respect to log p̂.
Divergence = Callable[[Array, Array], tuple[Array, Array]]


def _squared(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    share = xp.exp(log_share)
    gap = share - proportions
    return xp.sum(gap**2, axis=1) / 2, gap * share


def _absolute(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    share = xp.exp(log_share)
    gap = share - proportions
    return xp.sum(xp.abs(gap), axis=1) / 2, xp.sign(gap) * share / 2


def _cross_entropy(log_share: Array, proportions: Array) -> tuple[Array, Array]:
    xp = array_namespace(log_share)
    return -xp.sum(proportions * log_share, axis=1), -proportions


DIVERGENCES: dict[str, Divergence] = {
    "squared": _squared,
    "absolute": _absolute,
    "cross_entropy": _cross_entropy,
}


class ProportionRisk:
    """Empirical proportion risk in score space, for one or several sets of weights.

    With ℓ_c the logistic loss, e^{−ℓ_c(f)} is the chance of class c. So log p̂ comes from losses
    alone, and neither large scores nor shares of 0 and 1 do harm:

        log p̂_i[c] = log (1/n_i) Σ_{x in bag i} e^{−ℓ_c(f(x))},
        ∂ log p̂_i[c] / ∂ℓ_c(f(x)) = −e^{−ℓ_c(f(x))} / (n_i p̂_i[c]).

    Parameters
    ----------
    weights : ndarray of shape (n_bags, n_classes) or (n_problems, n_bags, n_classes)
        How much each bag counts, the same for all classes; a bag of weight zero is held out.
    bags : Bags
        Who is in which bag. Rows of known label are bags of one instance.
    loss : ClassLoss
        `LogisticLoss` or `SoftmaxLoss`, the link between scores and chances.
    divergence : {"squared", "absolute", "cross_entropy"}, default="squared"
        How the mean chances of a bag are compared with its proportions.
    like : array, optional
        Array whose namespace, type and device the computation should have.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.observations import ProportionRisk, get_loss
    >>> bags = check_bag_target(bag_target([1, 1, 2, 2], [0.25, 0.25, 0.75, 0.75]))
    >>> risk = ProportionRisk(np.full((2, 2), 0.5), bags, get_loss("logistic"))
    >>> scores, problem = np.zeros((1, 1, 4)), np.zeros(1, dtype=int)
    >>> float(risk.value(scores, problem)[0].round(4))  # a chance of ½ where shares are ¼ and ¾
    0.0625
    """

    def __init__(
        self,
        weights: Floats,
        bags: Bags,
        loss: ClassLoss,
        divergence: str = "squared",
        like: Array | None = None,
    ) -> None:
        self._divergence = get_divergence(divergence)
        self._loss = loss
        self.n_outputs = loss.n_outputs(bags.n_classes)
        like = np.empty(0) if like is None else like
        xp, where = array_namespace(like), device(like)
        units, first = bags.with_labelled_rows_apart()
        whole = bags.index[first]
        by_size = np.argsort(units.sizes, kind="stable")
        table = (weights[None] if weights.ndim == 2 else weights)[:, :, 0]
        table = table[:, whole] * (units.sizes / bags.sizes[whole])
        position = np.argsort(by_size)
        order = np.argsort(position[units.index], kind="stable")
        self._order = xp.asarray(order, device=where)
        self._back = xp.asarray(np.argsort(order), device=where)
        self._weights = xp.asarray(table[:, by_size], dtype=xp.float64, device=where)
        self._proportions = xp.asarray(
            units.clipped_proportions[by_size].T[None], dtype=xp.float64, device=where
        )
        self._blocks = list(equal_sizes(units.sizes[by_size]))

    def value(self, scores: Array, problem: Ints) -> Floats:
        """Empirical proportion risk per column."""
        return self.value_and_gradient(scores, problem)[0]

    def value_and_gradient(self, scores: Array, problem: Ints) -> tuple[Floats, Array]:
        """Empirical proportion risk per column and its gradient with respect to the scores."""
        xp = array_namespace(scores)
        ordered = take(scores, self._order, axis=2)
        weights = take(self._weights, index_beside(problem, scores), axis=0)
        total, gradients = np.zeros(scores.shape[0]), []
        for block in self._blocks:
            value, gradient = self._of_block(
                ordered[:, :, block.rows],
                weights[:, block.bags],
                self._proportions[:, :, block.bags],
                block.size,
            )
            total += value
            gradients.append(gradient)
        return total, take(xp.concat(gradients, axis=2), self._back, axis=2)

    def _of_block(
        self, scores: Array, weights: Array, proportions: Array, size: int
    ) -> tuple[Floats, Array]:
        """Give the part of value and gradient that bags of one size contribute."""
        xp = array_namespace(scores)
        losses = self._loss.losses(scores)
        logs = xp.reshape(-losses, (*losses.shape[:2], -1, size))
        largest = xp.max(logs, axis=3, keepdims=True)
        chances = xp.exp(logs - largest)
        mean = xp.sum(chances, axis=3, dtype=xp.float64) / size
        log_share = xp.astype(largest[:, :, :, 0], xp.float64) + xp.log(mean)
        divergence, slope = self._divergence(log_share, proportions)
        pull = -weights[:, None, :] * slope / (size * mean)
        pulled = chances * xp.astype(pull, scores.dtype)[:, :, :, None]
        value = to_host(xp.sum(weights * divergence, axis=1))
        return value, self._loss.pull_back(scores, xp.reshape(pulled, losses.shape))


def get_divergence(divergence: str) -> Divergence:
    """Look a divergence up by its name."""
    check_choice(divergence, DIVERGENCES, "divergence")
    return DIVERGENCES[divergence]
