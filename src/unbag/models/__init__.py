"""Estimators."""

from unbag.models.boosted import BoostedMCMClassifier
from unbag.models.count_em import CountEMClassifier
from unbag.models.kernel import KernelMCMClassifier, KernelMCMClassifierCV
from unbag.models.linear import LinearMCMClassifier, LinearMCMClassifierCV

__all__ = [
    "BoostedMCMClassifier",
    "CountEMClassifier",
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
]
