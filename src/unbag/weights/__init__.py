"""The paper's algebra: which bags go together, and the decontamination weights W."""

from unbag.weights.decontamination import decontamination_weights
from unbag.weights.pairing import Pairing, pair_bags

__all__ = ["Pairing", "decontamination_weights", "pair_bags"]
