"""Learn to classify single instances from the class proportions of bags.

What is listed here is imported at its first use, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbag.bags import (
        Bags,
        bag_target,
        bags_from_frame,
        bags_from_margins,
        check_bag_target,
        multi_grouping_target,
    )
    from unbag.evaluation import effective_sample_size, label_shift_test
    from unbag.model_selection import BagKFold, BagShuffleSplit
    from unbag.models import (
        LLPBoostingClassifier,
        LLPClassifier,
        LLPEnsembleClassifier,
    )
    from unbag.models.neural import LLPNeuralClassifier

__version__ = "0.2.0"

__all__ = [
    "BagKFold",
    "BagShuffleSplit",
    "Bags",
    "LLPBoostingClassifier",
    "LLPClassifier",
    "LLPEnsembleClassifier",
    "LLPNeuralClassifier",
    "bag_target",
    "bags_from_frame",
    "bags_from_margins",
    "check_bag_target",
    "effective_sample_size",
    "label_shift_test",
    "multi_grouping_target",
]

# Where those live that are not models.
_HOMES = {
    "BagKFold": "model_selection",
    "BagShuffleSplit": "model_selection",
    "Bags": "bags",
    "label_shift_test": "evaluation",
    "effective_sample_size": "evaluation",
    "bag_target": "bags",
    "bags_from_frame": "bags",
    "bags_from_margins": "bags",
    "check_bag_target": "bags",
    "multi_grouping_target": "bags",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"unbag.{_HOMES.get(name, 'models')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
