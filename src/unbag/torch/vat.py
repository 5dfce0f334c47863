"""Virtual adversarial training: scores should not change where rows hardly do (LLP-VAT)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div

_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def vat_loss(module: nn.Module, X: Tensor, size: float = 1.0, probe: float = 1e-3) -> Tensor:
    """KL divergence of the chances of rows and of rows moved where these change most.

    Parameters
    ----------
    module : nn.Module
        From rows to scores.
    X : tensor of shape (rows, ...)
        The rows.
    size : float, default=1
        Euclidean length of the move.
    probe : float, default=1e-3
        Length of the move by which its direction is found, in one step.

    Returns
    -------
    loss : tensor
        The mean over the rows, for autograd.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import vat_loss
    >>> module = torch.nn.Linear(2, 3)
    >>> bool(vat_loss(module, torch.randn(8, 2)) > 0)
    True
    """
    with _statistics_kept(module):
        with torch.no_grad():
            before = _log_chances(module(X))
        direction = _of_length(torch.randn_like(X), probe).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(_divergence(module, X + direction, before), direction)
        return _divergence(module, X + _of_length(slope.detach(), size), before)


def _divergence(module: nn.Module, X: Tensor, before: Tensor) -> Tensor:
    return kl_div(_log_chances(module(X)), before, reduction="batchmean", log_target=True)


def _log_chances(scores: Tensor) -> Tensor:
    if scores.ndim == 1 or scores.shape[1] == 1:
        flat = scores.reshape(-1)
        scores = torch.stack([torch.zeros_like(flat), flat], dim=1)
    return scores.float().log_softmax(dim=1)


def _of_length(moves: Tensor, length: float) -> Tensor:
    flat = moves.flatten(1)
    return (length * flat / flat.norm(dim=1, keepdim=True).clamp(min=1e-20)).reshape(moves.shape)


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """Leave the running means of batch norm to the rows themselves."""
    norms = [part for part in module.modules() if isinstance(part, _NORMS)]
    before = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    yield
    for norm, tracked in zip(norms, before, strict=True):
        norm.track_running_stats = tracked
