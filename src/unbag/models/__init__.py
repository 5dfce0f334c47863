"""Estimators."""

from unbag.models.kernel import KernelMCMClassifier, KernelMCMClassifierCV
from unbag.models.linear import LinearMCMClassifier, LinearMCMClassifierCV

__all__ = [
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
]
