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

# Where those live that are no models.
_HOMES = {
    "BagKFold": "model_selection",
    "BagShuffleSplit": "model_selection",
    "Bags": "bags",
    "assumption_test": "diagnostics",
    "bag_information": "diagnostics",
    "bag_target": "bags",
    "bags_from_frame": "bags",
    "check_bag_target": "bags",
    "groupings_target": "bags",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"unbag.{_HOMES.get(name, 'models')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
