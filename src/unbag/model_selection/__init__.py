"""Cross-validation that keeps bags whole, and out-of-fold scores."""

from unbag.model_selection.fitted import decision_scores
from unbag.model_selection.splitters import BagKFold, BagShuffleSplit

__all__ = ["BagKFold", "BagShuffleSplit", "decision_scores"]
