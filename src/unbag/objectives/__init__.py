"""What is minimised, in score space: value and gradient by the scores, many columns at once."""

from unbag.objectives.base import Objective, Shifted
from unbag.objectives.corrected_risk import CorrectedRisk
from unbag.objectives.count_likelihood import CountLikelihood, label_posteriors
from unbag.objectives.forward import ForwardLikelihood
from unbag.objectives.losses import LOSSES, get_loss
from unbag.objectives.proportion_risk import ProportionRisk

__all__ = [
    "LOSSES",
    "CorrectedRisk",
    "CountLikelihood",
    "ForwardLikelihood",
    "Objective",
    "ProportionRisk",
    "Shifted",
    "get_loss",
    "label_posteriors",
]
