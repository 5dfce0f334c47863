"""Learn to classify single instances from the class proportions of bags.

What is listed here is imported when it is first asked for, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbag.bags import (
        Bags,
        bag_target,
        bags_from_frame,
        check_bag_target,
        groupings_target,
    )
    from unbag.diagnostics import assumption_test, bag_information
    from unbag.model_selection import BagKFold, BagShuffleSplit
    from unbag.models import (
        AutoMCMClassifier,
        BagCalibratedClassifier,
        BoostedMCMClassifier,
        CountEMClassifier,
        GroupingsClassifier,
        GroupingsClassifierCV,
        KernelMCMClassifier,
        KernelMCMClassifierCV,
        LinearMCMClassifier,
        LinearMCMClassifierCV,
        logistic_from_sums,
    )
    from unbag.models.neural import NeuralMCMClassifier

__version__ = "0.1.0"

__all__ = [
    "AutoMCMClassifier",
    "BagCalibratedClassifier",
    "BagKFold",
    "BagShuffleSplit",
    "Bags",
    "BoostedMCMClassifier",
    "CountEMClassifier",
    "GroupingsClassifier",
    "GroupingsClassifierCV",
    "KernelMCMClassifier",
    "KernelMCMClassifierCV",
    "LinearMCMClassifier",
    "LinearMCMClassifierCV",
    "NeuralMCMClassifier",
    "assumption_test",
    "bag_information",
    "bag_target",
    "bags_from_frame",
    "check_bag_target",
    "groupings_target",
    "logistic_from_sums",
]

_HOMES = {
    "AutoMCMClassifier": "unbag.models",
    "BagCalibratedClassifier": "unbag.models",
    "BagKFold": "unbag.model_selection",
    "BagShuffleSplit": "unbag.model_selection",
    "Bags": "unbag.bags",
    "BoostedMCMClassifier": "unbag.models",
    "CountEMClassifier": "unbag.models",
    "GroupingsClassifier": "unbag.models",
    "GroupingsClassifierCV": "unbag.models",
    "KernelMCMClassifier": "unbag.models",
    "KernelMCMClassifierCV": "unbag.models",
    "LinearMCMClassifier": "unbag.models",
    "LinearMCMClassifierCV": "unbag.models",
    "NeuralMCMClassifier": "unbag.models",
    "assumption_test": "unbag.diagnostics",
    "bag_information": "unbag.diagnostics",
    "bag_target": "unbag.bags",
    "bags_from_frame": "unbag.bags",
    "check_bag_target": "unbag.bags",
    "groupings_target": "unbag.bags",
    "logistic_from_sums": "unbag.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
