"""The paper's theory, executable: contamination models, complexities, bounds and planning."""

from unbag.bounds.complexity import ComplexityEstimate, rademacher_complexity
from unbag.bounds.contamination import MultiMCM, unbiased_coefficients, unbiased_loss
from unbag.bounds.contrasts import expected_contrasts
from unbag.bounds.function_classes import RKHSBall, TwoLayerReLU
from unbag.bounds.generalization import GeneralizationBound, generalization_bound
from unbag.bounds.immunity import (
    convexity_condition,
    immunity_constants,
    is_symmetric,
    symmetry_constant,
)
from unbag.bounds.merged import MergedBound, epsilon_for, largest_epsilon, merged_bound
from unbag.bounds.misordering import misordering_probability
from unbag.bounds.neighbours import NeighbourCondition, neighbour_condition
from unbag.bounds.planning import BagPlan, required_bags
from unbag.bounds.sampling import BagSample, sample_bags
from unbag.bounds.surrogate import calibration_function, excess_error, moved_error
from unbag.bounds.tables import BoundPlan, TableBound, bags_for_bound, table_bound

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
    "TableBound",
    "TwoLayerReLU",
    "bags_for_bound",
    "calibration_function",
    "convexity_condition",
    "epsilon_for",
    "excess_error",
    "expected_contrasts",
    "generalization_bound",
    "immunity_constants",
    "is_symmetric",
    "largest_epsilon",
    "merged_bound",
    "misordering_probability",
    "moved_error",
    "neighbour_condition",
    "rademacher_complexity",
    "required_bags",
    "sample_bags",
    "symmetry_constant",
    "table_bound",
    "unbiased_coefficients",
    "unbiased_loss",
]
