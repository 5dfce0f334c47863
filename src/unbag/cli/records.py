"""Evaluations as numbers for JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from unbag.evaluation import Estimate, Evaluation


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
        "by_assumption": {
            world: _numbers(found) for world, found in evaluation.by_assumption.items()
        },
    }


def _numbers(estimates: dict[str, Estimate]) -> dict[str, Any]:
    # the verdict is the same for all of them, and stands above
    return {name: asdict(replace(value, verdict=None)) for name, value in estimates.items()}
