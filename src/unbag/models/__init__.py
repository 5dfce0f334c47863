"""Estimators that are trained from the proportions of bags."""

from typing import Any

from unbag.models.boosting import LLPBoostingClassifier
from unbag.models.ensemble import LLPEnsembleClassifier
from unbag.models.mixed import LLPClassifier, TermSummary

__all__ = [
    "LLPBoostingClassifier",
    "LLPClassifier",
    "LLPEnsembleClassifier",
    "LLPNeuralClassifier",
    "TermSummary",
]


def __getattr__(name: str) -> Any:
    """Import the network, and torch with it, when it is first asked for."""
    if name != "LLPNeuralClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from unbag.models.neural import LLPNeuralClassifier

    return LLPNeuralClassifier
