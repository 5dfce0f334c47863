"""Accuracy without labels, checks of its assumptions.

With unmixing weights W from all bags, Σ_i W[i, c] · (mean of h over bag i) estimates
E[h(X) | class c] under label shift. For h a loss this is the corrected risk, for
h = 1[f(x) > t] the rates of the ROC curve. `evaluate` checks label shift and covariate shift first,
and reports the estimate of the assumption that the bags do not contradict.
"""

from unbag.evaluation.curves import calibration_curve
from unbag.evaluation.drift import make_monitoring_reference
from unbag.evaluation.evaluation import cross_val_evaluate, estimate, evaluate
from unbag.evaluation.held_out import cross_fit
from unbag.evaluation.identification import identification_bounds
from unbag.evaluation.label_shift import label_shift_test
from unbag.evaluation.labelled import required_labels, sample_rows_to_label
from unbag.evaluation.monitoring import monitor
from unbag.evaluation.results import Evaluation
from unbag.evaluation.sample_size import effective_sample_size
from unbag.evaluation.scorers import SCORERS, bag_permutation_importance
from unbag.evaluation.uncertainty import Estimate

__all__ = [
    "SCORERS",
    "Estimate",
    "Evaluation",
    "bag_permutation_importance",
    "calibration_curve",
    "cross_fit",
    "cross_val_evaluate",
    "effective_sample_size",
    "estimate",
    "evaluate",
    "identification_bounds",
    "label_shift_test",
    "make_monitoring_reference",
    "monitor",
    "required_labels",
    "sample_rows_to_label",
]
