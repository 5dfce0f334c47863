"""The objectives of the library as losses of torch.

Values and gradients are those of `unbag.observations`, in closed form: autograd is given the gradient
with respect to the scores and goes on from there.

Scores are log-odds (or those of softmax) at the shares of the classes in all training bags
together. For probabilities at the class prior π, add log π − log q to the scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from unbag._arrays import Array, Segments, beside, beside_in_double, index_beside, take
from unbag._checks import check_choice, check_count, check_one_each, check_share
from unbag.bags.bags import Bags
from unbag.defaults import EXACT_SIZE
from unbag.observations.count_likelihood import count_covariance
from unbag.observations.forward import LEAST_RATIO, forward_losses
from unbag.observations.losses import get_loss
from unbag.observations.weighed_bags import WeighedBags
from unbag.torch.batches import to_bags

# From scores (columns, outputs, rows): value per column, and gradient.
Evaluate = Callable[[Array], tuple[Any, Array]]

_ONE_COLUMN = np.zeros(1, dtype=np.intp)

# e^-700 is a number in double precision.
_LARGEST_LOSS = 700.0


class BagLoss(nn.Module, ABC):
    """A loss of scores and the bags they are in; `forward` gives a scalar for autograd.

    Scores have the shape (rows, classes), or (rows,) or (rows, 1) for two classes: then they are
    log-odds of the second. Half precision is taken to single before anything is summed. There are
    first derivatives only, so that penalties on gradients of a loss cannot be trained by.

    The base of the losses below; it is not made itself.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Over the rows of a batch.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import BagLoss, ProportionLoss
    >>> loss = ProportionLoss()
    >>> isinstance(loss, BagLoss)
    True
    >>> bags = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 2])
    >>> value, gradient = loss.value_and_gradient(torch.zeros(4), bags)
    >>> gradient.shape
    torch.Size([4])
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_choice(reduction, ("mean", "sum"), "reduction")
        self.reduction = reduction

    # compilers would trace through NumPy for minutes
    @torch.compiler.disable
    def forward(self, scores: Tensor, bags: Any) -> Tensor:
        """Loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (rows, classes) or (rows,)
            Scores of the rows; log-odds of the second class, if there is one column.
        bags : BagBatch, or a pair of its index and counts
            Which rows are in which bag, and how many of each class it holds.

        Returns
        -------
        loss : tensor
            A scalar, for autograd.
        """
        return self.prepare(scores, bags)(scores)

    def value_and_gradient(self, scores: Tensor, bags: Any) -> tuple[Tensor, Tensor]:
        """Loss and its gradient with respect to the scores, without autograd.

        Parameters
        ----------
        scores : tensor of shape (rows, classes) or (rows,)
            Scores of the rows; log-odds of the second class, if there is one column.
        bags : BagBatch, or a pair of its index and counts
            Which rows are in which bag, and how many of each class it holds.

        Returns
        -------
        value : tensor
            The loss, a scalar.
        gradient : tensor
            Of the shape of the scores.
        """
        tracked = scores.detach().requires_grad_()
        with torch.enable_grad():
            value = self(tracked, bags)
        (gradient,) = torch.autograd.grad(value, tracked)
        return value.detach(), gradient

    def prepare(self, like: Tensor, bags: Any) -> Callable[[Tensor], Tensor]:
        """Loss of a batch of bags as a function of scores alone, for bags that come again.

        Parameters
        ----------
        like : tensor
            Scores of the shape, type and device that will be given.
        bags : BagBatch, or a pair of its index and counts
            Which rows are in which bag, and how many of each class it holds.

        Returns
        -------
        loss : callable
            From scores to the loss.
        """
        wide = _as_outputs(like)
        found = to_bags(bags, len(wide))
        outputs = 1 if found.n_classes == 2 else found.n_classes
        if wide.shape[1] != outputs:
            raise ValueError(
                f"The bags hold {found.n_classes} classes, for which scores of the shape "
                f"{tuple(wide.shape)} will not do."
            )
        evaluate = self._objective(found, _columns(wide))
        factor = 1 if self.reduction == "mean" else found.n_instances

        @torch.compiler.disable
        def loss(scores: Tensor) -> Tensor:
            wide = _as_outputs(scores)
            with torch.no_grad():
                value, slopes = evaluate(_columns(wide))
                value = factor * torch.as_tensor(value[0], device=wide.device, dtype=wide.dtype)
                slopes = factor * torch.as_tensor(slopes[0]).T
            return _Known.apply(wide, value, slopes)  # type: ignore[no-untyped-call]

        return loss

    @abstractmethod
    def _objective(self, bags: Bags, like: Array) -> Evaluate:
        """Value per column and gradient, from scores (columns, outputs, rows) like those given."""


