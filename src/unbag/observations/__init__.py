"""What is minimised, in score space: value and gradient by the scores, many columns at once."""

from unbag.observations.base import Objective, OffsetObjective
from unbag.observations.count_likelihood import CountLikelihood, label_posteriors
from unbag.observations.forward import ForwardLikelihood
from unbag.observations.losses import LOSSES, get_loss

__all__ = [
    "LOSSES",
    "CountLikelihood",
    "ForwardLikelihood",
    "Objective",
    "OffsetObjective",
    "get_loss",
    "label_posteriors",
]
