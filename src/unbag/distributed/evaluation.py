"""Evaluation of scores in Dask collections."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbag import evaluation as local
from unbag.distributed.partitions import is_dask, partitions_of
from unbag.evaluation.evaluation import Evaluation


def evaluate(y: Any, scores: Any, **options: Any) -> Evaluation:
    """Estimate from bags alone how good given scores are, for Dask collections.

    The target and the scores, but no features, are brought to this process and given to
    `unbag.evaluation.evaluate`. They take some 32 bytes a row here, and several times as much while
    they are evaluated: for more than 10⁷ rows, evaluate the scores of some whole bags.

    Parameters
    ----------
    y : Dask array
        The target, as `DistributedClassifier` takes it; bags that the model was not trained on.
    scores : Dask array of shape (n_instances,) or (n_instances, n_classes)
        Such as ``model.decision_function(X)``.
    **options
        Of `unbag.evaluation.evaluate`, such as ``threshold``, ``class_prior``.

    Returns
    -------
    evaluation : Evaluation
        Print it, or take ``evaluation["roc_auc"]``.

    Examples
    --------
    >>> import dask.array as da
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.distributed import evaluate
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> y, scores = da.from_array(data.y, chunks=700), da.from_array(data.X[:, 0], chunks=700)
    >>> round(evaluate(y, scores)["roc_auc"].value, 1)
    0.9
    """
    if not is_dask(scores):
        raise ValueError(
            f"scores must be a Dask array, not {type(scores).__name__}; unbag.evaluation.evaluate "
            "takes arrays in memory."
        )
    parts = partitions_of(scores, y).gather(_scores_and_target)
    found, target = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return local.evaluate(target, found, **options)


def _scores_and_target(scores: Any, y: Any) -> tuple[Any, Any]:
    if len(scores) != len(y):
        raise ValueError(f"There are {len(y)} instances but {len(scores)} scores.")
    return np.asarray(scores), np.asarray(y)
