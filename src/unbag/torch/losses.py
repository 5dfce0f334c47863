"""The objectives of the library as losses of torch.

The count likelihood is that of `unbag.observations`, computed by NumPy on the processor: autograd is
given its gradient with respect to the scores and goes on from there.

Scores are log-odds (or those of softmax) at the shares of the classes in all training bags
together. For probabilities at the class prior π, add log π − log q to the scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from unbag._arrays import Floats
from unbag._checks import check_choice, check_one_each, check_share
from unbag.bags.bags import Bags
from unbag.defaults import EXACT_SIZE
from unbag.observations.count_likelihood import WeighedBags, count_covariance

# From scores (rows, outputs) in single or double precision to the mean loss of rows.
MeanLoss = Callable[[Tensor], Tensor]


# e^-700 is a number in double precision.
_LARGEST_LOSS = 700.0

# Least share of a class in a bag, of that in all bags: a class that a bag does not hold may be a
# question of rounding, and should not decide on its own.
_LEAST_RATIO = 1e-6


class BagBatch(NamedTuple):
    """Bags of a batch: the bag of each row, and the counts of each bag.

    A plain pair ``(index, counts)`` does as well. Both are best left on the host, whatever the
    device of the scores: the losses are prepared there.

    Attributes
    ----------
    index : tensor or array of int, shape (n_rows,)
        Bag of each row: 0, 1, ... in the order of ``counts``. Every bag has some row.
    counts : tensor or array of shape (n_bags, n_classes) or (n_bags,)
        Rows of each class in each bag; of the second of two classes, if there is one column.
    covariance : tensor or array of shape (n_bags, n_classes, n_classes), optional
        Of the noise in the counts.
    """

    index: Any
    counts: Any
    covariance: Any = None


def to_bags(batch: Any, n_rows: int) -> Bags:
    """Read a batch as `Bags`, and refuse one that does not fit its scores."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise ValueError(
            "bags must be a BagBatch, or a pair of the bag of each row and the counts of each bag, "
            f"not {type(batch).__name__}."
        )
    index, counts, covariance = (_to_numpy(part) for part in BagBatch(*batch))
    if index.dtype.kind != "i" or (index < 0).any():
        raise ValueError("The bags of rows must be whole numbers from 0 on.")
    if index.shape != (n_rows,):
        raise ValueError(
            f"There are scores of {n_rows} rows, but the bags of {index.shape} are given."
        )
    sizes = np.bincount(index, minlength=len(counts))
    if len(sizes) > len(counts) or (sizes == 0).any():
        raise ValueError(
            f"Rows name the bags 0 to {index.max()}, and counts are those of {len(counts)}: every "
            "bag of a batch needs its counts and all of its rows."
        )
    if not np.isfinite(counts).all():
        raise ValueError("The counts of the bags must be numbers, and some are not.")
    if counts.ndim == 1:
        within = (counts >= 0) & (counts <= 1)
        if covariance is None and within.all() and (counts % 1 > 0).any() and (sizes > 1).any():
            raise ValueError(
                "The counts of the bags lie between 0 and 1, as proportions do; give counts, which "
                "are proportions times the rows of each bag."
            )
        counts = np.column_stack([sizes - counts, counts])
    off = np.abs(counts.sum(axis=1) - sizes) > 1e-6 * sizes + 1e-3
    if off.any():
        bag = int(off.argmax())
        raise ValueError(
            f"Bag {bag} of the batch has {sizes[bag]} rows and counts that sum to "
            f"{counts[bag].sum():g}; a loss needs whole bags (for parts of a bag, see "
            "unbag.torch.two_pass_backward)."
        )
    n = sizes[:, None].astype(float)
    noise = None if covariance is None else covariance / n[:, :, None] ** 2
    return Bags(
        index=index,
        ids=np.arange(len(counts)),
        sizes=sizes,
        proportions=counts / n,
        classes=np.arange(counts.shape[1]),
        labelled=np.zeros(len(counts), dtype=bool),
        noise=noise,
    )


def _to_numpy(part: Any) -> NDArray[Any]:
    if part is None:
        return None  # type: ignore[return-value]
    array = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part)
    return array.astype(np.intp if array.ndim == 1 and array.dtype.kind in "iu" else float)


