"""Splitting whole bags, and scores of bags by models that did not see them."""

from unbag.model_selection.out_of_fold import decision_scores, out_of_fold_scores
from unbag.model_selection.splitters import BagKFold, BagShuffleSplit

__all__ = ["BagKFold", "BagShuffleSplit", "decision_scores", "out_of_fold_scores"]
