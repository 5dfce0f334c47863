"""The paper's theory, executable: contamination models, complexities, bounds and planning.

What the theory asks of a loss is in `unbag.paper.bounds.losses`; further parts of each result are in
the module of its function.
"""

from unbag.paper.bounds.complexity import RKHSBall, TwoLayerReLU
from unbag.paper.bounds.contamination import sample_bags, unbiased_loss
from unbag.paper.bounds.generalization import generalization_bound, weights_bound
from unbag.paper.bounds.merged import merged_bound, misordering_probability
from unbag.paper.bounds.planning import required_bags

__all__ = [
    "RKHSBall",
    "TwoLayerReLU",
    "generalization_bound",
    "merged_bound",
    "misordering_probability",
    "required_bags",
    "sample_bags",
    "unbiased_loss",
    "weights_bound",
]
