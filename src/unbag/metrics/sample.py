"""Scored instances in bags: what every label-free measure is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbag.bags import Bags, check_bag_target
from unbag.decontamination import decontamination_weights


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores of instances whose bags have known proportions.

    Attributes
    ----------
    bags : Bags
    scores : ndarray of shape (n_instances,) or (n_instances, n_classes)
        One column if there are two classes, else one per class.
    """

    bags: Bags
    scores: NDArray[np.float64]

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """W, which turns means over bags into means over classes: shape (n_bags, n_classes)."""
        return decontamination_weights(self.bags)

    @cached_property
    def by_row(self) -> NDArray[np.float64]:
        """W spread over instances, W[i, c]/n_i: shape (n_classes, n_instances)."""
        return np.ascontiguousarray((self.weights / self.bags.sizes[:, None])[self.bags.index].T)

    def class_means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate E[h(X) | class c]; the last axis runs over instances, then over classes."""
        return self.bags.means(values) @ self.weights

    def with_labelled_rows_apart(self) -> Sample:
        """Count every row of known label as an independent draw, whatever the bag model."""
        if not self.bags.labelled.any():
            return self
        return Sample(self.bags.with_labelled_rows_apart()[0], self.scores)


def make_sample(y: Any, scores: ArrayLike, *, binary: str | None = None) -> Sample:
    """Check scores against the bags they belong to.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
    binary : str, optional
        What it is for, if that makes sense for two classes only.
    """
    bags = check_bag_target(y)
    values = np.asarray(scores, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != bags.n_instances:
        raise ValueError(
            f"There are {bags.n_instances} instances but scores of shape {values.shape}."
        )
    if values.ndim == 2 and values.shape[1] != bags.n_classes:
        raise ValueError(f"{bags.n_classes} classes need as many columns of scores.")
    what = "A single column of scores" if values.ndim == 1 else binary
    if what is not None and bags.n_classes != 2:
        raise ValueError(f"{what} is for two classes and there are {bags.n_classes}.")
    if values.ndim == 2 and bags.n_classes == 2:
        values = values[:, 1] - values[:, 0]
    if not np.isfinite(values).all():
        raise ValueError("Scores must be finite numbers.")
    return Sample(bags, values)
