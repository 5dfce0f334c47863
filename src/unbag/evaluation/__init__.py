"""Label-free evaluation: what the decontamination weights say about given scores.

With W from all bags, Σ_i W[i, c] · (mean of h over bag i) estimates E[h(X) | class c]. For h a
loss this is the corrected risk, for h = 1[f(x) > t] the rates of the ROC curve. The functions
are called like their scikit-learn counterparts, with bags in the place of labels. Estimates are
unbiased and so may fall outside [0, 1]; they are reported as they are.
"""

from unbag.evaluation.bag_effects import BagEffect, estimate_bag_effect
from unbag.evaluation.calibration import (
    CalibrationCurve,
    brier_score_loss,
    calibration_curve,
    calibration_error,
)
from unbag.evaluation.curves import (
    RocBand,
    best_threshold,
    precision_recall_curve,
    roc_band,
    roc_curve,
)
from unbag.evaluation.evaluation import (
    Evaluation,
    cross_val_evaluate,
    estimate,
    evaluate,
)
from unbag.evaluation.groups import GroupProportions, group_proportions
from unbag.evaluation.held_out import OutOfFold, cross_fit
from unbag.evaluation.identification import IdentificationBounds, identification_bounds
from unbag.evaluation.label_sampling import required_labels, sample_rows_to_label
from unbag.evaluation.label_shift import LabelShiftTest, label_shift_test
from unbag.evaluation.labelled import (
    LabelledEstimate,
    LabelledEvaluation,
    estimate_with_labels,
    evaluate_with_labels,
)
from unbag.evaluation.measures import MEASURES, SCORERS
from unbag.evaluation.monitoring import (
    MonitoringReference,
    MonitoringResult,
    make_monitoring_reference,
    monitor,
)
from unbag.evaluation.permutation_importance import (
    PermutationImportance,
    bag_permutation_importance,
)
from unbag.evaluation.sample_size import EffectiveSampleSize, effective_sample_size
from unbag.evaluation.uncertainty import Estimate, Verdict

__all__ = [
    "MEASURES",
    "SCORERS",
    "BagEffect",
    "CalibrationCurve",
    "EffectiveSampleSize",
    "Estimate",
    "Evaluation",
    "GroupProportions",
    "IdentificationBounds",
    "LabelShiftTest",
    "LabelledEstimate",
    "LabelledEvaluation",
    "MonitoringReference",
    "MonitoringResult",
    "OutOfFold",
    "PermutationImportance",
    "RocBand",
    "Verdict",
    "bag_permutation_importance",
    "best_threshold",
    "brier_score_loss",
    "calibration_curve",
    "calibration_error",
    "cross_fit",
    "cross_val_evaluate",
    "effective_sample_size",
    "estimate",
    "estimate_bag_effect",
    "estimate_with_labels",
    "evaluate",
    "evaluate_with_labels",
    "group_proportions",
    "identification_bounds",
    "label_shift_test",
    "make_monitoring_reference",
    "monitor",
    "precision_recall_curve",
    "required_labels",
    "roc_band",
    "roc_curve",
    "sample_rows_to_label",
]
