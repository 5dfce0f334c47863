"""A batch of bags: what a loss needs in addition to the scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unbag.bags.bags import Bags


class BagBatch(NamedTuple):
    """Which row of a batch is in which of its bags, and how many of each class a bag holds.

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
