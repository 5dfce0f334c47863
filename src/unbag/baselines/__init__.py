"""Published competitors, one per file, behind the same interface."""

from unbag.baselines.alternating_svm import (
    AlternatingSVMClassifier,
    AlternatingSVMClassifierCV,
)
from unbag.baselines.clusters import ClusterClassifier
from unbag.baselines.invcal import InvCalClassifier, InvCalClassifierCV
from unbag.baselines.proportion_risk import (
    LinearProportionRiskClassifier,
    LinearProportionRiskClassifierCV,
    ProportionRiskClassifier,
    ProportionRiskClassifierCV,
)
from unbag.baselines.published import KernelPublishedClassifierCV, LinearPublishedClassifierCV
from unbag.baselines.published_methods import PUBLISHED
from unbag.baselines.soft_label import (
    LinearSoftLabelClassifier,
    LinearSoftLabelClassifierCV,
    SoftLabelClassifier,
    SoftLabelClassifierCV,
)

__all__ = [
    "PUBLISHED",
    "AlternatingSVMClassifier",
    "AlternatingSVMClassifierCV",
    "ClusterClassifier",
    "InvCalClassifier",
    "InvCalClassifierCV",
    "KernelPublishedClassifierCV",
    "LinearProportionRiskClassifier",
    "LinearProportionRiskClassifierCV",
    "LinearPublishedClassifierCV",
    "LinearSoftLabelClassifier",
    "LinearSoftLabelClassifierCV",
    "ProportionRiskClassifier",
    "ProportionRiskClassifierCV",
    "SoftLabelClassifier",
    "SoftLabelClassifierCV",
]
