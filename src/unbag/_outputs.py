"""Scores and probabilities by class: two classes have one row of them, several have one each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def by_instance(scores: Any) -> Any:
    """Scores (n_outputs, n_instances) as (n_instances,) or (n_instances, n_classes)."""
    return scores[0] if len(scores) == 1 else scores.T


def by_output(scores: Any) -> NDArray[np.float64]:
    """Scores (n_instances,) or (n_instances, n_classes) as (n_outputs, n_instances)."""
    return np.atleast_2d(np.asarray(scores, dtype=float).T)


def scores_of_all(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores (n_classes, n_instances) from those of outputs: the first of two classes has 0."""
    return np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores


def probabilities_of_all(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (n_classes, n_instances) from those of outputs: of two classes, the second."""
    return np.concatenate([1 - found, found]) if len(found) == 1 else found
