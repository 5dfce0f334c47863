"""The experiments of the paper: their settings and the data of each trial."""

from unbag.paper.trials import PAPER_AUC, Setting, Trial, make_trial

__all__ = ["PAPER_AUC", "Setting", "Trial", "make_trial"]
