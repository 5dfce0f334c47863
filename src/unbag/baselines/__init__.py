"""Published competitors, one per file, behind the same interface."""

from unbag.baselines.alternating_svm import (
    AlternatingSVMClassifier,
    AlternatingSVMClassifierCV,
)
from unbag.baselines.invcal import InvCalClassifier, InvCalClassifierCV
from unbag.baselines.proportion_risk import (
    LinearProportionRiskClassifier,
    LinearProportionRiskClassifierCV,
    ProportionRiskClassifier,
    ProportionRiskClassifierCV,
)
from unbag.baselines.soft_label import (
    LinearSoftLabelClassifier,
    LinearSoftLabelClassifierCV,
    SoftLabelClassifier,
    SoftLabelClassifierCV,
)

__all__ = [
    "AlternatingSVMClassifier",
    "AlternatingSVMClassifierCV",
    "InvCalClassifier",
    "InvCalClassifierCV",
    "LinearProportionRiskClassifier",
    "LinearProportionRiskClassifierCV",
    "LinearSoftLabelClassifier",
    "LinearSoftLabelClassifierCV",
    "ProportionRiskClassifier",
    "ProportionRiskClassifierCV",
    "SoftLabelClassifier",
    "SoftLabelClassifierCV",
]
