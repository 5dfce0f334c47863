"""MixBag: new bags from parts of two, with what is then known of their counts.

A part of n_i out of the n rows of a bag, drawn at random, has the counts n_i γ on average, with the
covariance of drawing without replacement,

    n_i (n − n_i)/(n − 1) (diag γ − γγᵀ),

and two parts have the sum of both. As published, MixBag adds standard deviations and forgets that
nothing is drawn twice. Here the covariance goes to the likelihood of the counts, which needs no
interval: it is the noise of the count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unbag._checks import check_share
from unbag.torch.batches import BagBatch, to_bags


def mix_bags(
    X: Tensor, bags: Any, share: float = 0.5, generator: np.random.Generator | None = None
) -> tuple[Tensor, BagBatch]:
    """Put parts of neighbours in place of some bags of a batch.

    Parameters
    ----------
    X : tensor of shape (rows, ...)
        The rows of a batch.
    bags : BagBatch, or a pair of its index and counts
        Which rows are in which bag, and how many of each class it holds.
    share : float, default=0.5
        How often a bag gives way to a part of it and a part of the next one.
    generator : numpy.random.Generator, optional
        Where chance comes from; by default a new one, seeded by the system.

    Returns
    -------
    X, bags : tensor, BagBatch
        With the covariance of the counts, for `CountLikelihoodLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from unbag.torch import mix_bags
    >>> bags = torch.tensor([0, 0, 1, 1]), torch.tensor([[2, 0], [0, 2]])
    >>> X, mixed = mix_bags(torch.arange(4.0), bags, 1.0, np.random.default_rng(0))
    >>> mixed.counts.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    check_share(share, "share")
    rng = np.random.default_rng() if generator is None else generator
    found = to_bags(bags, len(X))
    own = [np.flatnonzero(found.index == b) for b in range(found.n_bags)]
    n = found.sizes.astype(float)
    known = found.sizes[:, None] * found.proportions
    S = np.zeros((found.n_bags, found.n_classes, found.n_classes))
    if found.noise is not None:
        S = found.noise * n[:, None, None] ** 2
    rows, counts, covariances = [], [], []
    for b in range(found.n_bags):
        other = (b + 1) % found.n_bags
        small = min(len(own[b]), len(own[other]))
        if rng.random() >= share or small < 2 or other == b:
            rows.append(own[b])
            counts.append(known[b])
            covariances.append(S[b])
            continue
        first = int(rng.integers(1, small))
        taken = {b: first, other: small - first}
        rows.append(np.concatenate([rng.permutation(own[i])[:m] for i, m in taken.items()]))
        counts.append(sum(m / n[i] * known[i] for i, m in taken.items()))
        covariances.append(
            sum(
                _of_part(found.proportions[i], m, n[i]) + (m / n[i]) ** 2 * S[i]
                for i, m in taken.items()
            )
        )
    index = np.repeat(np.arange(found.n_bags), [len(part) for part in rows])
    chosen = torch.from_numpy(np.concatenate(rows)).to(X.device)
    return X[chosen], BagBatch(
        torch.from_numpy(index),
        torch.from_numpy(np.stack(counts)),
        torch.from_numpy(np.stack(covariances)),
    )


def _of_part(shares: Any, part: int, whole: float) -> Any:
    """Covariance of the counts of a part, drawn without replacement."""
    spread = np.diag(shares) - np.outer(shares, shares)
    return part * (whole - part) / max(whole - 1, 1) * spread
