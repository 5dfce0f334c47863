"""Evaluations as commands show them: classes by their names, and numbers for JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, TypeVar

from unbag.metrics import Estimate, Evaluation, LabelledEvaluation

_Evaluated = TypeVar("_Evaluated", Evaluation, LabelledEvaluation)


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
