"""Label-free evaluation: what the decontamination weights say about given scores.

With W from all bags, Σ_i W[i, c] · (mean of h over bag i) estimates E[h(X) | class c]. For h a
loss this is the corrected risk, for h = 1[f(x) > t] the rates of the ROC curve. The functions
are called like their scikit-learn counterparts, with bags in the place of labels. Estimates are
unbiased and so may fall outside [0, 1]; they are reported as they are.
"""

from unbag.metrics.curves import (
    RocBand,
    best_threshold,
    precision_recall_curve,
    roc_band,
    roc_curve,
)
from unbag.metrics.evaluation import cross_val_evaluate, estimate, evaluate, evaluate_search
from unbag.metrics.evaluation_results import Evaluation
from unbag.metrics.groups import GroupTable, group_table
from unbag.metrics.importance import ColumnImportance, column_importance
from unbag.metrics.label_plan import labels_needed, rows_to_label
from unbag.metrics.labelled import estimate_with_labels, evaluate_with_labels
from unbag.metrics.labelled_results import LabelledEstimate, LabelledEvaluation
from unbag.metrics.measures import MEASURES
from unbag.metrics.possible import PossibleValues, possible_values
from unbag.metrics.reliability import (
    ReliabilityCurve,
    brier_score,
    calibration_error,
    reliability_curve,
)
from unbag.metrics.results import Estimate, Verdict
from unbag.metrics.scorers import SCORERS
from unbag.metrics.scores import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    corrected_risk,
    cost_score,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

__all__ = [
    "MEASURES",
    "SCORERS",
    "ColumnImportance",
    "Estimate",
    "Evaluation",
    "GroupTable",
    "LabelledEstimate",
    "LabelledEvaluation",
    "PossibleValues",
    "ReliabilityCurve",
    "RocBand",
    "Verdict",
    "accuracy_score",
    "balanced_accuracy_score",
    "best_threshold",
    "brier_score",
    "calibration_error",
    "column_importance",
    "confusion_matrix",
    "corrected_risk",
    "cost_score",
    "cross_val_evaluate",
    "estimate",
    "estimate_with_labels",
    "evaluate",
    "evaluate_search",
    "evaluate_with_labels",
    "f1_score",
    "group_table",
    "labels_needed",
    "possible_values",
    "precision_recall_curve",
    "precision_score",
    "recall_score",
    "reliability_curve",
    "roc_auc_score",
    "roc_band",
    "roc_curve",
    "rows_to_label",
]
