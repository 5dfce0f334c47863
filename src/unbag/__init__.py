"""Learn to classify single instances from the class proportions of bags."""

from unbag.bags.bags import Bags, check_bag_target
from unbag.bags.frames import bags_from_frame
from unbag.bags.targets import bag_target
from unbag.diagnostics.assumption import assumption_test
from unbag.diagnostics.information import bag_information
from unbag.model_selection.splitters import BagKFold, BagShuffleSplit
from unbag.models import (
    BoostedMCMClassifier,
    CountEMClassifier,
    KernelMCMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifier,
    LinearMCMClassifierCV,
)
from unbag.models.calibrated import BagCalibratedClassifier

__version__ = "0.1.0.dev0"

__all__ = [
    "BagCalibratedClassifier",
    "BagKFold",
    "BagShuffleSplit",
    "Bags",
    "BoostedMCMClassifier",
    "CountEMClassifier",
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
    "assumption_test",
    "bag_information",
    "bag_target",
    "bags_from_frame",
    "check_bag_target",
]
