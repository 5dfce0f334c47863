"""Chances of classes, moved from one population to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def at_prior(
    chances: NDArray[np.float64], prior: NDArray[np.float64], class_prior: Any = None
) -> NDArray[np.float64]:
    """Chances where classes have other shares, if instances of a class look the same there.

    Parameters
    ----------
    chances : ndarray of shape (n_instances, n_classes)
    prior : ndarray of shape (n_classes,)
        Shares of the classes that the chances are for.
    class_prior : array-like of shape (n_classes,), optional
        The shares asked for; None leaves the chances as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.models.priors import at_prior
    >>> at_prior(np.array([[0.5, 0.5]]), np.array([0.5, 0.5]), [0.9, 0.1])
    array([[0.9, 0.1]])
    """
    if class_prior is None:
        return chances
    wanted = np.asarray(class_prior, dtype=float)
    if wanted.shape != prior.shape or not (wanted >= 0).all() or wanted.sum() <= 0:
        raise ValueError(f"class_prior must hold one share for each of the {len(prior)} classes.")
    wanted = wanted / wanted.sum()
    weighted = chances * (wanted / prior)
    total = weighted.sum(axis=1, keepdims=True)
    # an instance that can be of no class that is left says nothing
    return np.where(total > 0, weighted / np.where(total > 0, total, 1), wanted)
