"""Learn to classify single instances from the class proportions of bags."""

from unbag.assumption import assumption_test
from unbag.bags import Bags, check_bag_target
from unbag.calibration import BagCalibratedClassifier
from unbag.frames import bags_from_frame
from unbag.information import bag_information
from unbag.model_selection import BagKFold, BagShuffleSplit
from unbag.models import (
    CountEMClassifier,
    KernelMCMClassifier,
    KernelMCMClassifierCV,
    LinearMCMClassifier,
    LinearMCMClassifierCV,
)
from unbag.targets import bag_target

__version__ = "0.1.0.dev0"

__all__ = [
    "BagCalibratedClassifier",
    "BagKFold",
    "BagShuffleSplit",
    "Bags",
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
