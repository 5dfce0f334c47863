"""Training of a network on whole bags, with early stopping by bags that it does not see."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from unbag._arrays import Ints
from unbag._checks import check_count
from unbag.torch.data import BagBatchSampler, BagDataset, as_tensor, batch_of, rows_of
from unbag.torch.losses import BagBatch, BagLoss, CountLikelihoodLoss


@dataclass(frozen=True)
class TrainingPlan:
    """How to train."""

    max_epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    patience: int
    tol: float
    ema_decay: float | None
    seed: int
    condition_on_total: bool = False


class NetworkTrainer:
    """Trains a network on the bags of a data set; ``epoch`` is the number of epochs so far."""

    def __init__(
        self,
        module: nn.Module,
        loss: BagLoss,
        plan: TrainingPlan,
        training: BagDataset,
        validation: BagDataset | None,
    ) -> None:
        self.module, self.loss, self.plan = module, loss, plan
        self._training, self._validation = training, validation
        first = next(module.parameters())
        self._device, self._dtype = first.device, first.dtype
        self._optimiser = torch.optim.AdamW(
            module.parameters(), lr=plan.lr, weight_decay=plan.weight_decay
        )
        self._averaged = None if plan.ema_decay is None else copy.deepcopy(module)
        self._best = copy.deepcopy(self._judged.state_dict())
        self._steps = 0
        self._repeated: dict[str, Any] = {}
        self.epoch, self._least, self._waited, self._done = 0, math.inf, 0, False
        self.training_losses: list[float] = []
        self.validation_losses: list[float] = []

    @property
    def _judged(self) -> nn.Module:
        """The network that is validated and kept: with averaged weights, where they are wanted."""
        return self.module if self._averaged is None else self._averaged

    def run(self) -> nn.Module:
        """Train to the end, and give the network to keep."""
        sampler = BagBatchSampler(
            self._training,
            self.plan.batch_size,
            seed=self.plan.seed,
            least_bags=2 if self.plan.condition_on_total else 1,
        )
        while not self._done:
            self._train_epoch(sampler)
        self._judged.load_state_dict(self._best)
        return self._judged.eval()

    def _train_epoch(self, sampler: BagBatchSampler) -> None:
        plan = self.plan
        sampler.set_epoch(self.epoch)
        self.module.train()
        total = sum(self._step(np.asarray(bags)) for bags in sampler)
        self.epoch += 1
        if not self._is_finite(total):
            self._give_up()
            return
        self.training_losses.append(total / self._training.bags.n_instances)
        value = None
        if self._validation is not None:
            value = self._validate(self._validation)
            self.validation_losses.append(value)
        self._judge(value)
        self._done = self.epoch >= plan.max_epochs or self._waited >= plan.patience

    def _is_finite(self, total: float) -> bool:
        """Whether the losses of an epoch and the weights after it are numbers."""
        weights = (torch.isfinite(w).all() for w in self.module.parameters())
        return math.isfinite(total) and all(map(bool, weights))

    def _give_up(self) -> None:
        """End where steps led to infinity, with the best weights before if any were judged."""
        reason = (
            f"Weights went to infinity in epoch {self.epoch}: steps of "
            f"lr={self.plan.lr:g} are too long for this network"
        )
        if self._least == math.inf:
            raise ValueError(f"{reason}; give a smaller lr.")
        warnings.warn(
            f"{reason}. It is kept as it was in its best epoch before; try a smaller lr.",
            ConvergenceWarning,
            stacklevel=2,
        )
        self._done = True

    @contextmanager
    def _conditioned_on_total(self, n_rows: int) -> Iterator[None]:
        """Where counts of a batch are given their sum, except for the share of its rows in all."""
        if not self.plan.condition_on_total or not isinstance(self.loss, CountLikelihoodLoss):
            yield
            return
        self.loss.condition_on_total = 1 - n_rows / self._training.bags.n_instances
        yield
        self.loss.condition_on_total = 0.0

    def _judge(self, value: float | None) -> None:
        """Keep the weights if they are the best so far, or if there is nothing to judge by."""
        better = value is None or value < self._least - self.plan.tol
        self._waited = 0 if better else self._waited + 1
        if better:
            self._least = self._least if value is None else value
            self._best = copy.deepcopy(self._judged.state_dict())

    def _step(self, bags: Ints) -> float:
        """One step; the sum of the losses of its rows."""
        n = int(self._training.bags.sizes[bags].sum())
        self._optimiser.zero_grad(set_to_none=True)
        with self._conditioned_on_total(n):
            if n > self.plan.batch_size:
                X, batch = self._batch(self._training, bags)
                value = two_pass_backward(self.module, X, batch, self.loss, self.plan.batch_size)
            elif len(bags) == len(self._training):
                value = self._same_again("training", self._training, self.module)
            else:
                X, batch = self._batch(self._training, bags)
                value = self.loss(self.module(X[0:n]), batch)
        if value.requires_grad:
            value.backward()
        self._optimiser.step()
        self._average()
        return float(value.detach()) * n

    def _same_again(self, name: str, dataset: BagDataset, module: nn.Module) -> Tensor:
        """Loss of all bags at once, prepared the first time."""
        if name not in self._repeated:
            X, batch = self._batch(dataset, np.arange(len(dataset)))
            rows = X[0 : len(batch.index)]
            scores = module(rows)
            self._repeated[name] = rows, self.loss.prepare(scores, batch)
        else:
            scores = module(self._repeated[name][0])
        value: Tensor = self._repeated[name][1](scores)
        return value

    @torch.no_grad()
    def _validate(self, dataset: BagDataset) -> float:
        """Mean loss of the rows of held-out bags, in chunks."""
        self._judged.eval()
        if dataset.bags.n_instances <= self.plan.batch_size:
            return float(self._same_again("validation", dataset, self._judged))
        X, bags = self._batch(dataset, np.arange(len(dataset)))
        return float(self.loss(scores_of(self._judged, X, len(bags.index), self.plan), bags))

    @torch.no_grad()
    def _average(self) -> None:
        self._steps += 1
        if self._averaged is None or self.plan.ema_decay is None:
            return
        # the first steps are soon forgotten
        decay = min(self.plan.ema_decay, self._steps / (self._steps + 9))
        new = self.module.state_dict()
        for name, kept in self._averaged.state_dict().items():
            if kept.is_floating_point():
                kept.lerp_(new[name], 1 - decay)
            else:
                kept.copy_(new[name])

    def _batch(self, dataset: BagDataset, bags: Ints) -> tuple[TensorRows, BagBatch]:
        rows = TensorRows(dataset.X, rows_of(dataset, bags), self._device, self._dtype)
        return rows, batch_of(dataset.bags, bags)


class TensorRows:
    """Some rows of a table, as tensors for a network, slice by slice."""

    def __init__(self, X: Any, rows: Ints, device: torch.device, dtype: torch.dtype) -> None:
        self._X, self._rows, self._device, self._dtype = X, rows, device, dtype

    def __getitem__(self, part: slice) -> Tensor:
        """Rows of a slice."""
        return as_tensor(self._X[self._rows[part]]).to(self._device, self._dtype)


@torch.no_grad()
def scores_of(module: nn.Module, X: TensorRows, n_rows: int, plan: TrainingPlan) -> Tensor:
    """Scores of all rows, chunk by chunk."""
    starts = range(0, n_rows, plan.batch_size)
    return torch.cat([module(X[start : start + plan.batch_size]) for start in starts])


# --- gradients of large bags ----------------------------------------------------------------------
#
# A loss needs the scores of a whole bag, and its gradient with respect to each of them; what lies
# between rows and scores it need not know. So a bag goes through the network twice, in chunks: once
# without a graph, for all scores, of which the loss gives the gradient; and once with a graph, chunk
# by chunk, to back-propagate that. The card holds the graph of one chunk at a time, and the gradient
# is that of the whole bag.
#
# For that both passes must give the same scores. Whatever is drawn at random (dropout) is drawn
# again from the same state of the generators, and buffers (the running means of batch norm) are put
# back after the first pass. Batch norm in training mode normalises by the chunk: what is
# back-propagated is then exactly the gradient of the network that does so.


def two_pass_backward(
    module: nn.Module, X: Any, bags: Any, loss: BagLoss, chunk_size: int = 1024
) -> Tensor:
    """Back-propagate the loss of a batch in chunks, with the exact gradient.

    It takes the place of ``loss(module(X), bags).backward()``, with the graph of at most
    ``chunk_size`` rows in memory at a time.

    Parameters
    ----------
    module : nn.Module
        From rows to scores.
    X : tensor, or anything whose slices ``X[start:stop]`` are tensors
        Rows; chunks are moved to the device of the module.
    bags : BagBatch
        Their bags, whole.
    loss : BagLoss
        The loss.
    chunk_size : int, default=1024
        Rows that go through the network at a time.

    Returns
    -------
    loss : tensor
        The loss of the batch, without a graph.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import CountLikelihoodLoss, two_pass_backward
    >>> X, counts = torch.arange(8.0).reshape(-1, 1), torch.tensor([3, 1])
    >>> bags = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), counts
    >>> module = torch.nn.Linear(1, 1)
    >>> _ = two_pass_backward(module, X, bags, CountLikelihoodLoss(), chunk_size=3)
    >>> in_parts = module.weight.grad.clone()
    >>> module.zero_grad()
    >>> CountLikelihoodLoss()(module(X), bags).backward()
    >>> torch.testing.assert_close(in_parts, module.weight.grad)
    """
    check_count(chunk_size, "chunk_size")
    starts = range(0, len(bags[0]), chunk_size)
    device = next(module.parameters()).device

    def chunk(start: int) -> Tensor:
        scores: Tensor = module(X[start : start + chunk_size].to(device))
        return scores

    states = []
    with torch.no_grad(), _buffers_kept(module):
        parts = []
        for start in starts:
            states.append(_random_state(device))
            parts.append(chunk(start))
    value, slopes = loss.value_and_gradient(torch.cat(parts), bags)
    for start, put_back in zip(starts, states, strict=True):
        put_back()
        chunk(start).backward(slopes[start : start + chunk_size])
    return value


def _random_state(device: torch.device) -> Callable[[], None]:
    """Remember the state of the generators: a call puts it back."""
    host = torch.get_rng_state()
    if device.type != "cuda":
        return lambda: torch.set_rng_state(host)
    card = torch.cuda.get_rng_state(device)

    def put_back() -> None:
        torch.set_rng_state(host)
        torch.cuda.set_rng_state(card, device)

    return put_back


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    yield
    for buffer, before in kept:
        buffer.copy_(before)
