"""The paper's theory, executable: contamination models, complexities, bounds and planning."""

from unbag.paper.bounds.complexity import (
    ComplexityEstimate,
    RKHSBall,
    TwoLayerReLU,
    rademacher_complexity,
)
from unbag.paper.bounds.contamination import MultiMCM, unbiased_coefficients, unbiased_loss
from unbag.paper.bounds.generalization import GeneralizationBound, generalization_bound
from unbag.paper.bounds.losses import (
    calibration_function,
    convexity_condition,
    excess_error,
    immunity_constants,
    is_symmetric,
    prior_shifted_error,
    symmetry_constant,
)
from unbag.paper.bounds.merged import (
    MergedBound,
    expected_contrasts,
    largest_epsilon,
    merged_bound,
    required_epsilon,
)
from unbag.paper.bounds.neighbours import (
    NeighbourCondition,
    misordering_probability,
    neighbour_condition,
)
from unbag.paper.bounds.planning import BagPlan, required_bags
from unbag.paper.bounds.sampling import BagSample, sample_bags
from unbag.paper.bounds.tables import (
    BoundPlan,
    WeightsBound,
    required_bags_for_bound,
    weights_bound,
)

__all__ = [
    "BagPlan",
    "BagSample",
    "BoundPlan",
    "ComplexityEstimate",
    "GeneralizationBound",
    "MergedBound",
    "MultiMCM",
    "NeighbourCondition",
    "RKHSBall",
    "TwoLayerReLU",
    "WeightsBound",
    "calibration_function",
    "convexity_condition",
    "excess_error",
    "expected_contrasts",
    "generalization_bound",
    "immunity_constants",
    "is_symmetric",
    "largest_epsilon",
    "merged_bound",
    "misordering_probability",
    "neighbour_condition",
    "prior_shifted_error",
    "rademacher_complexity",
    "required_bags",
    "required_bags_for_bound",
    "required_epsilon",
    "sample_bags",
    "symmetry_constant",
    "unbiased_coefficients",
    "unbiased_loss",
    "weights_bound",
]
