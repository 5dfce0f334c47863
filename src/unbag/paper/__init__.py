"""The experiments of the paper: settings, trials, methods, and the runner behind `reproduce`."""

from unbag.paper.alternating_svm import AlternatingSVMClassifier, AlternatingSVMClassifierCV
from unbag.paper.invcal import InvCalClassifier, InvCalClassifierCV
from unbag.paper.methods import METHODS
from unbag.paper.proportion_risk import (
    LinearProportionRiskClassifier,
    LinearProportionRiskClassifierCV,
    ProportionRiskClassifier,
    ProportionRiskClassifierCV,
)
from unbag.paper.published import BAG_SIZES, published_auc
from unbag.paper.runner import Task, make_tasks, read_rows, run_tasks
from unbag.paper.trials import Setting, Trial, make_trial

__all__ = [
    "BAG_SIZES",
    "METHODS",
    "AlternatingSVMClassifier",
    "AlternatingSVMClassifierCV",
    "InvCalClassifier",
    "InvCalClassifierCV",
    "LinearProportionRiskClassifier",
    "LinearProportionRiskClassifierCV",
    "ProportionRiskClassifier",
    "ProportionRiskClassifierCV",
    "Setting",
    "Task",
    "Trial",
    "make_tasks",
    "make_trial",
    "published_auc",
    "read_rows",
    "run_tasks",
]
