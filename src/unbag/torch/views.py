"""Weak and strong views of rows: the strong ones learn what counts say of the weak ones.

The counts of a bag and the scores of its rows give each row a posterior of its class, which is
sharper than its chance alone. A view of the same row that was changed a good deal should come to
it. So pseudo-labels are soft, agree with the counts, and weigh as much as they are sure.
"""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import Tensor

from unbag._docstrings import as_in
from unbag.torch.losses import BagLoss, CountLikelihoodLoss


@as_in(BagLoss.forward)
@torch.no_grad()
def count_posteriors(scores: Tensor, bags: Any, bag_effect: float = 0.0) -> Tensor:
    """Chance of each class of every row, given the counts of its bag.

    Parameters
    ----------
    scores, bags : as in forward
    bag_effect : float, default=0
        Variance of what bags differ by beyond their rows. With it, the class shares are those of
        the batch.

    Returns
    -------
    chances : tensor of shape (rows, classes)
        Chances of the classes, that add up to the counts of each bag.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import count_posteriors
    >>> count_posteriors(torch.tensor([0.0, 0.0, 1.0]), ([0, 0, 1], [1, 1]))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    shares = _shares(bags) if bag_effect else None
    # dG/df is the chance less the posterior, over the number of rows
    slopes = CountLikelihoodLoss(bag_effect, shares).value_and_gradient(scores, bags)[1]
    slopes = slopes.float() * len(scores)
    if scores.ndim == 2 and scores.shape[1] > 1:
        found = scores.float().softmax(dim=1) - slopes
    else:
        second = scores.float().reshape(-1).sigmoid() - slopes.reshape(-1)
        found = torch.stack([1 - second, second], dim=1)
    # the saddle point may lead a little beyond
    found = found.clamp(0.0, 1.0)
    return found / found.sum(dim=1, keepdim=True)


def view_loss(scores: Tensor, posteriors: Tensor) -> Tensor:
    """Cross-entropy of scores of strong views and posteriors of weak ones, weighed.

    The weight of a row is 1 − H/log C, with H the entropy of its posterior over C classes.

    Parameters
    ----------
    scores : tensor of shape (rows, classes) or (rows,)
        Scores of the rows; log-odds of the second class, if there is one column.
    posteriors : tensor of shape (rows, classes)
        From `count_posteriors`; nothing is back-propagated through them.

    Returns
    -------
    loss : tensor
        The mean over the rows, for autograd.

    Examples
    --------
    >>> import torch
    >>> from unbag.torch import view_loss
    >>> view_loss(torch.zeros(2), torch.tensor([[0.0, 1.0], [0.5, 0.5]]))
    tensor(0.3466)
    """
    posteriors = posteriors.detach()
    logits = scores.float()
    if logits.ndim == 1 or logits.shape[1] == 1:
        flat = logits.reshape(-1)
        logits = torch.stack([torch.zeros_like(flat), flat], dim=1)
    entropy = -torch.special.xlogy(posteriors, posteriors).sum(dim=1)
    sure = 1 - entropy / log(posteriors.shape[1])
    return -(sure * (posteriors * logits.log_softmax(dim=1)).sum(dim=1)).mean()


def _shares(bags: Any) -> Any:
    counts = torch.as_tensor(bags[1]).double()
    if counts.ndim == 1:
        total = float(len(bags[0]))
        counts = torch.stack([total - counts.sum(), counts.sum()])[None]
    shares = counts.sum(dim=0)
    return (shares / shares.sum()).numpy()
