"""Estimators."""

from typing import Any

from unbag.models.auto import AutoMCMClassifier
from unbag.models.boosted import BoostedMCMClassifier
from unbag.models.calibrated import BagCalibratedClassifier
from unbag.models.count_em import CountEMClassifier
from unbag.models.groupings import GroupingsClassifier, GroupingsClassifierCV
from unbag.models.kernel import KernelMCMClassifier, KernelMCMClassifierCV
from unbag.models.linear import LinearMCMClassifier, LinearMCMClassifierCV
from unbag.models.logistic_sums import SumsFit, logistic_from_sums

__all__ = [
    "AutoMCMClassifier",
    "BagCalibratedClassifier",
    "BoostedMCMClassifier",
    "CountEMClassifier",
    "GroupingsClassifier",
    "GroupingsClassifierCV",
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
    "NeuralMCMClassifier",
    "SumsFit",
    "logistic_from_sums",
]


def __getattr__(name: str) -> Any:
    """Import the network, and torch with it, when it is first asked for."""
    if name != "NeuralMCMClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from unbag.models.neural import NeuralMCMClassifier

    return NeuralMCMClassifier