class CountLikelihoodLoss(BagLoss):
    """−(1/T) Σ_b log Pr(K_b = k_b), over the T rows of a batch: the count likelihood.

    See `unbag.observations.count_likelihood`. Bags must be whole.

    Parameters
    ----------
    exact_size : int, default=16
        Bags of two classes and at most so many rows are summed exactly.
    condition_on_total : float, default=0
        How far the counts of a batch are conditioned on their sum: with 1 the loss is that of the
        counts of the bags *given their sum*, −(1/T) (Σ_b log Pr(K_b = k_b) −
        log Pr(Σ_b K_b = Σ_b k_b)), with a value between 0 and 1 that part of the last term is left
        out. The sum over a batch of a few large bags differs from that over all bags by chance, and
        steps that follow it hide the rest (docs/howto/networks.md). The attribute may be changed between
        steps.
    reduction : {"mean", "sum"}, default="mean"
        Over the rows of a batch.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import CountLikelihoodLoss
    >>> scores = torch.zeros(4, requires_grad=True)
    >>> loss = CountLikelihoodLoss()(scores, (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 2])))
    >>> loss.backward()
    >>> round(loss.item(), 3), scores.grad[2:]
    (0.52, tensor([-0.1250, -0.1250]))
    """

    def __init__(
        self,
        exact_size: int = EXACT_SIZE,
        condition_on_total: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.exact_size = check_count(exact_size, "exact_size", least=0)
        self.condition_on_total = check_share(condition_on_total, "condition_on_total")

    def _objective(self, bags: Bags, like: Array) -> Evaluate:
        _check_range(bags)
        weights, S = np.full((1, bags.n_bags), 1 / bags.n_instances), count_covariance(bags)
        single = WeighedBags(bags, weights, S, self.exact_size, like)
        if self.condition_on_total == 0:
            return lambda scores: single.evaluate(scores, _ONE_COLUMN, gradient=True)
        weights = np.full((1, 1), self.condition_on_total / bags.n_instances)
        S = S.sum(axis=0, keepdims=True)
        together = WeighedBags(_as_one(bags), weights, S, self.exact_size, like)

        def evaluate(scores: Array) -> tuple[Any, Array]:
            both = (w.evaluate(scores, _ONE_COLUMN, gradient=True) for w in (single, together))
            (value, slopes), (less, back) = both
            return value - less, slopes - back

        return evaluate


class ForwardLoss(BagLoss):
    """−(1/T) Σ_j log Σ_c (γ_bc/q_c) p_jc: the likelihood of single rows, given shares of bags.

    See `unbag.observations.forward`.

    Parameters
    ----------
    class_shares : array-like of shape (n_classes,)
        q, the shares of the classes in all bags.
    reduction : {"mean", "sum"}, default="mean"
        Over the rows of a batch.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import ForwardLoss
    >>> loss = ForwardLoss([0.25, 0.75])
    >>> round(float(loss(torch.zeros(4), (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 2])))), 3)
    0.059
    """

    def __init__(self, class_shares: ArrayLike, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.class_shares = _check_shares(class_shares)

    def _objective(self, bags: Bags, like: Array) -> Evaluate:
        q = self.class_shares
        check_one_each(q, bags.n_classes, "class_shares", "classes", "share")
        ratio = np.maximum(bags.clipped_proportions / q, LEAST_RATIO)
        of_rows = take(beside(ratio.T[None], like), index_beside(bags.index, like), axis=2)
        weight = beside(np.full((1, 1, 1), 1 / bags.n_instances), like)

        def evaluate(scores: Array) -> tuple[Array, Array]:
            losses, slopes = forward_losses(scores, of_rows, weight)
            return losses.sum(-1), slopes

        return evaluate


class ProportionLoss(BagLoss):
    """−Σ_b (n_b/T) Σ_c γ_bc log p̂_bc, p̂_b the mean probabilities of a bag: the loss of DLLP.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Over the rows of a batch.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import ProportionLoss
    >>> loss = ProportionLoss()
    >>> round(float(loss(torch.zeros(4), (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 2])))), 3)
    0.693
    """

    def _objective(self, bags: Bags, like: Array) -> Evaluate:
        link = get_loss("logistic", bags.n_classes)
        order = np.argsort(bags.index, kind="stable")
        by_bag, back = (index_beside(o, like) for o in (order, np.argsort(order)))
        segments = Segments(bags.sizes, like)
        sizes = beside_in_double(bags.sizes.astype(float), like)
        weights = bags.clipped_proportions * bags.sizes[:, None] / bags.n_instances
        expected = beside_in_double(weights.T[None], like)

        def evaluate(scores: Array) -> tuple[Array, Array]:
            xp = array_namespace(scores)
            losses = xp.astype(take(link.losses(scores), by_bag, axis=2), xp.float64)
            # above, a probability would be zero
            p = xp.exp(-xp.clip(losses, max=_LARGEST_LOSS))
            mean = segments.sum(p) / sizes
            value = -xp.sum(expected * xp.log(mean), axis=(1, 2))
            pulled = take(p * segments.spread(expected / (sizes * mean)), back, axis=2)
            return value, link.pull_back(scores, xp.astype(pulled, scores.dtype))

        return evaluate


class _Known(torch.autograd.Function):
    """A value whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, value: Tensor, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(scores, slopes)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return _Once.apply(upstream, *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _Once(torch.autograd.Function):
    """A gradient that has no derivative."""

    @staticmethod
    def forward(ctx: Any, upstream: Tensor, scores: Tensor, slopes: Tensor) -> Tensor:  # noqa: ARG004
        return upstream * slopes

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            "Losses of unbag.torch have first derivatives only, and this asks for second ones "
            "(create_graph=True): penalise gradients of the scores in place of those of the loss."
        )


def _as_outputs(scores: Tensor) -> Tensor:
    """Scores (rows, outputs) in single or double precision: two classes have one output."""
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.float()
    if scores.ndim == 1:
        return scores[:, None]
    if scores.ndim == 2 and scores.shape[1] == 2:
        return scores[:, 1:] - scores[:, :1]
    if scores.ndim != 2:
        raise ValueError(
            "Scores must have the shape (rows, classes), or (rows,) for two classes, not "
            f"{tuple(scores.shape)}."
        )
    return scores


def _columns(wide: Tensor) -> Array:
    """The same as the objectives have it, (columns, outputs, rows), without autograd."""
    scores = wide.detach().T[None].contiguous()
    # on a processor, NumPy does the same sooner
    return scores.numpy() if scores.device.type == "cpu" else scores


def _as_one(bags: Bags) -> Bags:
    """All rows of some bags as those of one."""
    counts = bags.sizes @ bags.proportions
    return Bags(
        index=np.zeros_like(bags.index),
        ids=np.zeros(1, dtype=int),
        sizes=np.array([bags.n_instances]),
        proportions=counts[None] / bags.n_instances,
        classes=bags.classes,
        labelled=np.zeros(1, dtype=bool),
    )


def _check_range(bags: Bags) -> None:
    """Refuse exact counts below 0 or above the rows of their bag."""
    share = bags.proportions
    wrong = ((share < -1e-6) | (share > 1 + 1e-6)).any(axis=1) if bags.noise is None else False
    if np.any(wrong):
        bag = int(np.argmax(wrong))
        counts = ", ".join(f"{count:g}" for count in bags.sizes[bag] * share[bag])
        raise ValueError(
            f"Bag {bag} of the batch has {bags.sizes[bag]} rows, and its classes cannot have the "
            f"counts {counts}."
        )


def _check_shares(class_shares: ArrayLike) -> NDArray[np.float64]:
    shares = np.asarray(class_shares, dtype=float)
    if shares.ndim != 1 or len(shares) < 2 or not (shares > 0).all():
        raise ValueError(
            f"class_shares must hold a positive share for each class, not {class_shares!r}."
        )
    return shares / shares.sum()
