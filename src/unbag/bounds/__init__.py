"""The paper's theory, executable: contamination models, complexities, bounds and planning."""

from unbag.bounds.complexity import (
    ComplexityEstimate,
    RKHSBall,
    TwoLayerReLU,
    rademacher_complexity,
)
from unbag.bounds.contamination import MultiMCM, unbiased_coefficients, unbiased_loss
from unbag.bounds.generalization import GeneralizationBound, generalization_bound
from unbag.bounds.immunity import (
    convexity_condition,
    immunity_constants,
    is_symmetric,
    symmetry_constant,
)
from unbag.bounds.merged import (
    MergedBound,
    epsilon_for,
    expected_contrasts,
    largest_epsilon,
    merged_bound,
)
from unbag.bounds.planning import BagPlan, misordering_probability, required_bags
from unbag.bounds.sampling import BagSample, sample_bags

__all__ = [
    "BagPlan",
    "BagSample",
    "ComplexityEstimate",
    "GeneralizationBound",
    "MergedBound",
    "MultiMCM",
    "RKHSBall",
    "TwoLayerReLU",
    "convexity_condition",
    "epsilon_for",
    "expected_contrasts",
    "generalization_bound",
    "immunity_constants",
    "is_symmetric",
    "largest_epsilon",
    "merged_bound",
    "misordering_probability",
    "rademacher_complexity",
    "required_bags",
    "sample_bags",
    "symmetry_constant",
    "unbiased_coefficients",
    "unbiased_loss",
]
