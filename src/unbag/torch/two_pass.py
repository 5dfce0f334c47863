"""Exact gradients of bags that are too large to be back-propagated at once.

A loss needs the scores of a whole bag, and its gradient with respect to each of them; what lies
between rows and scores it need not know. So a bag goes through the network twice, in chunks: once
without a graph, for all scores, of which the loss gives the gradient; and once with a graph, chunk
by chunk, to back-propagate that. The card holds the graph of one chunk at a time, and the gradient
is that of the whole bag.

For that both passes must give the same scores. Whatever is drawn at random (dropout) is drawn
again from the same state of the generators, and buffers (the running means of batch norm) are put
back after the first pass. Batch norm in training mode normalises by the chunk: what is
back-propagated is then exactly the gradient of the network that does so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unbag._checks import check_count
from unbag.torch.losses import BagLoss


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