class BagLoss(nn.Module, ABC):
    """Base class of losses of scores and bags.

    Scores have the shape (rows, classes), or (rows,) or (rows, 1) for two classes: then they are
    log-odds of the second. Half precision is taken to single before anything is summed.

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
        scores, bags : as in `forward`

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
        """Loss of a fixed batch of bags as a function of the scores.

        Parameters
        ----------
        like : tensor
            Scores of the shape, type and device that will be given.
        bags : as in `forward`

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
        mean = self._mean_loss(found)

        @torch.compiler.disable
        def loss(scores: Tensor) -> Tensor:
            wide = _as_outputs(scores)
            value = mean(wide).to(wide)
            return value if self.reduction == "mean" else found.n_instances * value

        return loss

    @abstractmethod
    def _mean_loss(self, bags: Bags) -> MeanLoss:
        """Mean loss of the rows of some bags."""


class CountLikelihoodLoss(BagLoss):
    """Count likelihood −(1/T) Σ_b log Pr(K_b = k_b), over the T rows of a batch.

    See `unbag.observations.count_likelihood`. Bags must be whole. There are first derivatives only:
    penalties on gradients of this loss cannot be trained by.

    Parameters
    ----------
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
        condition_on_total: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.condition_on_total = check_share(condition_on_total, "condition_on_total")

    def _mean_loss(self, bags: Bags) -> MeanLoss:
        _check_range(bags)
        weights, S = np.full((1, bags.n_bags), 1 / bags.n_instances), count_covariance(bags)
        parts = [(1.0, WeighedBags(bags, S, EXACT_SIZE), weights)]
        if self.condition_on_total > 0:
            together = WeighedBags(_as_one(bags), S.sum(axis=0, keepdims=True), EXACT_SIZE)
            parts.append((-self.condition_on_total, together, weights[:, :1]))

        def mean(wide: Tensor) -> Tensor:
            scores = wide.detach().cpu().T[None].contiguous().numpy()
            found = [(f, *own.evaluate(scores, True, each)) for f, own, each in parts]
            value = sum(factor * value[0] for factor, value, _ in found)
            slopes = sum(factor * slopes[0].T for factor, _, slopes in found)
            both = torch.as_tensor(value), torch.as_tensor(slopes)
            return _Known.apply(wide, *(part.to(wide) for part in both))  # type: ignore[no-untyped-call]

        return mean


class ForwardLoss(BagLoss):
    """Forward likelihood −(1/T) Σ_j log Σ_c (γ_bc/q_c) p_jc.

    Forward correction with all bags as one group: if every row of bag b is of class c with
    probability γ_bc, it has the density m(x) Σ_c (γ_bc/q_c) p_c(x) under label shift.

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

    def _mean_loss(self, bags: Bags) -> MeanLoss:
        q = self.class_shares
        check_one_each(q, bags.n_classes, "class_shares", "classes", "share")
        ratio = np.maximum(bags.clipped_proportions / q, _LEAST_RATIO)
        log_ratio = torch.as_tensor(np.log(ratio)[bags.index])

        def mean(wide: Tensor) -> Tensor:
            return -torch.logsumexp(_log_probabilities(wide) + log_ratio, dim=1).mean()

        return mean


class ProportionLoss(BagLoss):
    """Proportion loss of DLLP, −Σ_b (n_b/T) Σ_c γ_bc log p̂_bc.

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

    def _mean_loss(self, bags: Bags) -> MeanLoss:
        index, sizes = torch.as_tensor(bags.index), torch.as_tensor(bags.sizes)[:, None]
        expected = torch.as_tensor(bags.clipped_proportions) * sizes / bags.n_instances

        def mean(wide: Tensor) -> Tensor:
            # above, a probability would be zero
            p = _log_probabilities(wide).clamp(min=-_LARGEST_LOSS).exp()
            sums = torch.zeros_like(expected).index_add(0, index, p)
            return -(expected * (sums / sizes).log()).sum()

        return mean


def _log_probabilities(wide: Tensor) -> Tensor:
    """Logarithms of class probabilities (rows, classes), in double precision on the processor."""
    scores = wide.double().cpu()
    if scores.shape[1] == 1:
        return functional.logsigmoid(torch.cat([-scores, scores], dim=1))
    return scores.log_softmax(dim=1)


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


def _check_shares(class_shares: ArrayLike) -> Floats:
    shares = np.asarray(class_shares, dtype=float)
    if shares.ndim != 1 or len(shares) < 2 or not (shares > 0).all():
        raise ValueError(
            f"class_shares must hold a positive share for each class, not {class_shares!r}."
        )
    return shares / shares.sum()
