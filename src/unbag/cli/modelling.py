"""The model that `fit` and `report` train, and its evaluation in words and numbers."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from unbag.bags.bags import check_bag_target
from unbag.cli.data import MANY_ROWS, BagData
from unbag.cli.output import say
from unbag.diagnostics.bag_effects import describe_effect
from unbag.metrics import Estimate, Evaluation, LabelledEvaluation
from unbag.models import (
    CountEMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifier,
    LinearMCMClassifierCV,
)
from unbag.tabular.features import make_features

# Rows up to which "auto" takes a kernel model.
MOST_FOR_KERNEL = 5000
_Evaluated = TypeVar("_Evaluated", Evaluation, LabelledEvaluation)
# What models minimise, in words.
_OBJECTIVES = {
    "likelihood": "the likelihood of the counts",
    "forward": "the likelihood of rows whose labels were drawn from the shares",
    "corrected": "the corrected risk",
}
# A search for the penalty is 66 fits, and as many again in every fold of the evaluation. Of many
# rows it is therefore made on some, in no fewer bags than these.
_FEWEST_BAGS = 20


def make_model(options: argparse.Namespace, data: BagData) -> Pipeline:
    """Features and the model that was asked for, not yet fitted."""
    name = options.model
    if name == "auto":
        name = "kernel" if len(data.y) <= MOST_FOR_KERNEL else "linear"
    n_bags = int(check_bag_target(data.y).n_bags)
    if n_bags < 4:
        raise ValueError(
            f"a model needs four bags to choose its settings by, and there are {n_bags}"
        )
    # folds of its own, in which a model chooses its penalty or checks its steps
    folds = min(5, n_bags // 2)
    if name == "kernel":
        model: Any = KernelMCMClassifierCV(cv=folds)
    elif name == "linear":
        model = _linear_model(data, folds, options.seed)
    else:
        model = _boosted_trees(folds, options.seed)
    return Pipeline([("features", _features(data)), ("model", model)])


def _features(data: BagData) -> Any:
    """Features, of many rows in half the memory."""
    return make_features("float64" if len(data.y) <= MANY_ROWS else "float32")


def _linear_model(data: BagData, folds: int, seed: int) -> Any:
    searching = LinearMCMClassifierCV(cv=folds)
    if len(data.y) <= MANY_ROWS:
        return searching
    rows = rows_of_some_bags(data.y, MANY_ROWS, seed)
    search = Pipeline([("features", _features(data)), ("model", searching)])
    alpha = search.fit(data.X.iloc[rows], data.y[rows])[-1].alpha_
    say(f"The penalty, {alpha:.2g}, was chosen on {len(rows):,} of {len(data.y):,} rows.")
    return LinearMCMClassifier(alpha)


def rows_of_some_bags(y: NDArray[np.void], most: int, seed: int) -> NDArray[np.intp]:
    """Rows of whole bags drawn at random: at most so many, unless that leaves too few bags."""
    bags = check_bag_target(y)
    order = np.random.default_rng(seed).permutation(bags.n_bags)
    n_fit = int(np.searchsorted(np.cumsum(bags.sizes[order]), most, side="right"))
    chosen = np.zeros(bags.n_bags, dtype=bool)
    chosen[order[: max(n_fit, _FEWEST_BAGS)]] = True
    return np.flatnonzero(chosen[bags.index])


def _boosted_trees(folds: int, seed: int) -> CountEMClassifier:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # rows set aside would hold a row's positive copy and miss its negative one
    trees = HistGradientBoostingClassifier(early_stopping=False)
    return CountEMClassifier(trees, cv=folds, random_state=seed)


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


def with_class_names(evaluation: _Evaluated, names: list[str] | None) -> _Evaluated:
    """Call classes by the columns that told of them, where there are more than two."""
    if names is None:
        return evaluation
    new = {f"recall of {number}": f"recall of {name}" for number, name in enumerate(names)}

    def named(found: dict[str, Any]) -> dict[str, Any]:
        return {new.get(key, key): value for key, value in found.items()}

    evaluation = replace(evaluation, estimates=named(evaluation.estimates))
    if isinstance(evaluation, Evaluation):
        worlds = {world: named(found) for world, found in evaluation.worlds.items()}
        evaluation = replace(evaluation, worlds=worlds)
    return evaluation


def evaluation_record(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers of an evaluation, for JSON."""
    fold = evaluation.fold
    return {
        "n_bags": evaluation.n_bags,
        "n_instances": evaluation.n_instances,
        "folds": None if fold is None else int(fold.max()) + 1,
        "threshold": evaluation.threshold,
        "verdict": asdict(evaluation.verdict),
        "estimates": _numbers(evaluation.estimates),
        "worlds": {world: _numbers(found) for world, found in evaluation.worlds.items()},
    }


def _numbers(estimates: dict[str, Estimate]) -> dict[str, Any]:
    # the verdict is the same for all of them, and stands above
    return {name: asdict(replace(value, verdict=None)) for name, value in estimates.items()}
