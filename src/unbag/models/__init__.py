"""Estimators."""

from unbag.models.count_em import CountEMClassifier
from unbag.models.kernel import KernelMCMClassifier, KernelMCMClassifierCV
from unbag.models.linear import LinearMCMClassifier, LinearMCMClassifierCV

__all__ = [
    "CountEMClassifier",
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
]
