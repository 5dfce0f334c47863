"""The ready-made model for a table: features, and a classifier that fits the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from unbag.bags.bags import check_bag_target
from unbag.diagnostics.bag_effects import describe_effect
from unbag.models import (
    BoostedMCMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifier,
    LinearMCMClassifierCV,
)
from unbag.tabular.features import make_features

ModelName = Literal["auto", "kernel", "linear", "boosted"]

# Rows up to which "auto" takes a kernel model, and beyond which memory and time are saved: a
# search for the penalty is 66 fits, and as many again in every fold of an evaluation. Of many rows
# it is therefore made on some, in no fewer bags than these.
MOST_FOR_KERNEL, MANY_ROWS = 5000, 300_000
_FEWEST_BAGS = 20
# What models minimise, in words.
_OBJECTIVES = {
    "likelihood": "the likelihood of the counts",
    "forward": "the likelihood of rows whose labels were drawn from the shares",
    "corrected": "the corrected risk",
}


def make_model(
    X: Any,
    y: NDArray[np.void],
    *,
    model: ModelName = "auto",
    random_state: int = 0,
    tell: Callable[[str], object] | None = None,
) -> Pipeline:
    """Make a pipeline of features and a model for a table, not yet fitted.

    Parameters
    ----------
    X : pandas DataFrame
        Columns of any kind.
    y : structured array from `unbag.bag_target`
    model : {"auto", "kernel", "linear", "boosted"}
        "auto" takes the kernel model up to 5,000 rows, and else the linear one. "boosted" needs
        LightGBM, the extra ``boosting``.
    random_state : int
    tell : callable, optional
        Takes a sentence about what was found out on the way.

    Returns
    -------
    Pipeline
        With the steps ``"features"`` and ``"model"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import bag_target
    >>> from unbag.tabular.pipeline import make_model
    >>> X = pd.DataFrame({"age": range(40), "colour": ["red", "blue"] * 20})
    >>> y = bag_target([i // 10 for i in range(40)], [i // 10 / 4 for i in range(40)])
    >>> make_model(X, y)[-1]
    KernelMCMClassifierCV(cv=2)
    """
    n_bags = int(check_bag_target(y).n_bags)
    if n_bags < 4:
        raise ValueError(
            f"a model needs four bags to choose its settings by, and there are {n_bags}"
        )
    # folds of its own, in which a model chooses its penalty or checks its steps
    folds = min(5, n_bags // 2)
    if model == "auto":
        model = "kernel" if len(y) <= MOST_FOR_KERNEL else "linear"
    found: Any
    if model == "kernel":
        found = KernelMCMClassifierCV(cv=folds)
    elif model == "boosted":
        # with folds of its own, no more than there are bags
        found = BoostedMCMClassifier(random_state=random_state)
    elif len(y) <= MANY_ROWS:
        found = LinearMCMClassifierCV(cv=folds)
    else:
        rows = rows_of_some_bags(y, MANY_ROWS, random_state)
        search = _with_features(LinearMCMClassifierCV(cv=folds), len(y))
        found = LinearMCMClassifier(search.fit(X.iloc[rows], y[rows])[-1].alpha_)
        if tell is not None:
            some = f"{len(rows):,} of {len(y):,} rows"
            tell(f"The penalty, {found.alpha:.2g}, was chosen on {some}.")
    return _with_features(found, len(y))


def _with_features(model: Any, n_rows: int) -> Pipeline:
    """Features, of many rows in half the memory, and a model."""
    features = make_features("float64" if n_rows <= MANY_ROWS else "float32")
    return Pipeline([("features", features), ("model", model)])


def rows_of_some_bags(y: NDArray[np.void], most: int, seed: int) -> NDArray[np.intp]:
    """Rows of whole bags drawn at random: at most so many, unless that leaves too few bags."""
    bags = check_bag_target(y)
    order = np.random.default_rng(seed).permutation(bags.n_bags)
    n_fit = int(np.searchsorted(np.cumsum(bags.sizes[order]), most, side="right"))
    chosen = np.zeros(bags.n_bags, dtype=bool)
    chosen[order[: max(n_fit, _FEWEST_BAGS)]] = True
    return np.flatnonzero(chosen[bags.index])


def split_pipeline(model: Any) -> tuple[Any, Any]:
    """Give the steps that make features, or None, and the model behind them."""
    features = model[:-1] if len(getattr(model, "steps", ())) > 1 else None
    return features, last_step(model)


def last_step(model: Any) -> Any:
    """Give the model at the end of a pipeline, or the model itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def training_record(model: Any, y: NDArray[np.void]) -> dict[str, Any]:
    """What a fitted model minimised and what it found of bag effects, in numbers and words."""
    objective = getattr(model, "objective_", "likelihood")
    effect = describe_effect(model, check_bag_target(y))
    summary = f"trained on {_OBJECTIVES[objective]}"
    return {
        "objective": objective,
        "bag_effect": getattr(model, "bag_effect_", None) if effect else None,
        "bag_effect_interval": getattr(model, "bag_effect_interval_", None) if effect else None,
        "summary": f"{summary}; {effect}" if effect else summary,
    }
