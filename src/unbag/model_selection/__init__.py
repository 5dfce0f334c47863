"""Splitting whole bags, and scores of bags by models that did not see them."""

from unbag.model_selection.fitted import decision_scores
from unbag.model_selection.splitters import BagKFold, BagShuffleSplit

__all__ = ["BagKFold", "BagShuffleSplit", "decision_scores"]
