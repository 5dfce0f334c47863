"""How measures and estimates are called and written on a page."""

from __future__ import annotations

from unbag._text import shown
from unbag.evaluation import Estimate

_NAMES = {
    "roc_auc": "Area under ROC (AUC)",
    "balanced_accuracy": "Balanced accuracy",
    "accuracy": "Accuracy",
    "true_positive_rate": "Positives found (TPR)",
    "false_positive_rate": "False alarms (FPR)",
    "precision": "Alarms that are right (precision)",
    "f1": "F1 score",
}


def measure_name(measure: str) -> str:
    """Name a measure for readers."""
    if measure.startswith("recall of "):
        return f"Found of class {shown(measure.removeprefix('recall of '), 60)} (recall)"
    return _NAMES.get(measure, measure.replace("_", " "))


def digits_of(found: Estimate) -> int:
    """Tenths of a percent where the interval is narrow enough for them."""
    return 1 if found.high - found.low < 0.04 else 0


def interval_text(found: Estimate) -> str:
    """Write the limits of an estimate."""
    low, high = (f"{100 * limit:.{digits_of(found)}f}" for limit in found.shown_limits)
    return f"{low} to {high}%"
